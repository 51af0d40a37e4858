"""Draw a populated town through a camera: colours, and for every pixel which body it shows.

The ground is warped by its homography; bodies are drawn far to near, each box bottom to top. One pass fills two
buffers, so the picture, the masks and the boxes cannot disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from uav_privacy_sc.data.synthetic.bodies import FACES, Body, building
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.town import BUILDING, PIXELS_PER_METRE, TOWN_SIZE, VEGETATION, Lot, Town, Tree
from uav_privacy_sc.data.synthetic.traffic import Agent

_SUBPIXEL = 4  # fractional bits of OpenCV's drawing coordinates
_ROOM = 16.0  # metres that a body and its shadow may reach
_NEAR = 1.0  # metres; what comes closer to the camera is not drawn


@dataclass(frozen=True)
class Light:
    """Sun direction ``(3,)`` (towards the sun), strengths in [0, 1], and a colour cast ``(3,)``."""

    sun: np.ndarray
    ambient: float
    shadow: float
    cast: np.ndarray


@dataclass(frozen=True)
class Placed:
    """A body in world coordinates: ``(B, 8, 3)`` corners, ``(B, 5, 3)`` face colours, an identity and windows."""

    corners: np.ndarray
    colors: np.ndarray
    identity: int
    windows: np.ndarray | None = None  # (K, 4, 3)


@dataclass(frozen=True)
class Drawing:
    image: np.ndarray  # (H, W, 3) uint8 RGB
    identities: np.ndarray  # (H, W) uint16; 0 = ground
    ground: np.ndarray  # (H, W) uint8 mask values of the ground


def place(body: Body, position: np.ndarray, heading: float, identity: int, lift: float = 0.0) -> Placed:
    """Turn and move a body into the world."""
    cos, sin = np.cos(heading), np.sin(heading)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    corners = body.corners @ turn.T + np.array([position[0], position[1], lift])
    return Placed(corners, body.colors, identity)


def _windows(lot: Lot, center: np.ndarray) -> np.ndarray:
    """Window quads ``(K, 4, 3)`` on the four walls of a building."""
    quads = []
    for axis in (0, 1):
        length, reach = lot.size[axis], lot.size[1 - axis] / 2 + 0.03
        at, up = np.meshgrid(np.arange(-length / 2 + 1.6, length / 2 - 1.2, 2.8), np.arange(1.2, lot.height - 1.6, 3.1))
        at, up = at.ravel(), up.ravel()
        for side in (-1, 1):
            along = np.stack([at - 0.6, at + 0.6, at + 0.6, at - 0.6], axis=1)
            height = np.stack([up, up, up + 1.3, up + 1.3], axis=1)
            across = np.full_like(along, side * reach)
            plan = (along, across) if axis == 0 else (across, along)
            quads.append(np.stack([plan[0] + center[0], plan[1] + center[1], height], axis=2))
    return np.concatenate(quads)


class Painter:
    """Draws one town and its agents; build once for a flight, then call :meth:`draw` for each exposure."""

    def __init__(self, town: Town, agents: Sequence[Agent], light: Light, rng: np.random.Generator) -> None:
        self.town, self.agents, self.light = town, agents, light
        self._first_static = 1 + max((a.identity for a in agents), default=0)
        self._start = np.array([a.position for a in agents]).reshape(-1, 2)
        headings, speeds = np.array([a.heading for a in agents]), np.array([a.velocity for a in agents])
        self._velocity = speeds[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=1)
        self._buildings = [building(rng, lot.size[0], lot.size[1], lot.height) for lot in town.lots]
        self._crowns = [rng.normal(0, 1, (6, 3)) for _ in town.trees]
        self.lookup = self._class_of_identity()

    def _class_of_identity(self) -> np.ndarray:
        table = np.zeros(self._first_static + len(self._buildings) + len(self._crowns), np.uint8)
        for agent in self.agents:
            table[agent.identity] = agent.label
        table[self._first_static :] = BUILDING
        table[self._first_static + len(self._buildings) :] = VEGETATION
        return table

    def placed_agents(self, camera: Camera, time_s: float, reach: float) -> list[Placed]:
        """Return the agents within ``reach`` metres of the point looked at, in world coordinates near it."""
        middle = camera.look_at()
        positions = _wrap_near(self._start + self._velocity * time_s, middle)
        on_ground = np.column_stack([positions, np.zeros(len(positions))])
        near = np.linalg.norm(positions - middle, axis=1) < reach
        near = np.flatnonzero(near & camera.sees(on_ground, _ROOM))
        agents = [(self.agents[k], positions[k]) for k in near]
        return [place(a.body, p, a.heading, a.identity, a.lift) for a, p in agents]

    def _placed_buildings(self, middle: np.ndarray, reach: float) -> list[Placed]:
        placed = []
        for k, (lot, body) in enumerate(zip(self.town.lots, self._buildings, strict=True)):
            center = _wrap_near(lot.center, middle)
            if np.linalg.norm(center - middle) < reach + 20:
                there = place(body, center, 0.0, self._first_static + k)
                placed.append(Placed(there.corners, there.colors, there.identity, _windows(lot, center)))
        return placed

    def _placed_trees(self, middle: np.ndarray, reach: float) -> list[tuple[Tree, np.ndarray, int, np.ndarray]]:
        first = self._first_static + len(self._buildings)
        centers = _wrap_near(np.array([t.position for t in self.town.trees]).reshape(-1, 2), middle)
        near = np.flatnonzero(np.linalg.norm(centers - middle, axis=1) < reach)
        return [(self.town.trees[k], centers[k], first + int(k), self._crowns[k]) for k in near]

    def draw(self, camera: Camera, agents: Sequence[Placed], reach: float) -> Drawing:
        """Draw the town with the given agents."""
        middle = camera.look_at()
        image, ground = self._ground(camera)
        identities = np.zeros(ground.shape, np.uint16)
        bodies = [*agents, *self._placed_buildings(middle, reach)]
        trees = self._placed_trees(middle, reach)
        self._cast_shadows(image, camera, bodies, trees)
        jobs: list[tuple[float, Placed | tuple]] = [(_near_distance(b.corners, camera), b) for b in bodies]
        jobs += [(float(np.linalg.norm(t[1] - camera.position[:2])) - t[0].radius, t) for t in trees]
        for _, job in sorted(jobs, key=lambda item: -item[0]):
            if isinstance(job, Placed):
                self._draw_body(image, identities, camera, job)
            else:
                self._draw_tree(image, identities, camera, *job)
        return Drawing(image, identities, ground)

    def _ground(self, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
        """Warp the town's raster to the picture; the raster wraps, the camera is first brought back to its middle."""
        home = np.diag([PIXELS_PER_METRE, PIXELS_PER_METRE, 1.0])
        home[:2, 2] = -PIXELS_PER_METRE * TOWN_SIZE * np.floor(camera.position[:2] / TOWN_SIZE)
        inverse = (home @ np.linalg.inv(camera.ground_homography())).astype(np.float32)
        u = np.arange(camera.width, dtype=np.float32)
        v = np.arange(camera.height, dtype=np.float32)[:, None]
        x, y, w = (row[0] * u + (row[1] * v + row[2]) for row in inverse)
        x /= w
        y /= w
        coarse, fine = cv2.convertMaps(x, y, cv2.CV_16SC2)
        image = cv2.remap(self.town.image, coarse, fine, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP)
        classes = cv2.remap(self.town.classes, coarse, None, cv2.INTER_NEAREST, borderMode=cv2.BORDER_WRAP)
        return image, classes

    def _cast_shadows(
        self, image: np.ndarray, camera: Camera, bodies: Sequence[Placed], trees: Sequence[tuple]
    ) -> None:
        """Darken the ground where bodies and crowns keep the sun away."""
        slope = self.light.sun[:2] / max(self.light.sun[2], 0.2)
        shade = np.zeros(image.shape[:2], np.uint8)
        for body in bodies:
            points = body.corners.reshape(-1, 3)
            flat = np.concatenate([points[:, :2] - points[:, 2:] * slope, np.zeros((len(points), 1))], axis=1)
            pixels, depth = camera.project(flat)
            if depth.min() > _NEAR and _in_view(pixels, camera):
                cv2.fillConvexPoly(shade, cv2.convexHull(_fixed(pixels)), 255, cv2.LINE_AA, _SUBPIXEL)
        turns = np.linspace(0, 2 * np.pi, 10, endpoint=False)
        rim = np.stack([np.cos(turns), np.sin(turns), np.zeros(10)], axis=1)
        for tree, center, _, _ in trees:
            middle = np.array([*(center - slope * tree.height * 0.7), 0.0])
            pixels, depth = camera.project(middle + rim * tree.radius)
            if depth.min() > _NEAR and _in_view(pixels, camera):
                cv2.fillConvexPoly(shade, cv2.convexHull(_fixed(pixels)), 255, cv2.LINE_AA, _SUBPIXEL)
        shade = cv2.blur(shade, (3, 3))
        darkness = (255 - shade.astype(np.uint16) * int(256 * self.light.shadow) // 256).astype(np.uint8)
        cv2.multiply(image, cv2.merge([darkness] * 3), dst=image, scale=1 / 255)

    def _draw_body(self, image: np.ndarray, identities: np.ndarray, camera: Camera, body: Placed) -> None:
        pixels, depth = camera.project(body.corners)
        if depth.min() < _NEAR or not _in_view(pixels.reshape(-1, 2), camera):
            return
        points = _fixed(pixels)
        polygons = np.ascontiguousarray(points[:, FACES])  # (B, 5, 4, 2)
        visible = _faces_camera(polygons)
        colors = self._shaded(body)
        coarse = np.ptp(pixels.reshape(-1, 2), axis=0).max() < 3
        for b, f in zip(*np.nonzero(visible), strict=True):
            cv2.fillConvexPoly(image, polygons[b, f], colors[b][f], cv2.LINE_8 if coarse else cv2.LINE_AA, _SUBPIXEL)
            cv2.fillConvexPoly(identities, polygons[b, f], body.identity, cv2.LINE_8, _SUBPIXEL)
        if body.windows is not None and len(body.windows):
            self._draw_windows(image, camera, body.windows)

    def _draw_windows(self, image: np.ndarray, camera: Camera, windows: np.ndarray) -> None:
        pixels, depth = camera.project(windows)
        outward = np.cross(windows[:, 1] - windows[:, 0], windows[:, 3] - windows[:, 0])
        middle = windows.reshape(-1, 3).mean(axis=0)
        outward *= np.sign(np.sum(outward * (windows[:, 0] - middle) * (1, 1, 0), axis=1))[:, None]
        seen = (np.sum(outward * (camera.position - windows[:, 0]), axis=1) > 0) & (depth.min(axis=1) > _NEAR)
        if seen.any():
            cv2.fillPoly(image, list(_fixed(pixels[seen])), (58, 68, 82), cv2.LINE_AA, _SUBPIXEL)

    def _shaded(self, body: Placed) -> list[list[tuple[float, ...]]]:
        faces = body.corners[:, FACES]  # (B, 5, 4, 3)
        normals = np.cross(faces[:, :, 1] - faces[:, :, 0], faces[:, :, 3] - faces[:, :, 0])
        length = np.linalg.norm(normals, axis=2, keepdims=True)
        lit = np.clip((normals / np.maximum(length, 1e-9)) @ self.light.sun, 0, 1)
        strength = self.light.ambient + (1 - self.light.ambient) * lit
        return np.clip(body.colors * strength[..., None], 0, 255).tolist()

    def _draw_tree(
        self,
        image: np.ndarray,
        identities: np.ndarray,
        camera: Camera,
        tree: Tree,
        center: np.ndarray,
        identity: int,
        crown: np.ndarray,
    ) -> None:
        middle = np.array([*center, tree.height - tree.radius * 0.8])
        blobs = np.concatenate([middle[None], middle + crown * tree.radius * (0.4, 0.4, 0.28)])
        blobs = blobs[np.argsort(blobs[:, 2])]
        radii = np.full(len(blobs), tree.radius * 0.62)
        foot = np.array([[*center, 0.0]])
        pixels, depth = camera.project(np.concatenate([foot, blobs]))
        if depth.min() < _NEAR or not _in_view(pixels, camera, margin=60):
            return
        ends = _fixed(pixels)
        size = camera.focal / depth[1:] * radii
        cv2.line(image, ends[0], ends[1], (82, 66, 50), max(1, int(size[0] * 0.2)), cv2.LINE_AA, _SUBPIXEL)
        light = np.linspace(0.62, 1.2, len(blobs)) * (0.6 + 0.4 * self.light.ambient)
        for end, radius, shade in zip(ends[1:], size, light, strict=True):
            fixed_radius = max(1, int(radius * 2**_SUBPIXEL))
            cv2.circle(
                image, end, fixed_radius, np.clip(tree.color * shade, 0, 255).tolist(), -1, cv2.LINE_AA, _SUBPIXEL
            )
            cv2.circle(identities, end, fixed_radius, identity, -1, cv2.LINE_8, _SUBPIXEL)


def _wrap_near(points: np.ndarray, middle: np.ndarray) -> np.ndarray:
    """Move points by whole towns to where they are closest to ``middle``."""
    return middle + (points - middle + TOWN_SIZE / 2) % TOWN_SIZE - TOWN_SIZE / 2


def _near_distance(corners: np.ndarray, camera: Camera) -> float:
    """Horizontal distance in metres from the camera to the nearest point of a body's bounding rectangle."""
    plan = corners[..., :2].reshape(-1, 2) - camera.position[:2]
    low, high = plan.min(axis=0), plan.max(axis=0)
    return float(np.linalg.norm(np.maximum(np.maximum(low, -high), 0)))


def _fixed(pixels: np.ndarray) -> np.ndarray:
    return np.round(np.clip(pixels, -4000, 8000) * 2**_SUBPIXEL).astype(np.int32)


def _in_view(pixels: np.ndarray, camera: Camera, margin: float = 0.0) -> bool:
    low, high = pixels.min(axis=0), pixels.max(axis=0)
    return bool(
        high[0] > -margin and high[1] > -margin and low[0] < camera.width + margin and low[1] < camera.height + margin
    )


def _faces_camera(polygons: np.ndarray) -> np.ndarray:
    """Which ``(..., 4, 2)`` pixel polygons are seen from outside (clockwise in image axes, where y grows downwards)."""
    d1 = polygons[..., 2, :].astype(np.int64) - polygons[..., 0, :]
    d2 = polygons[..., 3, :].astype(np.int64) - polygons[..., 1, :]
    return d1[..., 0] * d2[..., 1] - d1[..., 1] * d2[..., 0] < 0
