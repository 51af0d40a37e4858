"""Predictive location release: a track keeps its released point until a private test says that it has moved too far.

Independent noise on a parked car is averaged away in seconds. Here a track pays when it moves, not while time passes:
an epoch starts with a fresh release by the location mechanism (``epsilon_l``) and runs under the sparse vector
technique (AboveThreshold; Lyu, Su and Li 2017, Algorithm 1 with c = 1). A threshold is made noisy once; every frame
asks whether the distance between where the object is and the point it has released, plus fresh noise, exceeds it. All
answers "no" of an epoch and its one "yes" cost ``epsilon_test`` together, paid when the epoch starts. Then the next
epoch begins.

The distance is 1-Lipschitz in the true position, as the released point is public; hence the unit is that of the
location mechanism: a whole path moved by one grid step (or one unit of planar Laplace) in every frame costs ``epsilon_l
+ epsilon_test`` an epoch.

The guarantee is for given identities. Who is whom is the tracker's decision, made without noise from where everybody
is: a track that jumps too far, or is lost and found, starts an epoch, everybody sees that it did, and no test has paid
for that. ``renewed`` of a release, and what it cost, are for the ledger on board.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import location
from .domain import FloatArray, choice, positive, whole

BRANCHES = ("grid", "planar_laplace")


@dataclass(frozen=True)
class PredictiveConfig:
    """How tracks are released.

    Attributes:
        branch: ``grid`` or ``planar_laplace``, as in :mod:`location`.
        grid_size: N of the grid.
        scale: s_c of planar Laplace.
        test_ratio: epsilon_test as a part of epsilon_l of the epoch's release.
        threshold: distance, in the unit of the branch, from which a point counts as stale. The test's noise has a scale
            of about ``3 / epsilon_test``; a resting track renews itself by chance after about
            ``exp((threshold - distance) * epsilon_test / 3)`` frames.
        forget_after: frames without a track after which it is forgotten.
    """

    branch: str = "grid"
    grid_size: int = 16
    scale: float = 100.0
    test_ratio: float = 0.5
    threshold: float = 8.0
    forget_after: int = 300

    def __post_init__(self) -> None:
        choice("branch", self.branch, BRANCHES)
        whole("grid_size", self.grid_size)
        whole("forget_after", self.forget_after)
        for name in ("scale", "test_ratio", "threshold"):
            positive(name, getattr(self, name))


@dataclass(frozen=True)
class PredictiveRelease:
    """Released ``(M, 2)`` centres, ``(M,)`` cells (-1 for planar Laplace), what each track pays now, and who was
    renewed."""

    centers: FloatArray
    cells: NDArray[np.int32]
    epsilon: FloatArray
    renewed: NDArray[np.bool_]


@dataclass
class _Epoch:
    center: FloatArray
    cell: int
    threshold: float
    query_scale: float
    last_frame: int


class PredictiveLocation:
    """Releases the centres of tracked objects; keeps one epoch for every track.

    Args:
        config: branch, test and threshold.
    """

    def __init__(self, config: PredictiveConfig | None = None) -> None:
        self.config = PredictiveConfig() if config is None else config
        self._epochs: dict[int, _Epoch] = {}
        self._frame = 0

    def release(
        self, centers: ArrayLike, identities: ArrayLike, epsilon_l: float, rng: np.random.Generator
    ) -> PredictiveRelease:
        """Release the centres of one frame.

        Args:
            centers: ``(M, 2)`` normalized centres.
            identities: ``(M,)`` whole numbers, each track's own; all different.
            epsilon_l: budget of a fresh release.
            rng: the generator of the location stream.

        Returns:
            The released points; ``epsilon`` is ``epsilon_l + epsilon_test`` for renewed tracks, else 0.

        Raises:
            ValueError: epsilon_l out of range, a centre that is NaN or infinite, or two objects of one identity.
        """
        epsilon_l = float(positive("epsilon_l", epsilon_l))
        centers = np.asarray(centers, np.float64).reshape(-1, 2)
        keys = np.asarray(identities, np.int64).ravel().tolist()
        if len(set(keys)) != len(keys) or len(keys) != len(centers):
            raise ValueError(
                f"identities must be {len(centers)} different numbers, got {len(set(keys))} of {len(keys)}"
            )
        fresh, cells = self._draw(centers, epsilon_l, rng)
        renewed = self._stale(centers, keys, rng)
        self._frame += 1
        for row in np.flatnonzero(renewed).tolist():
            self._epochs[keys[row]] = self._start(fresh[row], int(cells[row]), epsilon_l, rng)
        self._forget(keys)
        current = [self._epochs[key] for key in keys]
        cost = np.where(renewed, epsilon_l * (1 + self.config.test_ratio), 0.0)
        return PredictiveRelease(
            np.array([epoch.center for epoch in current]).reshape(-1, 2),
            np.array([epoch.cell for epoch in current], np.int32),
            cost,
            renewed,
        )

    def _draw(
        self, centers: FloatArray, epsilon_l: float, rng: np.random.Generator
    ) -> tuple[FloatArray, NDArray[np.int32]]:
        if self.config.branch == "grid":
            return location.release_grid(centers, epsilon_l, self.config.grid_size, rng)
        released = location.release_planar_laplace(centers, epsilon_l, self.config.scale, rng)
        return released, np.full(len(centers), -1, np.int32)

    def _stale(self, centers: FloatArray, keys: list[int], rng: np.random.Generator) -> NDArray[np.bool_]:
        """Ask the test of every running epoch; tracks without one are stale."""
        stale = np.array([key not in self._epochs for key in keys], bool)
        running = [self._epochs[key] for key in keys if key in self._epochs]
        if running:
            released = np.array([epoch.center for epoch in running])
            table = np.array([(epoch.query_scale, epoch.threshold) for epoch in running])
            query = self._distance(centers[~stale], released) + rng.laplace(size=len(running)) * table[:, 0]
            stale[~stale] = query >= table[:, 1]
        return stale

    def _distance(self, centers: FloatArray, released: FloatArray) -> FloatArray:
        """Return ``(M,)`` distances in the metric and unit of the branch's guarantee."""
        if self.config.branch == "grid":
            size = self.config.grid_size
            return np.abs(location.grid_cells(centers, size) - location.grid_cells(released, size)).sum(axis=1) * 1.0
        return np.hypot(*(centers.clip(0.0, 1.0) - released).T) * self.config.scale

    def _start(self, center: FloatArray, cell: int, epsilon_l: float, rng: np.random.Generator) -> _Epoch:
        """Start an epoch: a third of its test budget for the threshold, two thirds for the queries."""
        epsilon_test = self.config.test_ratio * epsilon_l
        threshold = self.config.threshold + rng.laplace(scale=3 / epsilon_test)
        return _Epoch(center, cell, float(threshold), 2 / (2 / 3 * epsilon_test), self._frame)

    def _forget(self, keys: list[int]) -> None:
        for key in keys:
            self._epochs[key].last_frame = self._frame
        limit = self._frame - self.config.forget_after
        for key in [key for key, epoch in self._epochs.items() if epoch.last_frame < limit]:
            del self._epochs[key]


def frames_kept(
    config: PredictiveConfig,
    centers: ArrayLike,
    released: ArrayLike,
    epsilon_l: float,
    frames: int,
    rng: np.random.Generator,
) -> FloatArray:
    """Return how many frames resting tracks keep a released point, at most ``frames``: to choose a threshold, or audit.

    Args:
        config: the test.
        centers: ``(M, 2)`` true centres, one track each.
        released: ``(2,)`` the point that all of them have released.
        epsilon_l: budget of the release; the test's is ``test_ratio`` of it.
        frames: how long to look.
        rng: the generator of the location stream.
    """
    centers = np.asarray(centers, np.float64).reshape(-1, 2)
    tracks, keys = PredictiveLocation(config), list(range(len(centers)))
    point = np.asarray(released, np.float64)
    tracks._epochs = {key: tracks._start(point, -1, epsilon_l, rng) for key in keys}
    kept, alive = np.zeros(len(keys)), np.ones(len(keys), bool)
    for _ in range(frames):
        alive &= ~tracks._stale(centers, keys, rng)
        kept += alive
    return kept
