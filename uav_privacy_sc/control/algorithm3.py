"""P1's Algorithm 3 as it reads: two plain grid searches an iteration. Slow, and kept to measure ``bcd.optimize`` by."""

from __future__ import annotations

import math

import numpy as np

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.bcd import SolverConfig
from uav_privacy_sc.control.policy import ScenarioPolicy

Point = tuple[float, float, float]  # epsilon_v, epsilon_l, p_tx


def plain_grid_search(
    policy: ScenarioPolicy,
    gain: float,
    noise_power: float = 1.0,
    points: int = 1001,
    solver: SolverConfig | None = None,
) -> tuple[Point, float]:
    """Return Algorithm 3's best point and its utility, from full power and the middle of the budget interval.

    ``points`` candidates a search; location errors are computed once a solve. The utility is minus infinity when no
    point seen is feasible.
    """
    solver = solver or SolverConfig()
    budgets = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, points)
    errors = np.asarray(worth.location_error(policy, policy.epsilon_total - budgets)).tolist()
    search = _PlainSearch(policy, gain / noise_power, budgets.tolist(), errors)
    epsilon_v, power = float(budgets[points // 2]), policy.p_available
    value, best = search.value(epsilon_v, power), (-math.inf, epsilon_v, power)
    for iteration in range(1, solver.max_iterations + 1):
        previous, target = value, search.budgets(power)
        epsilon_v += solver.damping * (target - epsilon_v)
        target_power = search.power(target)
        power += solver.damping * (target_power - power)
        value = search.value(epsilon_v, power)
        best = max(best, (value, epsilon_v, power), (search.value(target, target_power), target, target_power))
        if iteration >= solver.min_iterations and abs(value - previous) < solver.tolerance:
            break
    return (best[1], policy.epsilon_total - best[1], best[2]), best[0]


class _PlainSearch:
    """The two one-dimensional searches, one candidate after the other."""

    def __init__(self, policy: ScenarioPolicy, per_watt: float, budgets: list[float], errors: list[float]) -> None:
        self.policy, self.per_watt, self.grid, self.errors = policy, per_watt, budgets, errors
        self.step = (budgets[-1] - budgets[0]) / (len(budgets) - 1) or 1.0

    def value(self, epsilon_v: float, power: float) -> float:
        policy = self.policy
        position = (epsilon_v - self.grid[0]) / self.step
        index = min(int(position), len(self.errors) - 2)
        error = self.errors[index] + (position - index) * (self.errors[index + 1] - self.errors[index])
        quality = policy.alpha * math.log2(1.0 + power * self.per_watt) - policy.beta / epsilon_v
        if quality < policy.a_min or error > policy.e_max:
            return -math.inf
        semantic = min((quality - policy.a_min) / (policy.a_ref - policy.a_min), 1.0)
        if policy.location_utility == "log":
            location = policy.gamma_loc * math.log2(1.0 + policy.epsilon_total - epsilon_v)
        else:
            location = 1.0 - error / policy.e_max
        return policy.lambda1 * semantic + policy.lambda2 * location

    def budgets(self, power: float) -> float:
        """Subproblem A: scan epsilon_v at this power."""
        best, best_value = self.grid[0], -math.inf
        for epsilon_v in self.grid:
            value = self.value(epsilon_v, power)
            if value > best_value:
                best, best_value = epsilon_v, value
        return best

    def power(self, epsilon_v: float) -> float:
        """Subproblem B: scan the power at these budgets; of equals the least."""
        best, best_value = self.policy.p_available, -math.inf
        for step in range(1, len(self.grid) + 1):
            power = self.policy.p_available * step / len(self.grid)
            value = self.value(epsilon_v, power)
            if value > best_value:
                best, best_value = power, value
        return best
