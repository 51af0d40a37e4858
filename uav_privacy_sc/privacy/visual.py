"""Visual release: clip every cell's feature vector and add Gaussian noise (P1 Eq. 13 to 15, Algorithm 1).

A mechanism is an object with two methods, registered under a name (:func:`register`); configuration, accounting and the
rest of the pipeline know it by that name only::

    @register("my_mechanism")
    class MyMechanism(CellGaussian):
        def allocate(self, objects, grid_shape, epsilon_v, map_config):
            return np.full(grid_shape, epsilon_v / 2)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from . import lattice
from .budget_map import BudgetMapConfig, budget_map, object_cells, published
from .calibration import METHODS, gaussian_sigma
from .domain import FloatArray, choice, positive, probability, whole
from .normal import Clip, add_noise

MAP_SOURCES = ("detections", "released")

_FLOAT32_STEP = float(np.finfo(np.float32).eps)
_LEAST_CLIP = 1e-12  # squares of shorter float32 vectors would underflow
_TABLE_FROM, _TABLE_TO, _KNOTS_PER_LOG = 1e-4, 1e3, 1000
_TABLE_MARGIN = 4e-7  # above the error of linear interpolation between knots, about 1e-3^2 / 8


@dataclass(frozen=True)
class VisualConfig:
    """How features are released.

    Attributes:
        mechanism: a registered name: ``none``, ``uniform``, ``region_aware`` and those added since.
        c_clip: L2 bound of every cell's vector (published 1.0).
        delta: failure probability of a cell's release (published 1e-5).
        calibration: ``analytic``, or ``classical`` (P1 Eq. 15, wrong from epsilon 1 on).
        lattice_step: None for float output, or a power of two: outputs are whole multiples of it within int16.
        map_source: whether the budget map is built from ``detections`` (P1; shows where objects are) or from what the
            location mechanism has ``released`` (post-processing). Read by the caller who holds both.
        channels: C, which the matrix mechanisms need to know; others take any.
        undetected_cells: an object is charged at least what one of so many cells, and what it reaches around them,
            would be where cells cost most, so that a frame in which the detector saw nobody is not free; 0 trusts the
            detector.
        reach_cells: how far beyond its box an object changes features, in cells: an encoder's receptive field. It is
            counted, not protected; 0 is P1's unit, the cells of the box.
        channel_weights: utility weights P_1i of the channels for the matrix mechanisms; empty for equal ones.
    """

    mechanism: str = "region_aware"
    c_clip: float = 1.0
    delta: float = 1e-5
    calibration: str = "analytic"
    lattice_step: float | None = None
    map_source: str = "detections"
    channels: int = 16
    channel_weights: tuple[float, ...] = ()
    undetected_cells: int = 1
    reach_cells: int = 0

    def __post_init__(self) -> None:
        choice("mechanism", self.mechanism, mechanisms())
        choice("calibration", self.calibration, METHODS)
        choice("map_source", self.map_source, MAP_SOURCES)
        if not _LEAST_CLIP <= positive("c_clip", self.c_clip) <= 1 / _LEAST_CLIP:
            raise ValueError(f"c_clip must lie in 1e-12 to 1e12, got {self.c_clip}; take another unit for the features")
        probability("delta", self.delta)
        if self.lattice_step is not None:
            lattice.check_step(self.lattice_step)
        whole("channels", self.channels)
        whole("undetected_cells", self.undetected_cells, 0)
        whole("reach_cells", self.reach_cells, 0)
        object.__setattr__(self, "channel_weights", tuple(self.channel_weights))
        positive("channel_weights", self.channel_weights)
        if len(self.channel_weights) not in (0, self.channels):
            raise ValueError(f"channel_weights must be none or {self.channels}, got {len(self.channel_weights)}")

    @property
    def missed_cells(self) -> int:
        """How many cells a missed object changes: any rectangle of ``undetected_cells`` and what it reaches around it.

        Of rectangles with as many cells, the one in a row has the longest rim.
        """
        rim = 2 * self.reach_cells
        return (1 + rim) * (self.undetected_cells + rim) if self.undetected_cells else 0

    @property
    def sensitivity(self) -> float:
        """L2 sensitivity of a cell under replacement: two vectors of norm c_clip are at most 2 c_clip apart."""
        return 2.0 * self.c_clip


class VisualMechanism(Protocol):
    """What a visual mechanism must offer."""

    def allocate(
        self, objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, map_config: BudgetMapConfig
    ) -> FloatArray:
        """Return the ``(rows, columns)`` epsilon of every cell."""

    def release(
        self, features: NDArray[np.float32], epsilon_map: FloatArray, config: VisualConfig, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return protected ``(C, rows, columns)`` float32 features; the input is finite and stays unchanged."""

    def mu_map(self, epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
        """Return the Gaussian DP parameter of every cell, as the noise really gives it."""


_MECHANISMS: dict[str, VisualMechanism] = {}


def register(name: str) -> Callable[[type], type]:
    """Class decorator: make a visual mechanism known under ``name``."""

    def add(mechanism: type) -> type:
        _MECHANISMS[name] = mechanism()
        return mechanism

    return add


def mechanisms() -> tuple[str, ...]:
    """Return the names of all registered visual mechanisms."""
    return tuple(_MECHANISMS)


def allocate(
    objects: np.ndarray,
    grid_shape: tuple[int, int],
    epsilon_v: float,
    config: VisualConfig,
    map_config: BudgetMapConfig | None = None,
) -> FloatArray:
    """Return the ``(rows, columns)`` epsilon map that the configured mechanism uses for this frame.

    Raises:
        ValueError: epsilon_v out of range.
    """
    epsilon_v = float(positive("epsilon_v", epsilon_v))
    return _MECHANISMS[config.mechanism].allocate(objects, grid_shape, epsilon_v, map_config or published())


def release(
    features: NDArray[np.float32], epsilon_map: FloatArray, config: VisualConfig, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return the protected feature tensor (P1 Algorithm 1, lines 22 to 27).

    Args:
        features: ``(C, rows, columns)``, finite; converted to float32 and never changed.
        epsilon_map: ``(rows, columns)`` from :func:`allocate`, every entry above 0 (infinity for ``none``).
        config: mechanism, clip, delta, calibration, lattice.
        rng: the generator of the visual stream.

    Returns:
        ``(C, rows, columns)`` float32; multiples of ``config.lattice_step`` where one is set.

    Raises:
        ValueError: wrong shape, a NaN or infinite feature, an epsilon that is NaN or not above 0.
    """
    features = np.asarray(features, np.float32)
    epsilon_map = np.asarray(epsilon_map, np.float64)
    if features.ndim != 3 or features.shape[1:] != epsilon_map.shape:
        raise ValueError(f"features must be (C, rows, columns) over a map of {epsilon_map.shape}, got {features.shape}")
    return _MECHANISMS[config.mechanism].release(features, epsilon_map, config, rng)


@dataclass(frozen=True)
class VisualCost:
    """What one visual release costs, as Gaussian DP parameters (mu); infinity where nothing protects.

    Attributes:
        cell: worst single cell.
        object: worst object, all the cells it covers together; at least one that was missed.
        frame: all cells together: bounds any change within one frame, detected or not.
        objects: ``(M,)`` one mu for every object given.
    """

    cell: float
    object: float
    frame: float
    objects: FloatArray


def cost(epsilon_map: FloatArray, objects: np.ndarray, config: VisualConfig) -> VisualCost:
    """Return what releasing under ``epsilon_map`` costs, composed over the true cells of ``objects``.

    Independent Gaussian releases compose by the root of summed squares (Dong et al. 2022, Corollary 2). ``objects`` are
    the detections, whatever the map was built from: what counts is where people are, not where the map thinks they are.
    The result depends on private positions and sizes; it is for the ledger on board, not for the air.
    """
    mu = _MECHANISMS[config.mechanism].mu_map(np.asarray(epsilon_map, np.float64), config)
    if not np.isfinite(mu).all():
        return VisualCost(np.inf, np.inf, np.inf, np.full(len(objects), np.inf))
    per_object = np.sqrt(object_cells(objects, mu**2, config.reach_cells))
    unseen = float(mu.max()) * np.sqrt(min(config.missed_cells, mu.size))
    return VisualCost(
        cell=float(mu.max()),
        object=float(per_object.max(initial=unseen)),
        frame=float(np.sqrt(np.sum(mu**2))),
        objects=per_object,
    )


def clip_scale(features: NDArray[np.float32], c_clip: float) -> NDArray[np.float32]:
    """Return ``(rows, columns)`` factors in (0, 1] that bring every cell's vector to norm at most ``c_clip`` (P1 Eq.
    13).

    The factor is short by the worst rounding error of the float32 norm, so that the bound holds after multiplication.

    Raises:
        ValueError: a NaN or infinite feature.
    """
    squares = np.einsum("chw,chw->hw", features, features)
    if not squares.max(initial=0.0) < np.inf:  # NaN, infinity, or a finite value whose square overflows
        if not np.isfinite(features).all():
            raise ValueError("features hold NaN or infinity; drop the frame")
        squares = np.einsum("chw,chw->hw", features, features, dtype=np.float64)
    norm = np.sqrt(squares) * (1 + (len(features) + 8) * _FLOAT32_STEP)
    exact = c_clip / np.maximum(norm, c_clip)
    scale = exact.astype(np.float32, copy=False)
    if scale is not exact:  # huge norms make factors so small that rounding them up would matter
        np.copyto(scale, np.nextafter(scale, np.float32(0)), where=scale > exact)
    return scale


def sigma_map(epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
    """Return the ``(rows, columns)`` noise deviation of every cell.

    Analytic deviations are interpolated in a table over log epsilon and rounded up: at most 1e-6 above the exact value,
    never below it. Outside the table each distinct epsilon is solved for.

    Raises:
        ValueError: an epsilon that is NaN, infinite or not above 0.
    """
    low, high = float(epsilon_map.min()), float(epsilon_map.max())
    if config.calibration == "analytic" and low >= _TABLE_FROM and high <= _TABLE_TO:
        values, slopes = _sigma_table(config.delta, config.sensitivity)
        position = (np.log(epsilon_map) - np.log(_TABLE_FROM)) * _KNOTS_PER_LOG
        knot = position.astype(np.intp)
        return values[knot] + (position - knot) * slopes[knot]
    distinct, inverse = np.unique(epsilon_map, return_inverse=True)
    positive("epsilon_map", distinct)
    sigma = gaussian_sigma(distinct, config.delta, config.sensitivity, config.calibration)
    return sigma[inverse].reshape(epsilon_map.shape)


@lru_cache(maxsize=8)
def _sigma_table(delta: float, sensitivity: float) -> tuple[FloatArray, FloatArray]:
    """Return deviations at evenly spaced log epsilons and their differences, one knot beyond the end."""
    knots = int(np.ceil(np.log(_TABLE_TO / _TABLE_FROM) * _KNOTS_PER_LOG)) + 2
    epsilon = _TABLE_FROM * np.exp(np.arange(knots) / _KNOTS_PER_LOG)
    values = gaussian_sigma(epsilon, delta, sensitivity) * (1 + _TABLE_MARGIN)
    return values, np.diff(values, append=values[-1])


def add_gaussian(
    features: NDArray[np.float32], clip: Clip, sigma: FloatArray, config: VisualConfig, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return the features clipped and with Gaussian noise of deviation ``sigma``, on the lattice where one is set."""
    if config.lattice_step is None:
        return add_noise(features, clip, sigma, rng)
    return lattice.release(features, clip, sigma, config.lattice_step, config.c_clip, rng)


class CellGaussian:
    """Independent Gaussian noise for every cell; subclasses say how the budget is spread."""

    def release(
        self, features: NDArray[np.float32], epsilon_map: FloatArray, config: VisualConfig, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Clip and add noise (P1 Eq. 13 to 15)."""
        sigma = sigma_map(epsilon_map, config)
        scale = clip_scale(features, config.c_clip)
        return add_gaussian(features, lambda block: block * scale, sigma, config, rng)

    def mu_map(self, epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
        """Return sensitivity / sigma of every cell."""
        return config.sensitivity / sigma_map(epsilon_map, config)


@register("region_aware")
class RegionAware(CellGaussian):
    """P1's mechanism: small budgets where people are, larger ones elsewhere."""

    def allocate(
        self, objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, map_config: BudgetMapConfig
    ) -> FloatArray:
        """Return the region-aware map."""
        return budget_map(objects, grid_shape, epsilon_v, map_config)


@register("uniform")
class Uniform(CellGaussian):
    """P1's baseline: the same budget epsilon_v in every cell."""

    def allocate(
        self, objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, map_config: BudgetMapConfig
    ) -> FloatArray:
        """Return a constant map."""
        return np.full(grid_shape, epsilon_v)


@register("none")
class NoProtection:
    """P1's reference without protection: features go out as they are, at infinite cost."""

    def allocate(
        self, objects: np.ndarray, grid_shape: tuple[int, int], epsilon_v: float, map_config: BudgetMapConfig
    ) -> FloatArray:
        """Return an infinite budget everywhere."""
        return np.full(grid_shape, np.inf)

    def release(
        self, features: NDArray[np.float32], epsilon_map: FloatArray, config: VisualConfig, rng: np.random.Generator
    ) -> NDArray[np.float32]:
        """Return a copy; NaN and infinity are still refused."""
        if not np.isfinite(features).all():
            raise ValueError("features hold NaN or infinity; drop the frame")
        return features.copy()

    def mu_map(self, epsilon_map: FloatArray, config: VisualConfig) -> FloatArray:
        """Return infinity everywhere."""
        return np.full(epsilon_map.shape, np.inf)
