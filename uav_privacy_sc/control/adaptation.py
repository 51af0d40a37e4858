"""What following the channel gains over a flight, against fixed budgets and power of equal cost."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon

Array = NDArray[np.float64]


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
    """The same flight with budgets and power that follow, and with fixed ones of equal mission epsilon and energy."""

    gain_db: Array
    adaptive: FlightSeries
    fixed: FlightSeries

    @property
    def utility_gain(self) -> float:
        """Mean utility of the adaptive controller over that of the fixed one."""
        return float(self.adaptive.utility.mean() - self.fixed.utility.mean())


def compare(policy: ScenarioPolicy, gain_db: ArrayLike, delta: float = 1e-5) -> Comparison:
    """Fly a series of gains (dB above the reference gain) twice, at equal mission epsilon and equal energy.

    Fixed power is the mean of the adaptive powers. Fixed epsilon_v composes over the flight to the same epsilon as the
    adaptive ones (Gaussian DP: equal sums of mu squared), fixed epsilon_l adds up to the same sum.

    Raises:
        ValueError: a gain is not finite, or there is none.
    """
    gains = np.asarray(gain_db, np.float64).reshape(-1)
    if gains.size == 0 or not np.isfinite(gains).all():
        raise ValueError("gain_db is empty or holds NaN or infinity; give finite dB")
    adaptive = series([optimize_at_db(policy, float(gain)) for gain in gains])
    mu = mu_from_epsilon(adaptive.epsilon_v, delta)
    epsilon_v = float(epsilon_from_mu(np.sqrt(np.mean(np.square(mu))), delta))
    fixed = hold(policy, gains, epsilon_v, float(adaptive.epsilon_l.mean()), float(adaptive.p_tx.mean()))
    return Comparison(gains, adaptive, fixed)


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
