"""The best point that one bounded step reaches: budgets and power within a box, at the gain of the block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.policy import ScenarioPolicy

#: Points of epsilon_v that are compared, before the best is refined between its neighbours.
POINTS = 257
HALVINGS = 200


@dataclass(frozen=True)
class Box:
    """What a step reaches: epsilon_v from ``lowest_v`` to ``highest_v``, power from ``lowest_p`` to ``highest_p`` W."""

    lowest_v: float
    highest_v: float
    lowest_p: float
    highest_p: float


def reachable(policy: ScenarioPolicy, epsilon_v: float, p_tx: float, budget_step: float, power_step_db: float) -> Box:
    """Return what a step reaches from a point: ``budget_step`` in epsilon_total either way, ``power_step_db`` in dB."""
    step, ratio = budget_step * policy.epsilon_total, 10.0 ** (min(power_step_db, 1000.0) / 10.0)
    return Box(
        max(epsilon_v - step, policy.epsilon_v_min),
        min(epsilon_v + step, policy.epsilon_v_max),
        p_tx / ratio,
        min(p_tx * ratio, policy.p_available),
    )


def best_within(policy: ScenarioPolicy, gain_db: float, box: Box) -> tuple[float, float]:
    """Return epsilon_v and p_tx of the best point of a box that meets P1 Eq. 41 and 42, else of the least violation.

    All constraints and the utility are monotone in power, so the highest power decides about epsilon_v; then power
    falls to where utility would. Over epsilon_v the quality rises and the location error grows, so what is feasible
    is an interval, between where the one and where the other binds.
    """
    per_watt = 10.0 ** (gain_db / 10.0)
    reach = policy.alpha * math.log2(1.0 + box.highest_p * per_watt)
    low, high = box.lowest_v, box.highest_v
    least = policy.beta / (reach - policy.a_min) if reach > policy.a_min else math.inf
    most = _location_cap(policy)
    if max(low, least) <= min(high, most):
        low, high = max(low, least), min(high, most)
        epsilon_v = _maximize(low, high, _kinks(policy, reach), lambda v: _utility(policy, v, reach))
    else:
        kinks = [*_kinks(policy, reach), least, most]
        epsilon_v = _maximize(low, high, kinks, lambda v: -_violation(policy, v, reach))
    return epsilon_v, _least_power(policy, epsilon_v, per_watt, box)


def _utility(policy: ScenarioPolicy, epsilon_v: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    semantic = worth.normalized_quality(policy, reach - policy.beta / epsilon_v)
    epsilon_l = policy.epsilon_total - epsilon_v
    location = worth.location_utility(policy, epsilon_l, worth.location_error(policy, epsilon_l))
    return np.asarray(policy.lambda1 * semantic + policy.lambda2 * location, np.float64)


def _violation(policy: ScenarioPolicy, epsilon_v: NDArray[np.float64], reach: float) -> NDArray[np.float64]:
    error = worth.location_error(policy, policy.epsilon_total - epsilon_v)
    return np.asarray(worth.violation(policy, reach - policy.beta / epsilon_v, error), np.float64)


def _kinks(policy: ScenarioPolicy, reach: float) -> list[float]:
    """Where the clip of the quality begins."""
    return [policy.beta / (reach - policy.a_ref)] if reach > policy.a_ref else []


def _maximize(low: float, high: float, kinks: list[float], value: worth.Numbers) -> float:
    """Return where a function is largest in an interval: the best of many points, or between its neighbours."""
    inside = [kink for kink in kinks if low < kink < high]
    points = np.unique(np.concatenate([np.linspace(low, high, POINTS), inside]))
    values = value(points)
    index = int(np.argmax(values))
    below, above = points[max(index - 1, 0)], points[min(index + 1, len(points) - 1)]
    best, best_value = float(points[index]), float(values[index])
    for start, end in ((below, best), (best, above)):  # a kink lies at an end, never inside
        if end - start > 1e-12 * end:
            found = minimize_scalar(lambda v: -float(value(np.array([v]))[0]), bounds=(start, end), method="bounded")
            if -found.fun > best_value:
                best, best_value = float(found.x), -float(found.fun)
    return best


def _least_power(policy: ScenarioPolicy, epsilon_v: float, per_watt: float, box: Box) -> float:
    """Return the least power of the box beyond which neither utility nor a constraint gains."""
    level = policy.a_ref if policy.lambda1 > 0.0 else policy.a_min
    bits = (level + policy.beta / epsilon_v) / policy.alpha
    enough = (2.0 ** min(bits, 1000.0) - 1.0) / per_watt
    return min(max(enough, box.lowest_p), box.highest_p)


@lru_cache(maxsize=64)
def _location_cap(policy: ScenarioPolicy) -> float:
    """Return the largest epsilon_v whose rest of epsilon_total locates within e_max; -inf when there is none."""

    def meets(epsilon_v: float) -> bool:
        return float(worth.location_error(policy, policy.epsilon_total - epsilon_v)) <= policy.e_max

    low, high = policy.epsilon_v_min, policy.epsilon_v_max
    if meets(high):
        return high
    if not meets(low):
        return -math.inf
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        low, high = (middle, high) if meets(middle) else (low, middle)
    return low
