"""Managed nodes: configured, active, inactive, cleaned up; by default a node brings itself to active (``autostart``).

The constructor of a node is what configuring it runs, and runs again after a clean-up. A node whose ``autostart`` is
off is made without it, with its parameters and its lifecycle services only. rclpy swallows what a transition raises;
here it is one line in the log and in ``fault``, and the node is finalized.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

from rclpy.context import Context
from rclpy.lifecycle import LifecycleNodeMixin, LifecycleState
from rclpy.lifecycle.managed_entity import TransitionCallbackReturn
from rclpy.node import Node
from rclpy.parameter import Parameter

from uav_privacy_sc.nodes import parameters
from uav_privacy_sc.nodes.parameters import parameter

SUCCESS, FAILURE, ERROR = (getattr(TransitionCallbackReturn, name) for name in ("SUCCESS", "FAILURE", "ERROR"))
#: What a node is made of, by the method that destroys one of them.
_ENTITIES = ("timer", "subscription", "publisher", "client", "service", "guard_condition")
_NODE_OPTIONS = ("context", "overrides", "namespace", "use_global_arguments", "services")


@dataclass(frozen=True)
class LifecycleParameters:
    """Parameters that every node has."""

    autostart: bool = parameter(True, "configure and activate without being told; false waits for a lifecycle manager")


class Managed(type):
    """Makes a node and leaves its constructor to the transition that configures it."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        node: Any = object.__new__(cls)  # type: ignore[arg-type]
        node.begin(lambda: node.__init__(*args, **options), options)
        return node


class ManagedNode(LifecycleNodeMixin, Node, metaclass=Managed):
    """A managed node; see the module for what its constructor is."""

    NAME: ClassVar[str]

    def begin(self, set_up: Callable[[], None], options: Mapping[str, Any]) -> None:
        """Create the node itself, unconfigured, and bring it to active if it starts itself.

        Raises:
            ValueError: a parameter is out of range or what it names cannot be used; one line.
        """
        given = {name: options[name] for name in _NODE_OPTIONS if name in options}
        self._create(**given)
        self._set_up = set_up
        self.active, self.configured, self._starting = False, False, False
        #: What went wrong in a transition.
        self.fault: Exception | None = None
        self._paused: list[Any] = []
        try:
            autostart = parameters.declare(self, LifecycleParameters).autostart
            self.prepare(options)
            self._attributes: set[str] = {"_attributes", "_own"} | set(vars(self))
            self._own = self._entities()
            if autostart:
                self._start()
        except Exception:
            self.destroy_node()
            raise

    def _create(
        self,
        context: Context | None = None,
        overrides: Mapping[str, Any] | None = None,
        namespace: str | None = None,
        use_global_arguments: bool = True,
        services: bool = True,
    ) -> None:
        Node.__init__(
            self,
            self.NAME,
            context=context,
            namespace=namespace,
            use_global_arguments=use_global_arguments,
            start_parameter_services=services,
            parameter_overrides=[Parameter(name, value=value) for name, value in (overrides or {}).items()],
        )
        LifecycleNodeMixin.__init__(self, enable_communication_interface=services)

    def destroy_node(self) -> None:
        """Destroy the node and its state machine, which would hold the name of the node otherwise."""
        self._set_up = lambda: None
        machine = getattr(self, "_state_machine", None)
        super().destroy_node()
        if machine is not None:
            machine.destroy_when_not_in_use()

    def prepare(self, options: Mapping[str, Any]) -> None:
        """Set up what the node has in every state; ``options`` are those of the constructor."""

    def activated(self) -> None:
        """Do what is to be done as soon as the node is active."""

    def free(self) -> None:
        """Release what the constructor holds beside entities of the node."""

    @property
    def state(self) -> str:
        """The lifecycle state: unconfigured, inactive, active, finalized, or what is under way."""
        return str(self._state_machine.current_state[1])

    def on_configure(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Run the constructor: parameters are read, networks loaded, topics created. Timers wait for activation."""
        return self._transition("configured", self._configure)

    def on_activate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let messages in and out."""
        return self._transition("activated", self._activate)

    def on_deactivate(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Let nothing in or out; what was loaded stays."""
        return self._transition("deactivated", self._deactivate)

    def on_cleanup(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free what configuring has set up."""
        return self._transition("cleaned up", self._clean_up)

    def on_shutdown(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free everything; the node is finalized, and its process ends by a signal."""
        return self._transition("shut down", self._clean_up)

    def on_error(self, state: LifecycleState) -> TransitionCallbackReturn:
        """Free what can be freed; the node is finalized, and its diagnostics say why."""
        self.active = False
        with suppress(Exception):  # half a constructor may have run
            self._clean_up()
        return FAILURE

    def _start(self) -> None:
        self._starting = True
        for trigger in (self.trigger_configure, self.trigger_activate):
            trigger()
            if self.fault is not None:
                raise self.fault
        self._starting = False

    def _transition(self, name: str, action: Callable[[], None]) -> TransitionCallbackReturn:
        try:
            action()
        except Exception as error:  # rclpy would swallow it
            self.fault = error
            if not self._starting:  # else it is raised
                self.get_logger().error(f"not {name}, so finalized: {' '.join(str(error).split())}")
            return ERROR
        return SUCCESS

    def _configure(self) -> None:
        self._set_up()
        self._pause()
        self.configured = True

    def _activate(self) -> None:
        self.active = True
        for timer in self._paused:
            timer.reset()
        self.activated()

    def _deactivate(self) -> None:
        self.active = False
        self._pause()

    def _pause(self) -> None:
        self._paused = [timer for timer in self._later("timer") if not timer.is_canceled()]
        for timer in self._paused:
            timer.cancel()

    def _clean_up(self) -> None:
        """Go back to how the node was before it was configured, whatever the constructor has set up."""
        self.active = False
        try:
            if self.configured:
                self.free()
        finally:
            self.configured, self._paused = False, []
            for kind in _ENTITIES:
                for entity in self._later(kind):
                    getattr(self, f"destroy_{kind}")(entity)
            for name in self._own["parameters"] ^ set(self._parameters):
                if not self.describe_parameter(name).read_only:
                    self.undeclare_parameter(name)
            for name in set(vars(self)) - self._attributes:
                delattr(self, name)

    def _entities(self) -> dict[str, set[Any]]:
        found: dict[str, set[Any]] = {kind: set(map(id, self._all(kind))) for kind in _ENTITIES}
        return {**found, "parameters": set(self._parameters)}

    def _all(self, kind: str) -> list[Any]:
        return list(self.guards if kind == "guard_condition" else getattr(self, f"{kind}s"))

    def _later(self, kind: str) -> list[Any]:
        return [entity for entity in self._all(kind) if id(entity) not in self._own[kind]]
