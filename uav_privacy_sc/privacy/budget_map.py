"""The region-aware privacy-budget map: an epsilon for every cell of the feature grid (P1 Eq. 8 to 12, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from types import MappingProxyType

import numpy as np

from .. import scene
from .domain import FloatArray, choice, positive

RULES = ("algorithm1", "eq11")

#: P1 Table 2; "people" is the table's "Person".
PUBLISHED_KAPPA = MappingProxyType(
    {
        "pedestrian": 1.00,
        "people": 1.00,
        "bicycle": 1.38,
        "car": 1.82,
        "van": 1.88,
        "truck": 1.72,
        "tricycle": 1.52,
        "awning-tricycle": 1.55,
        "bus": 1.95,
        "motor": 1.50,
    }
)
#: P1 section 3.2: s = 0.3 for the most privacy-sensitive classes, 1 for all others.
PUBLISHED_SENSITIVITY = MappingProxyType({name: 0.3 for name in scene.SENSITIVE_CLASSES})
#: Ours: P1 says "class-dependent expansion" without a number. Factors on box width and height.
OUR_EXPANSION = MappingProxyType({"pedestrian": 2.0, "people": 2.0})


@dataclass(frozen=True)
class BudgetMapConfig:
    """How the visual budget is spread over the grid.

    Attributes:
        rule: ``algorithm1`` takes the minimum with the background (so a car ends at kappa_bg); ``eq11`` gives an
            object's cells the budget of their class even where that is above the background's. Overlaps take the
            smallest budget.
        kappa: per-class coefficient (P1 Table 2); classes left out keep the published value.
        s: per-class factor (P1 Eq. 12): 0.3 for pedestrian and people, 1 for classes left out.
        kappa_ctx: factor of the context ring around sensitive objects (published 0.52).
        kappa_bg: factor of the background (published 1.12; the decoder gains from values far above it).
        epsilon_min: smallest budget of an object's cells (published 0.08).
        context_expansion: factor on width and height of a sensitive box (ours 2.0); a class named here with a factor
            above 1 gets a context ring.
    """

    rule: str = "algorithm1"
    kappa: Mapping[str, float] = field(default_factory=dict)
    s: Mapping[str, float] = field(default_factory=dict)
    kappa_ctx: float = 0.52
    kappa_bg: float = 1.12
    epsilon_min: float = 0.08
    context_expansion: Mapping[str, float] = field(default_factory=lambda: dict(OUR_EXPANSION))

    def __post_init__(self) -> None:
        choice("rule", self.rule, RULES)
        for name in ("kappa_ctx", "kappa_bg", "epsilon_min"):
            positive(name, getattr(self, name))
        for name in ("kappa", "s", "context_expansion"):
            table = dict(getattr(self, name))
            _check_table(name, table)
            object.__setattr__(self, name, MappingProxyType(table))
        small = [key for key, factor in self.context_expansion.items() if factor < 1]
        if small:
            value = self.context_expansion[small[0]]
            raise ValueError(f"context_expansion of {small[0]} must be at least 1, got {value}; 1 means no ring")

    @cached_property
    def class_factors(self) -> FloatArray:
        """``(10,)`` kappa_l * s_l in the order of ``scene.OBJECT_CLASSES``."""
        kappa = {**PUBLISHED_KAPPA, **self.kappa}
        s = {**PUBLISHED_SENSITIVITY, **self.s}
        return np.array([kappa[name] * s.get(name, 1.0) for name in scene.OBJECT_CLASSES])

    @cached_property
    def expansions(self) -> FloatArray:
        """``(10,)`` context expansion factors; 1 where a class has no context ring."""
        return np.array([self.context_expansion.get(name, 1.0) for name in scene.OBJECT_CLASSES])


@cache
def published() -> BudgetMapConfig:
    """Return P1's values."""
    return BudgetMapConfig()


def budget_map(
    objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, config: BudgetMapConfig | None = None
) -> FloatArray:
    """Return the epsilon of every cell of the feature grid (P1 Eq. 11 or Algorithm 1, lines 1 to 21).

    Args:
        objects: ``(M,)`` records of ``scene.OBJECT_DTYPE``. With detections the map, and with it the noise level on the
            air, shows where objects are (P1's way); with already released objects it is post-processing.
        grid_shape: ``(rows, columns)`` of the feature grid.
        epsilon_v: visual budget of this frame, above 0.
        config: factors and rule; P1's published values when left out.

    Returns:
        ``(rows, columns)`` float64, every entry above 0. Boxes without area cover nothing
        (:func:`degenerate_boxes` counts them).

    Raises:
        ValueError: epsilon_v out of range, or an object label outside the ten classes.
    """
    config = published() if config is None else config
    epsilon_v = float(positive("epsilon_v", epsilon_v))
    background = config.kappa_bg * epsilon_v
    epsilon = np.full(grid_shape, background)
    if not len(objects):
        return epsilon
    context, table = config.kappa_ctx * epsilon_v, np.maximum(config.class_factors * epsilon_v, config.epsilon_min)
    if config.rule == "algorithm1":
        context, table = min(context, background), np.minimum(table, background)
    labels = _labels(objects)
    levels = table[labels]
    rings = _context_rings(objects, config.expansions[labels])
    order = np.argsort(-levels, kind="stable")  # from the largest to the smallest: an overlap keeps the smallest
    painted = np.empty(len(rings) + len(objects), objects.dtype)
    painted[: len(rings)], painted[len(rings) :] = rings, objects[order]
    ranges = scene.grid_boxes(scene.corners(painted), grid_shape)
    _paint(epsilon, ranges, [context] * len(rings) + levels[order].tolist())
    return epsilon


def degenerate_boxes(objects: np.ndarray, grid_shape: tuple[int, int]) -> int:
    """Return how many objects cover no cell: zero or negative size, NaN, or wholly outside the image."""
    u1, v1, u2, v2 = scene.grid_boxes(scene.corners(objects), grid_shape).T
    return int(np.count_nonzero((u2 <= u1) | (v2 <= v1)))


def object_cells(objects: np.ndarray, values: FloatArray, reach: int = 0) -> FloatArray:
    """Return ``(M,)`` sums of ``values`` (rows, columns) over the cells that each object covers, and ``reach`` around.

    A box that covers nothing has nothing around it.
    """
    rows, columns = values.shape
    table = np.zeros((rows + 1, columns + 1))
    np.cumsum(np.cumsum(values, axis=0), axis=1, out=table[1:, 1:])
    u1, v1, u2, v2 = ranges = scene.grid_boxes(scene.corners(objects), (rows, columns)).T
    if reach:
        around = np.where((u2 > u1) & (v2 > v1), reach, 0)
        u1, v1 = np.maximum(ranges[:2] - around, 0)
        u2, v2 = np.minimum(ranges[2:] + around, [[columns], [rows]])
    return np.maximum(table[v2, u2] - table[v1, u2] - table[v2, u1] + table[v1, u1], 0.0)


def _context_rings(objects: np.ndarray, factor: FloatArray) -> np.ndarray:
    """Return the sensitive objects with expanded boxes; objects are painted over them, which leaves the ring."""
    ringed = factor > 1
    rings, factor = objects[ringed], factor[ringed]
    rings["w"] *= factor
    rings["h"] *= factor
    return rings


def _paint(epsilon: FloatArray, ranges: np.ndarray, levels: list[float]) -> None:
    """Write one level into the cells of every range, in order."""
    for (u1, v1, u2, v2), level in zip(ranges.tolist(), levels, strict=True):
        epsilon[v1:v2, u1:u2] = level


def _labels(objects: np.ndarray) -> np.ndarray:
    labels = objects["label"].astype(np.uint32)  # a negative label becomes a huge one
    last = len(scene.OBJECT_CLASSES) - 1
    if labels.max() > last:
        strange = objects["label"][labels > last][0]
        raise ValueError(f"label must be in 0..{last}, got {strange}; see scene.OBJECT_CLASSES")
    return labels


def _check_table(name: str, table: dict[str, float]) -> None:
    for key, value in table.items():
        choice(f"class of {name}", key, scene.OBJECT_CLASSES)
        positive(f"{name} of {key}", value)
