"""The odometer: what a flight has spent, for a cell, an object, a frame and the mission (P1 gives the cell only).

Units of privacy, from weak to strong; each bounds what anyone can learn about a change of that unit:

========  ==============================================================================================
cell      one cell of one frame takes other values (P1 Proposition 1)
object    one object in one frame looks different in all cells it covers, and its descriptors move by one unit
frame     all features of one frame are different
track     one tracked object, in all frames of its track (only as good as the tracker; when tracks are given)
mission   one object, in all frames so far: at most the worst object of every frame, whoever it was
========  ==============================================================================================
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .composition import mu_from_pure, total_epsilon
from .domain import FloatArray, positive, probability
from .ledger import Ledger, LedgerError
from .mixture import mixed_epsilon, round_up

__all__ = ["BudgetExhausted", "Expenditure", "Guarantee", "LedgerError", "Odometer", "Report", "TrackExpenditure"]


class BudgetExhausted(RuntimeError):
    """The release would pass the ceiling: it must not happen."""


@dataclass(frozen=True)
class TrackExpenditure:
    """What one release costs one track: Gaussian mu of its cells, pure epsilon of its descriptors."""

    mu: float
    pure_epsilon: float = 0.0

    def __post_init__(self) -> None:
        for name in ("mu", "pure_epsilon"):
            object.__setattr__(self, name, _amount(name, getattr(self, name)))


@dataclass(frozen=True)
class Expenditure:
    """What one release costs.

    Attributes:
        stamp_ns: time stamp of the frame.
        cell_mu: Gaussian DP parameter of the worst cell (infinity: unprotected).
        object_mu: of the worst object over the cells it covers.
        frame_mu: of all cells together.
        location_epsilon: pure epsilon of the worst object's location for one unit of distance (one grid step, or one
            unit of planar Laplace); 0 when no object was released.
        label_epsilon, size_epsilon: pure epsilon of class and box size of an object; 0 where they are not randomized
            (they are then *not protected*, which no number here shows).
        count_epsilon: pure epsilon of the padded object count.
        tracks: per track identity what this release costs it; empty without tracking.
        mechanism: names of the mechanisms, for people.
        seeded: the noise came from a seed: the release is an experiment, not private.
    """

    stamp_ns: int
    cell_mu: float
    object_mu: float
    frame_mu: float
    location_epsilon: float = 0.0
    label_epsilon: float = 0.0
    size_epsilon: float = 0.0
    count_epsilon: float = 0.0
    tracks: Mapping[int, TrackExpenditure] = field(default_factory=dict)
    mechanism: str = ""
    seeded: bool = False

    def __post_init__(self) -> None:
        for name in ("cell_mu", "object_mu", "frame_mu", *_PURE):
            object.__setattr__(self, name, _amount(name, getattr(self, name)))
        object.__setattr__(self, "stamp_ns", int(self.stamp_ns))
        object.__setattr__(self, "seeded", bool(self.seeded))

    @property
    def pure_epsilon(self) -> float:
        """Pure epsilon of one object's descriptors and of the count together."""
        return math.fsum(getattr(self, name) for name in _PURE)


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee; epsilon is infinite where nothing protects."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class Report:
    """What has been spent so far. ``track`` is None where no tracks were given."""

    releases: int
    seeded_releases: int
    cell: Guarantee
    object: Guarantee
    frame: Guarantee
    track: Guarantee | None
    mission: Guarantee
    ceiling_epsilon: float | None
    last_stamp_ns: int | None

    @property
    def remaining(self) -> float | None:
        """The mission epsilon left below the ceiling (never below 0), or None without a ceiling."""
        return None if self.ceiling_epsilon is None else max(0.0, self.ceiling_epsilon - self.mission.epsilon)


@dataclass
class _Sum:
    """Running composition of one unit over releases."""

    mu_squared: float = 0.0
    pure: float = 0.0
    pure_mu_squared: float = 0.0
    counts: Counter[float] = field(default_factory=Counter)

    def add(self, mu: float, pure: float) -> _Sum:
        self.mu_squared += mu * mu
        self.pure += pure
        self.pure_mu_squared += _pure_mu_squared(pure)
        self.counts[round_up(pure)] += 1
        return self

    def epsilon(self, delta: float, more_mu: float = 0.0, more_pure: float = 0.0) -> float:
        """Return the closed-form bound, with one more release where given."""
        return float(
            total_epsilon(
                math.sqrt(self.mu_squared + more_mu * more_mu),
                self.pure + more_pure,
                self.pure_mu_squared + _pure_mu_squared(more_pure),
                delta,
            )
        )

    def tight(self, delta: float) -> float:
        """Return the convolved value, never above the closed form."""
        closed = self.epsilon(delta)
        return (
            min(closed, mixed_epsilon(math.sqrt(self.mu_squared), self.counts, delta)) if closed < math.inf else closed
        )


def _epsilons(units: list[_Sum], delta: float) -> FloatArray:
    """Return the closed-form bounds of many units at once."""
    table = np.array([(unit.mu_squared, unit.pure, unit.pure_mu_squared) for unit in units])
    return total_epsilon(np.sqrt(table[:, 0]), table[:, 1], table[:, 2], delta)


def _pure_mu_squared(pure: float) -> float:
    return float(mu_from_pure(pure)) ** 2 if math.isfinite(pure) else math.inf


class Odometer:
    """Counts what releases cost and stops them at a ceiling; every expenditure is on disk before it counts as allowed.

    Args:
        path: ledger file (created when missing, continued when there), or None to keep it in memory.
        delta: failure probability at which epsilons are reported.
        ceiling_epsilon: mission epsilon that no release may pass, or None for no ceiling.
        key: secret that keys the ledger's hash chain, or None.
        busy_timeout_s: how long to wait for a locked ledger.

    Raises:
        ValueError: delta or ceiling out of range.
        LedgerError: the ledger cannot be opened, was tampered with, or is none of a flight.

    Example:
        >>> odometer = Odometer(None, delta=1e-5, ceiling_epsilon=10.0)
        >>> odometer.spend(Expenditure(stamp_ns=0, cell_mu=0.2, object_mu=0.4, frame_mu=2.0, location_epsilon=0.5))
        1
        >>> round(odometer.spent().mission.epsilon, 2)
        2.05
    """

    def __init__(
        self,
        path: Path | str | None,
        delta: float,
        ceiling_epsilon: float | None = None,
        *,
        key: bytes | None = None,
        busy_timeout_s: float = 1.0,
    ) -> None:
        self.delta = float(probability("delta", delta))
        self.ceiling_epsilon = None if ceiling_epsilon is None else float(positive("ceiling_epsilon", ceiling_epsilon))
        self._lock = threading.Lock()
        self._ledger = Ledger(None if path is None else Path(path), key, busy_timeout_s)
        self._mission = _Sum()
        self._tracks: dict[int, _Sum] = {}
        self._worst = {"cell": 0.0, "object": 0.0, "frame": 0.0, "pure": 0.0}
        self._releases = self._seeded = 0
        self._last_stamp_ns: int | None = None
        for row in self._ledger.load():
            self._count(_from_row(row))

    def spend(self, expenditure: Expenditure) -> int:
        """Record an expenditure, synced to disk, and return its sequence number. Publish only after this returned.

        Raises:
            BudgetExhausted: the mission epsilon would pass the ceiling; nothing was recorded.
            LedgerError: the ledger could not be written; nothing was recorded.
        """
        with self._lock:
            self._check_ceiling(expenditure)
            sequence = self._ledger.append(_to_row(expenditure))
            self._count(expenditure)
            return sequence

    def allows(self, expenditure: Expenditure) -> bool:
        """Return whether :meth:`spend` would stay within the ceiling."""
        try:
            self._check_ceiling(expenditure)
        except BudgetExhausted:
            return False
        return True

    def spent(self, tight: bool = False) -> Report:
        """Return what has been spent so far, for every unit of privacy, at the odometer's delta.

        The closed forms, which the ceiling goes by, are upper bounds: exact without pure epsilons. ``tight`` convolves
        the privacy losses instead, within 0.2 % of the exact value, in a second or so.
        """
        with self._lock:
            worst = self._worst
            units = {
                "cell": _Sum().add(worst["cell"], 0.0),
                "object": _Sum().add(worst["object"], worst["pure"]),
                "frame": _Sum().add(worst["frame"], 0.0),
                "mission": self._mission,
            }
            if self._tracks:
                tracks = list(self._tracks.values())
                units["track"] = tracks[int(np.argmax(_epsilons(tracks, self.delta)))]
            closed = _epsilons(list(units.values()), self.delta)
            values = [unit.tight(self.delta) for unit in units.values()] if tight else closed.tolist()
            guarantees = {name: Guarantee(value, self.delta) for name, value in zip(units, values, strict=True)}
            return Report(
                releases=self._releases,
                seeded_releases=self._seeded,
                cell=guarantees["cell"],
                object=guarantees["object"],
                frame=guarantees["frame"],
                track=guarantees.get("track"),
                mission=guarantees["mission"],
                ceiling_epsilon=self.ceiling_epsilon,
                last_stamp_ns=self._last_stamp_ns,
            )

    def remaining(self) -> float | None:
        """Return :attr:`Report.remaining` of what has been spent."""
        return self.spent().remaining

    @property
    def releases(self) -> int:
        """How many releases were recorded."""
        return self._releases

    @property
    def mission_mu(self) -> float:
        """Gaussian DP parameter of all that one object has been exposed to, pure epsilons included."""
        return math.sqrt(self._mission.mu_squared + self._mission.pure_mu_squared)

    def history(self) -> Iterator[tuple[Expenditure, float]]:
        """Yield every recorded expenditure with the mission epsilon after it."""
        total = _Sum()
        with self._lock:
            rows = self._ledger.rows()
        for row in rows:
            expenditure = _from_row(row)
            total.add(expenditure.object_mu, expenditure.pure_epsilon)
            yield expenditure, total.epsilon(self.delta)

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _check_ceiling(self, expenditure: Expenditure) -> None:
        if self.ceiling_epsilon is None:
            return
        after = self._mission.epsilon(self.delta, expenditure.object_mu, expenditure.pure_epsilon)
        if not after <= self.ceiling_epsilon:
            raise BudgetExhausted(
                f"mission epsilon would be {after:.4g}, above ceiling_epsilon={self.ceiling_epsilon:.4g}; "
                "release refused"
            )

    def _count(self, expenditure: Expenditure) -> None:
        self._mission.add(expenditure.object_mu, expenditure.pure_epsilon)
        for identity, cost in expenditure.tracks.items():
            self._tracks.setdefault(identity, _Sum()).add(cost.mu, cost.pure_epsilon)
        new = (expenditure.cell_mu, expenditure.object_mu, expenditure.frame_mu, expenditure.pure_epsilon)
        self._worst = {name: max(old, now) for (name, old), now in zip(self._worst.items(), new, strict=True)}
        self._releases += 1
        self._seeded += expenditure.seeded
        self._last_stamp_ns = expenditure.stamp_ns


_PURE = ("location_epsilon", "label_epsilon", "size_epsilon", "count_epsilon")
_FIELDS = ("stamp_ns", "cell_mu", "object_mu", "frame_mu", *_PURE, "mechanism", "seeded")


def _to_row(expenditure: Expenditure) -> dict[str, object]:
    row: dict[str, object] = {name: getattr(expenditure, name) for name in _FIELDS}
    row["tracks"] = {str(key): [cost.mu, cost.pure_epsilon] for key, cost in expenditure.tracks.items()}
    return row


def _from_row(row: dict[str, object]) -> Expenditure:
    if "kind" in row:
        raise LedgerError(f"the ledger holds rows of a {row['kind']}, not of a flight; choose another path")
    fields: dict = {name: row[name] for name in _FIELDS}
    tracks: dict = row["tracks"]  # type: ignore[assignment]
    return Expenditure(**fields, tracks={int(key): TrackExpenditure(*cost) for key, cost in tracks.items()})


def _amount(name: str, value: float) -> float:
    """Return a plain float; refuse NaN and negative amounts. Infinity is honest: it says that nothing protects."""
    if not value >= 0:
        raise ValueError(f"{name} must be at least 0, got {value}; a spent budget never comes back")
    return float(value)
