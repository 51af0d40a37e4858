"""Run one node as a process: clean on SIGINT and SIGTERM, one line and exit 2 for what a user can put right."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import rclpy
from rclpy.exceptions import InvalidParameterValueException, ParameterException
from rclpy.signals import SignalHandlerOptions

from uav_privacy_sc.graph import DISCOVERY_RANGE, NODES
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.executor import NodeExecutor
from uav_privacy_sc.nodes.memory import keep_freed_blocks, settle
from uav_privacy_sc.privacy.ledger import LedgerError

BAD_CALL = 2
POLL_S = 0.1
LOCALHOST = "LOCALHOST"
_DISCOVERY, _PEERS = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS"
_TRANSPORTS = "FASTDDS_BUILTIN_TRANSPORTS"
_CONFINED = (LOCALHOST, "OFF")


def run(make: Callable[[], StageNode[Any]], name: str) -> int:
    """Spin the node that ``make`` returns until a signal comes; return the exit status.

    rclpy's own signal handlers raise in the middle of whatever runs; ours only set a flag, so that a second signal
    during the clean-up does nothing either.
    """
    stop = StopSignal()
    try:
        with discovery(DISCOVERY_RANGE[NODES[name].domain]):
            rclpy.init(signal_handler_options=SignalHandlerOptions.NO)
    except Exception as error:  # rclpy has no one class for what can be wrong with arguments
        return _refuse(name, error)
    node = None
    keep_freed_blocks()
    try:
        try:
            with network_transport(DISCOVERY_RANGE[NODES[name].domain]):
                node = make()
        except (ValueError, LedgerError, ParameterException, InvalidParameterValueException) as error:
            return _refuse(name, error)
        settle()
        _spin(node, stop)
        return 0
    finally:
        if node is not None:
            node.end()
        rclpy.get_default_context().try_shutdown()  # Humble has no rclpy.try_shutdown
        stop.ignore()


@contextmanager
def discovery(discovery_range: str) -> Iterator[None]:
    """Confine the discovery of a context that is initialized meanwhile, unless the environment is as narrow.

    ``LOCALHOST`` holds whatever the environment says, static peers elsewhere included: what lives there has not been
    protected yet. Humble knows the range by another name.
    """
    wanted: dict[str, str | None] = {}
    if discovery_range == LOCALHOST:
        wanted = {_PEERS: None}
        if os.environ.get(_DISCOVERY) not in _CONFINED:
            wanted[_DISCOVERY] = LOCALHOST
        if os.environ.get("ROS_DISTRO") == "humble":
            wanted["ROS_LOCALHOST_ONLY"] = "1"
    elif _DISCOVERY not in os.environ:
        wanted = {_DISCOVERY: discovery_range}
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


@contextmanager
def network_transport(discovery_range: str) -> Iterator[None]:
    """Keep Fast DDS off shared memory for nodes that are created meanwhile in a domain that reaches other computers.

    A process that is killed while it reads shared memory takes a part of the sender's with it, until the sender's large
    messages reach nobody and small ones still do (Fast-DDS issue 5469). Where discovery is confined to this computer
    rmw_fastrtps asks for shared memory itself; ``FASTDDS_BUILTIN_TRANSPORTS`` as set by the user holds elsewhere.
    """
    wanted: dict[str, str | None] = {}
    if discovery_range != LOCALHOST and _TRANSPORTS not in os.environ:
        wanted = {_TRANSPORTS: "UDPv4"}
    before = {name: os.environ.get(name) for name in wanted}
    _set_environment(wanted)
    try:
        yield
    finally:
        _set_environment(before)


def _set_environment(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


def leave(status: int) -> NoReturn:
    """End the process at once: tearing down an interpreter with torch takes seconds, and launch gives five."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


class StopSignal:
    """Noted SIGINT and SIGTERM, from the moment it is made until :meth:`restore`."""

    def __init__(self) -> None:
        self.seen = False
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}

    def _note(self, number: int, frame: Any) -> None:
        self.seen = True

    def ignore(self) -> None:
        """Let nothing come between here and the end: a finalizing interpreter restores handlers that kill."""
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def restore(self) -> None:
        """Put back the handlers that were there before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _spin(node: StageNode[Any], stop: StopSignal) -> None:
    executor = NodeExecutor()
    executor.add_node(node)
    try:
        while not stop.seen and node.context.ok():
            executor.spin_once(timeout_sec=POLL_S)
    finally:
        executor.shutdown(timeout_sec=1.0)


def _refuse(name: str, error: Exception) -> int:
    line = " ".join(str(error).split())
    print(f"{name}: {line}", file=sys.stderr, flush=True)
    return BAD_CALL
