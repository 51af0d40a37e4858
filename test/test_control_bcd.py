"""The solver against a dense global search, its stopping, its constraints, and what it refuses."""

from __future__ import annotations

import dataclasses
import time
from statistics import median

import numpy as np
import pytest

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.algorithm3 import plain_grid_search
from uav_privacy_sc.control.bcd import OperatingPoint, SolverConfig, optimize, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy, load_policies

POLICIES = load_policies()
CHANNELS = 1000


@pytest.fixture(params=list(POLICIES))
def policy(request) -> ScenarioPolicy:
    return POLICIES[request.param]


def channels(seed: int, count: int = CHANNELS) -> np.ndarray:
    """Gains over noise per watt: means from -10 to 30 dB, each with a Rayleigh fade of its own."""
    rng = np.random.default_rng(seed)
    return 10 ** rng.uniform(-1.0, 3.0, count) * rng.exponential(1.0, count)


class DenseSearch:
    """Every epsilon_v on a fine grid, every power on a coarse one that ends at what is available."""

    def __init__(self, policy: ScenarioPolicy, points: int = 4001, powers: int = 9) -> None:
        self.policy = policy
        self.epsilon_v = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, points)
        self.epsilon_l = policy.epsilon_total - self.epsilon_v
        self.error = worth.location_error(policy, self.epsilon_l)
        self.location = policy.lambda2 * worth.location_utility(policy, self.epsilon_l, self.error)
        self.powers = np.linspace(0.0, policy.p_available, powers + 1)[1:, None]

    def best(self, gain: float) -> float:
        """Return the greatest feasible utility, minus infinity when there is none."""
        policy = self.policy
        quality = policy.alpha * np.log2(1 + gain * self.powers) - policy.beta / self.epsilon_v
        value = self.location + policy.lambda1 * worth.normalized_quality(policy, quality)
        feasible = (quality >= policy.a_min) & (self.error <= policy.e_max)
        return float(np.where(feasible, value, -np.inf).max())


def solve_all(policy: ScenarioPolicy, gains: np.ndarray) -> list[OperatingPoint]:
    return [optimize(policy, float(gain)) for gain in gains]


def recomputed_utility(policy: ScenarioPolicy, point: OperatingPoint, gain: float) -> float:
    return float(worth.utility(policy, point.epsilon_v, point.epsilon_l, gain * point.p_tx))


def test_utility_is_within_a_thousandth_of_the_global_optimum_on_every_feasible_channel(policy):
    gains, dense = channels(1), DenseSearch(policy)
    feasible = 0
    for gain, point in zip(gains, solve_all(policy, gains), strict=True):
        optimum = dense.best(gain)
        if point.feasible:
            assert point.utility >= optimum - 1e-3
            assert point.utility <= 1.0 and recomputed_utility(policy, point, gain) == pytest.approx(
                point.utility, abs=1e-5
            )
            feasible += 1
        else:
            assert optimum == -np.inf  # nothing feasible is called infeasible
    assert feasible > 0.75 * len(gains)


def test_spending_all_of_epsilon_total_is_never_worse_than_spending_less(policy):
    """P1 fixes epsilon_l = epsilon_total - epsilon_v; a search over both finds nothing better."""
    epsilon_v = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, 301)[:, None]
    epsilon_l = np.linspace(policy.epsilon_l_min, policy.epsilon_total - policy.epsilon_v_min, 301)[None, :]
    error = worth.location_error(policy, epsilon_l)
    for gain in channels(2, 20):
        quality = worth.semantic_quality(policy, epsilon_v, gain * policy.p_available)
        value = worth.utility(policy, epsilon_v, epsilon_l, gain * policy.p_available)
        allowed = (epsilon_v + epsilon_l <= policy.epsilon_total) & (quality >= policy.a_min) & (error <= policy.e_max)
        point = optimize(policy, float(gain))
        if point.feasible:
            assert point.utility >= np.where(allowed, value, -np.inf).max() - 1e-6


def test_stops_after_six_to_eight_iterations_on_at_least_95_percent_of_channels(policy):
    points = [point for point in solve_all(policy, channels(3)) if point.feasible]
    iterations = np.array([len(point.history) for point in points])
    assert np.mean((iterations >= 6) & (iterations <= 8)) >= 0.95
    assert {point.status for point in points} == {"converged"}


def test_best_utility_never_falls_and_is_that_which_is_returned(policy):
    for point in solve_all(policy, channels(4, 200)):
        best = [step.best_utility for step in point.history]
        assert all(after >= before for before, after in zip(best, best[1:], strict=False))
        assert all(step.best_utility >= step.utility for step in point.history)
        if point.feasible:
            assert point.utility == pytest.approx(best[-1], abs=1e-9)


def test_constraints_hold_at_every_feasible_point(policy):
    for gain, point in zip(channels(5), solve_all(policy, channels(5)), strict=True):
        assert 0 < point.p_tx <= policy.p_available
        assert point.epsilon_v + point.epsilon_l == pytest.approx(policy.epsilon_total)
        assert point.epsilon_v >= policy.epsilon_v_min and point.epsilon_l >= policy.epsilon_l_min - 1e-12
        assert point.snr_db == pytest.approx(10 * np.log10(gain * point.p_tx))
        if point.feasible:
            assert point.violation == 0.0
            assert worth.semantic_quality(policy, point.epsilon_v, gain * point.p_tx) >= policy.a_min - 1e-9
            assert worth.location_error(policy, point.epsilon_l) <= policy.e_max + 1e-6


def test_of_equal_utility_the_least_power_is_taken(policy):
    point = optimize_at_db(policy, 25.0)
    assert point.p_tx < 0.2 * policy.p_available
    less = worth.utility(policy, point.epsilon_v, point.epsilon_l, 10**2.5 * point.p_tx * 0.99)
    more = worth.utility(policy, point.epsilon_v, point.epsilon_l, 10**2.5 * policy.p_available)
    assert less < point.utility - 1e-4
    assert more == pytest.approx(point.utility, abs=1e-6)


def test_a_better_channel_is_never_worth_less(policy):
    points = [optimize_at_db(policy, gain_db) for gain_db in np.arange(-10.0, 30.5, 0.5)]
    utilities = [point.utility for point in points if point.feasible]
    assert len(utilities) >= 0.75 * len(points)
    assert np.diff(utilities).min() > -1e-6


def test_infeasible_is_flagged_with_the_least_violation(policy):
    far = dataclasses.replace(policy, a_min=policy.a_ref - 0.01)
    point = optimize_at_db(far, -10.0)
    assert point.status == "infeasible" and not point.feasible and point.violation > 0
    epsilon_v = np.linspace(far.epsilon_v_min, far.epsilon_v_max, 20_001)
    quality = worth.semantic_quality(far, epsilon_v, 0.1 * far.p_available)
    error = worth.location_error(far, far.epsilon_total - epsilon_v)
    assert point.violation == pytest.approx(worth.violation(far, quality, error).min(), rel=1e-4)
    assert point.p_tx == far.p_available


def test_a_location_error_that_no_budget_reaches_is_infeasible_at_any_gain(policy):
    blind = dataclasses.replace(policy, e_max=1e-3)
    assert optimize_at_db(blind, 30.0).status == "infeasible"


def test_max_iterations_is_reported(policy):
    point = optimize_at_db(policy, 8.0, SolverConfig(min_iterations=2, max_iterations=2, tolerance=1e-15, damping=0.1))
    assert point.status == "max_iterations" and len(point.history) == 2


def test_only_the_ratio_of_gain_and_noise_counts(policy):
    near, far = optimize(policy, 20.0, 1.0), optimize(policy, 20e-13, 1e-13)
    assert near.p_tx == pytest.approx(far.p_tx) and near.epsilon_v == pytest.approx(far.epsilon_v)


def test_log_form_of_the_location_utility_is_available_by_name(policy):
    logarithmic = dataclasses.replace(policy, location_utility="log")
    for gain in channels(6, 50):
        point = optimize(logarithmic, float(gain))
        if point.feasible:
            assert point.utility >= DenseSearch(logarithmic, 1001, 1).best(gain) - 1e-3


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0)])
def test_one_sided_policies_are_solved_too(policy, weights):
    one_sided = dataclasses.replace(policy, lambda1=weights[0], lambda2=weights[1])
    for gain in channels(7, 50):
        point = optimize(one_sided, float(gain))
        if point.feasible:
            assert point.utility >= DenseSearch(one_sided, 1001, 1).best(gain) - 1e-3


def test_a_single_allowed_split_is_solved(policy):
    fixed = dataclasses.replace(policy, epsilon_v_min=policy.epsilon_v_max, e_max=1.0)
    point = optimize_at_db(fixed, 20.0)
    assert point.status == "converged" and point.epsilon_v == pytest.approx(policy.epsilon_v_max)
    assert point.p_tx < 0.2 * policy.p_available  # among equals the least power, though the start has all of it


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("name", ["gain", "noise_power"])
def test_gain_and_noise_that_are_none_are_refused_by_name(policy, name, value):
    with pytest.raises(ValueError, match=f"^{name} is"):
        optimize(policy, **{"gain": 1.0, "noise_power": 1.0, name: value})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e6])
def test_gain_in_db_that_is_none_is_refused_by_name(policy, value):
    with pytest.raises(ValueError, match="^gain_db is"):
        optimize_at_db(policy, value)


def test_extreme_gains_give_finite_points(policy):
    for gain_db in (-300.0, -200.0, 200.0, 300.0):
        point = optimize_at_db(policy, gain_db)
        assert np.isfinite([point.epsilon_v, point.epsilon_l, point.p_tx, point.utility, point.snr_db]).all()


@pytest.mark.parametrize(
    "change", [{"damping": 0.0}, {"damping": float("nan")}, {"tolerance": 0.0}, {"min_iterations": 0}]
)
def test_solver_configuration_is_checked_by_name(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))} is"):
        SolverConfig(**change)


def test_a_solve_takes_a_millisecond_and_a_fifteenth_of_the_plain_grid_search(policy):
    """In one run and with the same answer; P1 Table 4 has 19.0 ms."""
    gains = [float(gain) for gain in channels(8, 60)]
    optimize(policy, gains[0])
    ours, plain = [], []
    for gain in gains:
        start = time.perf_counter()
        point = optimize(policy, gain)
        middle = time.perf_counter()
        _, value = plain_grid_search(policy, gain)
        ours.append(middle - start)
        plain.append(time.perf_counter() - middle)
        if point.feasible:
            assert point.utility == pytest.approx(value, abs=1e-3)
    assert median(ours) < 1e-3
    assert median(plain) > 15 * median(ours)
