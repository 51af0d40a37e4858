"""What P2's vertical comparison came to: tables (CSV, LaTeX, markdown), a figure (PNG, SVG) and a manifest."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc import __version__
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.result_tables import ABSENT, ResultTable, with_interval
from uav_privacy_sc.evaluation.statistics import Estimate, estimate
from uav_privacy_sc.fleet.vertical import NO_NOISE, Outcome, VerticalSetting
from uav_privacy_sc.fleet.vertical_noise import MECHANISMS
from uav_privacy_sc.fleet.vertical_table import VerticalTable

TITLES = {
    "record": "ε for a record, one release",
    "entry": "ε for an entry of a release (P2's figure)",
    "matrix": "ε for the whole matrix of a release (P2's Definition 3)",
}
_HEADS = ("ε for", "mechanism", "ε", "accuracy", "accuracy, test protected", "noise / clip")
_GIVES = ("gives: entry", "record, a release", "record, own features", "matrix, a release", "training")
_NOTES = (
    "Accuracy: mean over seeds with its 95 % interval (Student's t); the test records come without noise, or as "
    "protected as the training records.",
    "gives: epsilon that the noise really gives, at the setting's delta, by exact Gaussian composition: for one entry "
    "of one release; one record in one release of both parties; one record's own features in all releases; the whole "
    "matrix of one release of one party; all matrices of the training, both parties.",
    "Where epsilon is for an entry or a matrix, the parties' networks learn from their records, so that a record moves "
    "later features of others: only 'training' holds for a record there.",
)


def overview(outcomes: Sequence[Outcome], table: VerticalTable, setting: VerticalSetting) -> list[ResultTable]:
    """Return a table a reading: accuracy on clean test records, a row a mechanism and a column an epsilon."""
    found = []
    for reading in setting.readings:
        some = {(o.mechanism, o.epsilon): o for o in outcomes if o.reading == reading}
        rows = []
        for mechanism in setting.mechanisms:
            line = [some[mechanism, epsilon] for epsilon in setting.epsilons]
            rows.append((MECHANISMS[mechanism], *(with_interval(estimate(outcome.clean), 2) for outcome in line)))
        bare = estimate(next(o.clean for o in some.values() if o.mechanism == NO_NOISE))
        note = (
            f"Without noise: {with_interval(bare)}; the commonest class alone: {table.chance:.3f}. "
            f"n = {setting.seeds} seeds, δ = {setting.delta:g}."
        )
        heads = ("mechanism", *(f"ε = {epsilon:g}" for epsilon in setting.epsilons))
        title = f"Vertical federated learning on {table.name}: test accuracy, {TITLES[reading]}"
        found.append(ResultTable(f"vertical-{reading}", title, heads, rows, (note,)))
    return found


def details(outcomes: Sequence[Outcome], table: VerticalTable, setting: VerticalSetting) -> ResultTable:
    """Return every accuracy with what is given for it."""
    title = f"Vertical federated learning on {table.name}: accuracy, and the ε that is given for it"
    notes = (*_NOTES, f"Seeds (n): {setting.seeds}. The commonest class alone: {table.chance:.3f}.")
    return ResultTable("vertical", title, (*_HEADS, *_GIVES), [_row(outcome) for outcome in outcomes], notes, words=2)


def _row(outcome: Outcome) -> tuple[str, ...]:
    bare = outcome.given is None
    gives = [ABSENT] * len(_GIVES) if outcome.given is None else [_short(v) for v in asdict(outcome.given).values()]
    return (
        outcome.reading,
        "no noise" if bare else MECHANISMS[outcome.mechanism],
        ABSENT if bare else f"{outcome.epsilon:g}",
        with_interval(estimate(outcome.clean)),
        with_interval(estimate(outcome.protected)),
        f"{outcome.sigma:.3g}",
        *gives,
    )


def _short(epsilon: float) -> str:
    return f"{epsilon:.3g}" if epsilon < 1000 else f"{epsilon:.1e}"


def figure(outcomes: Sequence[Outcome], table: VerticalTable) -> Figure:
    """Return accuracy against epsilon, a panel a reading, and P2's against what its noise gives for a release."""
    panels = []
    for reading, title in TITLES.items():
        some = [outcome for outcome in outcomes if outcome.reading == reading]
        if some:
            panels.append(_panel(title, "ε claimed", _lines(some, "epsilon"), some, table))
    some = [outcome for outcome in outcomes if outcome.reading == "entry"]
    if some:
        title = "The runs of P2's figure by what they give"
        lines = _lines([outcome for outcome in some if outcome.mechanism != "mvg"], "release")
        panels.append(_panel(title, "ε given for the matrix of a release", lines, some, table, log_x=True))
    return Figure("vertical", f"Vertical federated learning on {table.name}", panels, stretch=1.1)


def _panel(
    title: str,
    label: str,
    lines: list[Series],
    outcomes: Sequence[Outcome],
    table: VerticalTable,
    log_x: bool = False,
) -> Panel:
    bare = next(outcome for outcome in outcomes if outcome.mechanism == NO_NOISE)
    flat = [("chance", table.chance), ("no noise", float(np.mean(bare.clean)))]
    return Panel(title, label, "test accuracy", lines, log_x=log_x, flat=flat, bounds=(0.0, 1.02), y_from=0.0)


def _lines(outcomes: Sequence[Outcome], against: str) -> list[Series]:
    lines = []
    for colour, (mechanism, name) in enumerate(MECHANISMS.items()):
        some = [outcome for outcome in outcomes if outcome.mechanism == mechanism and outcome.given is not None]
        if not some:
            continue
        x = [outcome.epsilon if against == "epsilon" else getattr(outcome.given, against) for outcome in some]
        order = np.argsort(x)
        found = [_estimate(some[place].clean) for place in order]
        mean, low, high = ([getattr(e, end) for e in found] for end in ("mean", "low", "high"))
        lines.append(Series(name, [x[place] for place in order], mean, low, high, colour=colour))
    return lines


def _estimate(values: Iterable[float]) -> Estimate:
    found = estimate(values)
    assert isinstance(found, Estimate)
    return found


def write(
    out: Path, outcomes: Sequence[Outcome], table: VerticalTable, setting: VerticalSetting, seconds: float
) -> list[Path]:
    """Write tables (``.csv``, ``.tex``, ``.md``), the figure (``.png``, ``.svg``), all runs and ``manifest.json``.

    Raises:
        OSError: the folder cannot be written.
    """
    out.mkdir(parents=True, exist_ok=True)
    found = [details(outcomes, table, setting), *overview(outcomes, table, setting)]
    paths = [path for one in found for path in one.write(out)]
    paths += figure(outcomes, table).write(out)
    paths.append(out / "vertical-runs.csv")
    paths[-1].write_text(_runs(outcomes), encoding="utf-8")
    paths.append(out / "manifest.json")
    partial = paths[-1].with_suffix(".partial")
    partial.write_text(json.dumps(manifest(table, setting, seconds), indent=2) + "\n", encoding="utf-8")
    partial.replace(paths[-1])
    return paths


def _runs(outcomes: Sequence[Outcome]) -> str:
    lines = ["reading,mechanism,epsilon,seed,accuracy,accuracy_protected"]
    for outcome in outcomes:
        epsilon = "" if outcome.given is None else f"{outcome.epsilon:g}"
        for seed, (clean, protected) in enumerate(zip(outcome.clean, outcome.protected, strict=True)):
            lines.append(f"{outcome.reading},{outcome.mechanism},{epsilon},{seed},{clean:.6f},{protected:.6f}")
    return "\n".join(lines) + "\n"


def manifest(table: VerticalTable, setting: VerticalSetting, seconds: float | None = None) -> dict[str, Any]:
    """Return setting, table and versions; ``seeded`` says that the noise can be repeated, so it protects nobody."""
    packages = {name: _version(name) for name in ("numpy", "scipy", "torch", "scikit-learn")}
    return {
        "version": __version__,
        "setting": asdict(setting),
        "seeded": True,
        "table": {
            "name": table.name,
            "records": len(table.labels),
            "columns": [table.first.shape[1], table.second.shape[1]],
            "classes": table.classes,
            "values_outside_the_declared_range": table.outside,
        },
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": packages,
        "seconds": None if seconds is None else round(seconds, 1),
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
