"""Block coordinate descent over privacy budgets and transmit power (P1 section 4.2, Algorithm 3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.policy import ScenarioPolicy

TABLE_SIZE = 1025
#: The start is the best of this many points, evenly spread over the feasible budgets at full power.
START_POINTS = 4
#: Slack for constraints met with equality, far below what any figure shows.
ROUNDING = 1e-12
#: Gains beyond this, or below its negative, are no channel.
HIGHEST_GAIN_DB = 390.0
#: Share of the available power that a transmission needs at least.
LEAST_POWER = 1e-6


@dataclass(frozen=True)
class SolverConfig:
    """Damping and stopping rule (P1 section 5.5)."""

    damping: float = 0.55
    tolerance: float = 1e-4
    min_iterations: int = 6
    max_iterations: int = 50

    def __post_init__(self) -> None:
        if not 0.0 < self.damping <= 1.0:
            raise ValueError(f"damping is {self.damping!r}; give a number above 0 and at most 1")
        if not (math.isfinite(self.tolerance) and self.tolerance > 0.0):
            raise ValueError(f"tolerance is {self.tolerance!r}; give a finite number above 0")
        if not 1 <= self.min_iterations <= self.max_iterations:
            raise ValueError(
                f"min_iterations is {self.min_iterations!r}; give at least 1 and at most max_iterations "
                f"({self.max_iterations!r})"
            )


@dataclass(frozen=True)
class Iteration:
    """One damped step: the point, its utility, and the best utility seen up to it."""

    epsilon_v: float
    epsilon_l: float
    p_tx: float
    utility: float
    best_utility: float


@dataclass(frozen=True)
class OperatingPoint:
    """What the solver chose, how it got there, and whether it may be flown.

    ``status`` is ``converged``, ``max_iterations`` or ``infeasible``; in the last case the point is that of least
    ``violation`` (``control.utility.violation``, 0 otherwise). Power in W, ``location_error`` in image sides.
    """

    epsilon_v: float
    epsilon_l: float
    p_tx: float
    utility: float
    history: tuple[Iteration, ...]
    status: str
    violation: float
    semantic_quality: float
    location_error: float
    snr_db: float

    @property
    def feasible(self) -> bool:
        """Whether the constraints of P1 Eq. 39 to 42 all hold."""
        return self.status != "infeasible"


def optimize(
    policy: ScenarioPolicy, gain: float, noise_power: float = 1.0, solver: SolverConfig | None = None
) -> OperatingPoint:
    """Choose epsilon_v, epsilon_l and p_tx for one block (P1 Algorithm 3).

    ``gain`` is the linear power gain and ``noise_power`` the receiver's noise in W; only their ratio counts. The best
    point seen is returned, damped or not, so the best utility never falls (P1 claims this "in expectation").

    Raises:
        ValueError: ``gain`` or ``noise_power`` is NaN, infinite, zero or negative.
    """
    per_watt = _gain_to_noise(gain, noise_power)
    return _Solve(policy, _tabulate(policy), per_watt, solver or SolverConfig()).run()


def optimize_at_db(policy: ScenarioPolicy, gain_db: float, solver: SolverConfig | None = None) -> OperatingPoint:
    """Choose the operating point at a gain in dB above the reference gain (``link.channel.BlockState.gain_db``)."""
    if not (math.isfinite(gain_db) and abs(gain_db) <= HIGHEST_GAIN_DB):
        limit = f"{HIGHEST_GAIN_DB:g}"
        raise ValueError(f"gain_db is {gain_db!r}; give a finite number of dB between -{limit} and {limit}")
    return optimize(policy, 10.0 ** (gain_db / 10.0), 1.0, solver)


def _gain_to_noise(gain: float, noise_power: float) -> float:
    for name, value in (("gain", gain), ("noise_power", noise_power)):
        if not (math.isfinite(value) and value > 0.0):
            raise ValueError(f"{name} is {value!r}; give a finite number above 0")
    ratio = float(gain) / float(noise_power)
    if not 1e-40 < ratio < 1e40:
        raise ValueError(f"gain over noise_power is {ratio:g} a watt; give a ratio between 1e-40 and 1e40")
    return ratio


@dataclass(frozen=True)
class _Table:
    """The part of the problem that no channel changes, over a fine grid of epsilon_v with epsilon_l the rest."""

    epsilon_v: np.ndarray
    penalty: np.ndarray  # beta / epsilon_v
    error: np.ndarray  # E_loc
    location: np.ndarray  # lambda2 U_loc
    epsilon_v_cap: float  # the largest epsilon_v with E_loc <= e_max; -inf when there is none


@lru_cache(maxsize=64)
def _tabulate(policy: ScenarioPolicy) -> _Table:
    epsilon_v = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, TABLE_SIZE)
    epsilon_l = policy.epsilon_total - epsilon_v
    error = np.asarray(worth.location_error(policy, epsilon_l), np.float64)
    location = policy.lambda2 * np.asarray(worth.location_utility(policy, epsilon_l, error), np.float64)
    return _Table(epsilon_v, policy.beta / epsilon_v, error, location, _cap(policy, epsilon_v, error))


def _cap(policy: ScenarioPolicy, epsilon_v: np.ndarray, error: np.ndarray) -> float:
    """Return where E_loc, which grows with epsilon_v, reaches e_max."""
    if error[0] > policy.e_max:
        return -math.inf
    return float(np.interp(policy.e_max, error, epsilon_v))


class _Solve:
    """One run of Algorithm 3; holds what its steps share."""

    def __init__(self, policy: ScenarioPolicy, table: _Table, per_watt: float, solver: SolverConfig) -> None:
        self.policy, self.table, self.per_watt, self.solver = policy, table, per_watt, solver
        self.span = policy.a_ref - policy.a_min
        self.best = (math.nan, math.nan, -math.inf)
        self.history: list[Iteration] = []

    def run(self) -> OperatingPoint:
        power = self.policy.p_available
        epsilon_v = self.start(power)
        if math.isnan(epsilon_v):
            return self.least_violation(power)
        self.see(epsilon_v, power)
        value, status = self.value(epsilon_v, power), "max_iterations"
        for iteration in range(1, self.solver.max_iterations + 1):
            previous = value
            epsilon_v, power = self.step(epsilon_v, power)
            value = self.history[-1].utility
            if iteration >= self.solver.min_iterations and abs(value - previous) < self.solver.tolerance:
                status = "converged"
                break
        return self.point(*self.best[:2], status)

    def step(self, epsilon_v: float, power: float) -> tuple[float, float]:
        """Solve both subproblems and move towards their answers (P1 Eq. 43 to 47).

        Subproblem B looks at the undamped budgets. At the damped ones, where A_sem is above a_ref, it would give up
        power that subproblem A needs to trade epsilon_v for epsilon_l, and the two would slide away from the optimum.
        """
        eta = self.solver.damping
        target = self.search_budgets(power)
        target_power = self.least_power(target)
        self.see(target, target_power)
        epsilon_v = eta * target + (1.0 - eta) * epsilon_v
        power = eta * target_power + (1.0 - eta) * power
        value = self.see(epsilon_v, power)
        self.history.append(Iteration(epsilon_v, self.rest(epsilon_v), power, value, self.best[2]))
        return epsilon_v, power

    def start(self, power: float) -> float:
        """Where to begin, from the policy and the channel (Algorithm 3, line 1); nan when nothing is feasible."""
        policy, reach = self.policy, self.reach(power)
        if reach <= policy.a_min:
            return math.nan
        low = max(policy.epsilon_v_min, policy.beta / (reach - policy.a_min))
        high = min(policy.epsilon_v_max, self.table.epsilon_v_cap)
        if not low <= high:
            return math.nan
        spread = [low + (high - low) * (index + 0.5) / START_POINTS for index in range(START_POINTS)]
        return max(spread, key=lambda epsilon_v: self.value(epsilon_v, power))

    def search_budgets(self, power: float) -> float:
        """Subproblem A: the best epsilon_v at this power, on the table and at the kinks."""
        policy, table = self.policy, self.table
        reach = self.reach(power)
        quality = reach - table.penalty
        values = table.location + policy.lambda1 * np.minimum((quality - policy.a_min) / self.span, 1.0)
        values[(quality < policy.a_min) | (table.error > policy.e_max)] = -math.inf
        index = int(values.argmax())
        best, best_value = float(table.epsilon_v[index]), float(values[index])
        for candidate in self.kinks(reach):
            value = self.value(candidate, power)
            if value > best_value:
                best, best_value = candidate, value
        return best

    def kinks(self, reach: float) -> list[float]:
        """Where the clip of A_sem begins, and the two ends that the constraints leave of the interval."""
        levels = (self.policy.a_ref, self.policy.a_min)
        points = [self.policy.beta / (reach - level) for level in levels if reach > level]
        points.append(self.table.epsilon_v_cap)
        return [point for point in points if self.policy.epsilon_v_min <= point <= self.policy.epsilon_v_max]

    def least_power(self, epsilon_v: float) -> float:
        """Subproblem B: U grows with power until A_sem is clipped; of the powers of equal utility the least."""
        level = self.policy.a_ref if self.policy.lambda1 > 0.0 else self.policy.a_min
        bits = (level + self.policy.beta / epsilon_v) / self.policy.alpha
        enough = (2.0 ** min(bits, 1000.0) - 1.0) / self.per_watt
        # alpha log2(1 + SNR) can pass the level without any power; a transmission still needs some
        return min(max(enough, LEAST_POWER * self.policy.p_available), self.policy.p_available)

    def reach(self, power: float) -> float:
        """The part of A_sem that the channel gives."""
        return self.policy.alpha * math.log2(1.0 + power * self.per_watt)

    def rest(self, epsilon_v: float) -> float:
        return self.policy.epsilon_total - epsilon_v

    def error(self, epsilon_v: float) -> float:
        return float(np.interp(epsilon_v, self.table.epsilon_v, self.table.error))

    def value(self, epsilon_v: float, power: float) -> float:
        """U at a point, minus infinity outside the constraints."""
        policy = self.policy
        quality = self.reach(power) - policy.beta / epsilon_v
        if quality < policy.a_min - ROUNDING or epsilon_v > self.table.epsilon_v_cap + ROUNDING:
            return -math.inf
        location = float(np.interp(epsilon_v, self.table.epsilon_v, self.table.location))
        return location + policy.lambda1 * min(max((quality - policy.a_min) / self.span, 0.0), 1.0)

    def see(self, epsilon_v: float, power: float) -> float:
        """Return the utility of a point, and keep the point if it is the best; of equals that of less power."""
        value = self.value(epsilon_v, power)
        if value > self.best[2] + ROUNDING or (value >= self.best[2] - ROUNDING and power < self.best[1]):
            self.best = (epsilon_v, power, max(value, self.best[2]))
        return value

    def least_violation(self, power: float) -> OperatingPoint:
        """Nothing is feasible: full power and the budgets that miss the constraints by the least."""
        reach = self.reach(power)
        candidates = np.append(self.table.epsilon_v, self.kinks(reach))
        errors = np.interp(candidates, self.table.epsilon_v, self.table.error)
        missed = worth.violation(self.policy, reach - self.policy.beta / candidates, errors)
        return self.point(float(candidates[int(np.argmin(missed))]), power, "infeasible")

    def point(self, epsilon_v: float, power: float, status: str) -> OperatingPoint:
        policy, snr, epsilon_l = self.policy, power * self.per_watt, self.rest(epsilon_v)
        quality, error = self.reach(power) - policy.beta / epsilon_v, self.error(epsilon_v)
        return OperatingPoint(
            epsilon_v=epsilon_v,
            epsilon_l=epsilon_l,
            p_tx=power,
            utility=float(
                policy.lambda1 * worth.normalized_quality(policy, quality)
                + policy.lambda2 * worth.location_utility(policy, epsilon_l, error)
            ),
            history=tuple(self.history),
            status=status,
            violation=float(worth.violation(policy, quality, error)) if status == "infeasible" else 0.0,
            semantic_quality=quality,
            location_error=error,
            snr_db=10.0 * math.log10(snr),
        )
