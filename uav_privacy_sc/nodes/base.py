"""What every node has: parameters from a dataclass, topics from the graph, guarded callbacks, times, diagnostics."""

from __future__ import annotations

import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import QoSProfile

from uav_privacy_sc.flight import StageEvent
from uav_privacy_sc.graph import NODES, TOPICS, Topic
from uav_privacy_sc.nodes import parameters
from uav_privacy_sc.nodes.managed import ManagedNode
from uav_privacy_sc.nodes.misfits import misfits, this_installation
from uav_privacy_sc.nodes.qos import (
    QOS_PARAMETERS,
    message_type,
    publisher_events,
    qos_profile,
    readable_overrides,
    subscription_events,
)

__all__ = ["StageNode", "message_type", "qos_profile"]

C = TypeVar("C")
DIAGNOSTICS_PERIOD_S = 1.0
#: Over how many frames the times in diagnostics are taken.
TIMED_FRAMES = 100
#: Transitions that free what a node holds and keep the node.
_CLEANING = ("cleaningup", "shuttingdown", "errorprocessing")


class StageNode(ManagedNode, Generic[C]):
    """A thin node around one stage.

    Args:
        context: rclpy context; the default one when None.
        overrides: parameters by name, over those of command line and files.
        namespace: of the aircraft; from the command line when None.
        observer: told in this process what became of each frame.
        use_global_arguments: whether remappings and parameters of the process apply.
        services: whether others can ask for parameters, manage the node, and are told where they do not fit its quality
            of service; each service, and the events of each publisher and subscription, cost time at every message.

    Raises:
        ValueError: a parameter is out of range or what it names cannot be used; one line.
    """

    Config: ClassVar[type[Any]]

    def __init__(
        self,
        context: Context | None = None,
        overrides: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        observer: Callable[[StageEvent], None] | None = None,
        use_global_arguments: bool = True,
        services: bool = True,
    ) -> None:
        values = {item.name: self.get_parameter(item.name).value for item in fields(self.Config)}
        self.config: C = parameters.build(self.Config, values)
        self._outputs: dict[str, Any] = {}
        self._misfits: list[str] = []
        #: Of topics that tell a state: the last message that came or went while the node was not active.
        self._held: dict[str, Callable[[], None]] = {}

    def prepare(self, options: Mapping[str, Any]) -> None:
        """Declare the parameters, and tell in diagnostics how the node is from now on, configured or not."""
        self.spec = NODES[self.NAME]
        parameters.declare(self, self.Config)
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self.counts: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()
        #: By topic: what a publisher or subscriber on it wants otherwise.
        self.mismatches: dict[str, str] = {}
        self._observer = options.get("observer")
        self._warn_of_misfit = self._on_mismatch if options.get("services", True) else None
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=TIMED_FRAMES))
        self._previous = (time.monotonic(), 0)
        self._told_drops: Counter[str] = Counter()
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still or jump back
        self._diagnostics = self.create_publisher(
            DiagnosticArray, "diagnostics", qos_profile("record"), qos_overriding_options=QOS_PARAMETERS
        )
        self.create_timer(DIAGNOSTICS_PERIOD_S, self._diagnose, clock=self.steady_clock)

    def activated(self) -> None:
        """Say what does not fit here; let out and in what told a state while the node was not active."""
        self._misfits = misfits(this_installation())
        for text in self._misfits:
            self.get_logger().warning(text)
        held, self._held = self._held, {}
        for act in held.values():
            act()

    def free(self) -> None:
        """Close what the node holds."""
        self.close()

    def create_outputs(self, *names: str, on: Node | None = None) -> None:
        """Create publishers of topics that the graph says this node gives; ``on`` another node, for the air gap."""
        for name in names:
            topic = self._known(name, self.spec.gives)
            self._create_output(message_type(topic.type), name, qos_profile(topic.qos), on or self)

    def _create_output(self, kind: Any, name: str, profile: QoSProfile, on: Node) -> None:
        with readable_overrides(on.resolve_topic_name(name)):
            self._outputs[name] = on.create_publisher(
                kind,
                name,
                profile,
                qos_overriding_options=QOS_PARAMETERS,
                event_callbacks=publisher_events(name, self._warn_of_misfit),
            )

    def give_to(self, kind: Any, name: str, profile: QoSProfile) -> None:
        """Create a publisher of a topic that is not in the graph; :meth:`give` publishes on it, too."""
        self._create_output(kind, name, profile, self)

    def take(self, name: str, callback: Callable[[Any], None]) -> Any:
        """Subscribe to a topic that the graph says this node takes; no message can bring the node down."""
        topic = self._known(name, self.spec.takes)
        return self._subscribe(
            message_type(topic.type),
            name,
            lambda message: self._let_in(topic, callback, message),
            qos_profile(topic.qos),
        )

    def take_from(self, kind: Any, name: str, callback: Callable[[Any], None], profile: QoSProfile) -> Any:
        """Subscribe to a topic that a parameter names: it is not in the graph, and treated as those that are."""
        return self._subscribe(
            kind, name, lambda message: self._guarded(callback, message) if self.active else None, profile
        )

    def give(self, name: str, message: Any) -> None:
        """Publish, if the node is active; what tells a state goes out as soon as it is."""
        if self.active:
            self._outputs[name].publish(message)
        elif name in TOPICS and TOPICS[name].qos == "state":
            self._held[name] = lambda: self.give(name, message)

    def wanted(self, name: str, by: int = 1) -> bool:
        """Whether anybody listens, for what costs time to make, or so many do."""
        return self._outputs[name].get_subscription_count() >= by

    def drop(self, reason: str, stamp_ns: int, detail: str = "") -> None:
        """Count a frame that goes no further; say so at most once in a few seconds."""
        self.drops[reason] += 1
        text = f"{reason}: {detail}" if detail else reason
        self.get_logger().warning(f"frame dropped, {text}", throttle_duration_sec=5.0)
        self.tell_lost(stamp_ns, text)

    def tell(self, kind: str, stamp_ns: int, **values: Any) -> None:
        """Tell whoever flies this node in the same process."""
        if self._observer is not None:
            self._observer(StageEvent(self.NAME, kind, stamp_ns, values))

    def tell_lost(self, stamp_ns: int, text: str) -> None:
        """Tell that a frame will not reach the ground; for a node that the ground does not wait for, another thing."""
        self.tell("dropped", stamp_ns, dropped=f"{self.NAME}: {text}")

    @contextmanager
    def timed(self, stage: str) -> Iterator[dict[str, float]]:
        """Take the time of a stage in milliseconds; the yielded dictionary holds it afterwards."""
        taken: dict[str, float] = {}
        start = time.perf_counter()
        yield taken
        taken[stage] = (time.perf_counter() - start) * 1e3
        self._times[stage].append(taken[stage])

    def latest_ms(self, stage: str) -> float | None:
        """Return how long a stage took the last time, in milliseconds."""
        return self._times[stage][-1] if self._times[stage] else None

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return whether all is well, one line, and further values for diagnostics. No raw data, ever."""
        return True, "running", {}

    def judge(self, given: list[Parameter]) -> SetParametersResult:
        """Accept or refuse new parameter values; called after types and ranges have been found good."""
        return SetParametersResult(successful=True)

    def close(self) -> None:
        """Release what the node holds and, unless it is only being cleaned up, the node; its executor has stopped."""
        if self.state not in _CLEANING:
            self.destroy_node()

    def end(self) -> None:
        """Close the node in whatever state it is."""
        if self.configured:
            self.close()
        else:
            self.destroy_node()

    def _subscribe(self, kind: Any, name: str, callback: Callable[[Any], None], profile: QoSProfile) -> Any:
        with readable_overrides(self.resolve_topic_name(name)):
            return self.create_subscription(
                kind,
                name,
                callback,
                profile,
                qos_overriding_options=QOS_PARAMETERS,
                event_callbacks=subscription_events(name, self._warn_of_misfit),
            )

    def _known(self, name: str, among: tuple[str, ...]) -> Topic:
        if name not in among:
            raise KeyError(f"{name} is not among the topics of {self.NAME} in the graph")
        return TOPICS[name]

    def _let_in(self, topic: Topic, callback: Callable[[Any], None], message: Any) -> None:
        if self.active:
            self._guarded(callback, message)
        elif topic.qos == "state":
            self._held[topic.name] = lambda: self._guarded(callback, message)

    def _on_mismatch(self, topic: str, text: str) -> None:
        self.mismatches[topic] = text
        self.get_logger().warning(f"{topic}: {text}; set qos_overrides.{self.resolve_topic_name(topic)}.* on one side")

    def _guarded(self, callback: Callable[[Any], None], message: Any) -> None:
        try:
            callback(message)
        except Exception as error:  # whatever a message does, the node lives on and the frame is counted as lost
            header = getattr(message, "header", None)
            stamp = 0 if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
            self.drop(type(error).__name__, stamp, str(error).split("\n")[0])

    def _on_set_parameters(self, given: list[Parameter]) -> SetParametersResult:
        verdict = parameters.refusal(self.Config, given)
        return self.judge(given) if verdict.successful and self.configured else verdict

    def _diagnose(self) -> None:
        level, text, values = self._condition()
        values = {"state": self.state, **self._rates(), **values}
        status = DiagnosticStatus(level=level, name=self.get_fully_qualified_name(), message=text)
        status.values = [KeyValue(key=key, value=_text(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def _condition(self) -> tuple[bytes, str, dict[str, Any]]:
        if self.fault is not None:
            return DiagnosticStatus.ERROR, f"finalized: {' '.join(str(self.fault).split())}", {}
        if not self.configured:
            return DiagnosticStatus.WARN, self.state, {}
        healthy, text, values = self.status()
        if not self.active:
            return DiagnosticStatus.WARN, f"{self.state}: nothing comes in or goes out", values
        warnings = self._warnings()
        level = DiagnosticStatus.WARN if warnings else DiagnosticStatus.OK
        return (level if healthy else DiagnosticStatus.ERROR), "; ".join((text, *warnings)), values

    def _warnings(self) -> list[str]:
        """Say what was dropped since diagnostics were told last, and where quality of service does not fit."""
        lately, self._told_drops = self.drops - self._told_drops, self.drops.copy()
        found = [f"dropped lately: {reason} x{count}" for reason, count in lately.items()]
        return found + self._misfits + [f"{topic}: {text}" for topic, text in self.mismatches.items()]

    def _rates(self) -> dict[str, Any]:
        (then, before), now, frames = self._previous, time.monotonic(), self.counts["frames"]
        self._previous = (now, frames)
        values: dict[str, Any] = {"frames": frames, "rate_hz": (frames - before) / max(now - then, 1e-6)}
        values |= {f"dropped: {reason}": count for reason, count in self.drops.items()}
        for stage, times in self._times.items():
            p50, p95 = np.percentile(times, (50, 95)).tolist()
            values |= {f"{stage}_ms_p50": p50, f"{stage}_ms_p95": p95}
        return values


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
