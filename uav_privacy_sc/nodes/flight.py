"""Fly all seven nodes in one process: two contexts in two DDS domains, a thread a node, frames in lockstep."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from rclpy.context import Context
from rclpy.executors import ExternalShutdownException
from rclpy.logging import LoggingSeverity
from rclpy.node import Node

from uav_privacy_sc.data.sources import Source, SourceFrame
from uav_privacy_sc.flight import FlightConfig, FlightEvent, FlightLog, FrameLog, FrameThinner, Logbook
from uav_privacy_sc.graph import GROUND, NODES, ONBOARD, TOPICS, flight_parameters, profile_parameters
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.budget_follower import UNCONFIRMED
from uav_privacy_sc.nodes.budget_server import BudgetServerNode
from uav_privacy_sc.nodes.camera import CameraNode
from uav_privacy_sc.nodes.domains import reserved_domains
from uav_privacy_sc.nodes.eavesdropper import EavesdropperNode
from uav_privacy_sc.nodes.executor import NodeExecutor, step_back
from uav_privacy_sc.nodes.ground import GroundNode
from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.nodes.memory import keep_freed_blocks, settle
from uav_privacy_sc.nodes.perception import PerceptionNode
from uav_privacy_sc.nodes.process import StopSignal, discovery
from uav_privacy_sc.nodes.protection import IN_MEMORY, ProtectionNode
from uav_privacy_sc.nodes.recorder import BAG_EXISTS, BagWriter, RecorderNode

CLASSES: dict[str, type[StageNode[Any]]] = {
    node.NAME: node
    for node in (
        CameraNode,
        PerceptionNode,
        ProtectionNode,
        BudgetServerNode,
        LinkNode,
        GroundNode,
        EavesdropperNode,
    )
}
READY_TIMEOUT_S = 15.0
POLL_S = 0.1
DRAIN_S = 5.0
#: What a frame reaches on the aircraft and in the air; after that only the ground is busy with it.
ON_THE_AIR = "sent"
FINISHED = {"decoded", "reconstructed"}
#: How long a node that has something to do waits for the interpreter while another node computes. At Python's 5 ms the
#: 95th percentile of ages was some 6 % higher (medians of five runs of 250 frames in turns).
SWITCH_S = 5e-4
#: From what a frame reached to what it counts for.
REACHED = {"perceived": "perceived", "released": "released", "sent": "received", "decoded": "decoded"}


class Interrupted(Exception):
    """The flight is to end now, cleanly."""


class Flight:
    """One flight; see :func:`uav_privacy_sc.graph.fly` for the arguments."""

    def __init__(
        self,
        source: Source,
        config: FlightConfig,
        observer: Callable[[FlightEvent], None] | None,
        bag: Path | None,
        should_stop: Callable[[], bool] | None,
        stages: Mapping[str, Any],
    ) -> None:
        self.source, self.config, self.stages = source, config, stages
        self.observer = observer or (lambda event: None)
        self.should_stop = should_stop or (lambda: False)
        self.log = FlightLog(config, source.name, source.rate_hz, bag=bag)
        self.logbook = Logbook()
        self.nodes: dict[str, Any] = {}
        self._thinner = FrameThinner(config.keep_frames)
        self._cleanup = ExitStack()
        self._signal: StopSignal | None = None
        self._errors: list[BaseException] = []
        self._bag: BagWriter | None = None

    def fly(self) -> FlightLog:
        """Fly to the end, or to an interruption, and return the log."""
        start = None
        if threading.current_thread() is threading.main_thread():
            self._signal = StopSignal()
            self._cleanup.callback(self._signal.restore)
        self._cleanup.callback(self.source.close)
        keep_freed_blocks()
        self._cleanup.callback(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(SWITCH_S)
        try:
            self._take_off()
            settle()
            self._cleanup.callback(gc.unfreeze)
            start = time.perf_counter()
            self._fly_frames()
        except (Interrupted, KeyboardInterrupt):
            self.log.interrupted = True
        finally:
            if start is not None:
                self.log.counts["wall_s"] = time.perf_counter() - start
            self._land()
        self._tell("end", None)
        return self.log

    # Setting up and taking down

    def _take_off(self) -> None:
        if self.log.bag is not None and self.log.bag.exists():
            raise FileExistsError(BAG_EXISTS.format(self.log.bag))
        contexts = self._open_contexts()
        for name, spec in NODES.items():
            self._check_interruption()
            node = self._make(name, contexts[spec.domain])
            node.get_logger().set_level(LoggingSeverity.ERROR)  # drops are in the log of the flight
            self.nodes[name] = node
            self._cleanup.callback(node.close)
        if self.log.bag is not None:
            self._record(self.log.bag, contexts)
        for node in self.nodes.values():
            self._spin(node)
        for condition, what in ((self._budget_is_known, "a budget"), (self._everyone_listens, "one another")):
            if not self._await(condition, READY_TIMEOUT_S):
                raise RuntimeError(f"the nodes did not find {what} within {READY_TIMEOUT_S:g} s; nothing was flown")
        self.log.devices = {name: str(getattr(node.stage, "device", "")) for name, node in self._with_device()}
        self._tell("ready", None)

    def _with_device(self) -> list[tuple[str, Any]]:
        return [(name, node) for name, node in self.nodes.items() if hasattr(getattr(node, "stage", None), "device")]

    def _open_contexts(self) -> dict[str, Context]:
        onboard, ground = self._cleanup.enter_context(reserved_domains(2))
        self._domain_ids = {ONBOARD: onboard, GROUND: ground if self.config.isolate else onboard}
        contexts: dict[str, Context] = {}
        for domain in (ONBOARD, GROUND):
            context = Context()
            with discovery("LOCALHOST"):
                context.init(domain_id=self._domain_ids[domain])
            self._cleanup.callback(context.try_shutdown)
            contexts[domain] = context
        return contexts

    def _make(self, name: str, context: Context) -> StageNode[Any]:
        options: dict[str, Any] = {"source": self.source} if name == "camera" else {"stage": self.stages.get(name)}
        return CLASSES[name](
            context=context,
            overrides=self._parameters(name),
            namespace=self.config.namespace,
            observer=self.logbook,
            use_global_arguments=False,
            services=name == BudgetServerNode.NAME,  # whom others ask for budgets; nobody manages these nodes
            **options,
        )

    def _parameters(self, name: str) -> dict[str, Any]:
        """Return a node's parameters: profile first, then what the flight fixes, then what the caller overrides."""
        config = self.config
        fixed = flight_parameters(config, self._domain_ids[GROUND] if config.isolate else None)[name]
        # Images are best effort between processes; here each of them counts.
        images = f"qos_overrides.{config.namespace.rstrip('/')}/camera/image_raw"
        ours: dict[str, dict[str, Any]] = {
            "camera": {"stamp": "source", f"{images}.publisher.reliability": "reliable"},
            "perception": {f"{images}.subscription.reliability": "reliable"},
            "protection": {} if config.ledger else {"ledger": IN_MEMORY},
        }
        given = {**config.parameters.get("", {}), **config.parameters.get(name, {})}
        return {**profile_parameters(config.profile, name), **fixed, **ours.get(name, {}), **given}

    def _record(self, path: Path, contexts: dict[str, Context]) -> None:
        bag = BagWriter(path, self.config.namespace)
        self._cleanup.callback(bag.close)
        for domain in (ONBOARD, GROUND):
            node = RecorderNode(domain, bag, contexts[domain], self.config.namespace)
            self._cleanup.callback(node.destroy_node)
            self._spin(node)
        self._bag = bag

    def _spin(self, node: Node) -> None:
        executor = NodeExecutor(context=node.context)
        executor.add_node(node)
        thread = threading.Thread(target=self._spinning, args=(executor, node.get_name()), daemon=True)
        thread.start()

        def stop() -> None:
            executor.shutdown(timeout_sec=5.0)
            thread.join(timeout=10.0)

        self._cleanup.callback(stop)

    def _spinning(self, executor: NodeExecutor, name: str) -> None:
        if name == EavesdropperNode.NAME:  # an attacker's computer is his own: here, too, it must not hold up a frame
            step_back()
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        except BaseException as error:  # told to the flying thread, which ends the flight with it
            self._errors.append(error)

    def _land(self) -> None:
        """Take everything down in the reverse order; a further Ctrl-C meanwhile is noted and changes nothing."""
        for stamp in list(self.logbook.open):
            with suppress(KeyboardInterrupt):
                self._finish(stamp, "flight ended")
        with suppress(KeyboardInterrupt):
            self._drain()
        self._cleanup.close()
        self.log.bag_fault = None if self._bag is None else self._bag.fault

    def _drain(self) -> None:
        """Let the recorder take in what is still on its way."""
        seen, deadline = -1, time.monotonic() + DRAIN_S
        while self._bag is not None and seen != self._bag.messages and time.monotonic() < deadline:
            seen = self._bag.messages
            time.sleep(POLL_S)

    # Flying

    def _fly_frames(self) -> None:
        camera: CameraNode = self.nodes["camera"]
        while True:
            self._check_interruption()
            if self.should_stop():
                raise Interrupted
            frame = camera.next_frame()
            if frame is None:
                break
            self._launch(camera, frame)
        while self.logbook.open:
            self._wait_for_oldest()

    def _launch(self, camera: CameraNode, frame: SourceFrame) -> None:
        stamp = frame.stamp_ns
        if stamp in self.logbook.open:  # a source that repeats a stamp: wait, so that the two cannot be mixed up
            self._wait_for_oldest()
        entry = FrameLog(frame.index, stamp, image=frame.image)
        if frame.truth is not None:
            entry.truth_objects, entry.truth_mask = frame.truth.objects, frame.truth.mask
            entry.truth_ignored = getattr(frame.truth, "ignored", None)
        self._note_operating_point(entry)
        self.logbook.begin(entry)
        camera.publish(frame)
        if self._await(lambda: self._left_aircraft(stamp), self.config.frame_timeout_s):
            self._await(self._budget_is_known, self.config.frame_timeout_s)
        while len(self.logbook.open) >= self.config.in_flight or self._settled():
            self._wait_for_oldest()

    def _note_operating_point(self, entry: FrameLog) -> None:
        server: BudgetServerNode = self.nodes["budget_server"]
        if server.point is not None:
            entry.utility, entry.status = float(server.point.utility), server.point.status
            entry.stage_ms["budget"] = server.latest_ms("budget") or 0.0

    def _settled(self) -> bool:
        """Whether the oldest open frame has gone as far as it will."""
        oldest = next(iter(self.logbook.open), None)
        return oldest is not None and self._is_finished(oldest)

    def _wait_for_oldest(self) -> None:
        oldest = next(iter(self.logbook.open))
        done = self._await(lambda: self._is_finished(oldest), self.config.frame_timeout_s)
        self._finish(oldest, None if done else f"timeout: not decoded within {self.config.frame_timeout_s:g} s")

    def _left_aircraft(self, stamp: int) -> bool:
        return bool(self.logbook.reached[stamp] & {ON_THE_AIR, "dropped"})

    def _is_finished(self, stamp: int) -> bool:
        reached = self.logbook.reached[stamp]
        return "dropped" in reached or reached >= FINISHED

    def _budget_is_known(self) -> bool:
        """Whether protection and link have the budget for the block that the next frame will meet."""
        link, server, protection = (self.nodes[name] for name in ("link", "budget_server", "protection"))
        point = server.point
        if point is None or server.gain_db != link.stage.gain_db:
            return False
        chosen = (float(point.epsilon_v), float(point.epsilon_l), float(point.p_tx))
        for follower in (protection.follower, link.follower):
            held = follower.budgets
            if held is None or held.stamp_ns == UNCONFIRMED or (held.epsilon_v, held.epsilon_l, held.p_tx) != chosen:
                return False
        return True

    def _everyone_listens(self) -> bool:
        """Whether every subscription within the graph, and of the recorder, has found its publisher."""
        pairs = (
            ("camera", "camera/image_raw"),
            ("perception", "semantic/features"),
            ("perception", "semantic/objects"),
            ("protection", "tx/lattice_step"),
            ("protection", "tx/features"),
            ("protection", "tx/objects"),
            ("link", "ground/rx/lattice_step"),
            ("link", "ground/rx/features"),
            ("link", "ground/rx/objects"),
            ("link", "eve/rx/lattice_step"),
            ("link", "eve/rx/features"),
        )
        heard = all(self.nodes[node].wanted(topic) for node, topic in pairs) and self._networks_are_known()
        return heard and self._recorder_listens()

    def _networks_are_known(self) -> bool:
        """Whether protection knows what perceives, so that the first record says it, too."""
        return self.nodes["protection"].networks == getattr(self.nodes["perception"].stage, "networks", {})

    def _recorder_listens(self) -> bool:
        """Whether the recorder hears every publisher: a bag must not begin with the second frame."""
        if self._bag is None:
            return True
        takers = Counter(topic for spec in NODES.values() for topic in spec.takes)
        recorded = [(name, topic) for name, spec in NODES.items() for topic in spec.gives if TOPICS[topic].recorded]
        return all(self.nodes[name].wanted(topic, takers[topic] + 1) for name, topic in recorded)

    def _finish(self, stamp: int, reason: str | None) -> None:
        frame, reached = self.logbook.close(stamp)
        if reason is not None and frame.dropped is None:
            frame.dropped = reason
        counts = self.log.counts
        counts["frames_in"] += 1
        counts["broken"] += frame.image is None
        for kind, name in REACHED.items():
            counts[name] += kind in reached
        for stage, taken in frame.stage_ms.items():
            self.log.stage_ms.setdefault(stage, []).append(taken)
        self.log.frames.append(frame)
        self._tell("frame", frame)
        self._thinner.add(frame)

    # Waiting

    def _await(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition holds, waking at what nodes tell; False when it did not within the time."""
        deadline = time.monotonic() + timeout_s
        with self.logbook.changed:
            while not condition():
                self._check_interruption()
                left = deadline - time.monotonic()
                if left <= 0.0:
                    return False
                self.logbook.changed.wait(min(POLL_S, left))
        return True

    def _check_interruption(self) -> None:
        if self._errors:
            raise self._errors[0]
        if self._signal is not None and self._signal.seen:
            raise Interrupted

    def _tell(self, kind: str, frame: FrameLog | None) -> None:
        self.observer(FlightEvent(kind, frame, len(self.log.frames), self.source.length))
