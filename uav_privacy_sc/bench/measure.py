"""How time and memory are measured, and the rows that come of it."""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

Call = Callable[[], object]

#: A sample shorter than this many seconds is repeated within itself: a clock's tick and one interrupt must not show.
_SHORTEST_S = 5e-4


@dataclass(frozen=True)
class Timing:
    """Median seconds of two calls that took turns."""

    seconds: float
    base_seconds: float

    @property
    def slowdown(self) -> float:
        """How many times as long as the base the call takes."""
        return self.seconds / self.base_seconds

    @property
    def speedup(self) -> float:
        """How many times as long as the call the base takes."""
        return self.base_seconds / self.seconds


@dataclass(frozen=True)
class Meter:
    """Measures calls: ``warmup`` runs that do not count, then medians over ``repeats`` samples."""

    repeats: int = 200
    warmup: int = 10

    def __post_init__(self) -> None:
        for name, low in (("repeats", 1), ("warmup", 0)):
            if not getattr(self, name) >= low:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a whole number of at least {low}")

    def compare(self, call: Call, base: Call) -> Timing:
        """Time two calls in turns, so that whatever else the machine does meets both."""
        runs = [(one, self._prepare(one)) for one in (call, base)]
        taken: list[list[float]] = [[], []]
        collecting = gc.isenabled()
        gc.disable()
        try:
            for _ in range(self.repeats):
                for samples, (one, times) in zip(taken, runs, strict=True):
                    samples.append(_sample(one, times))
        finally:
            if collecting:
                gc.enable()
        return Timing(*(median(samples) for samples in taken))

    def seconds(self, call: Call) -> float:
        """Return the median seconds of a call."""
        times = self._prepare(call)
        return median(_sample(call, times) for _ in range(self.repeats))

    def peak_bytes(self, call: Call) -> int:
        """Return how many bytes a call holds at its peak beyond what was held before it, its result included.

        By ``tracemalloc``, to which NumPy reports every array; after a warm-up, so that tables kept for later calls do
        not count.
        """
        for _ in range(max(1, self.warmup)):
            call()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            tracemalloc.reset_peak()
            result = call()
            _, peak = tracemalloc.get_traced_memory()
            del result
        finally:
            tracemalloc.stop()
        return peak - before

    def _prepare(self, call: Call) -> int:
        """Warm up, and return how often a call has to run in one sample."""
        for _ in range(self.warmup):
            call()
        once = min(_sample(call, 1) for _ in range(3))
        return max(1, round(_SHORTEST_S / once))


def _sample(call: Call, times: int) -> float:
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        what: what was measured.
        value, unit: the figure; ``x`` for a ratio of times, as long or as fast as what it is measured by.
        limit: what it must not pass, None where nothing is asked.
        at_most: whether the limit is an upper one.
        measured: the figures behind it, in words.
        published: what the paper says, in words.
    """

    what: str
    value: float
    unit: str
    limit: float | None = None
    at_most: bool = True
    measured: str = ""
    published: str = ""

    @property
    def holds(self) -> bool:
        """Whether the limit is kept; always where there is none."""
        if self.limit is None:
            return True
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    @classmethod
    def slowdown(cls, what: str, timing: Timing, *, at_most: float | None = None, published: str = "") -> Row:
        """Return how many times as long as its base a call takes."""
        return cls(what, timing.slowdown, "x", at_most, True, _against(timing), published)

    @classmethod
    def speedup(cls, what: str, timing: Timing, *, at_least: float | None = None, published: str = "") -> Row:
        """Return how many times faster than its base a call is."""
        return cls(what, timing.speedup, "x", at_least, False, _against(timing), published)

    @classmethod
    def duration(cls, what: str, seconds: float, *, at_most_ms: float | None = None, published: str = "") -> Row:
        """Return how long a call takes."""
        return cls(what, seconds * 1e3, "ms", at_most_ms, True, "", published)

    @classmethod
    def memory(
        cls, what: str, peak_bytes: int, tensor_bytes: int, *, at_most: float | None = None, published: str = ""
    ) -> Row:
        """Return how many tensors of the call's kind it holds at its peak."""
        return cls(what, peak_bytes / tensor_bytes, "tensors", at_most, True, f"{peak_bytes / 1e3:,.0f} KB", published)

    def as_dict(self) -> dict[str, Any]:
        """Return everything for machines."""
        kind = None if self.limit is None else "at_most" if self.at_most else "at_least"
        found = {"what": self.what, "value": self.value, "unit": self.unit, "limit": self.limit, "limit_kind": kind}
        return {**found, "holds": self.holds, "measured": self.measured, "published": self.published}


def _against(timing: Timing) -> str:
    return f"{timing.seconds * 1e3:.3g}/{timing.base_seconds * 1e3:.3g} ms"
