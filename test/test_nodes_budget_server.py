"""The budget server in flight: a new scenario at once, bounded steps, pace, bad gains, and Humble's rclpy."""

from __future__ import annotations

import ast
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FakeSource, FakeStages
from rcl_interfaces.msg import ParameterEvent
from rcl_interfaces.srv import SetParameters, SetParametersAtomically
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_parameter_events
from std_msgs.msg import Float32
from test_graph_fly import fly
from test_nodes_budgets import Bench, server
from test_nodes_link import Sender

from uav_privacy_sc import nodes
from uav_privacy_sc.control.bcd import optimize_at_db
from uav_privacy_sc.control.pacing import frame_epsilon
from uav_privacy_sc.control.policy import select_policy
from uav_privacy_sc.control.tracking import BudgetTracker, TrackingConfig
from uav_privacy_sc.flight import FlightConfig
from uav_privacy_sc.graph import PACING, flight_parameters
from uav_privacy_sc.link.clock import marked_gain_db
from uav_privacy_sc.nodes.budget_follower import BudgetFollower
from uav_privacy_sc.nodes.budget_server import BudgetServerConfig, BudgetServerNode
from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.nodes.protection import ProtectionParameters
from uav_privacy_sc.release import BUDGET_NAMES


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def steered(bench: Bench, gain_db: float = 12.0, **overrides: Any) -> tuple[BudgetServerNode, Any]:
    """A server that has heard one gain, and the topic to tell it others."""
    node, gain = server(bench, **overrides), bench.publisher("link/ground/gain_db")
    gain.publish(Float32(data=gain_db))
    assert bench.until(lambda: node.point is not None)
    return node, gain


def set_scenario(bench: Bench, scenario: str) -> Any:
    """What ``ros2 param set /budget_server scenario ...`` does: a call of the node's parameter service."""
    client = bench.node.create_client(SetParameters, "budget_server/set_parameters")
    assert bench.until(client.service_is_ready)
    parameter = Parameter("scenario", value=scenario).to_parameter_msg()
    future = client.call_async(SetParameters.Request(parameters=[parameter]))
    assert bench.until(future.done)
    return future.result().results[0]


def test_a_scenario_set_through_the_parameter_service_is_solved_for_at_once(bench: Bench) -> None:
    node, _ = steered(bench, heartbeat_s=60.0)
    follower, events = BudgetFollower(bench.node), []  # type: tuple[BudgetFollower, list[ParameterEvent]]
    bench.node.create_subscription(ParameterEvent, "/parameter_events", events.append, qos_profile_parameter_events)
    assert bench.until(lambda: follower.budgets is not None)
    bench.until(lambda: False, timeout_s=0.2)
    assert set_scenario(bench, "precision").successful
    assert bench.until(lambda: follower.budgets.location_branch == "planar_laplace", timeout_s=2.0)
    target, held = optimize_at_db(select_policy("precision"), 12.0), follower.budgets
    assert (held.epsilon_v, held.p_tx) == pytest.approx((target.epsilon_v, target.p_tx))
    together = set(BUDGET_NAMES)
    assert bench.until(lambda: together in [{item.name for item in event.changed_parameters} for event in events])


def test_a_scenario_that_is_none_is_refused_in_flight_and_nothing_changes(bench: Bench) -> None:
    node, _ = steered(bench)
    before = node.get_parameter("epsilon_v").value
    verdict = set_scenario(bench, "nowhere")
    assert not verdict.successful and "'nowhere'; choose one of" in verdict.reason
    bench.until(lambda: False, timeout_s=0.3)
    assert node.get_parameter("epsilon_v").value == before
    assert node.get_parameter("scenario").value == "surveillance"


def test_a_new_scenario_does_not_confirm_budgets_while_the_link_is_silent(bench: Bench) -> None:
    node, _ = steered(bench, max_gain_age_s=0.2, heartbeat_s=0.05)
    bench.until(lambda: False, timeout_s=0.4)
    assert set_scenario(bench, "precision").successful
    bench.until(lambda: False, timeout_s=0.3)
    assert node.get_parameter("location_branch").value == "grid"
    assert not node.status()[0] and "fallen silent" in node.status()[1]


def test_a_scenario_set_in_silence_is_followed_when_the_same_gain_is_told_again(bench: Bench) -> None:
    node, gain = steered(bench, heartbeat_s=0.1, max_gain_age_s=0.3)
    follower = BudgetFollower(bench.node)
    assert bench.until(lambda: follower.budgets is not None)
    bench.until(lambda: False, timeout_s=0.6)
    assert set_scenario(bench, "precision").successful
    gain.publish(Float32(data=12.0))
    policy = select_policy("precision")
    assert bench.until(lambda: (held := follower.budgets) is not None and held.location_branch == "planar_laplace")
    assert follower.budgets is not None
    assert follower.budgets.epsilon_v + follower.budgets.epsilon_l <= policy.epsilon_total + 1e-9


def test_a_set_of_parameters_that_is_refused_as_a_whole_changes_no_scenario(bench: Bench) -> None:
    node, gain = steered(bench)
    client = bench.node.create_client(SetParametersAtomically, "budget_server/set_parameters_atomically")
    assert bench.until(client.service_is_ready)
    both = [Parameter("scenario", value=name).to_parameter_msg() for name in ("precision", "nowhere")]
    future = client.call_async(SetParametersAtomically.Request(parameters=both))
    assert bench.until(future.done)
    assert not future.result().result.successful
    gain.publish(Float32(data=13.0))
    assert bench.until(lambda: node.gain_db == 13.0)
    assert node.get_parameter("scenario").value == "surveillance"
    assert node.stage.policy.name == "surveillance"


def set_atomically(bench: Bench, *scenarios: str) -> bool:
    client = bench.node.create_client(SetParametersAtomically, "budget_server/set_parameters_atomically")
    assert bench.until(client.service_is_ready)
    given = [Parameter("scenario", value=name).to_parameter_msg() for name in scenarios]
    future = client.call_async(SetParametersAtomically.Request(parameters=given))
    assert bench.until(future.done)
    bench.until(lambda: False, timeout_s=0.2)
    return future.result().result.successful


def test_the_scenario_of_before_set_again_or_a_set_refused_as_a_whole_leaves_steps_bounded(bench: Bench) -> None:
    node, gain = steered(bench, 30.0, power_step_db=1.0)
    stage, held = node.stage, node.get_parameter("p_tx").value
    assert set_scenario(bench, "surveillance").successful
    assert not set_atomically(bench, "precision", "nowhere")
    assert set_scenario(bench, "surveillance").successful
    assert node.stage is stage and node.get_parameter("p_tx").value == held
    gain.publish(Float32(data=10.0))
    assert bench.until(lambda: node.gain_db == 10.0)
    assert 10 * math.log10(node.get_parameter("p_tx").value / held) == pytest.approx(1.0)


def test_a_gain_heard_before_a_new_scenario_is_read_waits_for_it_and_confirms_nothing_old(bench: Bench) -> None:
    node, _ = steered(bench, 12.0, heartbeat_s=60.0)
    held = {name: node.get_parameter(name).value for name in BUDGET_NAMES}
    assert node.judge([Parameter("scenario", value="precision")]).successful
    node._on_gain(Float32(data=20.0))
    node._on_heartbeat()
    assert {name: node.get_parameter(name).value for name in BUDGET_NAMES} == held and node.gain_db == 12.0
    node._scenario, node._judged = (
        "resource-limited",
        True,
    )  # as if the one it follows were another than the parameter's
    node._on_scenario()
    target = optimize_at_db(select_policy("surveillance"), 20.0)
    assert node.gain_db == 20.0 and node.get_parameter("p_tx").value == pytest.approx(target.p_tx)


def test_a_gain_out_of_range_heard_before_a_scenario_is_read_does_not_end_the_node(bench: Bench) -> None:
    node, _ = steered(bench)
    assert node.judge([Parameter("scenario", value="surveillance")]).successful
    node._on_gain(Float32(data=1e6))
    node._on_scenario()
    assert node.drops["ValueError"] == 1 and node.gain_db == 12.0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e6])
def test_a_gain_that_is_none_is_counted_and_the_budget_before_stays(bench: Bench, value: float) -> None:
    node, gain = steered(bench)
    before = node.get_parameter("p_tx").value
    gain.publish(Float32(data=value))
    assert bench.until(lambda: node.drops["ValueError"] == 1)
    assert node.get_parameter("p_tx").value == before and node.gain_db == 12.0
    gain.publish(Float32(data=20.0))
    assert bench.until(lambda: node.gain_db == 20.0)


def test_steps_between_blocks_are_bounded_and_small_ones_not_made(bench: Bench) -> None:
    node, gain = steered(bench, 12.0, power_step_db=2.0, power_dead_band_db=0.5)
    first = node.get_parameter("p_tx").value
    for value, expected_db in ((12.3, 0.0), (30.0, -2.0), (30.1, -4.0)):
        gain.publish(Float32(data=value))
        heard = float(Float32(data=value).data)
        assert bench.until(lambda heard=heard: node.gain_db == pytest.approx(heard))
        assert 10 * math.log10(node.get_parameter("p_tx").value / first) == pytest.approx(expected_db)


def test_the_pace_bounds_epsilon_total_by_an_even_share_of_the_ceiling(bench: Bench) -> None:
    free, _ = steered(bench)
    assert free.point.epsilon_v + free.point.epsilon_l == pytest.approx(5.0)
    paced = BudgetServerConfig(epsilon_ceiling=20.0, expected_frames=30).stage("surveillance").policy
    free_policy = select_policy("surveillance")
    assert 1.6 < paced.epsilon_total == frame_epsilon(free_policy, 20.0, 1e-5, 30) < 5.0
    slow = BudgetServerConfig(epsilon_ceiling=20.0, expected_frames=200).stage("surveillance").policy
    assert slow.epsilon_total == frame_epsilon(free_policy, 20.0, 1e-5, 200) < 1.0
    assert frame_epsilon(free_policy, 12.0, 1e-5, 5) < frame_epsilon(free_policy, 12.0, 1e-5, 5, alone=True)
    mixed = BudgetServerConfig(epsilon_ceiling=12.0, expected_frames=5).stage("surveillance").policy
    assert mixed.epsilon_total == frame_epsilon(free_policy, 12.0, 1e-5, 5)
    assert slow.epsilon_v_min / slow.epsilon_l_min == pytest.approx(3.0)
    assert BudgetServerConfig(epsilon_ceiling=20.0, expected_frames=1).stage("surveillance").policy.epsilon_total == 5.0
    off = BudgetServerConfig(epsilon_ceiling=20.0, expected_frames=200, enforce_ceiling=False)
    assert off.stage("surveillance").policy.epsilon_total == 5.0


def test_a_gain_that_is_repeated_moves_nothing_and_one_that_differs_in_its_last_place_is_a_new_block(
    bench: Bench,
) -> None:
    node, gain = steered(bench, 25.0, power_step_db=1.0)
    gain.publish(Float32(data=15.0))
    assert bench.until(lambda: node.gain_db == 15.0)
    first, blocks = node.get_parameter("p_tx").value, node.counts["frames"]
    for _ in range(5):
        gain.publish(Float32(data=15.0))
        bench.until(lambda: False, timeout_s=0.1)
    assert (node.get_parameter("p_tx").value, node.counts["frames"]) == (first, blocks)
    gain.publish(Float32(data=float(np.nextafter(np.float32(15.0), np.float32(99.0)))))
    assert bench.until(lambda: node.counts["frames"] == blocks + 1)
    assert 10 * math.log10(node.get_parameter("p_tx").value / first) == pytest.approx(1.0)


@pytest.mark.parametrize("heard", [range(0, 16, 2), [0, 2, 3, 4, 6, 7, 8, 10]])
def test_a_gain_message_that_is_lost_on_a_still_channel_costs_no_further_step(bench: Bench, heard: Any) -> None:
    node, gain = steered(bench, 25.0, power_step_db=1.0)
    first = node.get_parameter("p_tx").value
    for count, block in enumerate(heard, start=1):
        told = marked_gain_db(15.0, block)
        gain.publish(Float32(data=told))
        assert bench.until(lambda told=told: node.gain_db == told)
        assert 10 * math.log10(node.get_parameter("p_tx").value / first) == pytest.approx(min(count, 10.0), abs=1e-3)


def still_after_a_change(folder: Path) -> Path:
    """A way where something that costs 20 dB goes after the first blocks, and then nothing changes any more."""
    path = folder / "still.csv"
    path.write_text("time_s,x_m,y_m,z_m,blockage_db\n0,100,0,50,0\n0.25,100,0,50,20\n9,100,0,50,20\n")
    return path


def test_a_flight_over_a_channel_that_stands_still_steps_once_a_block_whatever_the_clock_does(
    stages: FakeStages, tmp_path: Path
) -> None:
    config, policy = {"power_step_db": 0.5, "budget_step": 0.02}, select_policy("surveillance")
    way = {"trajectory": str(still_after_a_change(tmp_path)), "fading": "none"}
    for heartbeat_s in (0.05, 60.0):
        given = {"budget_server": {**config, "heartbeat_s": heartbeat_s, "max_gain_age_s": 60.0}, "link": way}
        log = fly(stages, FakeSource(30), parameters=given)
        tracker = BudgetTracker(TrackingConfig(**config))
        points = [tracker.update(policy, frame.gain_db) for frame in log.frames]
        flown = [(frame.budgets.epsilon_v, frame.budgets.epsilon_l, frame.budgets.p_tx) for frame in log.frames]
        assert flown == [(point.epsilon_v, point.epsilon_l, point.p_tx) for point in points]
        assert flown[5][2] < 0.9 * flown[10][2] < 0.9 * flown[20][2]  # it was on its way while nothing changed
    target = optimize_at_db(policy, log.frames[-1].gain_db)
    tracker_ends = [tracker.update(policy, log.frames[-1].gain_db) for _ in range(60)][-1]
    assert abs(10 * math.log10(tracker_ends.p_tx / target.p_tx)) <= TrackingConfig().power_dead_band_db


def test_budgets_reach_the_optimum_of_a_real_link_that_stands_still_after_some_blocks(
    bench: Bench, tmp_path: Path
) -> None:
    node = server(bench, power_step_db=1.0)
    options = {"link_seed": 1, "fading": "none", "trajectory": str(still_after_a_change(tmp_path))}
    link = bench.add(LinkNode(context=bench.context, overrides=options, use_global_arguments=False))
    assert bench.until(lambda: link.follower.budgets is not None)
    send, sent = Sender(bench), bench.listen("link/record")
    for frame in range(40):
        send(100_000_000 * frame)
        assert bench.until(lambda frame=frame: len(sent) == frame + 1 and node.gain_db == link.stage.gain_db)
    target = optimize_at_db(select_policy("surveillance"), node.gain_db)
    assert abs(10 * math.log10(node.get_parameter("p_tx").value / target.p_tx)) <= TrackingConfig().power_dead_band_db
    assert node.get_parameter("epsilon_v").value == pytest.approx(target.epsilon_v, abs=0.05)


def test_steps_that_do_not_fit_are_refused_by_name(bench: Bench) -> None:
    with pytest.raises(ValueError, match="^budget_dead_band is"):
        server(bench, budget_dead_band=0.5, budget_step=0.1)


def test_protection_and_server_pace_by_the_same_numbers() -> None:
    assert all(getattr(BudgetServerConfig(), name) == getattr(ProtectionParameters(), name) for name in PACING)
    given = {"protection": {"epsilon_ceiling": 40.0, "expected_frames": 300, "kappa_bg": 2.0}}
    server_has = flight_parameters(FlightConfig(parameters=given), None)["budget_server"]
    assert {name: server_has[name] for name in PACING if name in server_has} == {
        "epsilon_ceiling": 40.0,
        "expected_frames": 300,
    }
    assert "kappa_bg" not in server_has


def test_a_paced_flight_stays_below_its_ceiling_with_every_frame_released(stages: FakeStages) -> None:
    pace = {"epsilon_ceiling": 30.0, "expected_frames": 8, "reach_cells": 0}
    log = fly(stages, FakeSource(8), parameters={"protection": pace})
    assert log.counts["released"] == 8
    share = BudgetServerConfig(epsilon_ceiling=30.0, expected_frames=8).stage("surveillance").policy.epsilon_total
    for frame in log.frames:
        assert frame.budgets.epsilon_v + frame.budgets.epsilon_l <= share + 1e-9
    assert log.frames[-1].record.spent_mission_epsilon <= 30.0


#: Public names of Jazzy's and Kilted's rclpy that Humble's lacks (its branch ``humble``, compared name by name).
NEWER_THAN_HUMBLE = {
    "add_parameter_callback",
    "add_parameter_event_callback",
    "add_post_set_parameters_callback",
    "add_pre_set_parameters_callback",
    "configure_introspection",
    "count_clients",
    "count_services",
    "get_content_filter",
    "get_fully_qualified_node_names",
    "get_logger_level",
    "get_parameter_from_event",
    "get_parameters_from_event",
    "get_publisher_count",
    "list_parameters",
    "load_parameter_file",
    "load_parameter_file_atomically",
    "on_parameter_event",
    "parameter_dict_from_yaml_file",
    "remove_done_callback",
    "remove_post_set_parameters_callback",
    "remove_pre_set_parameters_callback",
    "service_name",
    "services_are_ready",
    "set_content_filter",
    "wait_for_node",
    "wait_for_services",
    "ParameterEventHandler",
    "EventsExecutor",
    "AsyncParametersClient",
}


def test_nodes_use_nothing_that_humbles_rclpy_lacks() -> None:
    for path in Path(nodes.__file__).parent.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        imported = {node.name for node in ast.walk(tree) if isinstance(node, ast.alias)}
        assert not (used | imported) & NEWER_THAN_HUMBLE, path
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "try_shutdown"]
        assert not any(isinstance(call.value, ast.Name) and call.value.id == "rclpy" for call in calls), path
