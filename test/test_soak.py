"""A long flight: memory stays flat, nodes die and come back, and nothing unprotected is on the air.

Pictures are tiny and the networks stand-ins of no time, so this is about messages, records, joins and threads, not
about torch. ``make soak`` sets ``UAV_SOAK_FRAMES`` to 10,000 and ``UAV_SOAK_RESTARTS`` to 10; here both are short.
"""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aircraft import Aircraft, Contexts, until
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from test_nodes_processes import NETWORKS, Listener, Processes, pictures, processes

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.base import message_type, qos_profile
from uav_privacy_sc.nodes.conversion import lost_tensor_shape, tensor_from_message

__all__ = ["pictures", "processes"]

FRAMES = int(os.environ.get("UAV_SOAK_FRAMES", "300"))
RESTARTS = int(os.environ.get("UAV_SOAK_RESTARTS", "0"))
GROWTH = 1.05
#: Least spread of a cell over its channels; stand-in features have none before they are protected.
SPREAD = 0.1


def memory_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.fixture
def contexts(domains: tuple[int, int]) -> Iterator[Contexts]:
    contexts = Contexts(domains)
    yield contexts
    contexts.close()


class Air:
    """Listens in the ground's domain to every feature packet, and keeps those without noise in every cell."""

    def __init__(self, contexts: Contexts) -> None:
        self.packets, self.unprotected = 0, []  # type: int, list[int]
        self._step = 0.0
        context = contexts.by_domain[graph.GROUND]
        self._node = Node("air", context=context, enable_rosout=False, start_parameter_services=False)
        for party in ("ground", "eve"):
            self._listen(f"{party}/rx/features", self._on_features)
        self._executor = SingleThreadedExecutor(context=context)
        self._executor.add_node(self._node)

    def _listen(self, name: str, callback: Any) -> None:
        topic = graph.TOPICS[name]
        self._node.create_subscription(message_type(topic.type), name, callback, qos_profile(topic.qos))

    def _on_features(self, message: Any) -> None:
        if lost_tensor_shape(message) is None:
            self.packets += 1
            if (tensor_from_message(message).std(axis=0) < SPREAD).any():
                self.unprotected.append(message.header.stamp.nanosec)

    def hear(self) -> None:
        """Take in what has arrived."""
        for _ in range(20):
            self._executor.spin_once(timeout_sec=0)

    def close(self) -> None:
        self._executor.shutdown(timeout_sec=2.0)
        self._node.destroy_node()


@pytest.mark.slow
def test_memory_stays_flat_over_a_long_flight(contexts: Contexts) -> None:
    aircraft, air = Aircraft(contexts), Air(contexts)
    kept, decoded = [], 0
    try:
        assert aircraft.arrives(1, 60.0)
        for frame in range(FRAMES):
            decoded += aircraft.decoded(aircraft.fly(frame % 250), 5.0)
            air.hear()
            if frame % max(FRAMES // 100, 1) == 0:
                kept.append(memory_mib())
        gc.collect()
    finally:
        aircraft.close()
        air.close()
    tenth = max(len(kept) // 10, 1)
    second, last = np.mean(kept[tenth : 2 * tenth]), np.mean(kept[-tenth:])
    print(
        f"\n{decoded} of {FRAMES} frames decoded; memory {second:.1f} MiB in the second tenth, {last:.1f} in the last"
    )
    assert decoded >= 0.98 * FRAMES and air.packets > 0 and not air.unprotected
    assert last <= GROWTH * second, (second, last)
    assert aircraft.errors == []


@pytest.mark.slow
def test_every_node_dies_and_comes_back_in_flight_and_nothing_unprotected_is_on_the_air(contexts: Contexts) -> None:
    aircraft, air = Aircraft(contexts, protection={"max_budget_age_s": 1.0}), Air(contexts)
    try:
        assert aircraft.arrives(1, 60.0)
        for _ in range(max(RESTARTS, 1)):
            for name in graph.NODES:
                aircraft.kill(name)
                for _ in range(10):
                    if name != "camera":
                        aircraft.fly(7)
                    air.hear()
                    time.sleep(0.005)
                aircraft.start(name)
                assert until(lambda: aircraft.arrives(9, 1.0), 60.0), f"no frame arrives once {name} is back"
                air.hear()
    finally:
        aircraft.close()
        air.close()
    assert air.packets > 0 and not air.unprotected
    assert aircraft.errors == []


@pytest.mark.slow
@pytest.mark.skipif(not RESTARTS, reason="real processes: in the long form only (make soak)")
def test_every_process_is_killed_and_started_again_under_load(
    processes: Processes, domains: tuple[int, int], pictures: Path
) -> None:
    ground = Listener(domains[1])
    arguments = {
        "link": (f"ground_domain_id:={domains[1]}", "fading:=none"),
        "camera": (f"source:={pictures}", "loop:=true", "rate_hz:=5.0"),
        "protection": ("max_budget_age_s:=1.0",),
    }
    received, masks = ground.listen("ground/rx/features"), ground.listen("ground/mask")
    pictured = ground.listen("eve/reconstruction")

    def arrives() -> bool:
        for messages in (received, masks, pictured):
            messages.clear()
        arrived = ground.until(lambda: len(masks) > 1 and len(received) > 1 and len(pictured) > 1, 240.0)
        for message in received:
            assert lost_tensor_shape(message) is None and (tensor_from_message(message).std(axis=0) > SPREAD).all()
        return arrived

    try:
        for name in graph.NODES:
            processes.start(name, *arguments.get(name, ()), fake=name in NETWORKS, confined=False)
        assert arrives()
        for turn in range(RESTARTS):
            for name in graph.NODES:
                victim = processes.running.pop(name)
                victim.send_signal(signal.SIGKILL)
                victim.communicate()
                processes.start(name, *arguments.get(name, ()), fake=name in NETWORKS, confined=False)
                assert arrives(), (turn, name, {node: item.poll() for node, item in processes.running.items()})
        for index, name in enumerate(list(processes.running)):
            status, errors = processes.end(name, signal.SIGINT if index % 2 else signal.SIGTERM)
            assert (status, "Traceback" in errors) == (0, False), f"{name}: {errors}"
    finally:
        ground.close()
