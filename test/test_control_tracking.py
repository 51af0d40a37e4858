"""Budgets over a flight: bounded steps, no chatter, obedience to a new policy, pacing, and what following gains."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from uav_privacy_sc.control import operating_points
from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.adaptation import compare, mission_epsilon, utility_surface
from uav_privacy_sc.control.bcd import optimize_at_db
from uav_privacy_sc.control.pacing import frame_epsilon, paced, squeezed
from uav_privacy_sc.control.policy import ScenarioPolicy, load_policies
from uav_privacy_sc.control.tracking import BudgetTracker, TrackingConfig
from uav_privacy_sc.link.channel import LinkConfig
from uav_privacy_sc.link.geometry import Trajectory
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.privacy.accountant import BudgetExhausted, Expenditure, Odometer
from uav_privacy_sc.privacy.calibration import mu_from_epsilon

POLICIES = load_policies()
DOCUMENT = Path(__file__).parents[1] / "docs" / "operating-points.md"


@pytest.fixture(params=list(POLICIES))
def policy(request) -> ScenarioPolicy:
    return POLICIES[request.param]


def flight_gains(config: LinkConfig, seed: int = 0) -> np.ndarray:
    """Away from the ground station at 8 m/s, behind something from 20 to 35 s, ten blocks a second."""
    time_s = np.linspace(0.0, 60.0, 61)
    position = np.stack([50 + 8 * time_s, 0 * time_s, 0 * time_s + 80], axis=1)
    path = Trajectory(time_s, position, np.where((time_s > 20) & (time_s < 35), 12.0, 0.0))
    links = FlightLinks(config, np.random.default_rng(seed), np.random.default_rng(seed + 1), path)
    return np.array([links.states(0.1 * index)[0].gain_db for index in range(600)])


def test_steps_are_bounded_and_the_budget_is_never_passed(policy):
    tracker = BudgetTracker(TrackingConfig(budget_step=0.05, power_step_db=2.0))
    points = [tracker.update(policy, gain_db) for gain_db in flight_gains(LinkConfig())]
    epsilon_v, p_tx = (np.array([getattr(point, name) for point in points]) for name in ("epsilon_v", "p_tx"))
    assert np.abs(np.diff(epsilon_v)).max() <= 0.05 * policy.epsilon_total + 1e-9
    assert np.abs(np.diff(10 * np.log10(p_tx))).max() <= 2.0 + 1e-9
    assert max(point.epsilon_v + point.epsilon_l for point in points) <= policy.epsilon_total + 1e-9
    assert min(point.epsilon_l for point in points) >= policy.epsilon_l_min - 1e-9
    assert p_tx.max() <= policy.p_available


def test_settles_on_the_solvers_answer(policy):
    tracker = BudgetTracker(TrackingConfig(budget_dead_band=0.0, power_dead_band_db=0.0))
    tracker.update(policy, 0.0)
    for _ in range(30):
        point = tracker.update(policy, 20.0)
    target = optimize_at_db(policy, 20.0)
    assert (point.epsilon_v, point.p_tx) == pytest.approx((target.epsilon_v, target.p_tx))
    assert point.utility == pytest.approx(target.utility, abs=1e-6)


def test_small_wobbles_of_the_gain_do_not_reach_the_budgets(policy):
    tracker = BudgetTracker(TrackingConfig(power_dead_band_db=0.5))
    points = [tracker.update(policy, 18.0 + 0.2 * np.sin(index)) for index in range(50)]
    assert len({(point.epsilon_v, point.p_tx) for point in points}) == 1


def test_dead_bands_hold_no_point_that_misses_a_constraint_where_one_within_a_step_does_not(policy):
    """Gains about the least that is feasible, in wobbles that dead bands would swallow."""
    edge = next(gain for gain in np.arange(-20.0, 20.0, 0.05) if optimize_at_db(policy, gain).feasible)
    config = TrackingConfig(budget_dead_band=0.2, power_dead_band_db=10.0)
    for low, width in ((edge, 3.0), (edge + 4.0, 8.0), (0.0, 20.0)):
        tracker = BudgetTracker(config)
        for gain_db in np.random.default_rng(5).uniform(low, low + width, 300):
            before = (tracker._epsilon_v, tracker._p_tx)
            point, target = tracker.update(policy, float(gain_db)), optimize_at_db(policy, float(gain_db))
            way, way_db = target.epsilon_v - before[0], 10 * np.log10(target.p_tx / before[1])
            within = abs(way) <= config.budget_step * policy.epsilon_total and abs(way_db) <= config.power_step_db
            assert point.feasible or not (within and target.feasible)


def test_a_point_that_misses_a_constraint_still_moves_in_bounded_steps(policy):
    tracker = BudgetTracker(TrackingConfig(power_step_db=0.5, budget_step=0.02))
    points = [tracker.update(policy, float(gain)) for gain in np.random.default_rng(6).uniform(-10.0, 20.0, 200)]
    epsilon_v, p_tx = (np.array([getattr(point, name) for point in points]) for name in ("epsilon_v", "p_tx"))
    assert np.abs(np.diff(10 * np.log10(p_tx))).max() <= 0.5 + 1e-9
    assert np.abs(np.diff(epsilon_v)).max() <= 0.02 * policy.epsilon_total + 1e-9


def feasible_in_box(policy: ScenarioPolicy, before: tuple[float, float], config: TrackingConfig, gain_db: float):
    """Brute force over what a step reaches: (whether a point meets every constraint, best utility, least violation)."""
    step, ratio = config.budget_step * policy.epsilon_total, 10 ** (config.power_step_db / 10)
    epsilon_v = np.linspace(
        max(before[0] - step, policy.epsilon_v_min), min(before[0] + step, policy.epsilon_v_max), 401
    )
    p_tx = np.geomspace(before[1] / ratio, min(before[1] * ratio, policy.p_available), 101)[:, None]
    snr, epsilon_l = p_tx * 10 ** (gain_db / 10), policy.epsilon_total - epsilon_v
    missed = worth.violation(
        policy, worth.semantic_quality(policy, epsilon_v, snr), worth.location_error(policy, epsilon_l)
    )
    value = np.where(missed <= 0.0, worth.utility(policy, epsilon_v, epsilon_l, snr), -np.inf)
    return bool((missed <= 0.0).any()), float(value.max()), float(missed.min())


@pytest.mark.parametrize("seed", range(12))
def test_no_tracked_point_misses_a_constraint_while_one_within_its_step_meets_all(policy, seed):
    rng = np.random.default_rng([seed, 11])
    config = TrackingConfig(
        gain_memory=float(rng.choice([0.0, 0.5, 0.9])),
        budget_step=float(rng.choice([0.02, 0.05, 0.2, 0.5])),
        budget_dead_band=float(rng.choice([0.0, 0.01])),
        power_step_db=float(rng.choice([0.5, 2.0, 10.0])),
        power_dead_band_db=float(rng.choice([0.0, 0.25])),
    )
    tracker = BudgetTracker(config)
    gains = rng.uniform(-10.0, 25.0) + 10 * np.log10(rng.exponential(1.0, 60)) + 6 * rng.standard_normal(60)
    tracker.update(policy, float(gains[0]))
    for gain_db in gains[1:].tolist():
        before = (tracker._epsilon_v, tracker._p_tx)
        point = tracker.update(policy, gain_db)
        within, best, least = feasible_in_box(policy, before, config, gain_db)
        assert abs(point.epsilon_v - before[0]) <= config.budget_step * policy.epsilon_total + 1e-9
        assert abs(10 * np.log10(point.p_tx / before[1])) <= config.power_step_db + 1e-9
        assert (point.violation > 0) == (point.status == "infeasible")
        if point.violation > 0:
            assert not within and point.violation <= least + 1e-9
            continue
        target = optimize_at_db(policy, tracker._gain_db)
        followed = (abs(point.epsilon_v - target.epsilon_v) < abs(before[0] - target.epsilon_v) + 1e-9) or not within
        assert followed or point.utility >= best - 1e-4  # off the way to the target only for the best of the step


def test_a_deep_fade_leaves_the_targets_way_where_that_alone_meets_the_constraints():
    """Power cannot rise by 17.5 dB at once; twice the budget the solver would give makes up for it."""
    policy, tracker = POLICIES["precision"], BudgetTracker(TrackingConfig())
    tracker.update(policy, 28.0)
    point = tracker.update(policy, 10.5)
    assert point.feasible and point.violation == 0.0
    assert 0.75 < point.epsilon_v <= 1.05 and point.p_tx == pytest.approx(0.226, rel=0.01)


def test_a_new_policy_meets_its_constraints_at_the_gain_of_the_block_and_not_at_the_smoothed_one():
    tracker = BudgetTracker(TrackingConfig(gain_memory=0.9))
    for _ in range(20):
        tracker.update(POLICIES["surveillance"], 25.0)
    point, optimum = tracker.update(POLICIES["precision"], 8.0), optimize_at_db(POLICIES["precision"], 8.0)
    assert optimum.feasible and point.feasible and point.utility == pytest.approx(optimum.utility, abs=1e-4)


def test_gain_memory_smooths_what_is_solved_for(policy):
    gains = 20.0 + 10.0 * np.log10(np.random.default_rng(0).exponential(1.0, 300))

    def spread(memory: float) -> float:
        tracker = BudgetTracker(TrackingConfig(gain_memory=memory, power_step_db=np.inf))
        return float(np.std([10 * np.log10(tracker.update(policy, float(gain)).p_tx) for gain in gains]))

    assert spread(0.9) < 0.75 * spread(0.0)  # deep fades still move the power: constraints hold at the true gain


def test_a_new_policy_is_obeyed_at_once():
    tracker = BudgetTracker(TrackingConfig(budget_step=0.01, power_step_db=0.3))
    tracker.update(POLICIES["surveillance"], 14.0)
    point, target = tracker.update(POLICIES["precision"], 14.0), optimize_at_db(POLICIES["precision"], 14.0)
    assert (point.epsilon_v, point.epsilon_l, point.p_tx) == (target.epsilon_v, target.epsilon_l, target.p_tx)


def test_a_step_that_cannot_keep_up_is_called_infeasible():
    policy = POLICIES["surveillance"]
    tracker = BudgetTracker(TrackingConfig(power_step_db=1.0))
    tracker.update(policy, 25.0)
    point = tracker.update(policy, 0.0)
    assert optimize_at_db(policy, 0.0).feasible and point.status == "infeasible" and point.violation > 0


def test_a_gain_that_is_none_is_refused_and_forgotten(policy):
    tracker = BudgetTracker(TrackingConfig(gain_memory=0.5))
    before = tracker.update(policy, 14.0)
    with pytest.raises(ValueError, match="^gain_db is"):
        tracker.update(policy, float("nan"))
    assert tracker.update(policy, 14.0).epsilon_v == before.epsilon_v


@pytest.mark.parametrize(
    "change",
    [{"gain_memory": 1.0}, {"gain_memory": float("nan")}, {"budget_step": 0.0}, {"power_step_db": float("nan")},
     {"budget_dead_band": 0.5}, {"power_dead_band_db": float("nan")}],
)  # fmt: skip
def test_tracking_configuration_is_checked_by_name(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))} is"):
        TrackingConfig(**change)


def test_assessment_agrees_with_the_solver(policy):
    for gain_db in (2.0, 10.0, 20.0):
        point = optimize_at_db(policy, gain_db)
        found = worth.assess(policy, point.epsilon_v, point.epsilon_l, 10 ** (point.snr_db / 10))
        assert found.utility == pytest.approx(point.utility, abs=1e-5)
        assert found.location_error == pytest.approx(point.location_error, abs=1e-5)


@pytest.mark.parametrize("config", [LinkConfig(), LinkConfig(fading="rician", correlation="jakes")])
def test_following_the_channel_beats_fixed_budgets_of_equal_mission_epsilon_and_energy(policy, config):
    flight = compare(policy, flight_gains(config))
    assert flight.utility_gain > 0.03
    assert flight.adaptive.feasible.mean() > flight.fixed.feasible.mean()
    assert flight.fixed.p_tx.sum() == pytest.approx(flight.adaptive.p_tx.sum())
    cost = [mission_epsilon(series, 1e-5) for series in (flight.adaptive, flight.fixed)]
    assert cost[0] == pytest.approx(cost[1], rel=1e-6)


def test_power_follows_distance_and_blockage(policy):
    flight = compare(policy, flight_gains(LinkConfig(fading="none"))).adaptive
    near, blocked, clear = flight.p_tx[:50].mean(), flight.p_tx[250:300].mean(), flight.p_tx[370:400].mean()
    assert near < clear < blocked


def test_comparison_refuses_gains_that_are_none(policy):
    for gains in ([], [1.0, float("nan")]):
        with pytest.raises(ValueError, match="^gain_db is empty or holds"):
            compare(policy, gains)


def test_surface_has_its_summit_where_the_solver_says(policy):
    epsilon_v, p_tx, surface = utility_surface(policy, 8.0, points=161)
    point = optimize_at_db(policy, 8.0)
    assert surface.shape == (161, 161) and np.isnan(surface).any()
    assert point.utility == pytest.approx(np.nanmax(surface), abs=5e-3)
    assert point.utility >= np.nanmax(surface) - 1e-5


def fly_mission(odometer: Odometer, epsilon_v: np.ndarray, epsilon_l: np.ndarray) -> None:
    """Spend a cell and a place a frame, as protection would; raises ``BudgetExhausted`` at the ceiling."""
    for stamp, (mu, pure) in enumerate(zip(mu_from_epsilon(epsilon_v, odometer.delta), epsilon_l, strict=True)):
        odometer.spend(Expenditure(stamp, mu, mu, mu, location_epsilon=pure))


@pytest.mark.parametrize(
    ("ceiling", "frames", "delta"),
    [(20.0, 200, 1e-5), (40.0, 300, 1e-5), (1.0, 500, 1e-6), (12.0, 5, 1e-5), (8.0, 2, 1e-3), (2.0, 1, 1e-5),
     (0.5, 60, 1e-9)],
)  # fmt: skip
@pytest.mark.parametrize("alone", [False, True])
def test_a_mission_at_the_share_keeps_to_its_ceiling_by_the_odometer_and_one_a_little_above_does_not(
    policy, ceiling, frames, delta, alone
):
    def mission(total: float, where: np.ndarray) -> Odometer:
        """Fly at an epsilon_total; ``where`` in the policy's interval of epsilon_v each frame lies, 0 to 1."""
        tight, odometer = squeezed(policy, total), Odometer(None, delta, ceiling)
        epsilon_v = tight.epsilon_v_min + where * (tight.epsilon_v_max - tight.epsilon_v_min)
        fly_mission(odometer, epsilon_v, tight.epsilon_total - epsilon_v)
        return odometer

    share = frame_epsilon(policy, ceiling, delta, frames, alone)
    generator = np.random.default_rng(7)
    divisions = [np.full(frames, 0.0), np.full(frames, 1.0), np.full(frames, 0.5), np.arange(frames) % 2.0]
    divisions += [generator.uniform(0, 1, frames), generator.integers(0, 2, frames).astype(float)]
    for where in divisions:
        assert mission(share, where).releases == frames
    if alone and share < policy.epsilon_total:
        with pytest.raises(BudgetExhausted):
            for where in divisions:
                mission(1.03 * share, where)


@pytest.mark.parametrize(("ceiling", "frames"), [(40.0, 50), (20.0, 30), (12.0, 5), (40.0, 300), (9.0, 4), (8.0, 1)])
def test_a_mission_that_changes_its_scenario_in_flight_keeps_to_the_ceiling(ceiling, frames):
    """Half a flight in each of two scenarios, or in all of them, at their own shares: no frame is refused."""
    rng, tight = np.random.default_rng(3), {}
    for name, policy in POLICIES.items():
        tight[name] = squeezed(policy, frame_epsilon(policy, ceiling, 1e-5, frames))
    mixtures = [[first] * (frames // 2) + [second] * (frames - frames // 2) for first in tight for second in tight]
    mixtures += [list(rng.choice(list(tight), frames)) for _ in range(4)]
    for names in mixtures:
        for where in (np.zeros(frames), np.ones(frames), rng.integers(0, 2, frames).astype(float)):
            flown = [tight[name] for name in names]
            epsilon_v = np.array(
                [p.epsilon_v_min + w * (p.epsilon_v_max - p.epsilon_v_min) for p, w in zip(flown, where, strict=True)]
            )
            odometer = Odometer(None, 1e-5, ceiling)
            fly_mission(odometer, epsilon_v, np.array([p.epsilon_total for p in flown]) - epsilon_v)
            assert odometer.releases == frames


def test_a_share_is_solved_for_once():
    policy = POLICIES["surveillance"]
    frame_epsilon(policy, 41.0, 1e-5, 123)
    hits = frame_epsilon.cache_info().hits
    frame_epsilon(policy, 41.0, 1e-5, 123)
    assert frame_epsilon.cache_info().hits == hits + 1


def test_an_infeasible_point_is_worth_nothing_where_a_constraint_is_met_with_equality_only():
    policy = POLICIES["surveillance"]
    assert {optimize_at_db(policy, gain_db).utility for gain_db in np.arange(-60.0, -9.0, 1.0).tolist()} == {0.0}


def test_a_wide_ceiling_leaves_the_policy_as_it_is_and_one_that_delta_alone_passes_is_refused(policy):
    assert frame_epsilon(policy, 1e6, 1e-5, 1000) == policy.epsilon_total
    with pytest.raises(
        ValueError, match="^epsilon_ceiling is 0.001, too little for 1000000000 frames at delta 0.01; raise"
    ):
        frame_epsilon(policy, 1e-3, 1e-2, 10**9)


def test_pacing_lowers_the_budget_only_and_refuses_what_leaves_nothing(policy):
    assert paced(policy, 100.0) is policy
    assert paced(policy, 0.9 * policy.epsilon_total).epsilon_total == pytest.approx(0.9 * policy.epsilon_total)
    with pytest.raises(ValueError, match="epsilon_total is 0.01, below epsilon_v_min"):
        paced(policy, 0.01)
    for bad in (0.0, float("nan")):
        with pytest.raises(ValueError, match="^ceiling is"):
            paced(policy, bad)
        with pytest.raises(ValueError, match="^epsilon_ceiling is"):
            frame_epsilon(policy, bad, 1e-5, 10)
    with pytest.raises(ValueError, match="^frames is 0"):
        frame_epsilon(policy, 1.0, 1e-5, 0)


def test_a_pace_below_the_least_budgets_squeezes_them_and_the_solver_says_what_it_breaks(policy):
    tight = squeezed(policy, 0.1 * (policy.epsilon_v_min + policy.epsilon_l_min))
    assert tight.epsilon_v_min / tight.epsilon_l_min == pytest.approx(policy.epsilon_v_min / policy.epsilon_l_min)
    point = optimize_at_db(tight, 14.0)
    assert point.epsilon_v + point.epsilon_l == pytest.approx(tight.epsilon_total)
    assert point.status == "infeasible" and point.violation > 0
    assert squeezed(policy, 100.0) is policy and squeezed(policy, 0.9 * policy.epsilon_total).name == policy.name
    with pytest.raises(ValueError, match="^ceiling is"):
        squeezed(policy, 0.0)


def test_shipped_numbers_behave_at_the_gain_that_the_paper_implies(policy):
    """Feasible over most of -10 to 30 dB; at 14 dB power to spare and locations not starved."""
    points = [optimize_at_db(policy, float(gain)) for gain in range(-10, 31)]
    assert np.mean([point.feasible for point in points]) > 0.85
    typical = optimize_at_db(policy, 14.0)
    assert 0.05 * policy.p_available < typical.p_tx < 0.5 * policy.p_available
    assert typical.epsilon_l > policy.epsilon_total / 3
    assert typical.location_error < 0.5 * policy.e_max


def test_the_table_of_operating_points_is_that_of_the_code():
    assert DOCUMENT.read_text(encoding="utf-8") == operating_points.document()
