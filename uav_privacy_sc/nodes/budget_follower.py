"""Follow the budget server: ask for its parameters at the start, then listen to ``/parameter_events``."""

from __future__ import annotations

import time
from collections.abc import Callable
from copy import copy
from typing import Any

from rcl_interfaces.msg import ParameterEvent
from rcl_interfaces.srv import GetParameters
from rclpy.node import Node
from rclpy.parameter import parameter_value_to_python
from rclpy.qos import qos_profile_parameter_events

from uav_privacy_sc.nodes.qos import QOS_PARAMETERS
from uav_privacy_sc.release import BUDGET_NAMES, Budgets

SERVER = "budget_server"
ASK_PERIOD_S = 0.5
#: Stamp of budgets that the server was asked for: it may have stopped confirming them, so they count as stale until its
#: next event.
UNCONFIRMED = 0
_DEFAULTS = Budgets(0.0, 0.0, 0.0)
_KINDS = {name: type(getattr(_DEFAULTS, name)) for name in BUDGET_NAMES}


class BudgetFollower:
    """Holds the newest :class:`Budgets` of the aircraft's own server in ``budgets``; None until there are some.

    Values count only when all of them come in one event: budgets and power change together or not at all. Zeros are
    what a server has before it knows the channel; they are no budget. ``changed`` is called after each confirmation.
    """

    def __init__(self, node: Node, changed: Callable[[], None] = lambda: None) -> None:
        self._changed = changed
        self.budgets: Budgets | None = None
        self._node = node
        self._server = f"{node.get_namespace().rstrip('/')}/{SERVER}"
        self._client = node.create_client(GetParameters, f"{SERVER}/get_parameters")
        self._asking: Any = None
        node.create_subscription(
            ParameterEvent,
            "/parameter_events",
            self._on_event,
            copy(qos_profile_parameter_events),  # overrides are written into it
            qos_overriding_options=QOS_PARAMETERS,
        )
        clock = getattr(node, "steady_clock", node.get_clock())
        self._timer = node.create_timer(ASK_PERIOD_S, self._ask, clock=clock)

    def _ask(self) -> None:
        if self.budgets is not None:
            self._timer.cancel()
            return
        waiting = self._asking is not None and not self._asking.done()
        if not waiting and self._client.service_is_ready():
            self._asking = self._client.call_async(GetParameters.Request(names=list(BUDGET_NAMES)))
            self._asking.add_done_callback(self._on_answer)

    def _on_answer(self, future: Any) -> None:
        answer = future.result()
        if answer is not None and len(answer.values) == len(BUDGET_NAMES) and self.budgets is None:
            self._set(dict(zip(BUDGET_NAMES, answer.values, strict=True)), UNCONFIRMED)

    def _on_event(self, event: ParameterEvent) -> None:
        if event.node == self._server:
            self._set({item.name: item.value for item in event.changed_parameters}, time.monotonic_ns())

    def _set(self, given: dict[str, Any], stamp_ns: int) -> None:
        if not set(BUDGET_NAMES) <= set(given):
            return
        values = {name: _value(given[name]) for name in BUDGET_NAMES}
        if any(type(values[name]) is not kind for name, kind in _KINDS.items()):
            text = "budgets refused: an event of the budget server's name has values of other types"
            self._node.get_logger().warning(text, throttle_duration_sec=5.0)
            return
        if not values["epsilon_v"]:
            return
        self.budgets = Budgets(**values, stamp_ns=stamp_ns)
        self._changed()


def _value(given: Any) -> Any:
    """Return a parameter's value, None for one that says to be of a type that there is not."""
    try:
        return parameter_value_to_python(given)
    except (RuntimeError, ValueError):
        return None
