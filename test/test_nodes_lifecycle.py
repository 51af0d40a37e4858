"""Every node is a managed node: what each transition does, and that nothing leaves one that is not active."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeSource, FakeStages, some_objects
from lifecycle_msgs.srv import ChangeState, GetState
from rclpy.context import Context
from test_nodes_budgets import Bench

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.budget_server import BudgetServerNode
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, tensor_to_message
from uav_privacy_sc.nodes.flight import CLASSES
from uav_privacy_sc.nodes.ground import GroundNode
from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.nodes.managed import SUCCESS
from uav_privacy_sc.nodes.protection import ProtectionNode

WAIT = {"autostart": False}


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def made(name: str, context: Context, stages: FakeStages, **overrides: Any) -> Any:
    options: dict[str, Any] = {"source": FakeSource()} if name == "camera" else {"stage": stages.by_node().get(name)}
    overrides |= {"ledger": "memory"} if name == "protection" else {}
    return CLASSES[name](context=context, overrides=overrides, use_global_arguments=False, **options)


@pytest.mark.parametrize("name", list(graph.NODES))
def test_a_node_goes_to_active_by_itself_or_waits_to_be_told(name: str, context: Context, stages: FakeStages) -> None:
    node = made(name, context, stages)
    assert node.state == "active"
    node.end()
    node = made(name, context, stages, **WAIT)
    own = {"/diagnostics", "/parameter_events", "/rosout", f"/{name}/transition_event"}
    try:
        assert node.state == "unconfigured" and node.get_parameter("autostart").value is False
        assert {topic for topic, _ in node.get_publisher_names_and_types_by_node(name, "/")} <= own
        for _ in range(2):  # a cleaned-up node can be configured again
            assert node.trigger_configure() == SUCCESS and node.state == "inactive"
            assert node.trigger_activate() == SUCCESS and node.state == "active"
            given = {topic for topic, _ in node.get_publisher_names_and_types_by_node(name, "/")}
            assert given - own == {f"/{topic}" for topic in graph.NODES[name].gives}
            assert node.trigger_deactivate() == SUCCESS and node.state == "inactive"
            assert node.trigger_cleanup() == SUCCESS and node.state == "unconfigured"
            assert not hasattr(node, "stage") and not hasattr(node, "_outputs")
            assert {topic for topic, _ in node.get_publisher_names_and_types_by_node(name, "/")} <= own
        node.trigger_shutdown()
        assert node.state == "finalized"
    finally:
        node.end()


def test_what_goes_wrong_in_a_transition_is_said_and_ends_in_finalized(context: Context) -> None:
    overrides = {**WAIT, "weights": "/no/such/place"}
    node = GroundNode(context=context, overrides=overrides, use_global_arguments=False)
    try:
        assert node.trigger_configure() != SUCCESS
        assert node.state == "finalized"
        level, text, _ = node._condition()
        assert level == b"\x02" and text.startswith("finalized: weights /no/such/place")
    finally:
        node.end()
    with pytest.raises(ValueError, match="weights /no/such/place"):
        GroundNode(context=context, overrides={"weights": "/no/such/place"}, use_global_arguments=False)


def test_the_services_of_a_lifecycle_manager_are_there(bench: Bench, stages: FakeStages) -> None:
    options = {"context": bench.context, "overrides": dict(WAIT), "use_global_arguments": False}
    node = bench.add(GroundNode(stage=stages.decode, **options))
    change = bench.node.create_client(ChangeState, "ground/change_state")
    ask = bench.node.create_client(GetState, "ground/get_state")
    assert bench.until(lambda: change.service_is_ready() and ask.service_is_ready(), 20.0)
    for transition, label in ((1, "inactive"), (3, "active"), (4, "inactive"), (2, "unconfigured")):
        request = ChangeState.Request()
        request.transition.id = transition
        changed = change.call_async(request)
        assert bench.until(changed.done) and changed.result().success
        asked = ask.call_async(GetState.Request())
        assert bench.until(asked.done) and asked.result().current_state.label == label == node.state


def test_nothing_leaves_protection_while_it_is_inactive(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"context": bench.context, "use_global_arguments": False}
    server = bench.add(BudgetServerNode(**options))
    node = bench.add(ProtectionNode(overrides={"ledger": "memory"}, **options))
    gains, objects, features = (
        bench.publisher(name) for name in ("link/ground/gain_db", "semantic/objects", "semantic/features")
    )
    heard = {name: bench.listen(name) for name in graph.NODES["protection"].gives if name.startswith("tx/")}
    from std_msgs.msg import Float32

    gains.publish(Float32(data=20.0))
    assert bench.until(lambda: node.follower.budgets is not None and server.point is not None, 20.0)
    assert bench.until(lambda: objects.get_subscription_count() == 1 == features.get_subscription_count(), 20.0)
    stamps = iter(range(1, 1000))

    def see(seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and not heard["tx/features"]:
            header = make_header(next(stamps), "camera")
            gains.publish(Float32(data=20.0))
            objects.publish(objects_to_message(some_objects(2), header))
            features.publish(tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), header))
            bench.until(lambda: False, 0.1)

    see(20.0)
    assert heard["tx/features"]
    assert node.trigger_deactivate() == SUCCESS
    bench.until(lambda: False, 0.3)
    spent = node.stage.odometer.spent().releases
    for messages in heard.values():
        messages.clear()
    see(1.5)
    assert not any(heard.values()) and node.stage.odometer.spent().releases == spent
    assert node.trigger_activate() == SUCCESS
    see(20.0)
    assert heard["tx/features"] and node.stage.odometer.spent().releases > spent


def test_a_state_told_before_activation_goes_out_with_it(bench: Bench) -> None:
    gains = bench.listen("link/ground/gain_db")
    options: dict[str, Any] = {"context": bench.context, "use_global_arguments": False}
    link = LinkNode(overrides=dict(WAIT), **options)
    bench.add(link)
    link.trigger_configure()
    assert not bench.until(lambda: bool(gains), 1.0)  # neither from the constructor nor from its timer
    link.trigger_activate()
    assert bench.until(lambda: bool(gains), 10.0)


def test_cleaning_up_closes_the_ledger_and_configuring_opens_it_again(context: Context, tmp_path: Path) -> None:
    overrides = {"ledger": str(tmp_path / "ledger")}
    node = ProtectionNode(context=context, overrides=overrides, use_global_arguments=False)
    node.trigger_deactivate()
    node.trigger_cleanup()
    other = ProtectionNode(context=context, overrides=overrides, use_global_arguments=False)  # the lock is free
    other.end()
    assert node.trigger_configure() == SUCCESS and node.stage.odometer.spent().releases == 0
    node.end()


def test_a_parameter_set_while_unconfigured_counts_when_configured(context: Context) -> None:
    from rclpy.parameter import Parameter

    node = BudgetServerNode(context=context, overrides=dict(WAIT), use_global_arguments=False)
    assert node.set_parameters([Parameter("scenario", value="precision")])[0].successful
    assert not node.set_parameters([Parameter("scenario", value=3)])[0].successful
    node.trigger_configure()
    assert node.config.scenario == "precision"
    node.end()
