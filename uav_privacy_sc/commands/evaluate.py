"""``evaluate``: a paper's tables and figures, measured, beside what the paper says."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar, say
from uav_privacy_sc.commands.cores import one_core
from uav_privacy_sc.commands.interrupts import stoppable

ALL, MATRIX, ATTACKERS = "all", "matrix", "attackers"
#: The protocols in the order in which ``all`` runs them (``evaluation.protocols.MODULES``).
NAMES = ("tradeoff", "scenarios", "ablation", ATTACKERS, "baseline", "convergence", "location", "runtime", MATRIX)
#: Those that take times alone: confined to one core before NumPy is loaded.
_TIMED = ("runtime", MATRIX)


@dataclass(frozen=True)
class EvaluationOrder:
    """Which protocol, on what, how much of it; the results go into ``out``.

    ``epsilon``, ``delta`` and ``draws`` are those of the matrix protocol; ``seed`` is the number from which all noise
    is drawn, 0 where there is none. ``attackers`` are names of those to run, and modules that register more.
    """

    protocol: str
    out: Path
    epsilon: float = 1.0
    delta: float = 1e-5
    draws: int = 30
    seed: int | None = None
    as_json: bool = False
    dataset: str = "synthetic"
    samples: int = 20
    seeds: int = 1
    profile: str = "hardened"
    preset: str = "quick"
    backend: str = "loky"
    address: str | None = None
    jobs: int | None = None
    device: str = "cpu"
    weights: Path | None = None
    attackers: tuple[str, ...] = ()


def carry_out(order: EvaluationOrder) -> int:
    """Run a protocol, or all of them, write everything below ``out`` and print the tables; return the exit status.

    Raises:
        ValueError: no such protocol, a parameter out of its range, a dataset or profile that cannot be used, or a
            folder that cannot be written; one line.
    """
    choices = (ALL, *NAMES)
    if order.protocol not in choices:
        raise BadInput(f"protocol is {order.protocol!r}; choose one of {', '.join(choices)}")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        (order.out / ".writable").write_text("")
        (order.out / ".writable").unlink()
    except OSError as error:
        raise BadInput(f"out folder {order.out} cannot be written: {error.strerror or error}") from None
    if order.attackers and order.protocol not in (ALL, ATTACKERS):
        raise BadInput(f"attackers play no part in protocol {order.protocol}; leave them out, or use {ATTACKERS}")
    with stoppable(), one_core() if order.protocol in _TIMED else nullcontext():
        return _protocols(order)


def _protocols(order: EvaluationOrder) -> int:
    from uav_privacy_sc.evaluation.evaluation import Evaluation, evaluate
    from uav_privacy_sc.evaluation.execution import Execution, WorkerLost
    from uav_privacy_sc.evaluation.networks import Networks
    from uav_privacy_sc.evaluation.presets import preset
    from uav_privacy_sc.evaluation.setting import MatrixScale, Setting
    from uav_privacy_sc.graph import config_file
    from uav_privacy_sc.perception.device import choose_device

    config_file(order.profile)
    device = str(choose_device(order.device))
    weights = None if order.weights is None else str(order.weights.resolve())
    setting = Setting(
        order.dataset,
        order.samples,
        order.seeds,
        order.profile,
        preset(order.preset),
        Networks(weights, device),
        order.seed or 0,
        tuple(str(Path(name).resolve()) if name.endswith(".py") else name for name in order.attackers),
        MatrixScale(order.epsilon, order.delta, order.draws),
    )
    execution = Execution(order.backend, order.jobs or _cores(), order.address)
    names = NAMES if order.protocol == ALL else (order.protocol,)
    found: Evaluation
    try:
        with _progress() as progress:
            found = evaluate(names, setting, order.out, execution, progress, one_core)
            _write_matrix(order, found)
    except WorkerLost as error:
        print(f"uav-privacy-sc: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        kept = order.out / "cache"
        print(f"uav-privacy-sc: error: interrupted; what was finished is kept in {kept}, run the same command to go on",
              file=sys.stderr)  # fmt: skip
        return 1
    except OSError as error:
        raise BadInput(_said(error, order.out)) from None
    _print(order, found)
    return 0


def _said(error: OSError, out: Path) -> str:
    """Return an error in one line: that of the out folder if a file in it failed, or the disk is full."""
    names = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, (str, bytes))]
    inside = any(name.resolve().is_relative_to(out.resolve()) for name in names)
    if inside or error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return f"out folder {out} cannot be written: {error.strerror or error}"
    where = f"{names[0]}: " if names else ""
    return " ".join(f"{where}{error.strerror or error}".split())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def _progress() -> Iterator[Any]:
    """Give one bar a protocol, with the time that is left."""
    with progress_bar() as bar:
        tasks: dict[str, Any] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bar.add_task(what, total=total, note="")
            bar.update(tasks[what], completed=done, total=max(total, done))

        yield tell


def _print(order: EvaluationOrder, found: Any) -> None:
    if order.as_json:
        tables = {
            table.name: {"heads": table.heads, "rows": table.rows, "notes": table.notes}
            for outcome in found.outcomes
            for table in outcome.tables
        }
        print_json({"protocol": order.protocol, "manifest": found.manifest, "tables": tables, **_matrix_json(found)})
        return
    for note in (*found.notes, *(f"{name} left out: {why}" for name, why in found.skipped.items())):
        say(note)
    for outcome in found.outcomes:
        for note in outcome.notes:
            say(note)
        for table in outcome.tables:
            print_lines([("", ""), (table.title, "")])
            print_table(table.heads, table.rows, words=table.words)
            for note in table.notes:
                print_lines([("", note)])
    print_lines([("", ""), ("report", str(order.out / "report.html")), ("written", str(order.out))])


def _matrix_rows(found: Any) -> list[Any]:
    """Return the rows of P2's comparison, none where it was not made."""
    from uav_privacy_sc.evaluation.protocols.matrix import rows_of

    return [row for outcome in found.outcomes if outcome.protocol.name == MATRIX for row in rows_of(outcome.results)]


def _write_matrix(order: EvaluationOrder, found: Any) -> None:
    from uav_privacy_sc.evaluation.matrix_protocol import write_csv

    if rows := _matrix_rows(found):
        write_csv(order.out / "matrix.csv", rows)


def _matrix_json(found: Any) -> dict[str, Any]:
    rows = _matrix_rows(found)
    return {"rows": [asdict(row) for row in rows]} if rows else {}
