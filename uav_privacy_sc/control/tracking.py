"""Budgets and power that follow the channel without jumps or chatter."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.bcd import LEAST_POWER, OperatingPoint, optimize_at_db
from uav_privacy_sc.control.bounded_step import Box, best_within, reachable
from uav_privacy_sc.control.policy import ScenarioPolicy


@dataclass(frozen=True)
class TrackingConfig:
    """How fast budgets and power may move from block to block, and what is too little to move for.

    ``gain_memory`` is the weight of the past in the gain (in dB) that is solved for: 0 trusts each block, which is
    right when its gain is known before it is used, as in P1. Steps and dead bands: budgets as a share of
    epsilon_total, power in dB. A point that misses a constraint moves whatever the dead bands say, and to wherever
    within the step none is missed, at the gain of the block, whatever is solved for.
    """

    gain_memory: float = 0.0
    budget_step: float = 0.2
    budget_dead_band: float = 0.01
    power_step_db: float = 10.0
    power_dead_band_db: float = 0.25

    def __post_init__(self) -> None:
        if not 0.0 <= self.gain_memory < 1.0:
            raise ValueError(f"gain_memory is {self.gain_memory!r}; give a number of at least 0 and below 1")
        for name in ("budget_step", "power_step_db"):
            if not getattr(self, name) > 0.0:  # infinity: no bound
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number above 0")
        for name, step in (("budget_dead_band", self.budget_step), ("power_dead_band_db", self.power_step_db)):
            if not 0.0 <= getattr(self, name) <= step:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number from 0 to the step, {step:g}")


class BudgetTracker:
    """Solves for each block's gain and moves towards the answer. One a mission; a changed policy is obeyed at once."""

    def __init__(self, config: TrackingConfig | None = None) -> None:
        self.config = config or TrackingConfig()
        self._policy: ScenarioPolicy | None = None
        self._gain_db = math.nan
        self._epsilon_v = self._p_tx = math.nan

    def update(self, policy: ScenarioPolicy, gain_db: float) -> OperatingPoint:
        """Return the point to fly at this gain in dB above the reference gain.

        Its utility, SNR, violation and status are those of the point flown at ``gain_db``, not of the solver's target:
        ``infeasible`` means that no point within the step meets every constraint, and then it is that of least
        violation.

        Raises:
            ValueError: ``gain_db`` is not finite; what was tracked before is kept.
        """
        target = optimize_at_db(policy, self._smoothed(gain_db))
        moved = self._followed(policy, target, gain_db)
        if _missed(policy, *moved, gain_db):
            moved = best_within(policy, gain_db, self._box(policy))
        self._policy, (self._epsilon_v, self._p_tx) = policy, moved
        return self._point(policy, target, gain_db)

    def _followed(self, policy: ScenarioPolicy, target: OperatingPoint, gain_db: float) -> tuple[float, float]:
        """Return epsilon_v and p_tx on the way to the target, without dead bands where these miss a constraint."""
        if policy != self._policy:
            return target.epsilon_v, target.p_tx
        moved = self._moved(policy, target, self.config.budget_dead_band, self.config.power_dead_band_db)
        return self._moved(policy, target, 0.0, 0.0) if _missed(policy, *moved, gain_db) else moved

    def _box(self, policy: ScenarioPolicy) -> Box:
        """Return what one step reaches; everything for a new policy, which is obeyed at once."""
        if policy != self._policy:
            lowest_p = LEAST_POWER * policy.p_available
            return Box(policy.epsilon_v_min, policy.epsilon_v_max, lowest_p, policy.p_available)
        return reachable(policy, self._epsilon_v, self._p_tx, self.config.budget_step, self.config.power_step_db)

    def _smoothed(self, gain_db: float) -> float:
        if not math.isfinite(gain_db):
            raise ValueError(f"gain_db is {gain_db!r}; give a finite number of dB")
        memory = 0.0 if math.isnan(self._gain_db) else self.config.gain_memory
        self._gain_db = gain_db if memory == 0.0 else memory * self._gain_db + (1.0 - memory) * gain_db
        return self._gain_db

    def _moved(
        self, policy: ScenarioPolicy, target: OperatingPoint, budget_dead_band: float, power_dead_band_db: float
    ) -> tuple[float, float]:
        """Return epsilon_v and p_tx after one bounded step towards the target."""
        total, way = policy.epsilon_total, target.epsilon_v - self._epsilon_v
        epsilon_v = self._epsilon_v + _way(way, self.config.budget_step * total, budget_dead_band * total)
        way_db = 10.0 * math.log10(target.p_tx / self._p_tx)
        step_db = _way(way_db, self.config.power_step_db, power_dead_band_db)
        if step_db == way_db:  # all the way is exactly there: a constraint met with equality leaves no room to round
            return epsilon_v, target.p_tx
        return epsilon_v, min(self._p_tx * 10.0 ** (step_db / 10.0), policy.p_available)

    def _point(self, policy: ScenarioPolicy, target: OperatingPoint, gain_db: float) -> OperatingPoint:
        epsilon_l = policy.epsilon_total - self._epsilon_v
        snr = self._p_tx * 10.0 ** (gain_db / 10.0)
        flown = worth.assess(policy, self._epsilon_v, epsilon_l, snr)
        return replace(
            target,
            epsilon_v=self._epsilon_v,
            epsilon_l=epsilon_l,
            p_tx=self._p_tx,
            utility=flown.utility,
            status=_status(target, flown.violation),
            violation=flown.violation,
            semantic_quality=flown.semantic_quality,
            location_error=flown.location_error,
            snr_db=10.0 * math.log10(snr),
        )


def _status(target: OperatingPoint, violation: float) -> str:
    if violation > 0.0:
        return "infeasible"
    return target.status if target.feasible else "converged"  # the target was solved for at a smoothed gain


def _missed(policy: ScenarioPolicy, epsilon_v: float, p_tx: float, gain_db: float) -> bool:
    """Whether a point misses a constraint at a gain."""
    snr = p_tx * 10.0 ** (gain_db / 10.0)
    return worth.assess(policy, epsilon_v, policy.epsilon_total - epsilon_v, snr).violation > 0.0


def _way(way: float, step: float, dead_band: float) -> float:
    """Return how far to go of a way: at most ``step``, and nothing (exactly) within the dead band."""
    return 0.0 if abs(way) <= dead_band else max(-step, min(step, way))
