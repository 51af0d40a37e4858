"""Malformed messages into every subscriber: each is refused or read, counted and told, and no node is lost.

``UAV_FUZZ_MESSAGES`` says how many a subscriber gets (``make soak``: 1,000).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeSource, FakeStages, some_objects
from fuzz import Fuzz
from rclpy.context import Context
from std_msgs.msg import Float32
from test_nodes_budgets import Bench

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, picture_to_message, tensor_to_message
from uav_privacy_sc.nodes.flight import CLASSES
from uav_privacy_sc.nodes.perception import PerceptionNode
from uav_privacy_sc.release import Budgets

MESSAGES = int(os.environ.get("UAV_FUZZ_MESSAGES", "100"))
SEED = 20


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


def made(name: str, context: Context, stages: FakeStages, **overrides: Any) -> Any:
    options: dict[str, Any] = {"source": FakeSource()} if name == "camera" else {"stage": stages.by_node().get(name)}
    overrides |= {"ledger": "memory"} if name == "protection" else {}
    return CLASSES[name](context=context, overrides=overrides, use_global_arguments=False, **options)


def subscribers(node: Any) -> dict[str, Any]:
    """The subscriptions of a node to topics of the graph."""
    return {name: item for item in node.subscriptions if (name := item.topic_name.lstrip("/")) in graph.TOPICS}


TAKERS = [(name, {}) for name, spec in graph.NODES.items() if spec.takes]


@pytest.mark.parametrize(("name", "overrides"), [*TAKERS, ("perception", {"transport": "compressed"})])
def test_no_malformed_message_brings_a_node_down(
    name: str, overrides: dict[str, Any], context: Context, stages: FakeStages
) -> None:
    node = made(name, context, stages, **overrides)
    node.get_logger().set_level(50)
    fuzz = Fuzz(SEED)
    try:
        taken = subscribers(node)
        assert len(taken) == len(graph.NODES[name].takes) - (name == "perception")
        for _ in range(MESSAGES):
            for subscription in taken.values():
                subscription.callback(fuzz.message(subscription.msg_type))
        assert node.state == "active" and node.drops
        level, text, _ = node._condition()
        assert level != b"\x00" and all(f"dropped lately: {reason} x" in text for reason in node.drops)
        _check_alive(node, name)
    finally:
        node.end()


def _check_alive(node: Any, name: str) -> None:
    """A whole frame still goes through."""
    before, header = node.counts["frames"], make_header(99_999, "camera")
    features = tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), header)
    whole = {
        "camera/image_raw": picture_to_message(np.zeros((54, 96, 3), np.uint8), header),
        "objects": objects_to_message(some_objects(2), header),
        "features": features,
    }
    if name in ("protection", "link"):
        node.follower.budgets = Budgets(2.0, 2.0, 1.0, stamp_ns=time.monotonic_ns())
    if name == "budget_server":
        subscribers(node)["link/ground/gain_db"].callback(Float32(data=17.5))
        assert node.gain_db == 17.5
        return
    for topic, subscription in subscribers(node).items():
        message = whole.get(topic) or whole.get(topic.rsplit("/", 1)[1])
        if message is not None:
            subscription.callback(message)
    expected = 0 if name == "perception" and "camera/image_raw" not in subscribers(node) else 1
    assert node.counts["frames"] == before + expected


def test_malformed_messages_over_the_wire_are_dropped_counted_and_warned_of(
    domains: tuple[int, int], stages: FakeStages
) -> None:
    bench = Bench(domains[0])
    try:
        node = PerceptionNode(stage=stages.perceive, context=bench.context, use_global_arguments=False)
        bench.add(node)
        heard = bench.listen("diagnostics", graph.DIAGNOSTICS)
        out = bench.publisher("camera/image_raw")
        assert bench.until(lambda: out.get_subscription_count() > 0, 20.0)
        message = picture_to_message(np.zeros((6, 8, 3), np.uint8), make_header(7, "camera"))
        message.step = 1
        out.publish(message)
        assert bench.until(lambda: node.drops["MalformedMessage"] == 1)
        words = lambda: [status for item in heard for status in item.status if "dropped lately" in status.message]  # noqa: E731
        assert bench.until(lambda: bool(words()), 10.0)
        assert words()[0].level == b"\x01" and "MalformedMessage x1" in words()[0].message
        assert any(item.key == "dropped: MalformedMessage" and item.value == "1" for item in words()[0].values)
        out.publish(picture_to_message(np.zeros((54, 96, 3), np.uint8), make_header(8, "camera")))
        assert bench.until(lambda: node.counts["frames"] == 1)
    finally:
        bench.close()
