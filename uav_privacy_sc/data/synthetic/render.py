"""Draw a populated town through a camera: colours, and for every pixel which body it shows.

The ground is warped by its homography; bodies are drawn far to near, each box bottom to top. One pass fills two
buffers, so the picture, the masks and the boxes cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np

from uav_privacy_sc.data.synthetic.atmosphere import Light, add_air, lamp_map, light_up
from uav_privacy_sc.data.synthetic.blocks import Lot, Tree
from uav_privacy_sc.data.synthetic.bodies import FACES, Body, building
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.ground import BUILDING, GROUND, PIXELS_PER_METRE, TOWN_SIZE, VEGETATION
from uav_privacy_sc.data.synthetic.town import Town
from uav_privacy_sc.data.synthetic.traffic import Agent
from uav_privacy_sc.scene import OBJECT_CLASSES

_SUBPIXEL = 4  # fractional bits of OpenCV's drawing coordinates
_ROOM = 16.0  # metres that a body and its shadow may reach
_NEAR = 1.0  # metres; what comes closer to the camera is not drawn
_LEAVES = 90
_LEVELS = 6
_WITH_HEADLIGHTS = tuple(OBJECT_CLASSES.index(name) for name in ("car", "van", "truck", "bus", "motor"))
_COPIES = np.array([[0, 0], *((i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if (i, j) != (0, 0))], float)


@dataclass(frozen=True)
class Placed:
    """A body in world coordinates.

    ``corners`` ``(B, 8, 3)``, ``colors`` ``(B, 5, 3)``, the mask value ``label``, ``agent`` (an identity that stays
    with it over the flight; 0 for what never moves) and ``windows`` ``(K, 4, 3)`` or none.
    """

    corners: np.ndarray
    colors: np.ndarray
    label: int
    agent: int = 0
    windows: np.ndarray | None = None


@dataclass(frozen=True)
class PlacedTree:
    tree: Tree
    center: np.ndarray  # (2,) metres
    crown: np.ndarray  # (K, 3) blobs relative to the crown's middle, in radii


@dataclass(frozen=True)
class Drawing:
    """A picture and what its pixels show: ``identities`` k + 1 for ``agents[k]``, greater for what never moves."""

    image: np.ndarray  # (H, W, 3) uint8 RGB
    identities: np.ndarray  # (H, W) uint16; 0 = ground
    labels: np.ndarray  # mask value of each identity; entry 0 is unused
    ground: np.ndarray  # (H, W) uint8 mask values of the ground
    agents: list[Placed]

    @property
    def mask(self) -> np.ndarray:
        """``(H, W)`` uint8 values of ``scene.MASK_CLASSES``."""
        return np.where(self.identities == 0, self.ground, self.labels[self.identities])


def place(body: Body, position: np.ndarray, heading: float, label: int, agent: int = 0, lift: float = 0.0) -> Placed:
    """Turn and move a body into the world."""
    cos, sin = np.cos(heading), np.sin(heading)
    turn = np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])
    corners = body.corners @ turn.T + np.array([position[0], position[1], lift])
    return Placed(corners, body.colors, label, agent)


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
    """Draws one town and its agents; build once for a flight, then call :meth:`draw` for each exposure.

    The town repeats in all directions: what is within reach is drawn in as many copies as are seen.
    """

    def __init__(self, town: Town, agents: Sequence[Agent], light: Light, rng: np.random.Generator) -> None:
        self.town, self.agents, self.light = town, agents, light
        self._pyramid = [town.image]
        for _ in range(_LEVELS - 1):
            self._pyramid.append(cv2.resize(self._pyramid[-1], None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA))
        self._start = np.array([a.position for a in agents]).reshape(-1, 2)
        headings, speeds = np.array([a.heading for a in agents]), np.array([a.velocity for a in agents])
        self._velocity = speeds[:, None] * np.stack([np.cos(headings), np.sin(headings)], axis=1)
        self._buildings = [building(rng, lot.size[0], lot.size[1], lot.height) for lot in town.lots]
        self._crowns = [_crown(rng) for _ in town.trees]
        self._lots = np.array([lot.center for lot in town.lots]).reshape(-1, 2)
        self._trees = np.array([tree.position for tree in town.trees]).reshape(-1, 2)
        self._fixtures = np.array([fixture.position for fixture in town.fixtures]).reshape(-1, 2)

    def _near(
        self, points: np.ndarray, camera: Camera, reach: float, size: float = _ROOM
    ) -> Iterator[tuple[int, np.ndarray, int]]:
        """Yield index, place and copy of the points that may be seen within ``reach`` of the point looked at."""
        middle = camera.look_at()
        home = _wrap_near(points, middle)
        for copy, shift in enumerate(_COPIES * TOWN_SIZE):
            places = home + shift
            near = np.linalg.norm(places - middle, axis=1) < reach
            indices = np.flatnonzero(near)
            on_ground = np.column_stack([places[indices], np.zeros(len(indices))])
            for k in indices[camera.sees(on_ground, size)].tolist():
                yield k, places[k], copy

    def placed_agents(self, camera: Camera, time_s: float, reach: float) -> list[Placed]:
        """Return the agents that may be seen, in world coordinates near the point looked at."""
        placed = []
        for k, position, copy in self._near(self._start + self._velocity * time_s, camera, reach):
            agent = self.agents[k]
            identity = agent.identity + copy * len(self.agents)
            placed.append(place(agent.body, position, agent.heading, agent.label, identity, agent.lift))
        return placed

    def _placed_statics(self, camera: Camera, reach: float) -> list[Placed]:
        placed = []
        for k, center, _ in self._near(self._lots, camera, reach + 20, 40.0):
            there = place(self._buildings[k], center, 0.0, BUILDING)
            placed.append(replace(there, windows=_windows(self.town.lots[k], center)))
        for k, center, _ in self._near(self._fixtures, camera, reach):
            fixture = self.town.fixtures[k]
            placed.append(place(fixture.body, center, fixture.heading, BUILDING))
        return placed

    def draw(self, camera: Camera, agents: Sequence[Placed], reach: float) -> Drawing:
        """Draw the town with the given agents."""
        image, ground = self._ground(camera)
        identities = np.zeros(ground.shape, np.uint16)
        agents = [agent for agent in agents if _is_visible(agent, camera)]
        bodies = [*agents, *self._placed_statics(camera, reach)]
        trees = [
            PlacedTree(self.town.trees[k], p, self._crowns[k]) for k, p, _ in self._near(self._trees, camera, reach)
        ]
        self._cast_shadows(image, camera, bodies, trees)
        jobs: list[tuple[float, int, Placed | PlacedTree]] = [
            (_near_distance(body.corners, camera), k, body) for k, body in enumerate(bodies, 1)
        ]
        jobs += [
            (float(np.linalg.norm(t.center - camera.position[:2])) - t.tree.radius, k, t)
            for k, t in enumerate(trees, len(bodies) + 1)
        ]
        for _, identity, job in sorted(jobs, key=lambda item: -item[0]):
            if isinstance(job, Placed):
                self._draw_body(image, identities, camera, job, identity)
            else:
                self._draw_tree(image, identities, camera, job, identity)
        labels = np.array([GROUND, *(body.label for body in bodies), *([VEGETATION] * len(trees))], np.uint8)
        image = light_up(image, self.light, self._lamps(camera, agents, reach))
        return Drawing(add_air(image, camera, self.light, reach), identities, labels, ground, agents)

    def _lamps(self, camera: Camera, agents: Sequence[Placed], reach: float) -> np.ndarray | None:
        """What street lamps and headlights light up at night."""
        if not self.light.lamps:
            return None
        posts = [p for k, p, _ in self._near(self._fixtures, camera, reach) if self.town.fixtures[k].kind == "lamp"]
        cones = []
        for agent in agents:
            if agent.label in _WITH_HEADLIGHTS:
                ahead = agent.corners[0, 0, :2] - agent.corners[0, 1, :2]
                ahead /= max(float(np.linalg.norm(ahead)), 1e-6)
                front = agent.corners[..., :2].reshape(-1, 2)
                tip = front[np.argmax(front @ ahead)]
                across = np.array([-ahead[1], ahead[0]])
                cones.append(np.stack([tip - ahead, tip + 9 * ahead + 2.2 * across, tip + 9 * ahead - 2.2 * across]))
        return lamp_map(camera, np.array(posts).reshape(-1, 2), cones)

    def _ground(self, camera: Camera) -> tuple[np.ndarray, np.ndarray]:
        """Warp the town's raster to the picture; the raster wraps, the camera is first brought back to its middle."""
        home = np.diag([PIXELS_PER_METRE, PIXELS_PER_METRE, 1.0])
        home[:2, 2] = -PIXELS_PER_METRE * TOWN_SIZE * np.floor(camera.position[:2] / TOWN_SIZE)
        inverse = (home @ np.linalg.inv(camera.ground_homography())).astype(np.float32)
        u = np.arange(camera.width, dtype=np.float32)
        v = np.arange(camera.height, dtype=np.float32)[:, None]
        x, y, w = (row[0] * u + (row[1] * v + row[2]) for row in inverse)
        sky = w <= 0
        w[np.abs(w) < 1e-9] = 1e-9
        x /= w
        y /= w
        side = self.town.image.shape[0]
        if sky.any() or max(np.abs(x).max(), np.abs(y).max()) > 8 * side:  # far out, where remap's fixed point ends
            x, y = np.mod(x, side), np.mod(y, side)
        classes = cv2.remap(self.town.classes, x, y, cv2.INTER_NEAREST, borderMode=cv2.BORDER_WRAP)
        classes[sky] = GROUND
        return self._textured(camera, x, y), classes

    def _textured(self, camera: Camera, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Sample the raster at its own scale near the camera, at coarser ones farther away."""
        metres = camera.ground_distance(8) / np.float32(camera.focal)  # that a pixel shows, across the line of sight
        top = len(self._pyramid) - 1
        level = np.clip(np.log2(np.maximum(metres, 1e-6) * PIXELS_PER_METRE), 0, top).astype(np.uint8)
        used = np.unique(level).tolist()
        if len(used) > 1:
            level = cv2.resize(level, x.shape[::-1], interpolation=cv2.INTER_NEAREST)
        image = np.empty((*x.shape, 3), np.uint8)
        for k in used:
            rows = np.flatnonzero((level == k).any(axis=1)) if len(used) > 1 else np.array([0, len(x) - 1])
            part = np.s_[rows[0] : rows[-1] + 1]
            scale = np.float32(0.5**k)
            drawn = cv2.remap(
                self._pyramid[k], x[part] * scale, y[part] * scale, cv2.INTER_LINEAR, borderMode=cv2.BORDER_WRAP
            )
            image[part] = drawn if len(used) == 1 else np.where((level[part] == k)[..., None], drawn, image[part])
        return image

    def _cast_shadows(
        self, image: np.ndarray, camera: Camera, bodies: Sequence[Placed], trees: Sequence[PlacedTree]
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
        for placed in trees:
            middle = np.array([*(placed.center - slope * placed.tree.height * 0.7), 0.0])
            pixels, depth = camera.project(middle + rim * placed.tree.radius)
            if depth.min() > _NEAR and _in_view(pixels, camera):
                cv2.fillConvexPoly(shade, cv2.convexHull(_fixed(pixels)), 255, cv2.LINE_AA, _SUBPIXEL)
        shade = cv2.blur(shade, (3, 3))
        darkness = (255 - shade.astype(np.uint16) * int(256 * self.light.shadow) // 256).astype(np.uint8)
        cv2.multiply(image, cv2.merge([darkness] * 3), dst=image, scale=1 / 255)

    def _draw_body(
        self, image: np.ndarray, identities: np.ndarray, camera: Camera, body: Placed, identity: int
    ) -> None:
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
            cv2.fillConvexPoly(identities, polygons[b, f], identity, cv2.LINE_8, _SUBPIXEL)
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
        self, image: np.ndarray, identities: np.ndarray, camera: Camera, placed: PlacedTree, identity: int
    ) -> None:
        """Draw a stem and a crown: a few round masses, and leaves on them as many as its size shows."""
        tree = placed.tree
        middle = np.array([*placed.center, tree.height - tree.radius * 0.8])
        (foot, top), depth = camera.project(np.array([[*placed.center, 0.0], middle]))
        if depth.min() < _NEAR:
            return
        span = camera.focal / depth[1] * tree.radius
        if not _in_view(np.stack([foot, top]), camera, margin=2 * span + 20):
            return
        masses = min(4 + int(span * 0.8), len(placed.crown))
        blobs = middle + placed.crown[:masses] * tree.radius * (0.42, 0.42, 0.3)
        radii = np.full(masses, tree.radius * np.clip(4 / span, 0.16, 0.6))
        radii[:4] = tree.radius * 0.6
        order = np.argsort(blobs[:, 2] - (np.arange(masses) < 4) * tree.radius)
        pixels, depths = camera.project(blobs[order])
        sizes = np.maximum(camera.focal / np.maximum(depths, _NEAR) * radii[order] * 2**_SUBPIXEL, 1).astype(int)
        height = (blobs[order, 2] - middle[2]) / tree.radius
        facing = placed.crown[order] @ self.light.sun * 0.16
        shade = np.clip(0.86 + 0.45 * height + facing, 0.45, 1.35) * (0.6 + 0.4 * self.light.ambient)
        colors = np.clip(tree.color * shade[:, None], 0, 255).tolist()
        stem = max(1, int(span * 0.12))
        cv2.line(image, _fixed(foot), _fixed(top), (82, 66, 50), stem, cv2.LINE_AA, _SUBPIXEL)
        line = cv2.LINE_AA if span > 4 else cv2.LINE_8
        for end, size, color in zip(_fixed(pixels).tolist(), sizes.tolist(), colors, strict=True):
            cv2.circle(image, end, size, color, -1, line, _SUBPIXEL)
            cv2.circle(identities, end, size, identity, -1, cv2.LINE_8, _SUBPIXEL)


def _crown(rng: np.random.Generator) -> np.ndarray:
    """Blobs of a crown relative to its middle, in radii: spread over a ball, none outside."""
    directions = rng.normal(0, 1, (_LEAVES, 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    return directions * 1.9 * rng.random((_LEAVES, 1)) ** 0.4


def _is_visible(body: Placed, camera: Camera) -> bool:
    """Whether a body may cover two pixels."""
    foot = body.corners[0, 2]
    distance = float(np.linalg.norm(foot - camera.position))
    reach = float(np.ptp(body.corners.reshape(-1, 3), axis=0).max())
    return camera.focal * reach > 2.0 * distance


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
