"""What following the channel gains over a flight, against fixed budgets and power of equal cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.control.tracking import BudgetTracker, TrackingConfig
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon
from uav_privacy_sc.privacy.composition import mu_from_pure, total_epsilon

Array = NDArray[np.float64]
#: Divisions of a fixed budget that are tried.
FIXED_SPLITS = 41
LEAST_EPSILON = 1e-6


@dataclass(frozen=True)
class FlightSeries:
    """One controller over one flight: ``(N,)`` a quantity, budgets, watts, utility, and whether Eq. 41 and 42 held."""

    epsilon_v: Array
    epsilon_l: Array
    p_tx: Array
    utility: Array
    feasible: NDArray[np.bool_]


@dataclass(frozen=True)
class Comparison:
    """The same flight with budgets and power that follow, and with the best fixed ones of equal cost.

    ``gain_db`` (N,) are the gains of its blocks. Equal cost is equal mission epsilon and equal transmit energy.
    """

    gain_db: Array
    adaptive: FlightSeries
    fixed: FlightSeries

    @property
    def utility_gain(self) -> float:
        """Mean utility of the adaptive controller over that of the fixed one."""
        return float(self.adaptive.utility.mean() - self.fixed.utility.mean())


def compare(
    policy: ScenarioPolicy, gain_db: ArrayLike, delta: float = 1e-5, tracking: TrackingConfig | None = None
) -> Comparison:
    """Fly a series of gains (dB above the reference gain) twice, at equal mission epsilon and equal energy.

    With ``tracking`` the adaptive flight moves in its bounded steps, as the budget server does; without, every block
    gets its own optimum. :func:`against_fixed` says what it is held against.

    Raises:
        ValueError: a gain is not finite, or there is none.
    """
    gains = np.asarray(gain_db, np.float64).reshape(-1)
    if gains.size == 0 or not np.isfinite(gains).all():
        raise ValueError("gain_db is empty or holds NaN or infinity; give finite dB")
    if tracking is None:
        points = [optimize_at_db(policy, float(gain)) for gain in gains]
    else:
        tracker = BudgetTracker(tracking)
        points = [tracker.update(policy, float(gain)) for gain in gains]
    return against_fixed(policy, gains, series(points), delta)


def against_fixed(policy: ScenarioPolicy, gains_db: Array, adaptive: FlightSeries, delta: float = 1e-5) -> Comparison:
    """Hold a flight against the best fixed budgets and power that would have cost the same.

    Fixed power is the mean of the adaptive powers. Every fixed epsilon_v gets the epsilon_l with which the flight
    composes to the same mission epsilon (:func:`mission_epsilon`). Those within epsilon_total (P1 Eq. 39) may compete,
    and the one whose features cost what the adaptive ones did, though it may pass epsilon_total by a little; the one
    that is worth the most over this flight, in hindsight, is taken.
    """
    mission, power = mission_epsilon(adaptive, delta), float(adaptive.p_tx.mean())
    best: FlightSeries | None = None
    mean_v = epsilon_from_mu(np.sqrt(np.mean(np.square(mu_from_epsilon(adaptive.epsilon_v, delta)))), delta)
    splits = np.linspace(min(policy.epsilon_v_min, mean_v), policy.epsilon_v_max, FIXED_SPLITS)
    for epsilon_v in (float(mean_v), *splits.tolist()):
        epsilon_l = _equal_cost(epsilon_v, mission, len(gains_db), delta)
        allowed = epsilon_l is not None and epsilon_v + epsilon_l <= policy.epsilon_total
        if epsilon_l is None or not (allowed or best is None):
            continue
        flown = hold(policy, gains_db, epsilon_v, epsilon_l, power)
        if best is None or flown.utility.mean() > best.utility.mean():
            best = flown
    assert best is not None  # the first candidate costs features what the adaptive flight's did
    return Comparison(gains_db, adaptive, best)


def mission_epsilon(flown: FlightSeries, delta: float) -> float:
    """Return what a flight costs whoever is in one cell of every frame: its features and its place, composed."""
    mu_squared, pure_squared = (
        float(np.sum(np.square(mu))) for mu in (mu_from_epsilon(flown.epsilon_v, delta), mu_from_pure(flown.epsilon_l))
    )
    return float(total_epsilon(math.sqrt(mu_squared), float(flown.epsilon_l.sum()), pure_squared, delta))


def _equal_cost(epsilon_v: float, mission: float, count: int, delta: float) -> float | None:
    """Return the fixed epsilon_l that composes with a fixed epsilon_v to a mission epsilon; None if nothing is left."""

    def excess(epsilon_l: float) -> float:
        mu = float(mu_from_epsilon(epsilon_v, delta)) * math.sqrt(count)
        pure = float(mu_from_pure(epsilon_l)) ** 2 * count
        return float(total_epsilon(mu, epsilon_l * count, pure, delta)) - mission

    if excess(LEAST_EPSILON) >= 0.0:
        return None
    return float(brentq(excess, LEAST_EPSILON, mission + 1.0, xtol=1e-9))


def series(points: list[OperatingPoint]) -> FlightSeries:
    """Return a flight's operating points as arrays."""
    epsilon_v, epsilon_l, p_tx, value = np.array([(p.epsilon_v, p.epsilon_l, p.p_tx, p.utility) for p in points]).T
    return FlightSeries(epsilon_v, epsilon_l, p_tx, value, np.array([point.feasible for point in points]))


def hold(policy: ScenarioPolicy, gains_db: Array, epsilon_v: float, epsilon_l: float, p_tx: float) -> FlightSeries:
    """Return what fixed budgets and power are worth over a flight."""
    snr = p_tx * 10.0 ** (gains_db / 10.0)
    quality, error = worth.semantic_quality(policy, epsilon_v, snr), worth.location_error(policy, epsilon_l)
    constant = np.ones_like(gains_db)
    return FlightSeries(
        epsilon_v * constant,
        epsilon_l * constant,
        p_tx * constant,
        worth.utility(policy, epsilon_v, epsilon_l, snr),
        np.asarray(worth.violation(policy, quality, error) <= 1e-9),
    )


def utility_surface(policy: ScenarioPolicy, gain_db: float, points: int = 81) -> tuple[Array, Array, Array]:
    """Return ``(points,)`` epsilon_v, ``(points,)`` p_tx and their ``(points, points)`` utility (rows: power).

    epsilon_l is the rest of epsilon_total; NaN where a constraint does not hold. For plots.
    """
    epsilon_v = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, points)
    p_tx = np.linspace(0.0, policy.p_available, points + 1)[1:]
    snr = p_tx[:, None] * 10.0 ** (gain_db / 10.0)
    epsilon_l = policy.epsilon_total - epsilon_v
    missed = worth.violation(
        policy, worth.semantic_quality(policy, epsilon_v, snr), worth.location_error(policy, epsilon_l)
    )
    surface: Array = np.where(missed > 0.0, np.nan, worth.utility(policy, epsilon_v, epsilon_l, snr))
    return np.asarray(epsilon_v, np.float64), np.asarray(p_tx, np.float64), surface
