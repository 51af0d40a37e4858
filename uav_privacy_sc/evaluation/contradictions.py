"""Published numbers of P1 that its own equations, or its own other numbers, do not allow, or allow under one reading
only: each as a calculation.

Nothing here is measured: every function computes from :mod:`published` and from the mechanisms as P1 defines them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.protocols.location import budget_for
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.calibration import actual_epsilon, gaussian_sigma

DELTA, SENSITIVITY = 1e-5, 2.0
KAPPA_BG, KAPPA_CTX, PEOPLE = 1.12, 0.52, 0.3


@dataclass(frozen=True)
class Contradiction:
    """A published number, the most (or least) that can be, and the argument in words with its numbers."""

    title: str
    published: float
    bound: float
    text: str


def _value(section: str, metric: str, mechanism: str, **where: object) -> float:
    item = published.find(section, metric, mechanism, **where)
    if item is None:
        raise LookupError(f"{section} publishes no {metric} of {mechanism} with {where}")
    return item.value


def cosine_bound(epsilon: float) -> float:
    """Return the most that the cosine of a clean and a protected vector can be in the mean, at P1's noise.

    A clean cell has a norm of at most c_clip = 1, its noise the deviation sigma in each of C channels. For C = 1 its
    cosine is a sign, of mean ``erf(1 / (sigma sqrt 2))``; with more channels it is less. Of many cells taken as one
    vector it is ``1 / sqrt(1 + C sigma^2)`` in the limit. The larger of the two at C = 1 is returned.
    """
    sigma = float(gaussian_sigma(epsilon, DELTA, SENSITIVITY, "classical"))
    return max(math.erf(1 / (sigma * math.sqrt(2))), 1 / math.sqrt(1 + sigma**2))


def uniform_cosine() -> Contradiction:
    """Sensitive-feature similarity 0.22 of uniform noise at epsilon_v = 1 (5.8)."""
    value, bound = _value("5.8", "feature_cosine_sensitive", "uniform"), cosine_bound(1.0)
    sigma = float(gaussian_sigma(1.0, DELTA, SENSITIVITY, "classical"))
    text = (
        f"Eq. 15 gives σ = {sigma:.2f} in each of C channels at ε = 1, and clipping leaves a cell a norm of at most 1: "
        f"the cosine of released and clean features is at most 1/√(1 + Cσ²), {bound:.3f} even for C = 1, against "
        f"{value:g} published (unless cells are averaged before, which P1 does not say)."
    )
    return Contradiction("Feature similarity under uniform noise (5.8)", value, bound, text)


def region_cosine() -> Contradiction:
    """Sensitive-feature similarity 0.18 of region-aware noise at epsilon_v = 1 (5.8)."""
    value, bound = _value("5.8", "feature_cosine_sensitive", "region_aware"), cosine_bound(PEOPLE)
    uniform = _value("5.8", "feature_cosine_sensitive", "uniform")
    text = (
        f"Cells of people get 0.3 ε_v, so σ is {1 / PEOPLE:.2f} times that of uniform noise and the cosine at most "
        f"{bound:.3f}, against {value:g} published; small as both are, it must be about 0.3 of uniform's, averaged or "
        f"not ({0.3 * uniform:.3f} of {uniform:g}), not {value / uniform:.2f} of it."
    )
    return Contradiction("Feature similarity under region-aware noise (5.8)", value, bound, text)


def region_accuracy() -> Contradiction:
    """Category accuracy 0.802 of region-aware noise at epsilon_v = 1, above uniform noise at 3 (5.6)."""
    value, bound = (
        _value("5.6", "category_accuracy", "region_aware", epsilon_v=1.0),
        _value("5.6", "category_accuracy", "uniform", epsilon_v=3.0),
    )
    most = largest_factor("eq11")
    text = (
        f"Under Algorithm 1 no cell of the map has more than {largest_factor():g} ε_v, under Eq. 11 with Table 2 none "
        f"more than {most:g} ε_v. So uniform noise at ε_v = {most:g}, and at 3 all the more, is nowhere stronger, and "
        "whoever has the boxes can add noise to it until it is the region-aware release: the "
        "best decoder of the latter is no better (data processing). P1 has "
        f"{value:g} at ε_v = 1 where uniform noise at ε_v = 3 has {bound:g}. What is left is the map itself: the "
        "strength of the noise shows where objects are, which is a leak and not a gain."
    )
    return Contradiction("Accuracy of region-aware above uniform noise (5.6)", value, bound, text)


def largest_factor(rule: str = "algorithm1") -> float:
    """Return the largest budget of a cell in epsilon_v: under Algorithm 1's minimum, or Eq. 11 with P1's Table 2."""
    config = BudgetMapConfig()
    classes = max(float(factor) for factor in config.class_factors)
    return max(config.kappa_bg, classes) if rule == "eq11" else config.kappa_bg


def region_ssim() -> Contradiction:
    """The trained inverter's SSIM under region-aware noise above that under uniform noise (Table 3).

    Under Algorithm 1 alone: Eq. 11 without its minimum gives cells of a bus 1.95 epsilon_v, which is enough.
    """
    ours, low, high = (
        _value("Table 3", "ssim", mechanism, epsilon_v=epsilon, attacker="inverter")
        for mechanism, epsilon in (("region_aware", 10.0), ("uniform", 10.0), ("uniform", 20.0))
    )
    bound = uniform_ssim(10.0 * largest_factor())
    most = largest_factor("eq11")
    twenty = _value("Table 3", "ssim", "region_aware", epsilon_v=20.0, attacker="inverter")
    text = (
        f"Under Algorithm 1 the least noisy cells have {KAPPA_BG:g} ε_v. Doubling ε takes uniform noise from {low:g} "
        f"to {high:g}, so {KAPPA_BG:g} ε_v everywhere would give about {bound:.4f} at ε = 10; region-aware noise, "
        f"stronger wherever there is a person, has {ours:g}. Under Eq. 11 without Algorithm 1's minimum it can follow: "
        f"with Table 2 cells have up to {most:g} ε_v, which everywhere would give {uniform_ssim(10.0 * most):.4f} at "
        f"10 (published {ours:g}) and {uniform_ssim(20.0 * most):.4f} at 20 (published {twenty:g})."
    )
    return Contradiction("Attack SSIM of region-aware above uniform noise, Algorithm 1 (Table 3)", ours, bound, text)


def uniform_ssim(epsilon: float) -> float:
    """Return the inverter's SSIM under uniform noise, on the line through Table 3's two in log epsilon."""
    low, high = (_value("Table 3", "ssim", "uniform", epsilon_v=each, attacker="inverter") for each in (10.0, 20.0))
    return low + math.log2(epsilon / 10.0) * (high - low)


def location_errors() -> list[Contradiction]:
    """Location errors (5.7) that need more than the scenario's budget if they are measured from the object itself.

    P1 does not define what E_loc is measured from. From the centre of the reference cell both can follow.
    """
    found = []
    for scenario, total in (("surveillance", 5.0), ("resource-limited", 3.0)):
        value = _value("5.7", "location_error", "bcd", condition=scenario)
        needed, from_cell = budget_for("grid", value), budget_for("grid", value, from_cell=True)
        assert needed is not None and from_cell is not None
        text = (
            f"P1 does not define what E_loc is measured from. From the object to the released cell (as ours is), Eq. "
            f"18 on 16 x 16 cells needs ε_l = {needed:.2f} for {value:g}, more than ε_total = {total:g}; quantization "
            f"alone costs 0.0239. From the reference cell to the released cell it needs {from_cell:.2f}, within "
            "ε_total: so read, the number can follow."
        )
        found.append(Contradiction(f"Location error, {scenario}, from the object (5.7)", needed, total, text))
    return found


def utilities() -> list[Contradiction]:
    """Mean utilities of 5.7 that are not those of 5.9."""
    found = []
    for scenario in ("precision", "resource-limited"):
        mean = _value("5.7", "utility", "bcd", condition=scenario)
        first, sixth = (_value("5.9", f"utility at iteration {number}", "bcd", condition=scenario) for number in (1, 6))
        text = (
            f"5.9 has the mean utility rise from {first:g} at iteration 1 to {sixth:g} at iteration 6, after which "
            f"almost all cases have stopped; 5.7 gives {mean:g} for the same scenario over 500 samples."
        )
        found.append(Contradiction(f"Mean utility, {scenario} (5.7 against 5.9)", mean, sixth, text))
    return found


def resource_quality() -> Contradiction:
    """Semantic quality at the resource-limited means of 5.7."""
    snr = 10 ** (_value("5.7", "snr_db", "bcd", condition="resource-limited") / 10)
    best = 0.5 * math.log2(1 + snr) - 0.8 / 3.0
    text = (
        f"Eq. 31 at the published mean SNR of -7.184 dB, with all of ε_total = 3 for features, gives A_sem = "
        f"{best:.3f}: below zero, so that the scenario needs a negative A_min to be feasible at its own mean."
    )
    return Contradiction("Semantic quality, resource-limited (5.7)", 0.0, best, text)


def classical_noise() -> list[Contradiction]:
    """What Eq. 15 really gives at the budgets of Table 3."""
    found = []
    for epsilon in (10.0, 20.0):
        real = float(actual_epsilon(epsilon, DELTA, "classical"))
        text = f"Eq. 15 is proved below 1 only; at ε = {epsilon:g} its noise gives ε = {real:.2f} at δ = 1e-5."
        found.append(Contradiction(f"The claim ε = {epsilon:g} (Table 3)", epsilon, real, text))
    return found


def context_ring() -> Contradiction:
    """'Half the noise of the most sensitive cells' in the context ring (5.4)."""
    ratio = PEOPLE / KAPPA_CTX
    text = (
        f"The ring has 0.52 ε_v and people 0.3 ε_v, so its noise is {ratio:.2f} of theirs, and {1 / KAPPA_CTX:.2f} "
        "times that of the global budget: κ below 1 means more noise."
    )
    return Contradiction("Noise of the context ring (5.4)", 0.52, ratio, text)


def independent_runs() -> Contradiction:
    """100 'independent' runs that are 20 images times 5 seeds (Table 3)."""
    from scipy import stats

    wider = math.sqrt(5) * float(stats.t.ppf(0.975, 19) / stats.t.ppf(0.975, 99))
    text = (
        "20 images x 5 seeds are 100 runs, but not 100 independent ones. Where images differ more than seeds do, the "
        f"interval over images is up to {wider:.2f} times as wide as the printed one."
    )
    return Contradiction("Intervals of Table 3", 1.0, wider, text)


_SINGLE: tuple[Callable[[], Contradiction], ...] = (
    uniform_cosine,
    region_cosine,
    region_accuracy,
    region_ssim,
    resource_quality,
    context_ring,
    independent_runs,
)


def contradictions() -> list[Contradiction]:
    """Return all of them."""
    return [*(find() for find in _SINGLE), *location_errors(), *utilities(), *classical_noise()]
