"""Ctrl-C and SIGTERM: while one may stop the work, and while nothing may come between a result and the disk."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt meanwhile, as SIGINT does."""
    with _handling(_interrupt):
        yield


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let neither signal do anything meanwhile: for what takes a moment and must become whole."""
    with _handling(signal.SIG_IGN):
        yield


@contextmanager
def _handling(handler: Callable[[int, Any], Any] | signal.Handlers) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers, and gets signals
        yield
        return
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)


def _interrupt(number: int, frame: Any) -> None:
    raise KeyboardInterrupt
