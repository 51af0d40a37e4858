"""A square town that repeats without a seam: its ground as a picture and as classes, its buildings, trees and lanes.

The ground is a raster of ``TOWN_SIZE`` metres a side that wraps around, so that a flight never reaches an edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from uav_privacy_sc.scene import MASK_CLASSES

TOWN_SIZE = 320.0
PIXELS_PER_METRE = 8
ROAD, BUILDING, VEGETATION, GROUND = (MASK_CLASSES.index(n) for n in ("road", "building", "vegetation", "ground"))
_SIDE = int(TOWN_SIZE * PIXELS_PER_METRE)
_WALK = 3.0


@dataclass(frozen=True)
class Lane:
    """One line of travel: along x (``axis`` 0) or y (1) at a fixed other coordinate; ``kind`` says for whom."""

    axis: int
    offset: float
    direction: int
    kind: str  # "vehicle", "cycle" or "walk"
    waiting: bool  # queueing at a red light


@dataclass(frozen=True)
class Tree:
    position: np.ndarray  # (2,) metres
    radius: float
    height: float
    color: np.ndarray  # (3,) RGB


@dataclass(frozen=True)
class Lot:
    """A building's footprint: centre and size in metres, and height."""

    center: np.ndarray
    size: np.ndarray
    height: float


@dataclass(frozen=True)
class Town:
    image: np.ndarray  # (S, S, 3) uint8 RGB; row = y, column = x
    classes: np.ndarray  # (S, S) uint8 mask values
    lanes: tuple[Lane, ...]
    crossings: tuple[tuple[float, float], ...]  # centres of intersections, metres
    lots: tuple[Lot, ...]
    trees: tuple[Tree, ...]
    stalls: np.ndarray  # (K, 3) parking places: x, y, heading
    plazas: np.ndarray  # (K, 2) places where people sit or stand


class _Ground:
    """The raster under construction; rectangles wrap around."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.image = np.zeros((_SIDE, _SIDE, 3), np.float32)
        self.classes = np.full((_SIDE, _SIDE), GROUND, np.uint8)

    def fill(
        self, x1: float, y1: float, x2: float, y2: float, color: np.ndarray | tuple, label: int | None = None
    ) -> None:
        """Fill a rectangle in metres, wrapping at the edges."""
        columns = np.arange(
            round(x1 * PIXELS_PER_METRE), max(round(x2 * PIXELS_PER_METRE), round(x1 * PIXELS_PER_METRE) + 1)
        )
        rows = np.arange(
            round(y1 * PIXELS_PER_METRE), max(round(y2 * PIXELS_PER_METRE), round(y1 * PIXELS_PER_METRE) + 1)
        )
        for row_part in np.split(rows, np.where(rows % _SIDE == 0)[0]):
            for column_part in np.split(columns, np.where(columns % _SIDE == 0)[0]):
                if len(row_part) and len(column_part):
                    area = np.s_[
                        row_part[0] % _SIDE : row_part[0] % _SIDE + len(row_part),
                        column_part[0] % _SIDE : column_part[0] % _SIDE + len(column_part),
                    ]
                    self.image[area] = color
                    if label is not None:
                        self.classes[area] = label

    def strip(
        self, axis: int, along: tuple[float, float], across: tuple[float, float], color: tuple, label: int | None = None
    ) -> None:
        """Fill a rectangle given along and across a road's axis."""
        if axis == 0:
            self.fill(along[0], across[0], along[1], across[1], color, label)
        else:
            self.fill(across[0], along[0], across[1], along[1], color, label)

    def texture(self) -> np.ndarray:
        """Return the picture with noise of several scales, stronger on vegetation."""
        noise = np.zeros((_SIDE, _SIDE), np.float32)
        for cells, weight in ((20, 5.0), (160, 4.5), (640, 6.5)):
            coarse = self.rng.normal(size=(cells, cells)).astype(np.float32)
            wrapped = np.pad(coarse, 1, mode="wrap")
            scale = _SIDE // cells
            noise += (
                weight
                * cv2.resize(wrapped, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)[
                    scale:-scale, scale:-scale
                ]
            )
        noise *= np.where(self.classes == VEGETATION, 1.6, 1.0).astype(np.float32)
        return np.clip(self.image + noise[..., None], 0, 255).astype(np.uint8)


def _road_lines(rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return (centre, width) of the roads of one direction, spread over the town."""
    count = int(rng.integers(3, 5))
    base = (np.arange(count) + rng.uniform(-0.15, 0.15, count)) * TOWN_SIZE / count + 20
    return [(float(c), float(rng.choice([7.5, 11.0, 15.0]))) for c in base]


def _asphalt(rng: np.random.Generator) -> np.ndarray:
    return rng.uniform(72, 128) + rng.normal(0, 3, 3)


def _lay_road(ground: _Ground, axis: int, center: float, width: float, color: np.ndarray) -> None:
    half = width / 2
    ground.strip(axis, (0, TOWN_SIZE), (center - half, center + half), tuple(color), ROAD)


def _mark_road(ground: _Ground, axis: int, center: float, width: float, crossings: list[tuple[float, float]]) -> None:
    """Paint lane lines and, at each crossing road, zebra stripes."""
    half, white = width / 2, (215.0, 215.0, 210.0)
    middle = (225.0, 190.0, 70.0) if ground.rng.random() < 0.5 else white
    lanes = 2 if width < 10 else 4
    for k in range(1, lanes):
        at = center - half + k * width / lanes
        if k == lanes // 2:
            ground.strip(axis, (0, TOWN_SIZE), (at - 0.1, at + 0.1), middle)
        else:
            for start in np.arange(0, TOWN_SIZE, 9.0).tolist():
                ground.strip(axis, (start, start + 4), (at - 0.08, at + 0.08), white)
    for edge in (-half + 0.3, half - 0.3):
        ground.strip(axis, (0, TOWN_SIZE), (center + edge - 0.07, center + edge + 0.07), white)
    for other, other_width in crossings:
        for side in (-1, 1):
            near = other + side * (other_width / 2 + 1.0)
            far = near + side * 3.5
            for stripe in np.arange(center - half + 0.6, center + half - 0.6, 1.1).tolist():
                ground.strip(axis, (min(near, far), max(near, far)), (stripe, stripe + 0.55), white)


def _lanes(axis: int, center: float, width: float, waiting: bool) -> list[Lane]:
    """Right-hand traffic: for axis 0, eastbound south of the middle; for axis 1, northbound east of it."""
    lanes, half = [], width / 2
    count = 1 if width < 10 else 2
    lane_width = width / (2 * count)
    for direction in (-1, 1):
        side = -direction if axis == 0 else direction
        for k in range(count):
            kind = "cycle" if count == 2 and k == 1 and width < 12 else "vehicle"
            lanes.append(Lane(axis, center + side * (k + 0.5) * lane_width, direction, kind, waiting))
        if lanes[-1].kind != "cycle":
            lanes.append(Lane(axis, center + side * (half - 0.45), direction, "cycle", waiting))
        walk = side * (half + _WALK / 2)
        lanes += [Lane(axis, center + walk + s * 0.7, d, "walk", False) for s, d in ((-1, 1), (1, -1))]
    return lanes


class _Block:
    """One block between roads, filled with buildings, a park, a car park or a square."""

    def __init__(self, ground: _Ground, bounds: tuple[float, float, float, float], max_height: float) -> None:
        self.ground, self.rng, self.bounds, self.max_height = ground, ground.rng, bounds, max_height
        self.lots: list[Lot] = []
        self.trees: list[Tree] = []
        self.stalls: list[tuple[float, float, float]] = []
        self.plazas: list[tuple[float, float]] = []

    def build(self) -> None:
        kind = self.rng.choice(["built", "built", "built", "park", "parking", "square"])
        x1, y1, x2, y2 = self.bounds
        paving = self.rng.uniform(130, 185) + self.rng.normal(0, 4, 3)
        self.ground.fill(x1, y1, x2, y2, paving, GROUND)
        inner = (x1 + _WALK, y1 + _WALK, x2 - _WALK, y2 - _WALK)
        getattr(self, f"_{kind}")(inner)
        for x in np.arange(x1 + 5, x2 - 5, self.rng.uniform(9, 16)).tolist():
            for y in (y1 + _WALK, y2 - _WALK):
                if self.rng.random() < 0.45:
                    self._tree(x, y)

    def _grass(self, x1: float, y1: float, x2: float, y2: float) -> None:
        green = np.array([88, 118, 62]) * self.rng.uniform(0.75, 1.2) + self.rng.normal(0, 5, 3)
        self.ground.fill(x1, y1, x2, y2, green, VEGETATION)

    def _tree(self, x: float, y: float) -> None:
        green = np.array([62, 96, 46]) * self.rng.uniform(0.7, 1.35) + self.rng.normal(0, 6, 3)
        radius = self.rng.uniform(1.2, 3.0)
        height = min(self.rng.uniform(3.5, 8.0), self.max_height)
        self.trees.append(Tree(np.array([x, y]), radius, height, np.clip(green, 10, 220)))

    def _people_at(self, x1: float, y1: float, x2: float, y2: float, count: int) -> None:
        self.plazas += [tuple(p) for p in self.rng.uniform((x1, y1), (x2, y2), (count, 2))]

    def _built(self, inner: tuple[float, float, float, float]) -> None:
        x1, y1, x2, y2 = inner
        if self.rng.random() < 0.6:
            self._grass(x1, y1, x2, y2)
        y = y1 + self.rng.uniform(1, 5)
        while y + 9 < y2:
            depth = min(self.rng.uniform(10, 20), y2 - y - 1)
            x = x1 + self.rng.uniform(1, 5)
            while x + 9 < x2:
                length = min(self.rng.uniform(10, 28), x2 - x - 1)
                if self.rng.random() < 0.75:
                    center, size = np.array([x + length / 2, y + depth / 2]), np.array([length, depth])
                    self.lots.append(Lot(center, size, self.rng.uniform(3.5, max(4.0, self.max_height))))
                else:
                    self._people_at(x, y, x + length, y + depth, 3)
                    self._tree(x + length / 2, y + depth / 2)
                x += length + self.rng.uniform(3, 9)
            y += depth + self.rng.uniform(5, 12)

    def _park(self, inner: tuple[float, float, float, float]) -> None:
        x1, y1, x2, y2 = inner
        self._grass(*inner)
        sand = np.array([178, 162, 130]) + self.rng.normal(0, 6, 3)
        for _ in range(3):
            x, y = self.rng.uniform((x1, y1), (x2, y2))
            self.ground.fill(x, y1, min(x + 2.5, x2), y2, sand, GROUND)
            self.ground.fill(x1, y, x2, min(y + 2.5, y2), sand, GROUND)
        for _ in range(int((x2 - x1) * (y2 - y1) / 90)):
            self._tree(*self.rng.uniform((x1, y1), (x2, y2)))
        self._people_at(*inner, 14)

    def _parking(self, inner: tuple[float, float, float, float]) -> None:
        x1, y1, x2, y2 = inner
        self.ground.fill(*inner, _asphalt(self.rng) + 12, ROAD)
        for row in np.arange(y1 + 1, y2 - 5.5, 11.5).tolist():
            for x in np.arange(x1 + 1, x2 - 2.6, 2.7).tolist():
                self.ground.fill(x - 0.06, row, x + 0.06, row + 5, (220, 220, 215))
                self.stalls.append((x + 1.35, row + 2.5, float(np.pi / 2 * self.rng.choice([-1, 1]))))
        self._people_at(*inner, 6)

    def _square(self, inner: tuple[float, float, float, float]) -> None:
        x1, y1, x2, y2 = inner
        tile = np.array([172, 156, 142]) + self.rng.normal(0, 8, 3)
        for k, x in enumerate(np.arange(x1, x2, 4.0).tolist()):
            self.ground.fill(x, y1, min(x + 4, x2), y2, tile + 10 * (k % 2), GROUND)
        for _ in range(4):
            x, y = self.rng.uniform((x1, y1), (max(x2 - 9, x1 + 1), max(y2 - 6, y1 + 1)))
            self._grass(x, y, x + 8, y + 5)
            self._tree(x + 4, y + 2.5)
        self._people_at(*inner, 26)


def build_town(rng: np.random.Generator, max_height: float) -> Town:
    """Lay out one town; ``max_height`` in metres keeps its roofs below the drone."""
    ground = _Ground(rng)
    vertical, horizontal = _road_lines(rng), _road_lines(rng)
    blocks = []
    for (x, width), (next_x, next_width) in zip(
        vertical, vertical[1:] + [(vertical[0][0] + TOWN_SIZE, vertical[0][1])], strict=True
    ):
        for (y, height), (next_y, next_height) in zip(
            horizontal, horizontal[1:] + [(horizontal[0][0] + TOWN_SIZE, horizontal[0][1])], strict=True
        ):
            bounds = (x + width / 2, y + height / 2, next_x - next_width / 2, next_y - next_height / 2)
            block = _Block(ground, bounds, max_height)
            block.build()
            blocks.append(block)
    color = _asphalt(rng)
    roads = [(0, *road) for road in horizontal] + [(1, *road) for road in vertical]
    for axis, center, width in roads:
        _lay_road(ground, axis, center, width, color)
    for axis, center, width in roads:
        _mark_road(ground, axis, center, width, vertical if axis == 0 else horizontal)
    for x, width in vertical:
        for y, height in horizontal:
            ground.fill(x - width / 2, y - height / 2, x + width / 2, y + height / 2, color, ROAD)
    return Town(
        image=ground.texture(),
        classes=ground.classes,
        lanes=tuple(lane for axis, center, width in roads for lane in _lanes(axis, center, width, axis == 1)),
        crossings=tuple((x, y) for x, _ in vertical for y, _ in horizontal),
        lots=tuple(lot for block in blocks for lot in block.lots),
        trees=tuple(tree for block in blocks for tree in block.trees),
        stalls=np.array([s for block in blocks for s in block.stalls]).reshape(-1, 3),
        plazas=np.array([p for block in blocks for p in block.plazas]).reshape(-1, 2),
    )
