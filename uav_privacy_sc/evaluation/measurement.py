"""One measured number in long form, and a collection of them: what every protocol writes and every table reads."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.metrics import Missing, Score


@dataclass(frozen=True)
class Measurement:
    """One value of one metric, for one sample and seed, or the reason why there is none.

    Attributes:
        protocol: what it was measured by.
        mechanism: visual mechanism, method or solver that it is about.
        metric: its name; docs/metrics.md defines each.
        sample: name of the picture, or of the draw.
        seed: number of the repetition on this sample.
        value: finite, or None.
        reason: why there is no value; empty where there is one.
        profile, epsilon_v, epsilon_l, kappa_bg: what it was measured with; None where it plays no part.
        attacker: who attacked; empty where nobody did.
        condition: what else distinguishes it, such as a scenario or what the ground knew.

    Raises:
        ValueError: a value that is not finite, or neither value nor reason.
    """

    protocol: str
    mechanism: str
    metric: str
    sample: str
    seed: int
    value: float | None
    reason: str = ""
    profile: str = ""
    epsilon_v: float | None = None
    epsilon_l: float | None = None
    kappa_bg: float | None = None
    attacker: str = ""
    condition: str = ""

    def __post_init__(self) -> None:
        if self.value is not None and not math.isfinite(self.value):
            raise ValueError(f"value of {self.metric} is {self.value}; give a finite number, or None and a reason")
        if (self.value is None) == (not self.reason):
            raise ValueError(f"{self.metric} needs a value or a reason, and not both")


FIELDS = tuple(item.name for item in fields(Measurement))


def measured(score: Score, **what: Any) -> Measurement:
    """Return the measurement of a score; a score that is not finite is missing and says so."""
    if isinstance(score, Missing):
        return Measurement(value=None, reason=score.reason, **what)
    if not math.isfinite(score):
        return Measurement(value=None, reason="not finite here", **what)
    return Measurement(value=float(score), **what)


def to_rows(measurements: Iterable[Measurement]) -> list[list[Any]]:
    """Return them as plain lists in the order of :data:`FIELDS`."""
    return [list(astuple(item)) for item in measurements]


def from_rows(rows: Iterable[list[Any]]) -> list[Measurement]:
    """Read what :func:`to_rows` gave."""
    return [Measurement(*row) for row in rows]


def write_csv(path: Path, measurements: Iterable[Measurement]) -> None:
    """Write all measurements, one a line; what is not known stays empty.

    Raises:
        OSError: the file cannot be written.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(FIELDS)
        writer.writerows(["" if cell is None else cell for cell in row] for row in to_rows(measurements))


def read_csv(path: Path) -> list[Measurement]:
    """Read what :func:`write_csv` wrote.

    Raises:
        ValueError: it is not such a file.
        OSError: it cannot be read.
    """
    kinds = {item.name: str(item.type) for item in fields(Measurement)}
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != FIELDS:
            raise ValueError(f"{path} holds no measurements; give a folder that `evaluate` wrote")
        return [Measurement(**{name: _read(row[name], kinds[name]) for name in FIELDS}) for row in reader]


def _read(cell: str, kind: str) -> Any:
    if "float" in kind:
        return float(cell) if cell else None
    return int(cell) if kind == "int" else cell


class Results:
    """Measurements by what they are about.

    ``values(...)`` are means over the seeds of every sample: repetitions on one picture are not independent samples.
    """

    def __init__(self, measurements: Iterable[Measurement]) -> None:
        self.measurements = list(measurements)
        self._groups: dict[tuple[Any, ...], dict[str, list[float]]] = {}
        self._reasons: dict[tuple[Any, ...], list[str]] = {}
        for item in self.measurements:
            key = self._key(item.metric, item.mechanism, item.epsilon_v, item.kappa_bg, item.attacker, item.condition)
            if item.value is None:
                self._reasons.setdefault(key, []).append(item.reason)
            else:
                self._groups.setdefault(key, {}).setdefault(item.sample, []).append(item.value)

    @staticmethod
    def _key(
        metric: str, mechanism: str, epsilon_v: float | None, kappa_bg: float | None, attacker: str, condition: str
    ) -> tuple[Any, ...]:
        return metric, mechanism, epsilon_v, kappa_bg, attacker, condition

    def values(
        self,
        metric: str,
        mechanism: str,
        epsilon_v: float | None = None,
        kappa_bg: float | None = None,
        attacker: str = "",
        condition: str = "",
    ) -> dict[str, float]:
        """Return the mean over seeds by sample, of the samples that have a value."""
        found = self._groups.get(self._key(metric, mechanism, epsilon_v, kappa_bg, attacker, condition), {})
        return {sample: sum(each) / len(each) for sample, each in found.items()}

    def reason(
        self,
        metric: str,
        mechanism: str,
        epsilon_v: float | None = None,
        kappa_bg: float | None = None,
        attacker: str = "",
        condition: str = "",
    ) -> str:
        """Return the commonest reason why values are missing."""
        found = self._reasons.get(self._key(metric, mechanism, epsilon_v, kappa_bg, attacker, condition), [])
        return max(set(found), key=found.count) if found else "not measured"

    def distinct(self, name: str, **where: Any) -> list[Any]:
        """Return the values of one field, in order of appearance, of the measurements that fit ``where``."""
        fits = (m for m in self.measurements if all(getattr(m, key) == value for key, value in where.items()))
        return list(dict.fromkeys(getattr(item, name) for item in fits))

    def missing(self) -> Mapping[tuple[str, str], int]:
        """Return how often each (metric, reason) occurred."""
        counts: dict[tuple[str, str], int] = {}
        for item in self.measurements:
            if item.value is None:
                counts[item.metric, item.reason] = counts.get((item.metric, item.reason), 0) + 1
        return counts
