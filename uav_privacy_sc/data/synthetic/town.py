"""A square town that repeats without a seam: its ground as a picture and as classes, its buildings, trees and lanes.

The ground is a raster of ``TOWN_SIZE`` metres a side that wraps around, so that a flight never reaches an edge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.data.synthetic.blocks import WALK, Block, Fixture, Lot, Tree
from uav_privacy_sc.data.synthetic.ground import ROAD, TOWN_SIZE, Ground


@dataclass(frozen=True)
class Lane:
    """One line of travel: along x (``axis`` 0) or y (1) at a fixed other coordinate; ``kind`` says for whom."""

    axis: int
    offset: float
    direction: int
    kind: str  # "vehicle", "cycle" or "walk"
    waiting: bool  # queueing at a red light


@dataclass(frozen=True)
class Town:
    image: np.ndarray  # (S, S, 3) uint8 RGB; row = y, column = x
    classes: np.ndarray  # (S, S) uint8 mask values
    lanes: tuple[Lane, ...]
    crossings: tuple[tuple[float, float], ...]  # centres of intersections, metres
    lots: tuple[Lot, ...]
    trees: tuple[Tree, ...]
    fixtures: tuple[Fixture, ...]
    stalls: np.ndarray  # (K, 3) parking places: x, y, heading
    berths: np.ndarray  # (K, 3) parking places with room for lorries
    plazas: np.ndarray  # (K, 2) places where people sit or stand


def _road_lines(rng: np.random.Generator) -> list[tuple[float, float]]:
    """Return (centre, width) of the roads of one direction, spread over the town."""
    count = int(rng.integers(3, 5))
    base = (np.arange(count) + rng.uniform(-0.15, 0.15, count)) * TOWN_SIZE / count + 20
    return [(float(c), float(rng.choice([7.5, 11.0, 15.0]))) for c in base]


def _asphalt(rng: np.random.Generator) -> np.ndarray:
    """Dark and new, or pale and dusty."""
    return rng.uniform(66, 150) + rng.normal(0, 3, 3) + rng.uniform(0, 1) * np.array([6.0, 3.0, -4.0])


def _lay_road(ground: Ground, axis: int, center: float, width: float, color: np.ndarray) -> None:
    half = width / 2
    ground.strip(axis, (0, TOWN_SIZE), (center - half, center + half), tuple(color), ROAD)


def _mark_road(
    ground: Ground, axis: int, center: float, width: float, color: np.ndarray, crossings: list[tuple[float, float]]
) -> None:
    """Paint lane lines, more or less worn, and, at each crossing road, zebra stripes."""
    fresh = ground.rng.uniform(0.35, 1.0)
    half, white = width / 2, tuple(color + fresh * (np.array([215.0, 215.0, 210.0]) - color))
    yellow = tuple(color + fresh * (np.array([225.0, 190.0, 70.0]) - color))
    middle = yellow if ground.rng.random() < 0.5 else white
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
        walk = side * (half + WALK / 2)
        lanes += [Lane(axis, center + walk + s * 0.7, d, "walk", False) for s, d in ((-1, 1), (1, -1))]
    return lanes


def _curb_stalls(rng: np.random.Generator, axis: int, center: float, width: float) -> list[tuple[float, float, float]]:
    """Places along one edge of a road, half on the pavement, where cars are left."""
    side = rng.choice([-1, 1])
    across = center + side * (width / 2 + 1.1)
    stalls = []
    for along in np.arange(0, TOWN_SIZE, 6.2).tolist():
        heading = (0.0 if axis == 0 else np.pi / 2) + (np.pi if rng.random() < 0.3 else 0.0)
        stalls.append((along, across, heading) if axis == 0 else (across, along, heading))
    return stalls


def build_town(rng: np.random.Generator, max_height: float) -> Town:
    """Lay out one town; ``max_height`` in metres keeps its roofs below the drone."""
    ground = Ground(rng)
    vertical, horizontal = _road_lines(rng), _road_lines(rng)
    blocks = []
    for (x, width), (next_x, next_width) in zip(
        vertical, vertical[1:] + [(vertical[0][0] + TOWN_SIZE, vertical[0][1])], strict=True
    ):
        for (y, height), (next_y, next_height) in zip(
            horizontal, horizontal[1:] + [(horizontal[0][0] + TOWN_SIZE, horizontal[0][1])], strict=True
        ):
            bounds = (x + width / 2, y + height / 2, next_x - next_width / 2, next_y - next_height / 2)
            block = Block(ground, bounds, max_height)
            block.build()
            blocks.append(block)
    color = _asphalt(rng)
    roads = [(0, *road) for road in horizontal] + [(1, *road) for road in vertical]
    for axis, center, width in roads:
        _lay_road(ground, axis, center, width, color)
    for axis, center, width in roads:
        _mark_road(ground, axis, center, width, color, vertical if axis == 0 else horizontal)
    for x, width in vertical:
        for y, height in horizontal:
            ground.fill(x - width / 2, y - height / 2, x + width / 2, y + height / 2, color, ROAD)
    curb = [stall for road in roads if rng.random() < 0.4 for stall in _curb_stalls(rng, *road)]
    return Town(
        image=ground.texture(),
        classes=ground.classes,
        lanes=tuple(lane for axis, center, width in roads for lane in _lanes(axis, center, width, axis == 1)),
        crossings=tuple((x, y) for x, _ in vertical for y, _ in horizontal),
        lots=tuple(lot for block in blocks for lot in block.lots),
        trees=tuple(tree for block in blocks for tree in block.trees),
        fixtures=tuple(fixture for block in blocks for fixture in block.fixtures),
        stalls=np.array([s for block in blocks for s in block.stalls] + curb).reshape(-1, 3),
        berths=np.array([s for block in blocks for s in block.berths]).reshape(-1, 3),
        plazas=np.array([p for block in blocks for p in block.plazas]).reshape(-1, 2),
    )
