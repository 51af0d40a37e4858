"""An evaluation: samples once, then one protocol after the other, each with its table, figures and CSV."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation import manifest, provenance
from uav_privacy_sc.evaluation.execution import Execution, ResultStore, fingerprint, run_units
from uav_privacy_sc.evaluation.figures import Figure
from uav_privacy_sc.evaluation.measurement import Results, write_csv
from uav_privacy_sc.evaluation.own_attackers import load_modules, refuse_unsendable
from uav_privacy_sc.evaluation.protocols import find_protocol
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable
from uav_privacy_sc.evaluation.setting import SampleStore, Setting

#: Told what is going on: what is being done, how much of it is, and how much there is.
Progress = Callable[[str, int, int], None]


@dataclass
class Outcome:
    """What one protocol came to."""

    protocol: Protocol
    results: Results
    tables: list[ResultTable] = field(default_factory=list)
    figures: list[Figure] = field(default_factory=list)
    seconds: float = 0.0
    notes: list[str] = field(default_factory=list)

    def take(self, table: ResultTable) -> None:
        """Take in a table, or note that it has no row."""
        if table.rows:
            self.tables.append(table)
        else:
            self.notes.append(f"table {table.name} is left out: nothing of it was measured")

    def add(self, figure: Figure) -> None:
        """Take in a figure without the panels for which nothing was measured, and note what is left out."""
        measured = figure.measured()
        if measured is not None:
            self.figures.append(measured)
            if measured.note != figure.note:
                self.notes.append(f"figure {figure.name}: {measured.note}")
        else:
            self.notes.append(f"figure {figure.name} is left out: none of its panels could be measured")


@dataclass
class Evaluation:
    """All of it; ``skipped`` says why a protocol was left out."""

    setting: Setting
    outcomes: list[Outcome] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def evaluate(
    names: Sequence[str],
    setting: Setting,
    out: Path,
    execution: Execution | None = None,
    progress: Progress = lambda what, done, total: None,
    alone: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> Evaluation:
    """Run protocols and write everything below ``out``; what is there from a run that was interrupted is gone on with.

    ``out`` gets ``measurements-NAME.csv``, tables as CSV, LaTeX and markdown, figures as PNG and SVG, ``manifest.json``
    and ``report.html``; ``cache`` below it holds samples and finished units. ``alone`` is entered while a protocol
    takes times: what confines it to one core.

    Raises:
        ValueError: no such protocol, dataset or attacker, an attacker that cannot be sent to other processes, none of
            the protocols can run on the dataset, or ``out`` holds results of other arguments or contents.
        OSError: ``out`` cannot be written.
        WorkerLost: a worker died; the same call goes on.
    """
    execution = execution or Execution()
    protocols = [find_protocol(name) for name in names]
    out.mkdir(parents=True, exist_ok=True)
    load_modules(setting.attackers)
    if execution.sends and any(each.name == "attackers" for each in protocols):
        refuse_unsendable(setting.attackers)
    made = provenance.made_with(setting, out)
    provenance.refuse_another(out, setting, made)
    store = _samples(protocols, setting, made, out, execution, progress)
    evaluation = Evaluation(setting, notes=[] if store is None else list(store.notes))
    for each in protocols:
        refusal = None if store is None else each.refusal(store.kind)
        if refusal is not None:
            if len(protocols) == 1:
                raise ValueError(refusal)
            evaluation.skipped[each.name] = refusal
            continue
        provenance.remember(out, setting, made)
        kept = ResultStore(out / "cache" / each.name, _fingerprint(each, setting, made))
        evaluation.outcomes.append(_carry_out(each, setting, store, kept, out, execution, progress, alone))
    if not evaluation.outcomes:
        raise ValueError("; ".join(evaluation.skipped.values()))
    _write_manifest(evaluation, store, execution, made, out)
    from uav_privacy_sc.evaluation.evaluation_report import write_report

    write_report(out / "report.html", evaluation)
    return evaluation


def _samples(
    protocols: Sequence[Protocol],
    setting: Setting,
    made: dict[str, Any],
    out: Path,
    execution: Execution,
    progress: Progress,
) -> SampleStore | None:
    if all(each.needs == "nothing" for each in protocols):
        return None
    store = SampleStore(out / "cache" / "samples", setting, made)
    _refuse_early(protocols, store.kind)
    store.prepare(execution, lambda done: progress("samples", done, store.length))
    return store


def _refuse_early(protocols: Sequence[Protocol], kind: str) -> None:
    refusals = [each.refusal(kind) for each in protocols]
    if all(refusals):
        raise ValueError(str(refusals[0]))


def _carry_out(
    each: Protocol,
    setting: Setting,
    store: SampleStore | None,
    kept: ResultStore,
    out: Path,
    execution: Execution,
    progress: Progress,
    alone: Callable[[], AbstractContextManager[None]],
) -> Outcome:
    start = time.perf_counter()
    total = _number_of_units(each, setting, store)
    progress(each.name, 0, total)
    where, confined = (Execution(), alone()) if each.serial else (execution, nullcontext())
    units = each.units(setting, store)  # type: ignore[arg-type]
    with confined:
        measurements = run_units(units, kept, where, lambda done: progress(each.name, done, total))
    results = Results(measurements)
    outcome = Outcome(each, results)
    for table in each.tables(results, setting):
        outcome.take(table)
    for drawn in each.figures(results, setting):
        outcome.add(drawn)
    if each.gallery is not None and store is not None:
        outcome.figures += each.gallery(setting, store)
    write_csv(out / f"measurements-{each.name}.csv", measurements)
    for table in outcome.tables:
        table.write(out)
    for figure in outcome.figures:
        figure.write(out)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _fingerprint(each: Protocol, setting: Setting, made: dict[str, Any]) -> str:
    """Return what decides a protocol's numbers; those that perceive nothing do not depend on the dataset."""
    plain = setting.as_dict()
    if each.name != "matrix":
        del plain["matrix"]
    if each.needs == "nothing":
        plain = {name: value for name, value in plain.items() if name not in ("dataset", "samples", "seeds")}
        made = {name: value for name, value in made.items() if name != "dataset_sha256"}
    return fingerprint([each.name, plain, made])


def _number_of_units(each: Protocol, setting: Setting, store: SampleStore | None) -> int:
    if each.needs != "nothing" and store is not None:
        return store.length
    return len(list(each.units(setting, store)))  # type: ignore[arg-type]


def _write_manifest(
    evaluation: Evaluation, store: SampleStore | None, execution: Execution, made: dict[str, Any], out: Path
) -> None:
    done = {
        outcome.protocol.name: {
            "seconds": round(outcome.seconds, 1),
            "measurements": len(outcome.results.measurements),
            "missing": {f"{metric}: {reason}": count for (metric, reason), count in outcome.results.missing().items()},
        }
        for outcome in evaluation.outcomes
    }
    for name, reason in evaluation.skipped.items():
        done[name] = {"skipped": reason}
    evaluation.manifest = manifest.manifest(evaluation.setting, store, execution, made, done)
    manifest.write(out, evaluation.manifest)
