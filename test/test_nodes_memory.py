"""What a node's process does about its memory and its wake-ups, and that both end with what they are for."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from conftest import FakeStages

pytest.importorskip("rclpy")

from rclpy.context import Context
from rclpy.node import Node
from std_msgs.msg import Float32

from uav_privacy_sc import graph
from uav_privacy_sc.data.sources import SyntheticSource
from uav_privacy_sc.flight import FlightConfig
from uav_privacy_sc.nodes.domains import reserved_domains
from uav_privacy_sc.nodes.executor import NodeExecutor, step_back
from uav_privacy_sc.nodes.flight import SWITCH_S
from uav_privacy_sc.nodes.ground import GroundNode
from uav_privacy_sc.nodes.memory import settle

SAYS = "from uav_privacy_sc.nodes.memory import keep_freed_blocks; print(keep_freed_blocks())"


@pytest.fixture
def node() -> Iterator[Node]:
    with reserved_domains(1) as (domain,):
        context = Context()
        context.init(domain_id=domain)
        node = Node("counter", context=context)
        yield node
        node.destroy_node()
        context.try_shutdown()


def test_work_that_another_thread_brings_wakes_the_executor(node: Node) -> None:
    executor = NodeExecutor(context=node.context)
    executor.add_node(node)
    thread = threading.Thread(target=executor.spin, daemon=True)
    thread.start()
    time.sleep(0.2)  # by now it waits without a time limit
    done = threading.Event()
    executor.create_task(done.set)
    assert done.wait(5.0)
    executor.shutdown(5.0)
    thread.join(5.0)
    assert not thread.is_alive()


class Counted:
    """A guard condition that counts who triggers it."""

    def __init__(self, guard: Any) -> None:
        self.guard, self.triggers = guard, 0

    def trigger(self) -> None:
        self.triggers += 1
        self.guard.trigger()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.guard, name)


def test_every_message_is_taken_without_waking_oneself(node: Node) -> None:
    seen: list[float] = []
    node.create_subscription(Float32, "number", lambda message: seen.append(message.data), 50)
    publisher = node.create_publisher(Float32, "number", 50)
    executor = NodeExecutor(context=node.context)
    executor.add_node(node)
    guard = executor._guard._wrapped = Counted(executor._guard._wrapped)
    for value in range(30):
        publisher.publish(Float32(data=float(value)))
        while len(seen) <= value:
            executor.spin_once(timeout_sec=5.0)
    assert seen == [float(value) for value in range(30)] and guard.triggers == 0
    other = threading.Thread(target=executor.create_task, args=(lambda: None,))
    other.start()
    other.join()
    assert guard.triggers > 0, "other threads do wake it"
    executor.shutdown()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads have a priority of their own on Linux alone")
def test_a_thread_that_steps_back_is_nicer_and_no_other_is() -> None:
    found: list[int] = []

    def nice() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    def run() -> None:
        found.append(nice())
        step_back()
        found.append(nice())

    before = nice()
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [before, min(before + 10, 19)] and nice() == before


@pytest.mark.parametrize("services", [True, False])
def test_events_that_nobody_reads_cost_no_wake_up(node: Node, services: bool) -> None:
    """A node in a process of its own warns of quality of service that does not fit; in a flight nobody would see it."""
    made = GroundNode(stage=FakeStages().by_node()["ground"], context=node.context, services=services)
    try:
        ours = {made.resolve_topic_name(name) for name in (*made.spec.takes, *made.spec.gives)}
        for entities, topics in ((made.publishers, made.spec.gives), (made.subscriptions, made.spec.takes)):
            found = [one for one in entities if one.topic_name in ours]
            assert len(found) == len(topics)
            assert all(bool(one.event_handlers) is services for one in found)
    finally:
        made.close()


def test_in_a_flight_nodes_wait_briefly_and_the_eavesdropper_steps_back() -> None:
    nice: dict[str, int] = {}
    within: list[float] = []
    stages = FakeStages().by_node()

    def noting(name: str, stage: Any) -> Any:
        def call(*inputs: Any) -> Any:
            nice[name] = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
            within.append(sys.getswitchinterval())
            return stage(*inputs)

        return call

    stages |= {name: noting(name, stages[name]) for name in ("perception", "ground", "eavesdropper")}
    before = sys.getswitchinterval()
    graph.fly(SyntheticSource(1, 10.0, 2), FlightConfig(device="cpu"), stages=stages)
    assert within and all(abs(each - SWITCH_S) < 1e-6 for each in within) and sys.getswitchinterval() == before
    if sys.platform.startswith("linux"):
        ours = os.getpriority(os.PRIO_PROCESS, threading.get_native_id())
        assert nice["perception"] == nice["ground"] == ours and nice["eavesdropper"] == min(ours + 10, 19)


def test_the_users_own_settings_of_the_c_library_hold() -> None:
    def told(**environment: str) -> str:
        plain = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
        call = [sys.executable, "-c", SAYS]
        return subprocess.run(call, env={**plain, **environment}, capture_output=True, text=True, check=True).stdout

    assert told(MALLOC_TRIM_THRESHOLD_="131072").strip() == "False"
    if sys.platform.startswith("linux") and "glibc" in os.confstr("CS_GNU_LIBC_VERSION"):
        assert told().strip() == "True"


def test_what_a_set_up_left_is_given_back_to_the_collector() -> None:
    before = gc.get_freeze_count()
    settle()
    try:
        assert gc.get_freeze_count() > before
    finally:
        gc.unfreeze()
    assert gc.get_freeze_count() == 0
