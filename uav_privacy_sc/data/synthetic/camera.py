"""A pinhole camera over the ground plane z = 0 (metres; x east, y north, z up)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class Camera:
    """Pose and intrinsics of one exposure.

    ``position`` is ``(3,)`` metres; ``yaw`` the heading, ``pitch`` the angle below the horizon and ``roll`` the bank,
    in radians; ``focal`` is in pixels.
    """

    position: np.ndarray
    yaw: float
    pitch: float
    roll: float
    focal: float
    width: int
    height: int

    @cached_property
    def rotation(self) -> np.ndarray:
        """``(3, 3)`` world to camera axes: right, down, forward."""
        forward_level = np.array([np.cos(self.yaw), np.sin(self.yaw), 0.0])
        right = np.array([np.sin(self.yaw), -np.cos(self.yaw), 0.0])
        up = np.array([0.0, 0.0, 1.0])
        forward = np.cos(self.pitch) * forward_level - np.sin(self.pitch) * up
        down = -np.sin(self.pitch) * forward_level - np.cos(self.pitch) * up
        cos, sin = np.cos(self.roll), np.sin(self.roll)
        return np.stack([cos * right + sin * down, cos * down - sin * right, forward])

    @property
    def intrinsics(self) -> np.ndarray:
        """``(3, 3)`` camera matrix K."""
        return np.array([[self.focal, 0, self.width / 2], [0, self.focal, self.height / 2], [0, 0, 1.0]])

    @cached_property
    def _middle(self) -> np.ndarray:
        return np.array([self.width / 2, self.height / 2])

    def sees(self, points: np.ndarray, radius: float) -> np.ndarray:
        """Which ``(N, 3)`` points may show something that reaches ``radius`` metres around them."""
        pixels, depth = self.project(points)
        margin = (self.focal * radius / np.maximum(depth, radius))[:, None]
        near = np.abs(pixels - self._middle) < self._middle + margin
        return near.all(axis=1) & (depth > -radius)

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Project ``(..., 3)`` world points; return ``(..., 2)`` pixels and ``(...)`` depths in metres."""
        view = (points - self.position) @ self.rotation.T
        depth = view[..., 2]
        safe = np.where(np.abs(depth) < 1e-6, 1e-6, depth)
        pixels = view[..., :2] * (self.focal / safe)[..., None]
        return pixels + self._middle, depth

    def ground_homography(self) -> np.ndarray:
        """``(3, 3)`` map from ground metres ``(x, y, 1)`` to pixels."""
        rotation = self.rotation
        columns = np.stack([rotation[:, 0], rotation[:, 1], -rotation @ self.position], axis=1)
        return self.intrinsics @ columns

    def ground_distance(self, step: int = 1) -> np.ndarray:
        """Metres along the ray to the ground of every ``step``-th pixel, ``inf`` above the horizon.

        The result is float32, ``(ceil(H / step), ceil(W / step))``.
        """
        u = (np.arange(0, self.width, step, dtype=np.float32) - self.width / 2) / self.focal
        v = (np.arange(0, self.height, step, dtype=np.float32)[:, None] - self.height / 2) / self.focal
        right, down, forward = self.rotation[:, 2].astype(np.float32)
        sinking = -(right * u + down * v + forward)
        length = np.sqrt(1 + u * u + v * v)
        with np.errstate(divide="ignore"):
            return np.where(sinking > 1e-6, np.float32(self.position[2]) * length / sinking, np.float32(np.inf))

    def look_at(self) -> np.ndarray:
        """``(2,)`` ground point on the optical axis, or as far as 3 altitudes ahead when that is nearer."""
        reach = self.position[2] / np.tan(max(self.pitch, np.arctan(1 / 3)))
        return self.position[:2] + reach * np.array([np.cos(self.yaw), np.sin(self.yaw)])
