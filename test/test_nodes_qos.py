"""Quality of service: parameters of every topic, mismatches said by topic and policy, budgets not starved by images."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeSource, FakeStages, some_objects
from geometry_msgs.msg import PoseStamped
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import Image
from std_msgs.msg import Float32
from test_nodes_budgets import Bench

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.budget_server import BudgetServerNode
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, tensor_to_message
from uav_privacy_sc.nodes.flight import CLASSES
from uav_privacy_sc.nodes.protection import ProtectionNode


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def made(name: str, bench: Bench, stages: FakeStages, **overrides: Any) -> Any:
    options: dict[str, Any] = {"source": FakeSource()} if name == "camera" else {"stage": stages.by_node().get(name)}
    overrides |= {"ledger": "memory"} if name == "protection" else {}
    return bench.add(CLASSES[name](context=bench.context, overrides=overrides, use_global_arguments=False, **options))


@pytest.mark.parametrize("name", list(graph.NODES))
def test_the_policies_of_every_topic_are_parameters_of_its_node(name: str, bench: Bench, stages: FakeStages) -> None:
    node, spec = made(name, bench, stages), graph.NODES[name]
    unused = {"camera/image_raw/compressed"} if name == "perception" else set()
    for side, topics in (("publisher", spec.gives), ("subscription", set(spec.takes) - unused)):
        for topic in topics:
            qos = graph.QOS[graph.TOPICS[topic].qos]
            for policy in ("reliability", "durability", "depth"):
                if graph.TOPICS[topic].domain != spec.domain and name == "link":
                    continue  # of the node in the ground's domain
                value = node.get_parameter(f"qos_overrides./{topic}.{side}.{policy}").value
                assert value == getattr(qos, policy)


def test_what_budgets_and_records_travel_by_is_reliable() -> None:
    for name in ("tx/record", "link/record", "link/ground/gain_db", "tx/features", "tx/objects", "tx/lattice_step"):
        assert graph.QOS[graph.TOPICS[name].qos].reliability == "reliable"


def test_an_override_is_followed(bench: Bench, stages: FakeStages) -> None:
    node = made("ground", bench, stages, **{"qos_overrides./ground/mask.publisher.reliability": "best_effort"})
    (mask,) = [item for item in node.publishers if item.topic_name == "/ground/mask"]
    assert mask.qos_profile.reliability == ReliabilityPolicy.BEST_EFFORT


def test_a_publisher_and_a_subscriber_that_do_not_fit_are_named_with_topic_and_policy(
    bench: Bench, stages: FakeStages
) -> None:
    node = made("protection", bench, stages)
    weak = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    bench.node.create_publisher(Image, "semantic/features", weak)
    bench.node.create_subscription(Image, "tx/features", lambda message: None, latched)
    assert bench.until(lambda: {"semantic/features", "tx/features"} <= set(node.mismatches), 20.0)
    assert "RELIABILITY" in node.mismatches["semantic/features"] and "publisher" in node.mismatches["semantic/features"]
    assert "DURABILITY" in node.mismatches["tx/features"] and "subscriber" in node.mismatches["tx/features"]
    level, text, _ = node._condition()
    assert level != b"\x00" and "semantic/features: a publisher" in text


class Slow:
    """A stage that takes its time, and notes how old the budget was."""

    def __init__(self, stage: Any, seconds: float) -> None:
        self._stage, self._seconds = stage, seconds
        self.ages: list[float] = []

    def __call__(self, features: Any, objects: Any, budgets: Any, stamp: int, now: int) -> Any:
        if budgets is not None:
            self.ages.append((now - budgets.stamp_ns) / 1e9)
        time.sleep(self._seconds)
        return self._stage(features, objects, budgets, stamp, now)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stage, name)


def test_frames_faster_than_they_can_be_protected_starve_neither_budgets_nor_records(bench: Bench) -> None:
    options: dict[str, Any] = {"context": bench.context, "use_global_arguments": False}
    server = bench.add(BudgetServerNode(overrides={"heartbeat_s": 0.2}, **options))
    node = bench.add(ProtectionNode(overrides={"ledger": "memory"}, **options))
    slow = node.stage = Slow(node.stage, 0.03)
    records = bench.listen("tx/record")
    gains, objects, features = (
        bench.publisher(name) for name in ("link/ground/gain_db", "semantic/objects", "semantic/features")
    )
    assert bench.until(lambda: gains.get_subscription_count() == 1, 20.0)
    gains.publish(Float32(data=20.0))
    assert bench.until(lambda: node.follower.budgets is not None and server.point is not None, 20.0)
    assert bench.until(lambda: features.get_subscription_count() == 1 == objects.get_subscription_count(), 20.0)
    assert bench.until(lambda: node._outputs["tx/record"].get_subscription_count() == 1, 20.0)
    began, stamp = time.monotonic(), 0
    while time.monotonic() - began < 4.0:
        gains.publish(Float32(data=20.0))
        for _ in range(5):
            stamp += 1
            header = make_header(stamp, "camera")
            objects.publish(objects_to_message(some_objects(1), header))
            features.publish(tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), header))
        for _ in range(6):
            bench.executor.spin_once(timeout_sec=0)
    fresh = slow.ages[len(slow.ages) // 4 :]
    assert len(fresh) > 10 and max(fresh) < 1.5, max(fresh)
    assert bench.until(lambda: len(records) == node.counts["frames"], 10.0), (len(records), node.counts["frames"])


def test_a_policy_that_is_none_is_refused_by_topic_with_what_there_is(bench: Bench, stages: FakeStages) -> None:
    for name, override in (
        ("ground", "qos_overrides./ground/mask.publisher.reliability"),
        ("perception", "qos_overrides./camera/image_raw.subscription.durability"),
    ):
        topic, _, policy = override.removeprefix("qos_overrides.").split(".")
        with pytest.raises(ValueError, match=rf"qos_overrides.{topic}.*{policy} is 'maybe'; choose one of"):
            made(name, bench, stages, **{override: "maybe"})


def test_topics_that_parameters_name_have_policies_and_warn_of_mismatches_too(bench: Bench, stages: FakeStages) -> None:
    where = "qos_overrides./where.subscription.reliability"
    node = made("link", bench, stages, position_topic="where", position_type="PoseStamped", **{where: "reliable"})
    assert node.get_parameter("qos_overrides./parameter_events.subscription.depth").value == 1000
    bench.node.create_publisher(PoseStamped, "where", QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT))
    assert bench.until(lambda: "RELIABILITY" in node.mismatches.get("where", ""), 20.0)


def test_topics_beyond_the_air_gap_follow_overrides_that_the_link_was_given(
    domains: tuple[int, int], bench: Bench, stages: FakeStages
) -> None:
    override = {"qos_overrides./ground/rx/features.publisher.depth": 9}
    node = made("link", bench, stages, ground_domain_id=domains[1], **override)
    assert node._outputs["ground/rx/features"].qos_profile.depth == 9
    assert node._outputs["ground/rx/objects"].qos_profile.depth == graph.QOS["frame"].depth
