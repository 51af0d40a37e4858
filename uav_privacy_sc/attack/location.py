"""Attackers on one released place: maximum likelihood, and Bayes with a prior of where streets are.

Both know the mechanism's exact likelihood. Grid: P1 Eq. 18. Planar Laplace: the density of Eq. 25 inside the image,
and on its border, where the release is clipped (Eq. 27), the integral of all that was brought there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import gaussian_filter

from uav_privacy_sc import scene
from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.privacy import location
from uav_privacy_sc.privacy.domain import FloatArray, choice, positive, whole
from uav_privacy_sc.release import Budgets

#: How a posterior becomes a point: the likelihood's peak, the posterior's peak, and what minimizes the expected squared
#: distance (mean) or the expected distance (median: the geometric median, Weiszfeld 1937).
ESTIMATORS = ("ml", "map", "mean", "median")

#: Places so far below the best, in log posterior, are left out when a lattice narrows.
NATS = 15.0

_PEAK_LEVELS = 5  # windows in search of the likelihood's peak, each a twelfth of the one before
_SIZE = 48  # points of a lattice window along each axis
_IMPOSSIBLE = 1e-12  # least weight of a prior's cell, so that a lattice that misses narrow streets has a best place
_NODES, _WEIGHTS = (half / 2 for half in np.polynomial.legendre.leggauss(48))
_NODES = _NODES + 0.5  # Gauss-Legendre on [0, 1]


@dataclass(frozen=True)
class StreetPrior:
    """Where objects are before anything is heard: ``weights`` (rows, columns) over the image, summing to 1.

    Raises:
        ValueError: weights that are negative, not finite, or all zero.
    """

    weights: FloatArray

    def __post_init__(self) -> None:
        weights = np.asarray(self.weights, np.float64)
        if weights.ndim != 2 or not (np.isfinite(weights).all() and weights.min(initial=0) >= 0 and weights.sum() > 0):
            raise ValueError(f"weights of shape {weights.shape} must be a (rows, columns) table of numbers from 0 on")
        object.__setattr__(self, "weights", weights / weights.sum())

    @classmethod
    def uniform(cls, resolution: int = 64) -> StreetPrior:
        """Return the prior of somebody who knows nothing."""
        return cls(np.ones((resolution, resolution)))

    @classmethod
    def from_centers(
        cls, centers: ArrayLike, resolution: int = 64, smoothing: float = 1.0, floor: float = 0.02
    ) -> StreetPrior:
        """Return the density of ``(M, 2)`` centres of public layouts, smoothed by a Gaussian of ``smoothing`` cells.

        ``floor`` is the share that is spread evenly, so that no place is impossible.
        """
        points = np.asarray(centers, np.float64).reshape(-1, 2)
        cells = location.grid_cells(points, whole("resolution", resolution))
        counts = np.bincount(cells[:, 1] * resolution + cells[:, 0], minlength=resolution**2) * 1.0
        smooth = gaussian_filter(counts.reshape(resolution, resolution), smoothing, mode="nearest")
        even = 1 / smooth.size
        return cls((1 - floor) * smooth / max(smooth.sum(), even) + floor * even)

    @classmethod
    def from_mask(cls, road: NDArray[np.bool_], resolution: int = 64, floor: float = 0.1) -> StreetPrior:
        """Return the prior of an eavesdropper who decoded where the road is: ``road`` ``(h, w)`` bool."""
        rows, columns = np.nonzero(road)
        centers = np.stack([(columns + 0.5) / road.shape[1], (rows + 0.5) / road.shape[0]], axis=1)
        return cls.from_centers(centers, resolution, 0.5, floor)

    def log_density(self, points: FloatArray) -> FloatArray:
        """Return the log density, up to a constant, at ``(..., 2)`` points; a place is never wholly impossible."""
        rows, columns = self.weights.shape
        u = np.minimum((points[..., 0] * columns).astype(np.intp), columns - 1)
        v = np.minimum((points[..., 1] * rows).astype(np.intp), rows - 1)
        return np.log(np.maximum(self.weights, _IMPOSSIBLE))[v, u]

    def draw(self, number: int, rng: np.random.Generator) -> FloatArray:
        """Return ``(number, 2)`` centres drawn from it."""
        rows, columns = self.weights.shape
        cells = rng.choice(self.weights.size, number, p=self.weights.ravel())
        return (np.stack([cells % columns, cells // columns], axis=1) + rng.random((number, 2))) / [columns, rows]


@dataclass(frozen=True)
class Posterior:
    """Probabilities ``(len(y), len(x))`` on a lattice of places with coordinates ``x`` and ``y``."""

    x: FloatArray
    y: FloatArray
    probability: FloatArray

    @property
    def points(self) -> FloatArray:
        """``(len(y) len(x), 2)`` places of the lattice, x fastest."""
        return lattice_points(self.x, self.y)

    def mean(self) -> FloatArray:
        """Return the place of least expected squared distance."""
        return np.array([self.probability.sum(axis=0) @ self.x, self.probability.sum(axis=1) @ self.y])

    def median(self, iterations: int = 30) -> FloatArray:
        """Return the place of least expected distance, by Weiszfeld's iteration with a smoothed kink."""
        point, smooth = self.mean(), 0.01 * (abs(self.x[1] - self.x[0]) + abs(self.y[1] - self.y[0]))
        for _ in range(iterations):
            weight = self.probability / self._distance(point, smooth)
            point = np.array([weight.sum(axis=0) @ self.x, weight.sum(axis=1) @ self.y]) / weight.sum()
        return point

    def best(self) -> FloatArray:
        """Return the most probable place of the lattice."""
        row, column = np.unravel_index(np.argmax(self.probability), self.probability.shape)
        return np.array([self.x[column], self.y[row]])

    def expected_error(self, point: FloatArray) -> float:
        """Return the expected distance of ``point``, as the attacker itself reckons it."""
        return float((self.probability * self._distance(point)).sum())

    def cell(self, grid_size: int) -> NDArray[np.int64]:
        """Return the most probable cell ``(a, b)`` of an N x N grid."""
        cells = location.grid_cells(self.points, grid_size)
        mass = np.bincount(cells[:, 1] * grid_size + cells[:, 0], self.probability.ravel(), grid_size**2)
        return np.array([mass.argmax() % grid_size, mass.argmax() // grid_size])

    def estimate(self, estimator: str) -> FloatArray:
        """Return the point that one of :data:`ESTIMATORS` makes of it."""
        return {"ml": self.best, "map": self.best, "mean": self.mean, "median": self.median}[estimator]()

    def _distance(self, point: FloatArray, smooth: float = 0.0) -> FloatArray:
        squares = (self.y[:, None] - point[1]) ** 2 + (self.x - point[0]) ** 2
        return np.sqrt(squares + smooth**2)


@dataclass(frozen=True)
class LocationGuess:
    """What an attacker says of M objects, or of one object in M frames.

    ``points`` ``(M, 2)`` estimates, ``cells`` ``(M, 2)`` most probable cells ``(a, b)``, ``expected_error`` ``(M,)`` by
    the attacker's own reckoning; without meaning for ``ml``, which has no posterior.
    """

    points: FloatArray
    cells: NDArray[np.int64]
    expected_error: FloatArray


@dataclass(frozen=True)
class LocationScore:
    """Distances ``(M,)`` (normalized) and cell hits ``(M,)`` of a guess, and the same of a blind one from the prior."""

    error: FloatArray
    hit: NDArray[np.bool_]
    blind_error: FloatArray
    blind_hit: NDArray[np.bool_]


def score(guess: LocationGuess, truth: ArrayLike, grid_size: int, prior: StreetPrior | None = None) -> LocationScore:
    """Compare a guess with the ``(M, 2)`` true centres, and with what the prior alone would have guessed."""
    truth = np.asarray(truth, np.float64).reshape(-1, 2)
    blind, cells = blind_guess(prior or StreetPrior.uniform(), grid_size), location.grid_cells(truth, grid_size)
    return LocationScore(
        np.linalg.norm(guess.points - truth, axis=1),
        (guess.cells == cells).all(axis=1),
        np.linalg.norm(blind.points - truth, axis=1),
        (blind.cells == cells).all(axis=1),
    )


def blind_guess(prior: StreetPrior, grid_size: int = 16) -> LocationGuess:
    """Return the guess ``(1, 2)`` of somebody who hears nothing: the prior's median and its best cell."""
    rows, columns = prior.weights.shape
    return _guess([Posterior(middles(columns), middles(rows), prior.weights)], grid_size, "median")


def log_likelihood(released: FloatArray, candidates: FloatArray, budgets: Budgets) -> FloatArray:
    """Return ``(T, K)`` log likelihoods of ``(T, 2)`` released places for ``(K, 2)`` candidates.

    Up to a constant for each released place. Grid: P1 Eq. 18 over the cells of the candidates.
    """
    if budgets.location_branch == "grid":
        size, table = budgets.grid_size, axis_log_probability(budgets.epsilon_l, budgets.grid_size)
        heard, true = location.grid_cells(released, size), location.grid_cells(candidates, size)
        across, down = (table[true[None, :, axis], heard[:, None, axis]] for axis in (0, 1))
        return across + down
    rate = budgets.epsilon_l * budgets.location_scale
    offset = np.abs(candidates[None] - released[:, None])
    result = -rate * np.hypot(offset[..., 0], offset[..., 1])
    clipped = (released <= 0.0) | (released >= 1.0)
    for row in np.flatnonzero(clipped.any(axis=1)):
        if clipped[row].all():
            result[row] = _corner(offset[row, :, 0], offset[row, :, 1], rate)
        else:
            axis = int(clipped[row, 1])
            result[row] = _edge(offset[row, :, axis], offset[row, :, 1 - axis], rate)
    return result


@lru_cache(maxsize=64)
def axis_log_probability(epsilon_l: float, grid_size: int) -> FloatArray:
    """Return ``(N, N)`` log probabilities [true, released] of P1 Eq. 18 along one axis."""
    size = whole("grid_size", grid_size)
    steps = np.arange(size)
    weights = -float(positive("epsilon_l", epsilon_l)) / 2 * np.abs(steps[:, None] - steps)
    return weights - np.log(np.exp(weights).sum(axis=1, keepdims=True))


def _edge(away: FloatArray, along: FloatArray, rate: float) -> FloatArray:
    """Return log of the integral over t >= ``away`` of ``exp(-rate hypot(t, along))``: what was clipped to an edge."""
    nearest = np.hypot(away, along)
    stretch = 1 / rate + np.sqrt(along / rate)
    step = _NODES[:, None] / (1 - _NODES[:, None]) * stretch
    value = np.exp(-rate * (np.hypot(away + step, along) - nearest)) * stretch / (1 - _NODES[:, None]) ** 2
    return -rate * nearest + np.log(_WEIGHTS @ value)


def _corner(across: FloatArray, down: FloatArray, rate: float) -> FloatArray:
    """Return log of the mass that was clipped to a corner: over the angle, the gamma tail from the border outwards."""
    nearest, split = np.hypot(across, down), np.arctan2(down, across)
    total = np.zeros_like(nearest)
    for low, high, side, shape in ((0.0, split, down, np.sin), (split, np.pi / 2, across, np.cos)):
        angle = low + (high - low) * _NODES[:, None]
        radius = np.maximum(side / shape(angle), nearest)
        total += (high - low) * (_WEIGHTS @ ((1 + rate * radius) * np.exp(-rate * (radius - nearest))))
    return -rate * nearest + np.log(total)


def lattice_points(x: FloatArray, y: FloatArray) -> FloatArray:
    """Return ``(len(y) len(x), 2)`` places of a lattice, x fastest."""
    return np.stack(np.meshgrid(x, y), axis=2).reshape(-1, 2)


def normalized(log_weights: FloatArray) -> FloatArray:
    """Return probabilities of unnormalized logs."""
    weights = np.exp(log_weights - log_weights.max())
    return weights / weights.sum()


def posterior(released: ArrayLike, budgets: Budgets, prior: StreetPrior, levels: int = 3) -> Posterior:
    """Return the posterior of an object that stood still while ``(T, 2)`` places were released, each on its own.

    A lattice over the image narrows in ``levels`` steps to where the mass is. On the grid branch it stays whole: the
    likelihood is even within a cell.
    """
    released = np.asarray(released, np.float64).reshape(-1, 2)
    return narrow(lambda points: log_likelihood(released, points, budgets).sum(axis=0), budgets, prior, levels)


def narrow(
    log_likelihood_of: Callable[[FloatArray], FloatArray], budgets: Budgets, prior: StreetPrior, levels: int = 3
) -> Posterior:
    """Return the posterior for a function from ``(K, 2)`` places to their ``(K,)`` log likelihoods."""
    gridded = budgets.location_branch == "grid"
    size = grid_lattice(budgets.grid_size) if gridded else _SIZE
    low, high = np.zeros(2), np.ones(2)
    for level in range(1 if gridded else levels):
        x, y = (low[axis] + (high - low)[axis] * middles(size) for axis in (0, 1))
        points = lattice_points(x, y)
        logs = log_likelihood_of(points) + prior.log_density(points)
        if level + 1 < levels:
            kept, reach = points[logs > logs.max() - NATS], 2 * (high - low) / size
            low, high = np.maximum(kept.min(axis=0) - reach, 0.0), np.minimum(kept.max(axis=0) + reach, 1.0)
    return Posterior(x, y, normalized(logs).reshape(size, size))


def most_likely(released: ArrayLike, budgets: Budgets) -> Posterior:
    """Return a fine lattice around the place that best explains ``(T, 2)`` releases of an object that stood still.

    Planar Laplace inside the image: the geometric median of the releases, which for one is the release itself.
    """
    released = np.asarray(released, np.float64).reshape(-1, 2)
    gridded = budgets.location_branch == "grid"
    size = budgets.grid_size if gridded else _SIZE
    low, high = np.zeros(2), np.ones(2)
    for _ in range(1 if gridded else _PEAK_LEVELS):
        x, y = (low[axis] + (high - low)[axis] * middles(size) for axis in (0, 1))
        points = lattice_points(x, y)
        logs = log_likelihood(released, points, budgets).sum(axis=0)
        best, reach = points[logs.argmax()], 2 * (high - low) / size
        low, high = np.maximum(best - reach, 0.0), np.minimum(best + reach, 1.0)
    return Posterior(x, y, normalized(logs).reshape(size, size))


def locate(
    released: ArrayLike, budgets: Budgets, prior: StreetPrior | None = None, estimator: str = "median"
) -> LocationGuess:
    """Return where M objects are, each from its one released place ``(M, 2)``; a uniform prior where none is given.

    Raises:
        ValueError: an estimator outside :data:`ESTIMATORS`.
    """
    choice("estimator", estimator, ESTIMATORS)
    released = np.asarray(released, np.float64).reshape(-1, 2)
    prior = prior or StreetPrior.uniform()
    if budgets.location_branch == "grid":  # as many rules as cells
        cells = location.grid_cells(released, budgets.grid_size)
        distinct, inverse = np.unique(cells, axis=0, return_inverse=True)
        places = (distinct + 0.5) / budgets.grid_size
    else:
        places, inverse = released, np.arange(len(released))
    if estimator == "ml":
        guess = _guess([most_likely(place, budgets) for place in places], budgets.grid_size, estimator)
    else:
        guess = _guess([posterior(place, budgets, prior) for place in places], budgets.grid_size, estimator)
    inverse = inverse.ravel()
    return LocationGuess(guess.points[inverse], guess.cells[inverse], guess.expected_error[inverse])


def _guess(posteriors: Sequence[Posterior], grid_size: int, estimator: str) -> LocationGuess:
    points = np.array([each.estimate(estimator) for each in posteriors]).reshape(-1, 2)
    cells = np.array([each.cell(grid_size) for each in posteriors], np.int64).reshape(-1, 2)
    pairs = zip(posteriors, points, strict=True)
    return LocationGuess(points, cells, np.array([each.expected_error(point) for each, point in pairs]))


def grid_lattice(grid_size: int) -> int:
    """Return a number of points an axis near 64 that is a multiple of the grid's cells."""
    return grid_size * max(1, round(64 / grid_size))


def middles(number: int) -> FloatArray:
    """Return the middles of ``number`` equal parts of [0, 1]."""
    return (np.arange(number) + 0.5) / number


@register("location_ml", target="location", adaptive=False)
@dataclass(frozen=True)
class MaximumLikelihood:
    """The place that best explains a record, whatever is known of streets."""

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(M, 2)`` places a frame."""
        return _per_frame(intercepted, None, "ml")


@register("location_bayes", target="location", adaptive=True)
@dataclass(frozen=True)
class Bayes:
    """The place of least expected distance given a record and a prior."""

    prior: StreetPrior | None = None
    estimator: str = "median"

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(M, 2)`` places a frame."""
        return _per_frame(intercepted, self.prior, self.estimator)


def _per_frame(intercepted: Sequence[Interception], prior: StreetPrior | None, estimator: str) -> Guesses:
    return tuple(
        None
        if frame.objects is None
        else locate(scene.centers(frame.objects), frame.known.budgets, prior, estimator).points
        for frame in intercepted
    )
