"""Ctrl-C and SIGTERM as a question that is asked between two steps, for work that must not be torn inside of one."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_flag() -> Iterator[Callable[[], bool]]:
    """Yield a function that says whether either signal has come meanwhile."""
    if threading.current_thread() is not threading.main_thread():  # only that one may set handlers, and gets signals
        yield lambda: False
        return
    seen: list[int] = []

    def note(number: int, frame: Any) -> None:
        seen.append(number)

    before = {number: signal.signal(number, note) for number in _SIGNALS}
    try:
        yield lambda: bool(seen)
    finally:
        for number, handled in before.items():
            signal.signal(number, handled)
