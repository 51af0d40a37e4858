"""Means, intervals and paired tests. The unit is a sample; repetitions on it are averaged before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from uav_privacy_sc.evaluation.metrics import Missing

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` samples with the half-width of its interval by the t-distribution, None for one sample."""

    mean: float
    half_width: float | None
    n: int

    @property
    def low(self) -> float:
        """Lower end of the interval; the mean where there is none."""
        return self.mean - (self.half_width or 0.0)

    @property
    def high(self) -> float:
        """Upper end of the interval; the mean where there is none."""
        return self.mean + (self.half_width or 0.0)


def estimate(values: Iterable[float], reason: str = "not measured") -> Estimate | Missing:
    """Return the mean of independent values with its 95 % interval (Student's t, n - 1 degrees of freedom)."""
    found = np.array(list(values), np.float64)
    if not len(found):
        return Missing(reason)
    if len(found) == 1:
        return Estimate(float(found[0]), None, 1)
    error = float(found.std(ddof=1)) / math.sqrt(len(found))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(found) - 1)) * error
    return Estimate(float(found.mean()), reach, len(found))


@dataclass(frozen=True)
class PairedTest:
    """The mean difference of two conditions over the same samples, and the two-sided p of a paired t-test.

    ``p`` is None where the difference is the same in every sample: without spread there is no test.
    """

    difference: Estimate
    p: float | None

    @property
    def verdict(self) -> str:
        """Which side is higher, where the interval leaves zero out."""
        if self.p is None:
            return "not tested"
        if self.p >= 1 - CONFIDENCE:
            return "no difference shown"
        return "higher" if self.difference.mean > 0 else "lower"


def paired(first: Mapping[str, float], second: Mapping[str, float]) -> PairedTest | Missing:
    """Compare two conditions over the samples that have both."""
    common = [name for name in first if name in second]
    if len(common) < 2:
        return Missing(f"a paired test needs two samples with both values; there are {len(common)}")
    difference = estimate(first[name] - second[name] for name in common)
    assert isinstance(difference, Estimate) and difference.half_width is not None
    if difference.half_width <= 1e-12 * max(1.0, abs(difference.mean)):
        return PairedTest(difference, None)
    error = difference.half_width / float(stats.t.ppf((1 + CONFIDENCE) / 2, difference.n - 1))
    return PairedTest(difference, float(2 * stats.t.sf(abs(difference.mean / error), difference.n - 1)))


def holm(tests: Sequence[PairedTest]) -> list[PairedTest]:
    """Return tests with p corrected for their number by Holm (1979); those without p do not count."""
    order = sorted((test.p, place) for place, test in enumerate(tests) if test.p is not None)
    found, highest = list(tests), 0.0
    for rank, (p, place) in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p))
        found[place] = PairedTest(tests[place].difference, highest)
    return found


def rising(values: Iterable[float]) -> np.ndarray:
    """Return the non-decreasing sequence nearest to the values in squares (pool adjacent violators)."""
    blocks: list[tuple[float, int]] = []
    for value in values:
        blocks.append((float(value), 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (low, many), (high, more) = blocks[-2], blocks[-1]
            blocks[-2:] = [((low * many + high * more) / (many + more), many + more)]
    return np.repeat([value for value, _ in blocks], [count for _, count in blocks])


def crossing(x: np.ndarray, y: np.ndarray, level: float) -> float | None:
    """Return where a curve, made non-decreasing, reaches a level, linear in log x; None where it never does."""
    curve = rising(y)
    if not curve[0] <= level <= curve[-1]:
        return None
    place = int(np.searchsorted(curve, level))
    if place == 0 or curve[place] == curve[place - 1]:
        return float(x[place])
    part = (level - curve[place - 1]) / (curve[place] - curve[place - 1])
    return float(np.exp(np.log(x[place - 1]) + part * (np.log(x[place]) - np.log(x[place - 1]))))
