"""The benchmarks that there are, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from uav_privacy_sc.bench.measure import Meter, Row

Run = Callable[[Meter], Iterator[Row]]

#: Modules that register benchmarks when they are imported; a further part of the house adds its own here.
MODULES = (
    "uav_privacy_sc.bench.privacy",
    "uav_privacy_sc.bench.air",
    "uav_privacy_sc.bench.perception",
    "uav_privacy_sc.bench.frames",
)


@dataclass(frozen=True)
class Benchmark:
    """A benchmark: its name, the part of the house it measures, what it is about, how to run it, on how many cores."""

    name: str
    part: str
    about: str
    run: Run
    cores: int = 1


_BENCHMARKS: dict[str, Benchmark] = {}


def benchmark(name: str, part: str, cores: int = 1) -> Callable[[Run], Run]:
    """Decorator: register a generator of rows under ``name``; the first line of its docstring says what it is about."""

    def add(run: Run) -> Run:
        _BENCHMARKS[name] = Benchmark(name, part, (run.__doc__ or name).splitlines()[0].rstrip("."), run, cores)
        return run

    return add


def benchmarks() -> dict[str, Benchmark]:
    """Return every registered benchmark by name."""
    for module in MODULES:
        importlib.import_module(module)
    return dict(_BENCHMARKS)
