"""All seven nodes of one aircraft in this process, a thread each, with stand-ins for the networks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
from conftest import FakeSource, FakeStages
from rclpy.context import Context
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor

from uav_privacy_sc import graph
from uav_privacy_sc.data.sources import SourceFrame
from uav_privacy_sc.flight import StageEvent
from uav_privacy_sc.nodes.flight import CLASSES

PICTURE = (54, 96, 3)


class Contexts:
    """The two DDS domains."""

    def __init__(self, domains: tuple[int, int]) -> None:
        self.ids, self.by_domain = domains, {}  # type: tuple[int, int], dict[str, Context]
        for name, domain_id in zip((graph.ONBOARD, graph.GROUND), domains, strict=True):
            self.by_domain[name] = Context()
            self.by_domain[name].init(domain_id=domain_id)

    def close(self) -> None:
        for context in self.by_domain.values():
            context.try_shutdown()


class Aircraft:
    """Nodes by name, what they told, and frames to fly."""

    def __init__(self, contexts: Contexts, namespace: str = "/", **overrides: dict[str, Any]) -> None:
        self._contexts, self._namespace, self._overrides = contexts, namespace, overrides
        self.stages = FakeStages()
        self.told: Counter[str] = Counter()
        self.reached: dict[int, set[str]] = {}
        self.errors: list[BaseException] = []
        self.nodes: dict[str, Any] = {}
        self._stops: dict[str, Callable[[], None]] = {}
        self._stamp = time.time_ns()
        for name in graph.NODES:
            self.start(name)

    def start(self, name: str) -> None:
        """Make a node and spin it in a thread."""
        ground_id = self._contexts.ids[1]
        ours: dict[str, dict[str, Any]] = {
            "camera": {"stamp": "source"},
            "protection": {"ledger": "memory"},
            "link": {"ground_domain_id": ground_id, "fading": "none"},
        }
        overrides = {**ours.get(name, {}), **self._overrides.get("every", {}), **self._overrides.get(name, {})}
        stage = {"source": FakeSource()} if name == "camera" else {"stage": self.stages.by_node().get(name)}
        context = self._contexts.by_domain[graph.NODES[name].domain]
        options: dict[str, Any] = {"context": context, "namespace": self._namespace, "overrides": overrides}
        node = CLASSES[name](observer=self._note, use_global_arguments=False, **stage, **options)
        node.get_logger().set_level(50)
        self.nodes[name] = node
        executor = SingleThreadedExecutor(context=context)
        executor.add_node(node)
        thread = threading.Thread(target=self._spin, args=(executor,), daemon=True)
        thread.start()

        def stop() -> None:
            executor.shutdown(timeout_sec=5.0)
            thread.join(timeout=10.0)

        self._stops[name] = stop

    def kill(self, name: str) -> None:
        """Stop a node where it stands."""
        self._stops.pop(name)()
        self.nodes.pop(name).close()

    def close(self) -> None:
        for name in reversed(list(self.nodes)):
            self.kill(name)

    def fly(self, value: int = 0, stamp: int | None = None) -> int:
        """Publish one picture of one grey and return its stamp."""
        self._stamp += 1_000_000
        stamp = self._stamp if stamp is None else stamp
        self.reached.pop(stamp, None)
        self.nodes["camera"].publish(SourceFrame(0, stamp, np.full(PICTURE, value, np.uint8)))
        return stamp

    def arrives(self, value: int = 0, timeout_s: float = 20.0, stamp: int | None = None) -> bool:
        """Fly frames until one is decoded on the ground."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if self.decoded(self.fly(value, stamp), 0.5):
                return True
        return False

    def decoded(self, stamp: int, timeout_s: float) -> bool:
        """Wait until a frame is decoded on the ground."""
        return until(lambda: "decoded" in self.reached.get(stamp, ()), timeout_s)

    def _note(self, event: StageEvent) -> None:
        self.told[f"{event.node} {event.kind}"] += 1
        self.reached.setdefault(event.stamp_ns, set()).add(event.kind)
        while len(self.reached) > 100:
            self.reached.pop(next(iter(self.reached)), None)

    def _spin(self, executor: SingleThreadedExecutor) -> None:
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as error:
            self.errors.append(error)


def until(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Wait for what happens in other threads."""
    deadline = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.002)
    return condition()
