"""Blocks between the roads: houses, parks, car parks, squares, markets, builders' yards, fields."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.data.synthetic.bodies import Body
from uav_privacy_sc.data.synthetic.clutter import FIXTURES
from uav_privacy_sc.data.synthetic.ground import GROUND, ROAD, VEGETATION, Ground

#: Width in metres of the pavement around a block.
WALK = 3.0
Bounds = tuple[float, float, float, float]
_KINDS = {"built": 9, "park": 3, "parking": 3, "square": 2, "market": 2, "yard": 3, "field": 2}


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
class Fixture:
    """Something that stands about: its body, place in metres and heading in radians."""

    kind: str
    body: Body
    position: np.ndarray
    heading: float


class Block:
    """One block and what stands in it; ``max_height`` in metres keeps everything below the drone."""

    def __init__(self, ground: Ground, bounds: Bounds, max_height: float) -> None:
        self.ground, self.rng, self.bounds, self.max_height = ground, ground.rng, bounds, max_height
        self.lots: list[Lot] = []
        self.trees: list[Tree] = []
        self.fixtures: list[Fixture] = []
        self.stalls: list[tuple[float, float, float]] = []
        self.berths: list[tuple[float, float, float]] = []
        self.plazas: list[tuple[float, float]] = []

    def build(self) -> None:
        """Fill the block with one kind of use, chosen at random, and line it with trees and lamps."""
        names, shares = list(_KINDS), np.array(list(_KINDS.values()), float)
        kind = self.rng.choice(names, p=shares / shares.sum())
        x1, y1, x2, y2 = self.bounds
        paving = self.rng.uniform(120, 185) + self.rng.normal(0, 4, 3) * (1.0, 1.0, 1.6)
        self.ground.fill(x1, y1, x2, y2, paving, GROUND)
        inner = (x1 + WALK, y1 + WALK, x2 - WALK, y2 - WALK)
        getattr(self, f"_{kind}")(inner)
        self._line_with_trees()
        for x in np.arange(x1 + 8, x2 - 8, self.rng.uniform(22, 34)).tolist():
            for y, heading in ((y1 + 0.6, -np.pi / 2), (y2 - 0.6, np.pi / 2)):
                if self.max_height > 8:
                    self._stand("lamp" if self.rng.random() < 0.75 else "sign", x, y, heading)

    def _line_with_trees(self) -> None:
        x1, y1, x2, y2 = self.bounds
        share = self.rng.choice([0.0, 0.3, 0.5, 0.9])
        for x in np.arange(x1 + 5, x2 - 5, self.rng.uniform(6, 14)).tolist():
            for y in (y1 + WALK, y2 - WALK):
                if self.rng.random() < share:
                    self._tree(x, y)
        for y in np.arange(y1 + 8, y2 - 8, self.rng.uniform(6, 14)).tolist():
            for x in (x1 + WALK, x2 - WALK):
                if self.rng.random() < share:
                    self._tree(x, y)

    def _stand(self, kind: str, x: float, y: float, heading: float) -> None:
        self.fixtures.append(Fixture(kind, FIXTURES[kind](self.rng), np.array([x, y]), heading))

    def _scatter(self, inner: Bounds, kinds: tuple[str, ...], count: int) -> None:
        """Stand things of some kinds anywhere in a rectangle."""
        for x, y in self.rng.uniform(inner[:2], inner[2:], (count, 2)).tolist():
            self._stand(str(self.rng.choice(kinds)), x, y, self.rng.uniform(0, 2 * np.pi))

    def _grass(self, x1: float, y1: float, x2: float, y2: float) -> None:
        green = np.array([92, 118, 62]) * self.rng.uniform(0.65, 1.2) + self.rng.normal(0, 6, 3)
        self.ground.fill(x1, y1, x2, y2, green, VEGETATION)

    def _earth(self) -> np.ndarray:
        return np.array([172, 152, 122]) * self.rng.uniform(0.75, 1.12) + self.rng.normal(0, 6, 3)

    def _tree(self, x: float, y: float) -> None:
        green = np.array([66, 94, 46]) * self.rng.uniform(0.6, 1.4) + self.rng.normal(0, 7, 3)
        radius = self.rng.uniform(1.0, 3.4)
        height = min(self.rng.uniform(2.5, 9.0), self.max_height)
        self.trees.append(Tree(np.array([x, y]), radius, height, np.clip(green, 10, 220)))

    def _people_at(self, inner: Bounds, count: int) -> None:
        self.plazas += [tuple(p) for p in self.rng.uniform(inner[:2], inner[2:], (count, 2))]

    def _park_at_random(self, inner: Bounds, count: int) -> None:
        """Vehicles left in short rows, at the angle their drivers liked."""
        for x, y in self.rng.uniform(inner[:2], inner[2:], (count, 2)).tolist():
            heading = self.rng.uniform(0, 2 * np.pi)
            across = np.array([-np.sin(heading), np.cos(heading)])
            for k in range(self.rng.integers(1, 6)):
                place = np.array([x, y]) + across * k * 3.2
                if inner[0] < place[0] < inner[2] and inner[1] < place[1] < inner[3]:
                    self.berths.append((*place, heading + self.rng.normal(0, 0.08)))

    def _built(self, inner: Bounds) -> None:
        x1, y1, x2, y2 = inner
        if self.rng.random() < 0.6:
            self._grass(*inner)
        y = y1 + self.rng.uniform(1, 5)
        while y + 9 < y2:
            depth = min(self.rng.uniform(8, 20), y2 - y - 1)
            x = x1 + self.rng.uniform(1, 5)
            while x + 9 < x2:
                length = min(self.rng.uniform(9, 30), x2 - x - 1)
                if self.rng.random() < 0.75:
                    center, size = np.array([x + length / 2, y + depth / 2]), np.array([length, depth])
                    self.lots.append(Lot(center, size, self.rng.uniform(3.5, max(4.0, self.max_height))))
                else:
                    self._people_at((x, y, x + length, y + depth), 3)
                    self._tree(x + length / 2, y + depth / 2)
                    self._scatter((x, y, x + length, y + depth), ("shed", "wall", "stack", "parasol"), 1)
                x += length + self.rng.uniform(3, 9)
            y += depth + self.rng.uniform(5, 12)

    def _park(self, inner: Bounds) -> None:
        x1, y1, x2, y2 = inner
        self._grass(*inner)
        sand = self._earth()
        for _ in range(3):
            x, y = self.rng.uniform((x1, y1), (x2, y2))
            self.ground.fill(x, y1, min(x + 2.5, x2), y2, sand, GROUND)
            self.ground.fill(x1, y, x2, min(y + 2.5, y2), sand, GROUND)
        for _ in range(int((x2 - x1) * (y2 - y1) / self.rng.uniform(50, 200))):
            self._tree(*self.rng.uniform((x1, y1), (x2, y2)))
        self._people_at(inner, 14)
        self._scatter(inner, ("lamp", "sign", "parasol"), 3)

    def _parking(self, inner: Bounds) -> None:
        x1, y1, x2, y2 = inner
        self.ground.fill(*inner, self.rng.uniform(85, 150) + self.rng.normal(0, 3, 3), ROAD)
        for row in np.arange(y1 + 1, y2 - 5.5, 11.5).tolist():
            for x in np.arange(x1 + 1, x2 - 2.6, 2.7).tolist():
                self.ground.fill(x - 0.06, row, x + 0.06, row + 5, (220, 220, 215))
                self.stalls.append((x + 1.35, row + 2.5, float(np.pi / 2 * self.rng.choice([-1, 1]))))
        self._people_at(inner, 6)
        self._scatter(inner, ("lamp", "sign"), 2)

    def _square(self, inner: Bounds) -> None:
        x1, y1, x2, y2 = inner
        tile = np.array([172, 156, 142]) + self.rng.normal(0, 8, 3)
        for k, x in enumerate(np.arange(x1, x2, 4.0).tolist()):
            self.ground.fill(x, y1, min(x + 4, x2), y2, tile + 10 * (k % 2), GROUND)
        for _ in range(4):
            x, y = self.rng.uniform((x1, y1), (max(x2 - 9, x1 + 1), max(y2 - 6, y1 + 1)))
            self._grass(x, y, x + 8, y + 5)
            self._tree(x + 4, y + 2.5)
        self._people_at(inner, 26)
        self._scatter(inner, ("parasol", "sign", "stall"), 6)

    def _market(self, inner: Bounds) -> None:
        """Rows of stalls and parasols with people between them."""
        x1, y1, x2, y2 = inner
        floor = self._earth() if self.rng.random() < 0.4 else np.full(3, self.rng.uniform(120, 170))
        self.ground.fill(*inner, floor, GROUND)
        for y in np.arange(y1 + 3, y2 - 3, self.rng.uniform(6, 9)).tolist():
            for x in np.arange(x1 + 3, x2 - 3, self.rng.uniform(3.6, 5.5)).tolist():
                if self.rng.random() < 0.6:
                    self._stand("stall" if self.rng.random() < 0.7 else "parasol", x, y, self.rng.choice([0.0, np.pi]))
        self._people_at(inner, 30)

    def _yard(self, inner: Bounds) -> None:
        """Bare earth with building material, containers, sheds and vehicles at any angle."""
        self.ground.fill(*inner, self._earth(), GROUND)
        for _ in range(3):
            x, y = self.rng.uniform(inner[:2], inner[2:])
            self._grass(x, y, min(x + self.rng.uniform(3, 16), inner[2]), min(y + self.rng.uniform(3, 16), inner[3]))
        self._scatter(inner, ("heap", "stack", "container", "shed", "wall", "heap"), int(self.rng.integers(6, 22)))
        self._park_at_random(inner, int(self.rng.integers(4, 12)))
        self._people_at(inner, 6)

    def _field(self, inner: Bounds) -> None:
        """Crops in furrows, or fallow land."""
        x1, y1, x2, y2 = inner
        base = self._earth() if self.rng.random() < 0.5 else np.array([120, 128, 70]) * self.rng.uniform(0.7, 1.2)
        self.ground.fill(*inner, base, VEGETATION)
        for x in np.arange(x1, x2, self.rng.uniform(0.8, 2.4)).tolist():
            self.ground.fill(x, y1, x + 0.35, y2, base * 0.82)
        for _ in range(8):
            self._tree(*self.rng.uniform((x1, y1), (x2, y2)))
