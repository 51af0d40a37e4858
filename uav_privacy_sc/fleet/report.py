"""Results of a fleet's experiments on disk: figures, tables, the series, a manifest, and all of it as one page."""

from __future__ import annotations

import csv
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from uav_privacy_sc import __version__
from uav_privacy_sc.evaluation.evaluation_report import figure_html, table_html
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.result_tables import ABSENT, ResultTable
from uav_privacy_sc.fleet.accounting import DELTA, FleetSpending, fleet_spending, together
from uav_privacy_sc.fleet.apps import Experiment
from uav_privacy_sc.fleet.checkpoint import State
from uav_privacy_sc.fleet.client import LEDGERS
from uav_privacy_sc.fleet.experiments import SIGMA_FACTORS, TEST_SNRS, THRESHOLDS
from uav_privacy_sc.fleet.model import Autoencoder, AutoencoderConfig
from uav_privacy_sc.fleet.ordering import CLAIMS, late_psnr, mean_psnr, series, verdict
from uav_privacy_sc.fleet.setting import TEST, FleetSetting, Method
from uav_privacy_sc.fleet.shares import ServerPictures

_PACKAGES = ("flwr", "ray", "torch", "numpy", "scipy", "randomgen")
_CURVES = 5


@dataclass(frozen=True)
class Results:
    """What was run, in order, with what it came to and what it has spent."""

    experiment: Experiment
    states: Mapping[str, State]
    spending: Mapping[str, FleetSpending]
    pictures: ServerPictures
    facts: Mapping[str, Any]
    total: FleetSpending

    @staticmethod
    def of(
        experiment: Experiment, states: Mapping[str, State], pictures: ServerPictures, facts: Mapping[str, Any]
    ) -> Results:
        """Return the results of finished runs; the spending is that of the clients' own ledgers.

        Raises:
            LedgerError: a ledger cannot be trusted.
        """
        spending = {
            method.name: fleet_spending(experiment.folder(method) / LEDGERS, DELTA) for method in experiment.methods
        }
        total = together([experiment.folder(method) / LEDGERS for method in experiment.methods], DELTA)
        return Results(experiment, states, spending, pictures, facts, total)

    @property
    def titles(self) -> list[tuple[Method, State]]:
        """Return every method with its state."""
        return [(method, self.states[method.name]) for method in self.experiment.methods]


def write_results(results: Results, out: Path, seconds: float) -> dict[str, Any]:
    """Write everything below ``out`` and return the manifest.

    Raises:
        OSError: it cannot be written.
    """
    tables, figures = all_tables(results), all_figures(results)
    for table in tables:
        table.write(out)
    for figure in figures:
        figure.write(out)
    _write_series(results, out / "rounds.csv")
    found = manifest(results, seconds)
    _whole(out / "manifest.json", json.dumps(found, indent=2, allow_nan=False) + "\n")
    _whole(out / "report.html", _page(results, tables, figures, seconds))
    return found


def all_tables(results: Results) -> list[ResultTable]:
    """Return outcome, privacy and, where it can be told, P3's order beside ours."""
    found = [_outcome(results), _privacy(results)]
    claims = _claims(results)
    return [*found, claims] if claims.rows else found


def _outcome(results: Results) -> ResultTable:
    rows = []
    for method, state in results.titles:
        faults = sum(sum(record["faults"].values()) for record in state.history)
        kept = sum(record["kept"] == "reconstructed" for record in state.history)
        learned = sum("features" in {u["strategy"] for u in record["uploads"].values()} for record in state.history)
        rows.append(
            (
                method.title,
                f"{state.history[-1]['psnr']:.2f}",
                f"{late_psnr(state):.2f}",
                f"{mean_psnr(state):.2f}",
                f"{kept} of {learned}" if learned else ABSENT,
                f"{sum(len(record['uploads']) for record in state.history)}",
                f"{faults}",
            )
        )
    heads = ("", "last", "fifth", "all", "FR kept", "uploads", "left out")
    note = (
        "PSNR in dB on test pictures: of the last round, the last fifth, all rounds. FR kept: how often the model that "
        "has learned from features was taken. One run each: a few tenths of a dB may be chance."
    )
    return ResultTable("outcome", "PSNR, and what made it", heads, rows, (note,))


def _privacy(results: Results) -> ResultTable:
    names = ("paper_round", "paper", "round_epsilon", "epsilon", "epsilon_at_delta")
    every = [(method.title, results.spending[method.name]) for method, _ in results.titles]
    every.append((f"all {len(every)} on the same data", results.total))
    rows = [(title, *(f"{spent.worst(name):,.4g}" for name in names)) for title, spent in every]
    heads = ("ε", "P3, round", "P3, all", "round", "all", "at δ")
    notes = (
        "ε of the client that has spent most, from the clients' ledgers, of its costliest round and of all: by P3's "
        "Theorem 1, in the worst case, and in the worst case at δ = 1e-5. Theorem 1 spreads a record's influence "
        "evenly over all parameters; the worst case holds for any record and all data of a client, by the clip.",
        "Every method keeps ledgers of its own, as if it alone had been run, so curves can be compared. All were run "
        "on the same pictures: what those have spent is the last row.",
        "An ε beyond ten or so protects nobody; in thousands, as P3's noise gives, the guarantee is formal only.",
        "Theorem 1's factor of two for features needs the encoder's update to have half of the norm; that is enforced.",
    )
    return ResultTable("privacy", "Privacy spent", heads, rows, notes)


def _claims(results: Results) -> ResultTable:
    rows = []
    for claim in CLAIMS:
        if (found := claim.measured(results.states)) is not None:
            rows.append((claim.where, claim.text, f"{found[0]:.2f}", f"{found[1]:.2f}", verdict(found)))
    heads = ("P3", "says", "higher", "lower", "ours")
    note = (
        "PSNR in dB of the one that P3 has above and the best of those below: mean of the last fifth, or of all rounds."
    )
    return ResultTable("ordering", "P3's order beside ours", heads, rows, (note,), words=2)


def all_figures(results: Results) -> list[Figure]:
    """Return the curves and what sweeps were run."""
    five = results.titles[:_CURVES]
    found = [Figure("curves", "PSNR against round (P3, Fig. 2)", [_rounds("", five)], columns=1, stretch=1.5)]
    named = dict((method.name, (method, state)) for method, state in results.titles)
    panels = []
    for factor in SIGMA_FACTORS:
        runs = [item for name, item in named.items() if name.endswith(f"sigma-{factor:g}")]
        if runs:
            panels.append(_rounds(f"σ₁ = σ₂ = {runs[0][0].sigma_1:g}", [(_short(m), s) for m, s in runs]))
    if panels:
        middle = [named[name] for name in ("fedavg-ideal", "fedsfr-ms-privacy", "fedsfr-ms-power")]
        panels.insert(1, _rounds(f"σ₁ = σ₂ = {middle[0][0].sigma_1:g}", middle))
        found.append(Figure("sigma", "Noise (P3, Fig. 2)", panels, columns=3))
    if panel := _uneven(named):
        found.append(Figure("uneven", "Uneven noise of equal ε by Theorem 1 (P3, Fig. 3)", panel))
    sweep = [named[f"threshold-{value:g}"] for value in THRESHOLDS if f"threshold-{value:g}" in named]
    if sweep:
        middle_method, state = named["fedsfr-ms-privacy"]
        runs = [*sweep, (replace(middle_method, title=f"S_th/N = {middle_method.threshold:g}"), state)]
        found.append(Figure("threshold", "Threshold (P3, Fig. 4)", [_rounds("", runs)], columns=1, stretch=1.5))
    if isinstance(results.experiment.setting.model, AutoencoderConfig):
        found.append(_test_snr(results, five))
    return found


def _uneven(named: Mapping[str, tuple[Method, State]]) -> list[Panel]:
    groups: dict[tuple[float, float], list[tuple[Method, State]]] = {}
    for name, (method, state) in named.items():
        if "-uneven-" in name:
            groups.setdefault((method.sigma_1, method.sigma_2), []).append((_short(method), state))
    return [_rounds(f"σ₁ = {first:.3g}, σ₂ = {second:.3g}", runs) for (first, second), runs in groups.items()]


def _short(method: Method) -> Method:
    return replace(method, title=method.title.split(",")[0])


def _rounds(title: str, runs: Sequence[tuple[Method, State]]) -> Panel:
    lines = []
    for place, (method, state) in enumerate(runs):
        values = series(state)
        rounds, marked = list(range(1, len(values) + 1)), len(values) <= 25
        lines.append(Series(method.title, rounds, values.tolist(), colour=_colour(method, place), marked=marked))
    return Panel(title, "round", "PSNR (dB)", lines)


def _colour(method: Method, place: int) -> int:
    """Return the same colour for the same curve in every figure."""
    names = ("fedavg-ideal", "fedsfr-ms-privacy", "fedsfr-ms-power")
    for colour, name in enumerate(names, start=1):
        if method.name.startswith(name):
            return colour
    return {"fedavg": 0, "fedsfr": 4}.get(method.name, 5 + place)


def _test_snr(results: Results, runs: Sequence[tuple[Method, State]]) -> Figure:
    """Return the last models' PSNR over the SNR of the test."""
    lines = []
    for place, (method, state) in enumerate(runs):
        values = [_psnr_at(results.experiment.setting, state, results.pictures.test, snr) for snr in TEST_SNRS]
        lines.append(Series(method.title, list(TEST_SNRS), values, colour=_colour(method, place)))
    panel = Panel("", "SNR of the test (dB)", "PSNR (dB)", lines)
    return Figure("test-snr", "Last models over a Rayleigh channel (P3, Fig. 3)", [panel], columns=1, stretch=1.5)


def _psnr_at(setting: FleetSetting, state: State, test: Any, snr_db: float) -> float:
    assert isinstance(setting.model, AutoencoderConfig)
    model = Autoencoder(replace(setting.model, snr_db=snr_db), setting.rng(TEST))
    model.load(state.weights)
    return model.psnr(test, setting.rng(TEST, setting.rounds))


def manifest(results: Results, seconds: float) -> dict[str, Any]:
    """Return setting, seeds, versions, digest of the pictures, and what every method came to and has spent."""
    setting = results.experiment.setting
    return {
        "version": __version__,
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        **results.facts,
        "setting": setting.as_dict(),
        "noise": "cryptographic" if setting.seed is None else "seeded: an experiment, not private",
        "pictures_sha256": results.pictures.digest,
        "seconds": round(seconds, 1),
        "privacy_of_all_methods": {k: v for k, v in results.total.summary().items() if k != "clients"},
        "methods": {
            method.name: {
                **vars(method),
                "rounds": state.round,
                "psnr": state.history[-1]["psnr"],
                "faults": state.faults,
                "privacy": {k: v for k, v in results.spending[method.name].summary().items() if k != "clients"},
            }
            for method, state in results.titles
        },
    }


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _write_series(results: Results, path: Path) -> None:
    names = ("round", "psnr", "kept", "psnr_aggregated", "psnr_reconstructed", "features")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("method", *names, "uploads", "faults"))
        for method, state in results.titles:
            for record in state.history:
                faults = "; ".join(f"{kind}: {count}" for kind, count in record["faults"].items())
                writer.writerow((method.name, *(record.get(n, "") for n in names), len(record["uploads"]), faults))


def _page(results: Results, tables: list[ResultTable], figures: list[Figure], seconds: float) -> str:
    environment = Environment(
        loader=PackageLoader("uav_privacy_sc.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    setting = results.experiment.setting
    faults = [f"{method.title}: {line}" for method, state in results.titles for line in state.faults]
    section = {
        "name": "fleet",
        "about": f"{setting.clients} clients, {setting.per_round} a round, {setting.rounds} rounds",
        "seconds": f"{seconds:.0f}",
        "figures": [(figure.title, figure_html(figure)) for figure in figures],
        "tables": [table_html(table) for table in tables],
        "notes": [],
        "missing": faults,
    }
    facts = [(name, str(value)) for name, value in results.facts.items()]
    seeded = "cryptographic noise" if setting.seed is None else f"seed {setting.seed}: an experiment, not private"
    return environment.get_template("evaluation.html.j2").render(
        version=__version__, facts=[*facts, ("noise", seeded)], notes=[], sections=[section]
    )


def _whole(path: Path, text: str) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
