"""Convergence of the joint optimization (P1 5.9): our BCD, Algorithm 3 as it reads, and an exhaustive grid."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from uav_privacy_sc.control import utility as worth
from uav_privacy_sc.control.algorithm3 import plain_grid_search
from uav_privacy_sc.control.bcd import OperatingPoint, optimize
from uav_privacy_sc.control.policy import ScenarioPolicy, load_policies
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results, measured
from uav_privacy_sc.evaluation.metrics import INFEASIBLE, Missing
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable, plain, reasons, with_count, with_interval
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate
from uav_privacy_sc.link.channel import LinkConfig, draw_fading

NAME = "convergence"
ITERATIONS = 8
#: Points of each axis of the exhaustive search.
POINTS = 400
_CHUNK = 20


def units(setting: Setting, store: SampleStore | None) -> Iterator[Unit]:
    """Yield pieces of a scenario's channel draws."""
    for name in load_policies():
        for start in range(0, setting.preset.draws, _CHUNK):
            draws = range(start, min(start + _CHUNK, setting.preset.draws))
            yield Unit(f"{name} {start}", partial(measure, name, draws, setting))


def measure(scenario: str, draws: range, setting: Setting) -> list[Measurement]:
    """Return utilities, iterations and the gap to an exhaustive search for some draws of the channel."""
    policy = load_policies()[scenario]
    found: list[Measurement] = []
    for draw in draws:
        state = draw_fading(LinkConfig(), setting.rng("fade", f"draw {draw}", 0))
        point = optimize(policy, state.gain, state.noise_power)
        about: dict[str, Any] = {"protocol": NAME, "sample": f"draw {draw}", "seed": 0, "condition": scenario}
        found += _ours(point, about)
        best = exhaustive(policy, state.gain / state.noise_power)
        _, plain_value = plain_grid_search(policy, state.gain, state.noise_power, 401)
        for mechanism, value in (("exhaustive", best), ("algorithm 3", plain_value)):
            score = value if np.isfinite(value) else Missing(INFEASIBLE)
            found.append(measured(score, mechanism=mechanism, metric="utility", **about))
        gap = best - point.utility if point.feasible and np.isfinite(best) else Missing(INFEASIBLE)
        found.append(measured(gap, mechanism="bcd", metric="gap", **about))
    return found


def _ours(point: OperatingPoint, about: dict[str, Any]) -> Iterator[Measurement]:
    def row(metric: str, value: float) -> Measurement:
        score = value if point.feasible else Missing(INFEASIBLE)
        return measured(score, mechanism="bcd", metric=metric, **about)

    yield row("utility", point.utility)
    yield row("iterations", float(len(point.history)))
    yield measured(float(point.feasible), mechanism="bcd", metric="feasible", **about)
    for number in range(1, ITERATIONS + 1):
        history = point.history[min(number, len(point.history)) - 1] if point.history else None
        score = history.utility if point.feasible and history is not None else Missing(INFEASIBLE)
        yield measured(score, mechanism="bcd", metric=f"utility at iteration {number}", **about)


def exhaustive(policy: ScenarioPolicy, per_watt: float) -> float:
    """Return the best utility over a grid of budgets and powers, minus infinity where no point is feasible."""
    epsilon = np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, POINTS)[:, None]
    power = policy.p_available * np.linspace(1 / POINTS, 1.0, POINTS)
    epsilon_l = policy.epsilon_total - epsilon
    error = np.asarray(worth.location_error(policy, epsilon_l))
    quality = worth.semantic_quality(policy, epsilon, power * per_watt)
    value = policy.lambda1 * worth.normalized_quality(policy, quality)
    value = value + policy.lambda2 * worth.location_utility(policy, epsilon_l, error)
    return float(np.where((quality >= policy.a_min) & (error <= policy.e_max), value, -np.inf).max())


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return utilities at the first and sixth iteration, iterations, and how far from the optimum."""
    rows, missing = [], []
    for scenario in results.distinct("condition"):
        cells: list[str] = []
        for number in (1, 6, 8):
            metric = f"utility at iteration {number}"
            ours = _mean(results, metric, "bcd", scenario)
            missing.append((scenario, ours))
            theirs = published.find("5.9", metric, "bcd", condition=scenario)
            cells += [with_interval(ours, 4), published.text(theirs, 4)]
        feasible = estimate(results.values("feasible", "bcd", condition=scenario).values())
        iterations = list(results.values("iterations", "bcd", condition=scenario).values())
        gaps = list(results.values("gap", "bcd", condition=scenario).values())
        others = ((name, _mean(results, name, "bcd", scenario)) for name in ("iterations", "gap"))
        missing += [(f"{name}, {scenario}", each) for name, each in others if isinstance(each, Missing)]
        spread = f"{min(iterations):.0f} to {max(iterations):.0f}" if iterations else "–"
        worst = plain(max(gaps), 5) if gaps else "–"
        share = with_count(feasible)
        rows.append((scenario, *cells, spread, worst, share))
    heads = ("scenario", "U, 1", "P1", "U, 6", "P1", "U, 8", "P1", "iterations", "worst gap", "feasible")
    notes = (
        f"{setting.preset.draws} Rayleigh fades of the shipped link, means over the feasible ones; utility of the "
        "damped point, as Algorithm 3 has it. Gap of the best point seen: to the best of "
        f"{POINTS}x{POINTS} budgets and powers; "
        "negative where BCD is better.",
        *reasons(missing),
    )
    return [ResultTable("convergence", "Convergence of the optimizer (P1 Figure 8)", heads, rows, notes)]


def _mean(results: Results, metric: str, mechanism: str, scenario: str) -> Estimate | Missing:
    reason = results.reason(metric, mechanism, condition=scenario)
    return estimate(results.values(metric, mechanism, condition=scenario).values(), reason)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return the mean utility over iterations."""
    panels = []
    for scenario in results.distinct("condition"):
        x = list(range(1, ITERATIONS + 1))
        items = [
            estimate(results.values(f"utility at iteration {number}", "bcd", condition=scenario).values())
            for number in x
        ]
        known = [(number, item) for number, item in zip(x, items, strict=True) if isinstance(item, Estimate)]
        numbers, found = [number for number, _ in known], [item for _, item in known]
        lows, highs = [item.low for item in found], [item.high for item in found]
        series = [Series("BCD, damped", numbers, [item.mean for item in found], lows, highs, colour=0)]
        for number, (name, mechanism) in enumerate((("Algorithm 3", "algorithm 3"), ("exhaustive", "exhaustive"))):
            level = estimate(results.values("utility", mechanism, condition=scenario).values())
            if isinstance(level, Estimate):
                series.append(Series(name, x, [level.mean] * len(x), colour=number + 1, dashed=True, marked=False))
        theirs = [published.find("5.9", f"utility at iteration {number}", "bcd", condition=scenario) for number in x]
        points = [(number, item.value) for number, item in zip(x, theirs, strict=True) if item is not None]
        series.append(Series("P1", [p[0] for p in points], [p[1] for p in points], published=True))
        panels.append(Panel(scenario, "iteration", "mean utility", series))
    return [Figure("convergence", "Convergence of the optimizer (P1 Figure 8)", panels, columns=3)]


PROTOCOL = Protocol(NAME, "BCD, Algorithm 3 and an exhaustive grid (P1 5.9)", "nothing", units, tables, figures)
