"""``bench``: speed and memory, on one core but for whole flights, as ratios to what is measured in the same run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar
from uav_privacy_sc.commands.cores import confined, one_core

if TYPE_CHECKING:
    from uav_privacy_sc.bench.measure import Row
    from uav_privacy_sc.bench.registry import Benchmark

METHOD = "medians of CPU time, in turns after a warm-up; memory: peak beyond what was held, by tracemalloc"


def carry_out(only: Sequence[str], repeats: int, as_json: bool) -> int:
    """Measure and print; return 1 when a figure is beyond its limit, else 0.

    Raises:
        ValueError: no such benchmark, or a number of repeats below 1; one line.
    """
    with one_core():
        from uav_privacy_sc.bench.measure import Meter
        from uav_privacy_sc.bench.registry import benchmarks

        known = benchmarks()
        for name in only:
            if name not in known:
                raise BadInput(f"benchmark is {name!r}; choose one of {', '.join(known)}")
        chosen = [known[name] for name in dict.fromkeys(only)] or list(known.values())
        meter = Meter(repeats)
    rows = []
    with progress_bar() as bar:
        task = bar.add_task("measuring", total=len(chosen), note="")
        for one in chosen:
            bar.update(task, note=one.name)
            with confined(one.cores):
                rows += [(one, row) for row in one.run(meter)]
            bar.advance(task)
    if as_json:
        print_json(_as_dict(rows, repeats))
    else:
        _print(rows, repeats)
    return 0 if all(row.holds for _, row in rows) else 1


def _as_dict(rows: list[tuple[Benchmark, Row]], repeats: int) -> dict[str, Any]:
    import numpy as np

    return {
        "method": METHOD,
        "repeats": repeats,
        "machine": platform.machine(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "rows": [{"benchmark": one.name, "part": one.part, "cores": one.cores, **row.as_dict()} for one, row in rows],
    }


def _print(rows: list[tuple[Benchmark, Row]], repeats: int) -> None:
    print_lines([("method", METHOD), ("repeats", f"{repeats}, on one core; frames on two")])
    table = []
    for _, row in rows:
        sign = "≤" if row.at_most else "≥"
        limit = "" if row.limit is None else f"{sign} {row.limit:g}"
        verdict = "" if row.limit is None else "ok" if row.holds else "FAIL"
        figure = f"{row.value:.3g}{'' if row.unit == 'x' else ' '}{row.unit}".strip()
        table.append((row.what, verdict, figure, limit, row.measured, row.published))
    print_table(("what", "", "figure", "limit", "measured", "paper"), table, words=2)
