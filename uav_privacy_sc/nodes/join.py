"""Join the two messages of one frame, which travel as separate topics, by their stamp."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any


class StampJoin:
    """Pairs ``first`` and ``second`` messages with equal stamps; keeps the newest ``depth`` that wait for a partner.

    Args:
        paired: called with a pair.
        lost: called with the stamp of a message whose partner never came.
        depth: how many frames may wait.
    """

    def __init__(self, paired: Callable[[Any, Any], None], lost: Callable[[int], None], depth: int = 5) -> None:
        self._paired, self._lost, self._depth = paired, lost, depth
        self._waiting: OrderedDict[int, dict[str, Any]] = OrderedDict()

    def first(self, message: Any) -> None:
        """Take the message of the first topic."""
        self._add("first", message)

    def second(self, message: Any) -> None:
        """Take the message of the second topic."""
        self._add("second", message)

    def _add(self, side: str, message: Any) -> None:
        stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        entry = self._waiting.setdefault(stamp, {})
        entry[side] = message  # a repeated stamp (a looped bag) replaces what waits there
        if len(entry) == 2:
            del self._waiting[stamp]
            self._paired(entry["first"], entry["second"])
        while len(self._waiting) > self._depth:
            self._lost(self._waiting.popitem(last=False)[0])
