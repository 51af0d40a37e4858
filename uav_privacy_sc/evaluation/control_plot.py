"""Pictures of the controller: one solve with its utility surface, and a flight against fixed budgets and power."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from uav_privacy_sc.control.adaptation import Comparison, mission_epsilon, utility_surface
from uav_privacy_sc.control.bcd import OperatingPoint
from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.evaluation.charts import AMBER, BLUE, GREEN, GREY, GRID, INK, RED, VIOLET

_DPI = 150
_DASHED = (0, (4, 3))


@dataclass(frozen=True)
class FlightPath:
    """``(N,)`` seconds, metres to the ground station, and scripted blockage in dB."""

    time_s: np.ndarray
    distance_m: np.ndarray
    blockage_db: np.ndarray


def draw_solve(policy: ScenarioPolicy, gain_db: float, point: OperatingPoint, path: Path) -> None:
    """Draw the iterations of one solve, and the utility over epsilon_v and power with the way it took.

    Raises:
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=(10.5, 4.6), layout="constrained")
    history, surface = figure.subplots(1, 2, width_ratios=(1.0, 1.25))
    _history(history, point)
    _surface(figure, surface, policy, gain_db, point)
    status = point.status.replace("_", " ")
    figure.suptitle(f"{policy.name} at {gain_db:g} dB: U = {point.utility:.4f}, {status}", color=INK, fontsize=12)
    _save(figure, path)


def _history(axes: Axes, point: OperatingPoint) -> None:
    steps = np.arange(1, len(point.history) + 1)
    axes.set_title("Iterations", color=INK, fontsize=11, loc="left")
    if len(steps):
        axes.plot(steps, [step.utility for step in point.history], color=GREY, marker="o", markersize=4, label="damped")
        best = [step.best_utility for step in point.history]
        axes.plot(steps, best, color=VIOLET, marker="o", markersize=4, label="best seen")
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
    else:
        axes.text(0.5, 0.5, "no feasible point: no iterations", ha="center", color=INK, transform=axes.transAxes)
        axes.set(xticks=[], yticks=[])
    axes.set_xlabel("iteration", color=INK)
    axes.set_ylabel("utility", color=INK)
    if len(steps):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _style(axes)


def _surface(figure: Figure, axes: Axes, policy: ScenarioPolicy, gain_db: float, point: OperatingPoint) -> None:
    epsilon_v, p_tx, utility = utility_surface(policy, gain_db, points=161)
    axes.set_title("Utility where the constraints hold", color=INK, fontsize=11, loc="left")
    if np.isfinite(utility).any():
        filled = axes.contourf(epsilon_v, p_tx, utility, levels=20, cmap="viridis")
        figure.colorbar(filled, ax=axes, label="utility")
    else:
        axes.text(0.5, 0.5, "nowhere at this gain", ha="center", color=INK, transform=axes.transAxes)
    way = [(step.epsilon_v, step.p_tx) for step in point.history]
    if way:
        axes.plot(*zip(*way, strict=True), color="white", marker="o", markersize=4, linewidth=1.2, label="iterations")
    label = "chosen" if point.feasible else "least violation"
    axes.plot(
        [point.epsilon_v],
        [point.p_tx],
        color=RED,
        marker="*",
        markersize=14,
        linestyle="none",
        label=label,
        clip_on=False,
    )
    axes.set_facecolor(GRID)
    axes.set_xlim(float(epsilon_v[0]), float(epsilon_v[-1]))
    axes.set_ylim(0.0, policy.p_available * 1.03)
    axes.margins(0.02)
    axes.set_xlabel(f"epsilon_v  (epsilon_l is the rest of {policy.epsilon_total:g})", color=INK)
    axes.set_ylabel("p_tx (W)", color=INK)
    axes.tick_params(colors=INK, length=0)
    axes.legend(loc="lower right", fontsize=9, facecolor="#94a3b8", framealpha=0.9)


def draw_flight(policy: ScenarioPolicy, flown: Comparison, along: FlightPath, delta: float, path: Path) -> None:
    """Draw a flight with budgets and power that follow beside the best fixed ones of equal cost.

    Raises:
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=(9.5, 10.5), layout="constrained")
    axes = figure.subplots(5, 1, sharex=True)
    _air(axes[0], axes[1], flown, along)
    adaptive, fixed, time_s = flown.adaptive, flown.fixed, along.time_s
    for name, colour in (("epsilon_v", BLUE), ("epsilon_l", AMBER)):
        axes[2].plot(time_s, getattr(adaptive, name), color=colour, linewidth=1.3, label=f"{name} follows")
        axes[2].plot(time_s, getattr(fixed, name), color=colour, linestyle=_DASHED, label=f"{name} fixed")
    axes[3].plot(time_s, adaptive.p_tx, color=BLUE, linewidth=1.3, label="follows")
    axes[3].plot(time_s, fixed.p_tx, color=GREY, linestyle=_DASHED, label="fixed")
    axes[3].set_yscale("log")
    for series, colour, label in ((fixed, GREY, "fixed"), (adaptive, VIOLET, "follows")):
        mean, held = series.utility.mean(), series.feasible.mean()
        text = f"{label}: mean {mean:.3f}, constraints held in {held:.1%}"
        axes[4].plot(time_s, series.utility, color=colour, linewidth=1.3, label=text)
    titles = ("Distance to the ground", "Gain", "Privacy budgets", "Transmit power", "Utility")
    for one, title, unit in zip(axes, titles, ("m", "dB", "epsilon", "W", ""), strict=True):
        one.set_title(title, color=INK, fontsize=11, loc="left")
        one.set_ylabel(unit, color=INK)
        _style(one)
        if len(one.get_legend_handles_labels()[0]) > 1:
            one.legend(
                loc="lower right", bbox_to_anchor=(1.0, 0.98), ncols=4, frameon=False, fontsize=9, labelcolor=INK
            )
    axes[4].set_xlabel("time (s)", color=INK)
    cost = f"mission epsilon {mission_epsilon(adaptive, delta):,.0f} and energy"
    title = f"{policy.name}: {flown.utility_gain:+.3f} utility by following, at equal {cost}"
    figure.suptitle(title, color=INK, fontsize=12)
    _save(figure, path)


def _air(distance: Axes, gain: Axes, flown: Comparison, along: FlightPath) -> None:
    distance.plot(along.time_s, along.distance_m, color=INK, linewidth=1.5)
    distance.set_ylim(bottom=0.0)
    gain.plot(along.time_s, flown.gain_db, color=GREEN, linewidth=1.0)
    blocked = along.blockage_db > 0.0
    if blocked.any():
        for axes in (distance, gain):
            low, high = axes.get_ylim()
            axes.fill_between(
                along.time_s, low, high, where=blocked, color=RED, alpha=0.12, linewidth=0, label="blocked"
            )
            axes.set_ylim(low, high)
        middle = float(along.time_s[blocked].mean())
        text = f"blocked, up to {along.blockage_db.max():g} dB"
        distance.annotate(text, (middle, 0.85), xycoords=("data", "axes fraction"), ha="center", color=RED, fontsize=9)


def _style(axes: Axes) -> None:
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    axes.margins(x=0.01)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)


def _save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=_DPI, metadata={} if path.suffix.lower() == ".png" else {"Creator": None})
