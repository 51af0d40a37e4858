"""Location release: the grid exponential mechanism and planar Laplace noise (P1 Eq. 16 to 30, Algorithm 2).

Both are geo-indistinguishable: moving an object by a distance d changes no output's probability by more than a factor
``exp(epsilon_l d)``. The grid counts d in grid steps (L1), planar Laplace in units of ``1 / scale`` of the image (L2).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .domain import FloatArray, positive, whole

#: Planar Laplace releases are whole multiples of this in both axes (exact in float32), so low bits leak nothing.
LATTICE = 2.0**-20


def release_grid(
    centers: ArrayLike, epsilon_l: float, grid_size: int, rng: np.random.Generator
) -> tuple[FloatArray, NDArray[np.int32]]:
    """Release grid cells by the exponential mechanism with Manhattan distance (P1 Eq. 16 to 19).

    The weight ``exp(-epsilon_l/2 (|a - a_j| + |b - b_j|))`` is a product over the axes, so each axis is drawn alone:
    the same distribution as Eq. 18 over N^2 cells at the cost of 2N. A draw is a race of exponential clocks in log
    space, ``argmin(log E + epsilon_l/2 d)``, which no epsilon underflows.

    Args:
        centers: ``(M, 2)`` normalized centres; coordinates outside [0, 1] count as the nearest border cell.
        epsilon_l: budget for one grid step, above 0.
        grid_size: cells along each axis, N.
        rng: the generator of the location stream.

    Returns:
        ``(M, 2)`` float64 centres of the released cells, and ``(M,)`` int32 identifiers ``b N + a``.

    Raises:
        ValueError: epsilon_l or grid_size out of range, or a centre that is NaN or infinite.
    """
    epsilon_l, size = float(positive("epsilon_l", epsilon_l)), whole("grid_size", grid_size)
    reference = grid_cells(centers, size)
    distance = np.abs(np.arange(size) - reference[:, :, None])
    with np.errstate(divide="ignore"):  # a clock of exactly 0 wins, as it should
        race = np.log(rng.standard_exponential(distance.shape))
    race += epsilon_l / 2 * distance
    cells = np.argmin(race, axis=2)
    return (cells + 0.5) / size, (cells[:, 1] * size + cells[:, 0]).astype(np.int32)


def release_planar_laplace(centers: ArrayLike, epsilon_l: float, scale: float, rng: np.random.Generator) -> FloatArray:
    """Release centres with planar Laplace noise, clipped to the image (P1 Eq. 25 to 27).

    The radius is Gamma(2, 1/epsilon_l) in units; one unit is ``1 / scale`` of the image. True position and noise are
    rounded to :data:`LATTICE` apart from each other and then added, so the sum has no telling low bits.
    Rounding the position may add ``sqrt(2) * 2^-20`` of the image to a distance, and nothing else to the guarantee.

    Args:
        centers: ``(M, 2)`` normalized centres; coordinates outside [0, 1] are brought to the border first.
        epsilon_l: budget for one unit of distance, above 0.
        scale: s_c, units to the image side, above 0: per image side the budget is ``epsilon_l * scale``.
        rng: the generator of the location stream.

    Returns:
        ``(M, 2)`` float64 centres in [0, 1].

    Raises:
        ValueError: epsilon_l or scale out of range, or a centre that is NaN or infinite.
    """
    epsilon_l, scale = float(positive("epsilon_l", epsilon_l)), float(positive("scale", scale))
    centers = _finite_centers(centers)
    radius = rng.standard_gamma(2.0, len(centers))
    radius *= 1 / (epsilon_l * scale * LATTICE)
    angle = rng.random(len(centers))
    angle *= 2 * np.pi
    noise = np.empty_like(centers)
    np.multiply(radius, np.cos(angle), out=noise[:, 0])
    np.multiply(radius, np.sin(angle), out=noise[:, 1])
    steps = np.rint(_clamp(centers) * (1 / LATTICE))
    steps += np.rint(noise)
    return _clamp(steps * LATTICE)


def grid_cells(centers: ArrayLike, grid_size: int) -> NDArray[np.int64]:
    """Return the ``(M, 2)`` reference cells ``(a, b)`` of normalized centres (P1 Eq. 16, with x = 1 in the last cell).

    Raises:
        ValueError: a centre that is NaN or infinite.
    """
    centers = _finite_centers(centers)
    return np.floor(centers.clip(0.0, 1.0) * grid_size).astype(np.int64).clip(0, grid_size - 1)


def grid_expected_error(epsilon_l: ArrayLike, grid_size: int) -> Any:
    """Return the mean Euclidean distance between an object and its released cell centre.

    Exact for an object uniform over the image: displacement along each axis is ``(k + U) / N`` with ``k`` the truncated
    two-sided geometric step and ``U`` uniform in [-1/2, 1/2] (quantization), and the axes are independent.

    Args:
        epsilon_l: budget for one grid step, above 0; any shape.
        grid_size: cells along each axis, N.

    Returns:
        Normalized distance, a float for a scalar, else float64 of the shape of ``epsilon_l``.

    Raises:
        ValueError: a parameter out of its range.
    """
    epsilon, size = positive("epsilon_l", epsilon_l), whole("grid_size", grid_size)
    steps = _axis_steps(epsilon.ravel(), size)
    error = ((steps @ _cell_distances(size)) * steps).sum(axis=1) / size
    return error.reshape(epsilon.shape)[()]


def planar_laplace_expected_error(epsilon_l: ArrayLike, scale: float) -> Any:
    """Return the mean Euclidean displacement of planar Laplace noise, ``2 / (epsilon_l scale)``.

    This is the mean before clipping to the image. Clipping projects onto a convex set that holds the true centre, so it
    only ever shortens the error: the value is an upper bound, tight where the noise is small against the image, and at
    most sqrt(2) in truth where this formula exceeds it.

    Args:
        epsilon_l: budget for one unit of distance, above 0; any shape.
        scale: s_c, units to the image side, above 0.

    Returns:
        Normalized distance, a float for a scalar, else float64 of the shape of ``epsilon_l``.

    Raises:
        ValueError: a parameter out of its range.
    """
    return (2.0 / (positive("epsilon_l", epsilon_l) * positive("scale", scale)))[()]


def grid_step_epsilon(epsilon_l: float, grid_size: int) -> float:
    """Return the pure epsilon that one grid step really costs: the exact worst log ratio between neighbouring cells.

    P1's proof (Eq. 20) allows ``epsilon_l``. The truth is near that for small budgets only: on 16 cells it is
    0.92 of it at epsilon_l = 0.1, 0.71 at 1 and 0.53 at 4, as the normalizations of neighbours come to agree.

    Raises:
        ValueError: a parameter out of its range.
    """
    return float(np.abs(np.diff(_axis_log_probability(epsilon_l, grid_size), axis=0)).max(initial=0.0))


def grid_replacement_epsilon(epsilon_l: float, grid_size: int) -> float:
    """Return the pure epsilon of the grid mechanism when an object may be anywhere instead: the exact worst log ratio.

    P1's Eq. 20 allows ``2 (N - 1) epsilon_l``; the truth is half of that.

    Raises:
        ValueError: a parameter out of its range.
    """
    return float(2 * np.ptp(_axis_log_probability(epsilon_l, grid_size), axis=0).max())


def planar_laplace_replacement_epsilon(epsilon_l: float, scale: float) -> float:
    """Return the pure epsilon of planar Laplace when an object may be anywhere instead: the image's diagonal.

    Raises:
        ValueError: a parameter out of its range.
    """
    return float(np.sqrt(2.0) * positive("epsilon_l", epsilon_l) * positive("scale", scale))


def _axis_log_probability(epsilon_l: float, grid_size: int) -> FloatArray:
    """Return ``(N, N)`` log probabilities [reference, released] of P1 Eq. 18 along one axis."""
    epsilon, size = float(positive("epsilon_l", epsilon_l)), whole("grid_size", grid_size)
    steps = np.arange(size)
    weights = -epsilon / 2 * np.abs(steps[:, None] - steps)
    return weights - np.log(np.exp(weights).sum(axis=1, keepdims=True))


def _axis_steps(epsilon: FloatArray, size: int) -> FloatArray:
    """Return ``(E, N)`` probabilities of |released - reference| = k along one axis, reference uniform over N cells."""
    power = np.exp(-epsilon[:, None] / 2 * np.arange(size))
    partial = np.cumsum(power, axis=1)
    normalizer = partial + partial[:, ::-1] - 1  # of reference cell a: steps to its left and right, itself once
    occurring = np.cumsum(1 / normalizer, axis=1)[:, ::-1]  # sum over the a that have a cell k to their right
    steps = power * occurring / size
    steps[:, 1:] *= 2
    return steps


@lru_cache(maxsize=16)
def _cell_distances(size: int) -> FloatArray:
    """Return ``(N, N)`` mean distances from a point to a uniform point in the unit cell k, l steps away."""
    edges = np.arange(size + 1) - 0.5
    x, y = edges[:, None], edges[None, :]
    radius = np.hypot(x, y)
    integral = x * y * radius / 3 + (x**3 * np.arcsinh(y / np.abs(x)) + y**3 * np.arcsinh(x / np.abs(y))) / 6
    return integral[1:, 1:] - integral[:-1, 1:] - integral[1:, :-1] + integral[:-1, :-1]


def _clamp(values: FloatArray) -> FloatArray:
    return np.minimum(np.maximum(values, 0.0), 1.0)


def _finite_centers(centers: ArrayLike) -> FloatArray:
    array = np.asarray(centers, np.float64).reshape(-1, 2)
    if not np.isfinite(array).all():
        raise ValueError("centers hold NaN or infinity; drop the object or the frame")
    return array
