"""Identities for predictive release and for the odometer's tracks: nearest-neighbour association, on board only.

Identities steer what a track pays. They are private: which object is which never leaves the aircraft. But that a track
has ended and another begun shows in predictive release, and it follows from places without noise. A track that is
lost and found again is a new one here and pays anew, and its owner is counted twice by the track unit; the mission unit
does not depend on identities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from .. import scene
from .domain import FloatArray, positive, whole

_NEVER = 1e6


@dataclass(frozen=True)
class TrackingConfig:
    """How objects are followed.

    Attributes:
        max_distance: how far a centre may move between two frames, in parts of the image.
        forget_after: frames for which a lost track is remembered.
    """

    max_distance: float = 0.05
    forget_after: int = 10

    def __post_init__(self) -> None:
        positive("max_distance", self.max_distance)
        whole("forget_after", self.forget_after)


class NearestTracker:
    """Gives every object of a frame an identity: that of the nearest object of its class before, matched one to one.

    Args:
        config: distances and memory.

    Example:
        >>> tracker = NearestTracker()
        >>> tracker.identify(scene.make_objects([[0.2, 0.2], [0.8, 0.8]], [[0.1, 0.1]] * 2, [0, 0])).tolist()
        [0, 1]
        >>> tracker.identify(scene.make_objects([[0.79, 0.8], [0.21, 0.2]], [[0.1, 0.1]] * 2, [0, 0])).tolist()
        [1, 0]
    """

    def __init__(self, config: TrackingConfig | None = None) -> None:
        self.config = TrackingConfig() if config is None else config
        self._identities = np.zeros(0, np.int64)
        self._centers = np.zeros((0, 2))
        self._labels = np.zeros(0, np.int64)
        self._age = np.zeros(0, np.int64)
        self._next = 0

    def identify(self, objects: np.ndarray) -> NDArray[np.int64]:
        """Return ``(M,)`` identities of the ``(M,)`` objects of the next frame, all different."""
        centers, labels = scene.centers(objects), objects["label"].astype(np.int64)
        identities = np.full(len(objects), -1, np.int64)
        rows, columns = self._match(centers, labels)
        identities[rows] = self._identities[columns]
        new = identities < 0
        identities[new] = self._next + np.arange(np.count_nonzero(new))
        self._next += int(np.count_nonzero(new))
        self._remember(identities, centers, labels, columns)
        return identities

    def _match(self, centers: FloatArray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        distance = np.linalg.norm(centers[:, None] - self._centers[None], axis=2)
        possible = (distance <= self.config.max_distance) & (labels[:, None] == self._labels[None])
        rows, columns = linear_sum_assignment(np.where(possible, distance, _NEVER))
        good = possible[rows, columns]
        return rows[good], columns[good]

    def _remember(self, identities: np.ndarray, centers: FloatArray, labels: np.ndarray, matched: np.ndarray) -> None:
        lost = np.ones(len(self._identities), bool)
        lost[matched] = False
        lost &= self._age < self.config.forget_after
        self._identities = np.concatenate([identities, self._identities[lost]])
        self._centers = np.concatenate([centers, self._centers[lost]])
        self._labels = np.concatenate([labels, self._labels[lost]])
        self._age = np.concatenate([np.zeros(len(identities), np.int64), self._age[lost] + 1])
