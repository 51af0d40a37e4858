"""What every node has: parameters from a dataclass, topics from the graph, guarded callbacks, times, diagnostics."""

from __future__ import annotations

import importlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rcl_interfaces.msg import SetParametersResult
from rclpy.clock import Clock, ClockType
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter
from rclpy.qos import DurabilityPolicy, HistoryPolicy, QoSPolicyKind, QoSProfile, ReliabilityPolicy
from rclpy.qos_overriding_options import QoSOverridingOptions

from uav_privacy_sc.flight import StageEvent
from uav_privacy_sc.graph import NODES, QOS, TOPICS, Topic
from uav_privacy_sc.nodes import parameters

C = TypeVar("C")
DIAGNOSTICS_PERIOD_S = 1.0
#: Over how many frames the times in diagnostics are taken.
TIMED_FRAMES = 100
#: The policies of a topic that are parameters of the node: ``qos_overrides.<topic>.<publisher|subscription>.<policy>``.
QOS_PARAMETERS = QoSOverridingOptions((QoSPolicyKind.RELIABILITY, QoSPolicyKind.DURABILITY, QoSPolicyKind.DEPTH))


class StageNode(Node, Generic[C]):
    """A thin node around one stage.

    Args:
        context: rclpy context; the default one when None.
        overrides: parameters by name, over those of command line and files.
        namespace: of the aircraft; from the command line when None.
        observer: told in this process what became of each frame.
        use_global_arguments: whether remappings and parameters of the process apply.

    Raises:
        ValueError: a parameter is out of range or what it names cannot be used; one line.
    """

    NAME: ClassVar[str]
    Config: ClassVar[type[Any]]

    def __init__(
        self,
        context: Context | None = None,
        overrides: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        observer: Callable[[StageEvent], None] | None = None,
        use_global_arguments: bool = True,
    ) -> None:
        super().__init__(
            self.NAME,
            context=context,
            namespace=namespace,
            use_global_arguments=use_global_arguments,
            parameter_overrides=[Parameter(name, value=value) for name, value in (overrides or {}).items()],
        )
        self.spec = NODES[self.NAME]
        self.config: C = parameters.declare(self, self.Config)
        self.add_on_set_parameters_callback(self._on_set_parameters)
        self.counts: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()
        self._observer = observer
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=TIMED_FRAMES))
        self._outputs: dict[str, Any] = {}
        self._previous = (time.monotonic(), 0)
        self.steady_clock = Clock(clock_type=ClockType.STEADY_TIME)  # simulated time may stand still or jump back
        self._diagnostics = self.create_publisher(DiagnosticArray, "diagnostics", qos_profile("record"))
        self.create_timer(DIAGNOSTICS_PERIOD_S, self._diagnose, clock=self.steady_clock)

    def create_outputs(self, *names: str, on: Node | None = None) -> None:
        """Create publishers of topics that the graph says this node gives; ``on`` another node, for the air gap."""
        for name in names:
            topic = self._known(name, self.spec.gives)
            self._outputs[name] = (on or self).create_publisher(
                message_type(topic.type), name, qos_profile(topic.qos), qos_overriding_options=QOS_PARAMETERS
            )

    def take(self, name: str, callback: Callable[[Any], None]) -> Any:
        """Subscribe to a topic that the graph says this node takes; no message can bring the node down."""
        topic = self._known(name, self.spec.takes)
        return self.create_subscription(
            message_type(topic.type),
            name,
            lambda message: self._guarded(callback, message),
            qos_profile(topic.qos),
            qos_overriding_options=QOS_PARAMETERS,
        )

    def give(self, name: str, message: Any) -> None:
        """Publish."""
        self._outputs[name].publish(message)

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
        """Release what the node holds; call after its executor has stopped."""
        self.destroy_node()

    def _known(self, name: str, among: tuple[str, ...]) -> Topic:
        if name not in among:
            raise KeyError(f"{name} is not among the topics of {self.NAME} in the graph")
        return TOPICS[name]

    def _guarded(self, callback: Callable[[Any], None], message: Any) -> None:
        try:
            callback(message)
        except Exception as error:  # whatever a message does, the node lives on and the frame is counted as lost
            header = getattr(message, "header", None)
            stamp = 0 if header is None else header.stamp.sec * 1_000_000_000 + header.stamp.nanosec
            self.drop(type(error).__name__, stamp, str(error).split("\n")[0])

    def _on_set_parameters(self, given: list[Parameter]) -> SetParametersResult:
        verdict = parameters.refusal(self.Config, given)
        return self.judge(given) if verdict.successful else verdict

    def _diagnose(self) -> None:
        healthy, text, values = self.status()
        values = {**self._rates(), **values}
        level = DiagnosticStatus.OK if healthy else DiagnosticStatus.ERROR
        status = DiagnosticStatus(level=level, name=self.get_fully_qualified_name(), message=text)
        status.values = [KeyValue(key=key, value=_text(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self.get_clock().now().to_msg()
        self._diagnostics.publish(message)

    def _rates(self) -> dict[str, Any]:
        (then, before), now, frames = self._previous, time.monotonic(), self.counts["frames"]
        self._previous = (now, frames)
        values: dict[str, Any] = {"frames": frames, "rate_hz": (frames - before) / max(now - then, 1e-6)}
        values |= {f"dropped: {reason}": count for reason, count in self.drops.items()}
        for stage, times in self._times.items():
            values |= {f"{stage}_ms_p50": np.percentile(times, 50), f"{stage}_ms_p95": np.percentile(times, 95)}
        return values


def message_type(name: str) -> Any:
    """Return the class of a message type such as ``sensor_msgs/msg/Image``."""
    package, _, short = name.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), short)


def qos_profile(kind: str) -> QoSProfile:
    """Return the rclpy profile of a kind of topic."""
    qos = QOS[kind]
    return QoSProfile(
        history=HistoryPolicy.KEEP_LAST,
        depth=qos.depth,
        reliability=ReliabilityPolicy[qos.reliability.upper()],
        durability=DurabilityPolicy[qos.durability.upper()],
    )


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
