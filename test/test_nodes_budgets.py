"""The budget server, and protection and link that follow it: real nodes in one context."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, some_objects
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from rclpy.parameter import Parameter
from std_msgs.msg import Float32

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.base import message_type, qos_profile
from uav_privacy_sc.nodes.budget_follower import UNCONFIRMED, BudgetFollower
from uav_privacy_sc.nodes.budget_server import BudgetServerNode
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, tensor_to_message
from uav_privacy_sc.nodes.protection import ProtectionNode


class Bench:
    """Nodes under test in one context and one executor, and a node of the test among them."""

    def __init__(self, domain_id: int) -> None:
        self.context = Context()
        self.context.init(domain_id=domain_id)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.nodes: list[Node] = []
        self.node = self.add(Node("bench", context=self.context))
        self.heard: dict[str, list[Any]] = {}

    def add(self, node: Any) -> Any:
        self.executor.add_node(node)
        self.nodes.append(node)
        return node

    def publisher(self, name: str) -> Any:
        topic = graph.TOPICS[name]
        return self.node.create_publisher(message_type(topic.type), name, qos_profile(topic.qos))

    def listen(self, name: str, kind: str | None = None) -> list[Any]:
        heard = self.heard.setdefault(name, [])
        topic = graph.TOPICS.get(name) or graph.Topic(name, kind or "", "record")
        self.node.create_subscription(message_type(topic.type), name, heard.append, qos_profile(topic.qos))
        return heard

    def until(self, condition: Callable[[], bool], timeout_s: float = 10.0) -> bool:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=0.05)
        return condition()

    def close(self) -> None:
        self.executor.shutdown(timeout_sec=2.0)
        for node in reversed(self.nodes):
            getattr(node, "close", node.destroy_node)()
        self.context.try_shutdown()


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def server(bench: Bench, **overrides: Any) -> BudgetServerNode:
    return bench.add(BudgetServerNode(context=bench.context, overrides=overrides, use_global_arguments=False))


def protection(bench: Bench, **overrides: Any) -> ProtectionNode:
    overrides = {"ledger": "memory", "seed": 1, **overrides}
    return bench.add(ProtectionNode(context=bench.context, overrides=overrides, use_global_arguments=False))


def test_the_server_has_no_budget_until_it_knows_the_channel(bench: Bench) -> None:
    node = server(bench)
    assert [node.get_parameter(name).value for name in ("epsilon_v", "epsilon_l", "p_tx")] == [0.0, 0.0, 0.0]
    follower = BudgetFollower(bench.node)
    assert not bench.until(lambda: follower.budgets is not None, timeout_s=1.2)


def test_a_gain_becomes_a_budget_that_followers_hold_as_a_whole(bench: Bench) -> None:
    node, follower = server(bench, scenario="precision"), BudgetFollower(bench.node)
    utility, gain = bench.listen("budget/utility"), bench.publisher("link/ground/gain_db")
    gain.publish(Float32(data=12.0))
    assert bench.until(lambda: follower.budgets is not None and bool(utility))
    held, point = follower.budgets, node.point
    assert held is not None and point is not None
    assert (held.epsilon_v, held.epsilon_l, held.p_tx) == (point.epsilon_v, point.epsilon_l, point.p_tx)
    assert held.location_branch == "planar_laplace"
    assert held.epsilon_v + held.epsilon_l <= 1.5 + 1e-9
    assert utility[0].data == pytest.approx(point.utility)


def test_an_aircraft_follows_its_own_server_only(bench: Bench) -> None:
    servers = {}
    for name, scenario in (("/a", "surveillance"), ("/b", "precision")):
        options = {"namespace": name, "use_global_arguments": False, "overrides": {"scenario": scenario}}
        servers[name] = bench.add(BudgetServerNode(context=bench.context, **options))
    followers = {}
    for name in servers:
        followers[name] = BudgetFollower(bench.add(Node("follower", context=bench.context, namespace=name)))
        topic = graph.TOPICS["link/ground/gain_db"]
        sender = bench.node.create_publisher(message_type(topic.type), f"{name}/{topic.name}", qos_profile(topic.qos))
        sender.publish(Float32(data=12.0))
    assert bench.until(lambda: all(follower.budgets is not None for follower in followers.values()))
    bench.until(lambda: False, timeout_s=1.0)
    branches = {name: follower.budgets.location_branch for name, follower in followers.items() if follower.budgets}
    assert branches == {"/a": "grid", "/b": "planar_laplace"}


def test_a_late_follower_asks_and_is_told(bench: Bench) -> None:
    node = server(bench, heartbeat_s=60.0)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.point is not None)
    follower = BudgetFollower(bench.node)
    assert bench.until(lambda: follower.budgets is not None)


@pytest.mark.parametrize("name", ["epsilon_v", "epsilon_l", "p_tx", "location_branch", "grid_size"])
def test_nobody_else_changes_a_budget(bench: Bench, name: str) -> None:
    node = server(bench)
    value = {"location_branch": "grid", "grid_size": 2}.get(name, 99.0)
    verdict = node.set_parameters_atomically([Parameter(name, value=value)])
    assert not verdict.successful and f"{name} is chosen by budget_server alone" in verdict.reason


def test_a_budget_given_on_the_command_line_is_not_taken(bench: Bench) -> None:
    node = server(bench, epsilon_v=1e6, p_tx=1e6)
    assert node.get_parameter("epsilon_v").value == 0.0
    assert node.get_parameter("p_tx").value == 0.0


def test_a_new_scenario_is_followed_and_an_unknown_one_refused(bench: Bench) -> None:
    node, gain = server(bench), bench.publisher("link/ground/gain_db")
    gain.publish(Float32(data=12.0))
    assert bench.until(lambda: node.point is not None)
    refused = node.set_parameters([Parameter("scenario", value="nowhere")])[0]
    assert not refused.successful and "'nowhere'" in refused.reason
    assert node.set_parameters([Parameter("scenario", value="precision")])[0].successful
    gain.publish(Float32(data=12.0))
    assert bench.until(lambda: node.get_parameter("location_branch").value == "planar_laplace")


def test_a_silent_link_lets_the_budget_go_stale_and_protection_stops(bench: Bench) -> None:
    server(bench, heartbeat_s=0.1, max_gain_age_s=0.3)
    node = protection(bench, max_budget_age_s=0.4)
    sent, diagnostics = bench.listen("tx/features"), bench.listen("diagnostics", graph.DIAGNOSTICS)
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    send(1)
    assert bench.until(lambda: len(sent) == 1)
    bench.until(lambda: False, timeout_s=1.2)
    send(2)
    assert bench.until(lambda: node.drops["not released"] == 1)
    assert bench.until(lambda: any("stale budget" in s.message for m in diagnostics for s in m.status))
    assert len(sent) == 1


def sender(bench: Bench) -> Callable[..., None]:
    """Return what plays perception: publishes a frame with a stamp."""
    objects, features = bench.publisher("semantic/objects"), bench.publisher("semantic/features")
    bench.until(lambda: features.get_subscription_count() > 0 and objects.get_subscription_count() > 0)

    def send(stamp: int, value: float = 0.3, count: int | None = 2) -> None:
        header = make_header(stamp, "camera")
        objects.publish(objects_to_message(None if count is None else some_objects(count), header))
        features.publish(tensor_to_message(np.full((CHANNELS, *GRID), value, np.float32), header))

    return send


def test_protection_publishes_nothing_without_a_budget_and_says_why(bench: Bench) -> None:
    node = protection(bench)
    sent = [bench.listen(name) for name in ("tx/features", "tx/objects", "tx/record")]
    diagnostics = bench.listen("diagnostics", graph.DIAGNOSTICS)
    send = sender(bench)
    send(1)
    assert bench.until(lambda: node.drops["not released"] == 1)
    assert bench.until(lambda: any("no budget" in s.message for m in diagnostics for s in m.status))
    assert sent == [[], [], []]


def test_protection_publishes_a_frame_under_a_budget_with_its_stamp(bench: Bench) -> None:
    server(bench)
    node = protection(bench)
    features, objects, records = (bench.listen(f"tx/{name}") for name in ("features", "objects", "record"))
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    send(1_500_000_007)
    assert bench.until(lambda: bool(features and objects and records))
    for message in (features[0], objects[0], records[0]):
        assert (message.header.stamp.sec, message.header.stamp.nanosec) == (1, 500_000_007)
    assert features[0].header.frame_id == "camera"


@pytest.mark.parametrize(
    ("overrides", "frame", "reason"),
    [
        ({}, {"value": float("nan")}, "finite"),
        ({}, {"count": None}, "no objects"),
        ({"epsilon_ceiling": 0.5}, {}, "mission budget spent"),
    ],
)
def test_protection_fails_closed(bench: Bench, overrides: dict[str, Any], frame: dict[str, Any], reason: str) -> None:
    server(bench)
    node = protection(bench, **overrides)
    sent = bench.listen("tx/features")
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    send(1, **frame)
    assert bench.until(lambda: node.drops["not released"] == 1)
    healthy, text, _ = node.status()
    assert not healthy and reason in text
    assert sent == []


def test_a_malformed_message_is_counted_and_the_node_lives_on(bench: Bench) -> None:
    server(bench)
    node = protection(bench)
    sent = bench.listen("tx/features")
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    broken = tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), make_header(1, "camera"))
    broken.step = 3
    bench.publisher("semantic/objects").publish(objects_to_message(some_objects(1), broken.header))
    features = bench.publisher("semantic/features")
    bench.until(lambda: features.get_subscription_count() > 0)
    features.publish(broken)
    assert bench.until(lambda: node.drops["MalformedMessage"] == 1)
    assert not node.status()[0] and "image refused" in node.status()[1]
    send(2)
    assert bench.until(lambda: len(sent) == 1)


def test_budgets_that_were_asked_for_count_only_once_the_server_confirms_them(bench: Bench) -> None:
    steering = server(bench, heartbeat_s=60.0)
    gain = bench.publisher("link/ground/gain_db")
    assert bench.until(lambda: gain.get_subscription_count() == 1)
    gain.publish(Float32(data=12.0))
    assert bench.until(lambda: steering.point is not None)
    late = BudgetFollower(bench.node)
    assert bench.until(lambda: late.budgets is not None)
    assert late.budgets is not None and late.budgets.stamp_ns == UNCONFIRMED
    gain.publish(Float32(data=14.0))
    assert bench.until(lambda: late.budgets is not None and late.budgets.stamp_ns != UNCONFIRMED)
