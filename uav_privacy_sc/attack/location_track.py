"""Attackers on a track: many released places of one object, standing or moving. Averaging is what threatens places.

*Independent* release draws afresh in every frame. Standing, the likelihoods multiply: with planar Laplace of rate
``b = epsilon_l scale`` the Fisher information is ``b^2 / 2`` an axis and frame, so the mean error falls as
``sqrt(pi / T) / b`` (:func:`averaged_error`). Moving as a Gaussian random walk, a forward-backward filter on a lattice
does what can be done.

*Predictive* release keeps a place until a private test says that the object has moved too far. Standing, the attacker
has one draw an epoch, and how long each epoch lasted, which tells the distance a little (:class:`RenewalLikelihood`,
exact up to quadrature). Where the same grid cell is drawn again nobody sees the renewal: all possible ones are summed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import expm

from uav_privacy_sc import scene
from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.attack.location import (
    ESTIMATORS,
    NATS,
    LocationGuess,
    Posterior,
    StreetPrior,
    grid_lattice,
    lattice_points,
    log_likelihood,
    middles,
    most_likely,
    narrow,
    posterior,
)
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy import location
from uav_privacy_sc.privacy.domain import FloatArray, choice, not_negative, positive
from uav_privacy_sc.release import Budgets

_WALK_SIZE = 64
_QUANTILES = 512
_DISTANCES = 128


def averaged_error(epsilon_l: float, scale: float, frames: ArrayLike) -> FloatArray:
    """Return the asymptotic mean error of the best estimate from T planar Laplace draws: ``sqrt(pi / T) / (eps s)``.

    The score of ``exp(-b |z - c|)`` has length b, so its covariance is ``b^2 / 2`` an axis; the estimate is Gaussian
    with the inverse over T, and a two-dimensional Gaussian of deviation s has mean length ``s sqrt(pi / 2)``.
    """
    rate = float(positive("epsilon_l", epsilon_l)) * float(positive("scale", scale))
    return np.sqrt(np.pi / positive("frames", frames)) / rate


@dataclass(frozen=True)
class Motion:
    """How an object moves: a Gaussian walk of ``step`` (parts of the image) an axis and frame; 0 stands still."""

    step: float = 0.0

    def __post_init__(self) -> None:
        not_negative("step", self.step)


def locate_track(
    released: ArrayLike,
    budgets: Budgets,
    prior: StreetPrior | None = None,
    *,
    release: ObjectConfig | None = None,
    motion: Motion | None = None,
    estimator: str = "median",
) -> LocationGuess:
    """Return where an object was in each of T frames, from all of its released places ``(T, 2)``.

    Args:
        released: places in the order of frames, one an object and frame.
        budgets: epsilon_l, branch, grid and scale, the same for the whole track.
        prior: of the first place; uniform where none is given.
        release: how places are released (independent or predictive); independent where not given.
        motion: standing still where not given.
        estimator: one of ``location.ESTIMATORS``; ``ml`` ignores the prior.

    Of an object that moves under predictive release only the fresh draws are used, not how long they were kept: a bound
    from below on what an attacker can do.

    Raises:
        ValueError: no frame, or an unknown estimator.
    """
    choice("estimator", estimator, ESTIMATORS)
    released = np.asarray(released, np.float64).reshape(-1, 2)
    if not len(released):
        raise ValueError("released holds no frame; leave out tracks that were never heard")
    prior, motion = prior or StreetPrior.uniform(), motion or Motion()
    predictive = release is not None and release.predictive
    if motion.step > 0.0:
        heard = _fresh(released) if predictive else np.ones(len(released), bool)
        walk = _walk(released, heard, budgets, prior if estimator != "ml" else StreetPrior.uniform(), motion)
    elif predictive and release is not None:
        flat = prior if estimator != "ml" else StreetPrior.uniform()
        walk = [narrow(RenewalLikelihood(released, budgets, release), budgets, flat)]
    else:
        walk = [most_likely(released, budgets) if estimator == "ml" else posterior(released, budgets, prior)]
    return _spread(walk, len(released), budgets.grid_size, estimator)


def _spread(walk: Sequence[Posterior], frames: int, grid_size: int, estimator: str) -> LocationGuess:
    """Return the guess of every frame; a single posterior stands for all of them."""
    points = np.array([each.estimate(estimator) for each in walk])
    cells = np.array([each.cell(grid_size) for each in walk])
    errors = np.array([each.expected_error(point) for each, point in zip(walk, points, strict=True)])
    repeat = frames // len(walk)
    return LocationGuess(points.repeat(repeat, 0), cells.repeat(repeat, 0), errors.repeat(repeat))


def _fresh(released: FloatArray) -> NDArray[np.bool_]:
    """Return which of ``(T, 2)`` places differ from the one before."""
    changed = (np.diff(released, axis=0) != 0).any(axis=1)
    return np.concatenate([[True], changed])


def diffusion(size: int, spacing: float, step: float) -> FloatArray:
    """Return the ``(size, size)`` transition of a walk on a line of lattice points with reflecting ends.

    The discrete analogue of the Gaussian, ``exp(t L / 2)`` with the lattice Laplacian L and ``t = (step / spacing)^2``
    (Lindeberg 1990): its variance is ``step^2`` exactly, also where a step is shorter than the spacing. Symmetric, and
    rows and columns sum to 1.
    """
    laplacian = np.diag(np.ones(size - 1), 1) + np.diag(np.ones(size - 1), -1)
    laplacian -= np.diag(laplacian.sum(axis=1))
    return np.maximum(expm(0.5 * (step / spacing) ** 2 * laplacian), 0.0)


def _walk(
    released: FloatArray, heard: NDArray[np.bool_], budgets: Budgets, prior: StreetPrior, motion: Motion
) -> list[Posterior]:
    """Return the smoothed posterior of every frame: over the whole grid, or over a lattice that narrows once."""
    if budgets.location_branch == "grid":
        coordinates = middles(grid_lattice(budgets.grid_size))
        return _smooth(released, heard, budgets, prior, motion, coordinates, coordinates)
    reach = 12.0 / (budgets.epsilon_l * budgets.location_scale)
    corners = released.min(axis=0) - reach, released.max(axis=0) + reach
    walk = _smooth(released, heard, budgets, prior, motion, *_window(*corners))
    likely = np.max([each.probability / each.probability.max() for each in walk], axis=0) > np.exp(-NATS)
    kept = walk[0].points[likely.ravel()]
    spacing = np.array([walk[0].x[1] - walk[0].x[0], walk[0].y[1] - walk[0].y[0]])
    window = _window(kept.min(axis=0) - 2 * spacing, kept.max(axis=0) + 2 * spacing)
    return _smooth(released, heard, budgets, prior, motion, *window)


def _window(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the coordinates of a lattice between two corners, as far as they lie in the image."""
    low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    x, y = (low[axis] + (high - low)[axis] * middles(_WALK_SIZE) for axis in (0, 1))
    return x, y


def _smooth(
    released: FloatArray,
    heard: NDArray[np.bool_],
    budgets: Budgets,
    prior: StreetPrior,
    motion: Motion,
    x: FloatArray,
    y: FloatArray,
) -> list[Posterior]:
    """Return every frame's posterior on a lattice, by a forward-backward filter."""
    points, shape = lattice_points(x, y), (len(y), len(x))
    logs = log_likelihood(released, points, budgets)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True)).reshape(-1, *shape)
    likelihood[~heard] = 1.0
    density = prior.log_density(points).reshape(shape)
    down, across = (diffusion(len(axis), axis[1] - axis[0], motion.step) for axis in (y, x))
    ahead = np.exp(density - density.max())
    forward = np.empty_like(likelihood)
    for frame, value in enumerate(likelihood):
        forward[frame] = ahead * value
        forward[frame] /= forward[frame].sum()
        ahead = down @ forward[frame] @ across
    back = np.ones(shape)
    walk = []
    for frame in range(len(released) - 1, -1, -1):
        smoothed = forward[frame] * back
        walk.append(Posterior(x, y, smoothed / smoothed.sum()))
        back = down @ (back * likelihood[frame]) @ across
        back /= back.max()
    return walk[::-1]


class RenewalLikelihood:
    """Log likelihood of places ``(K, 2)`` of a standing object under predictive release (``privacy.predictive``).

    Of an epoch that begins at frame s, the chance to be renewed after k tests is ``S(k-1) - S(k)``, where
    ``S(k) = E[F(tau - d)^k]`` over the epoch's noisy threshold tau, F is the distribution of a test's noise and d the
    distance between object and released place.
    """

    def __init__(self, released: FloatArray, budgets: Budgets, release: ObjectConfig) -> None:
        self.budgets = budgets
        starts = np.flatnonzero(_fresh(released))
        self._places = released[starts]
        self._lengths = np.diff(np.append(starts, len(released)))
        self._gridded = budgets.location_branch == "grid"
        reach = 2 * (budgets.grid_size - 1) if self._gridded else np.sqrt(2) * budgets.location_scale
        self._knots = np.arange(reach + 1.0) if self._gridded else np.linspace(0, reach, _DISTANCES)
        self._survival = _survival(self._knots, int(self._lengths.max()), budgets.epsilon_l, release)

    def __call__(self, points: FloatArray) -> FloatArray:
        """Return ``(K,)`` log likelihoods of ``(K, 2)`` places."""
        if not self._gridded:
            return self._of_places(points)
        size = self.budgets.grid_size  # all places of a cell are alike
        cells = location.grid_cells(points, size)
        return self._of_places(lattice_points(middles(size), middles(size)))[cells[:, 1] * size + cells[:, 0]]

    def _of_places(self, points: FloatArray) -> FloatArray:
        fresh = log_likelihood(self._places, points, self.budgets)
        log_total, last = np.zeros(len(points)), len(self._places) - 1
        for run, (place, length) in enumerate(zip(self._places, self._lengths.tolist(), strict=True)):
            alive = self._interpolated(self._distance(points, place), length)
            begins = self._begins(fresh[run], alive, length)
            left = length - np.arange(len(begins))  # tests of an epoch begun there, with that which ends the run
            chance = alive[left - 1] - (0 if run == last else alive[left])
            log_total += fresh[run] + np.log(np.maximum((begins * chance).sum(axis=0), 1e-300))
        return log_total

    def _begins(self, fresh: FloatArray, alive: FloatArray, length: int) -> FloatArray:
        """Return ``(n, K)`` weights of an epoch to begin at the n-th frame of a run, the first of them 1."""
        if not self._gridded:  # a place is not drawn twice
            return np.ones((1, alive.shape[1]))
        ends = alive[:-1] - alive[1:]  # after k + 1 tests
        again, begins = np.exp(fresh), np.ones((length, alive.shape[1]))
        for frame in range(1, length):
            begins[frame] = again * (begins[:frame] * ends[frame - 1 :: -1][:frame]).sum(axis=0)
        return begins

    def _distance(self, points: FloatArray, place: FloatArray) -> FloatArray:
        if self._gridded:
            size = self.budgets.grid_size
            return np.abs(location.grid_cells(points, size) - location.grid_cells(place, size)).sum(axis=1) * 1.0
        return np.hypot(*(points - place).T) * self.budgets.location_scale

    def _interpolated(self, distance: FloatArray, length: int) -> FloatArray:
        """Return ``(length + 1, K)`` chances to survive 0 to ``length`` tests."""
        position = distance / (self._knots[1] if len(self._knots) > 1 else 1.0)
        low = np.minimum(position.astype(np.intp), max(len(self._knots) - 2, 0))
        high, part = np.minimum(low + 1, len(self._knots) - 1), position - low
        table = self._survival[: length + 1]
        return table[:, low] * (1 - part) + table[:, high] * part


def _survival(distance: np.ndarray, tests: int, epsilon_l: float, release: ObjectConfig) -> FloatArray:
    """Return ``(tests + 1, D)`` chances to pass 0 to ``tests`` tests at each distance, over thresholds' quantiles."""
    scale = 3 / (release.test_ratio * epsilon_l)  # of the threshold's noise and of a test's, both
    part = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    noise = np.where(part < 0.5, np.log(2 * part), -np.log(2 * (1 - part))) * scale
    gap = (release.threshold + noise[:, None] - distance) / scale
    passes = np.where(gap < 0, 0.5 * np.exp(np.minimum(gap, 0)), 1 - 0.5 * np.exp(-np.maximum(gap, 0)))
    table, power = np.ones((tests + 1, len(distance))), np.ones_like(passes)
    for k in range(1, tests + 1):
        power *= passes
        table[k] = power.mean(axis=0)
    return table


@register("location_track", target="location", adaptive=True, over_time=True)
@dataclass(frozen=True)
class Track:
    """The places of least expected distance given all frames of a track, and how the profile releases places.

    ``step`` is the walk's deviation an axis and frame. Without ``Interception.tracks`` records of one index are one
    object, as in a profile that neither shuffles nor pads.
    """

    prior: StreetPrior | None = None
    step: float = 0.0
    estimator: str = "median"

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(M, 2)`` places a frame."""
        found = [None if frame.objects is None else np.zeros((len(frame.objects), 2)) for frame in intercepted]
        for rows in track_rows(intercepted).values():
            centers = np.array([scene.centers(intercepted[frame].records[row : row + 1])[0] for frame, row in rows])
            known = intercepted[rows[0][0]].known
            options = {"release": known.protection.objects, "motion": Motion(self.step), "estimator": self.estimator}
            guess = locate_track(centers, known.budgets, self.prior, **options)  # type: ignore[arg-type]
            for (frame, row), point in zip(rows, guess.points, strict=True):
                places = found[frame]
                assert places is not None
                places[row] = point
        return tuple(found)


def track_rows(intercepted: Sequence[Interception]) -> dict[int, list[tuple[int, int]]]:
    """Return the ``(frame, row)`` pairs of every track in order; rows stand for tracks where these are not granted."""
    rows: dict[int, list[tuple[int, int]]] = {}
    for frame, heard in enumerate(intercepted):
        tracks = np.arange(len(heard.records)) if heard.tracks is None else heard.tracks
        for row, track in enumerate(tracks.tolist()):
            rows.setdefault(int(track), []).append((frame, row))
    return rows
