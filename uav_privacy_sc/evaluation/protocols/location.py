"""Location error over its budget: expected and measured, for both mechanisms, on the sample's boxes (P1 5.7)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.messages import About
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable, plain, reasons, with_interval
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate
from uav_privacy_sc.privacy import location

NAME = "location"
BRANCHES = ("grid", "planar_laplace")
EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 20.0)
GRID_SIZE, SCALE = 16, 100.0
NO_OBJECTS = "no object in the sample"


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample."""
    for sample in store:
        yield Unit(sample.name, partial(measure, Sample(sample.name, sample.truth, detected=sample.detected), setting))


def measure(sample: Sample, setting: Setting) -> list[Measurement]:
    """Return the mean displacement of the sample's objects by each mechanism at each budget."""
    centers, found = scene.centers(sample.boxes), []
    for seed in range(setting.seeds):
        about = About(NAME, setting, sample, seed)
        for branch in BRANCHES:
            for epsilon_l in EPSILONS:
                here = about.but(mechanism=branch, epsilon_l=epsilon_l, condition=f"ε_l {epsilon_l:g}")
                if not len(centers):
                    found.append(here.row("location_error", Missing(NO_OBJECTS)))
                    continue
                rng = setting.rng(f"location {branch} {epsilon_l}", sample.name, seed)
                many = np.tile(centers, (setting.preset.releases, 1))
                found.append(here.row("location_error", displacement(many, branch, epsilon_l, rng)))
    return found


def displacement(centers: np.ndarray, branch: str, epsilon_l: float, rng: np.random.Generator) -> float:
    """Return the mean distance, in image sides, of ``(M, 2)`` centres from where a mechanism releases them."""
    if branch == "grid":
        released, _ = location.release_grid(centers, epsilon_l, GRID_SIZE, rng)
    else:
        released = location.release_planar_laplace(centers, epsilon_l, SCALE, rng)
    return float(np.linalg.norm(released - centers, axis=1).mean())


def expected(branch: str, epsilon_l: float) -> float:
    """Return the mechanism's expected error over a uniform image, as the controller takes it."""
    if branch == "grid":
        return float(location.grid_expected_error(epsilon_l, GRID_SIZE))
    return float(location.planar_laplace_expected_error(epsilon_l, SCALE))


def cell_error(epsilon_l: float) -> float:
    """Return the mean distance of the reference cell's centre and the released one's (P1 Eq. 18), in image sides.

    Every reference cell counts alike. It is 0 where the cell is kept: quantization is left out.
    """
    places = np.arange(GRID_SIZE)
    apart = np.abs(places[:, None] - places)
    chance = np.exp(-epsilon_l * apart / 2)
    chance /= chance.sum(axis=1, keepdims=True)
    steps = np.bincount(apart.ravel(), chance.ravel()) / GRID_SIZE
    return float(steps @ np.hypot(places[:, None], places) @ steps) / GRID_SIZE


def budget_for(branch: str, error: float, from_cell: bool = False) -> float | None:
    """Return the budget at which a mechanism's expected error is ``error``; None where no budget gives it.

    ``from_cell``: on the grid the error is that from cell to cell (:func:`cell_error`), not from the object itself.
    """
    from scipy.optimize import brentq

    def mean(epsilon: float) -> float:
        return cell_error(epsilon) if from_cell and branch == "grid" else expected(branch, epsilon)

    low, high = 1e-3, 200.0
    if not mean(high) <= error <= mean(low):
        return None
    return float(brentq(lambda epsilon: mean(epsilon) - error, low, high))


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return errors over budgets, and which budget P1's errors need."""
    rows, missing = [], []
    for epsilon in EPSILONS:
        cells = []
        for branch in BRANCHES:
            condition = f"ε_l {epsilon:g}"
            reason = results.reason("location_error", branch, condition=condition)
            found = estimate(results.values("location_error", branch, condition=condition).values(), reason)
            missing.append((branch.replace("_", " "), found))
            cells += [plain(expected(branch, epsilon), 4), with_interval(found, 4)]
        rows.append((f"{epsilon:g}", *cells))
    heads = ("ε_l", "grid, expected", "grid, measured", "Laplace, expected", "Laplace, measured")
    notes = (
        f"In image sides; {setting.preset.releases} releases of every object; grid of {GRID_SIZE}x{GRID_SIZE}, "
        f"s_c {SCALE:g}. Expected: over an evenly spread image, Laplace before clipping to it.",
        *reasons(missing),
    )
    table = ResultTable("location", "Location error over its budget", heads, rows, notes)
    return [table, _published_table()]


_SCENARIOS = (("surveillance", "grid", 5.0), ("precision", "planar_laplace", 1.5), ("resource-limited", "grid", 3.0))


def _published_table() -> ResultTable:
    rows = []
    for name, branch, total in _SCENARIOS:
        item = published.find("5.7", "location_error", "bcd", condition=name)
        assert item is not None
        needed = [plain(budget_for(branch, item.value, from_cell), 2) for from_cell in (False, True)]
        rows.append((name, branch, f"{item.value:.4f}", *needed, f"{total:g}"))
    heads = ("scenario", "mechanism", "P1's error", "ε_l, from the object", "ε_l, from its cell", "P1's ε_total")
    note = (
        "P1 does not define what E_loc is measured from. From the object, quantization counts (ours); from the centre "
        "of its reference cell, it does not."
    )
    return ResultTable("location-published", "Budgets that P1's location errors need", heads, rows, (note,), words=2)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return error over budget for both mechanisms."""
    series = []
    for number, (branch, name) in enumerate(zip(BRANCHES, ("grid", "planar Laplace"), strict=True)):
        items = [
            (e, estimate(results.values("location_error", branch, condition=f"ε_l {e:g}").values())) for e in EPSILONS
        ]
        known = [(e, item) for e, item in items if isinstance(item, Estimate)]
        x, found = [e for e, _ in known], [item for _, item in known]
        ends = [item.low for item in found], [item.high for item in found]
        series.append(Series(f"{name}, measured", x, [item.mean for item in found], *ends, colour=number))
        line = [expected(branch, e) for e in EPSILONS]
        series.append(Series(f"{name}, expected", EPSILONS, line, colour=number + 4, dashed=True, marked=False))
    theirs = [published.find("5.7", "location_error", "bcd", condition=name) for name, *_ in _SCENARIOS]
    levels = [(f"P1, {item.condition}: {item.value:g}", item.value) for item in theirs if item is not None]
    y_label = "mean location error (image sides)"
    panel = Panel("", "location budget ε_l", y_label, series, log_x=True, log_y=True, flat=levels)
    return [Figure("location", "Location error over its budget", [panel])]


PROTOCOL = Protocol(NAME, "location error over its budget, both mechanisms", "boxes", units, tables, figures)
