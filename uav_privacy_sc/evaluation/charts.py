"""Curves of a flight over time as inline SVG."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from uav_privacy_sc.control.adaptation import Comparison
from uav_privacy_sc.evaluation.following import sent_frames
from uav_privacy_sc.evaluation.measures import FlightMeasures, FrameMeasures
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.flight import STAGES, FlightLog, FrameLog

INK, GRID = "#334155", "#e2e8f0"
BLUE, RED, GREEN, AMBER, VIOLET, GREY = "#2563eb", "#dc2626", "#15803d", "#d97706", "#7c3aed", "#64748b"
_STAGE_COLOURS = dict(zip(STAGES, (BLUE, GREY, RED, AMBER, GREEN, VIOLET), strict=True))
_DISTANCE = "Distance to the ground"
_SIZE_INCHES = (5.6, 2.35)
#: A larger ratio of the largest to the smallest value is drawn on a logarithmic axis.
_LINEAR_RANGE = 30.0
#: A larger one comes from values that are as good as zero, which a logarithmic axis would blow up.
_LOG_RANGE = 1e6


@dataclass(frozen=True)
class Curve:
    """One line of a chart: a value at each time (s), NaN for a gap."""

    name: str
    times: np.ndarray
    values: np.ndarray
    colour: str
    dashed: bool = False


@dataclass(frozen=True)
class Chart:
    """A titled picture of curves over time; ``svg`` is empty where nothing was to be drawn."""

    title: str
    note: str
    svg: str


def flight_charts(log: FlightLog, measures: FlightMeasures, held: Comparison | Missing | None = None) -> list[Chart]:
    """Return the charts of a flight in the order of a frame's way: air, budgets, cost, what came of it, time.

    ``held`` is the flight against fixed budgets and power (``evaluation.following``), drawn beside it.
    """
    flown = _Series(log, log.frames)
    measured = {frame.index: frame for frame in measures.frames}
    seen = _Series(log, [frame for frame in log.frames if frame.index in measured or frame.dropped is not None])
    charts = (
        ("What the air allows", "dB", "SNR at each receiver, and the gain the controller steers by", _air(flown)),
        (_DISTANCE, "m", "slant range", _distance(flown)),
        ("Payload of a frame", "bits", "analog features are symbols and count no bits", _payload(flown)),
        (
            "Privacy budgets chosen",
            "epsilon",
            "smaller is more private; the controller divides the total",
            _budgets(flown),
        ),
        (
            "Transmit power",
            "W",
            "the least power among equally good choices",
            _power(flown) + _fixed(log, held, "p_tx"),
        ),
        (
            "Utility",
            "",
            "the controller's objective at its operating point",
            _utility(flown) + _fixed(log, held, "utility"),
        ),
        ("Privacy spent so far", "epsilon", "of one object over the flight, and the worst single frame", _spent(flown)),
        (
            "Likeness of the eavesdropper's picture",
            "SSIM",
            "1 is identical; lower hides more",
            _likeness(seen, measured),
        ),
        ("Right classes at the ground", "share", "of labelled pixels", _accuracy(seen, measured)),
        ("Time of each stage", "ms", "per frame", _latency(flown)),
    )
    drawn = [Chart(title, note, draw(curves, unit, title)) for title, unit, note, curves in charts]
    return [chart for chart in drawn if chart.svg or chart.title != _DISTANCE]


class _Series:
    """Reads one number a frame, NaN where there is none, against the time since the flight's first frame."""

    def __init__(self, log: FlightLog, frames: Sequence[FrameLog]) -> None:
        self._frames = frames
        self._times = np.array([(frame.stamp_ns - log.frames[0].stamp_ns) / 1e9 for frame in frames])

    def curve(self, name: str, read: Callable[[FrameLog], Any], colour: str, dashed: bool = False) -> Curve:
        """Return what ``read`` finds in each frame; None and a missing metric become gaps."""
        found = [read(frame) for frame in self._frames]
        values = [np.nan if value is None or isinstance(value, Missing) else value for value in found]
        return Curve(name, self._times, np.array(values, np.float64), colour, dashed)


def _of(holder: str, name: str) -> Callable[[FrameLog], Any]:
    """Read attribute ``name`` of what a frame holds under ``holder``, None where it holds nothing."""
    return lambda frame: getattr(getattr(frame, holder), name, None)


def _air(series: _Series) -> list[Curve]:
    return [
        series.curve("ground SNR", lambda frame: frame.ground_snr_db, GREEN),
        series.curve("eavesdropper SNR", lambda frame: frame.eve_snr_db, RED),
        series.curve("gain to the ground", lambda frame: frame.gain_db, GREY, dashed=True),
    ]


def _distance(series: _Series) -> list[Curve]:
    """Return nothing where the aircraft keeps its distance."""
    curve = series.curve("distance", lambda frame: frame.distance_m, GREY)
    known = curve.values[np.isfinite(curve.values)]
    return [curve] if known.size and np.ptp(known) > 0.0 else []


def _payload(series: _Series) -> list[Curve]:
    return [
        series.curve("both packets", _of("payload", "bits"), BLUE),
        series.curve("object packet", _of("payload", "object_bits"), AMBER, dashed=True),
    ]


def _budgets(series: _Series) -> list[Curve]:
    return [
        series.curve("epsilon_v, features", _of("budgets", "epsilon_v"), BLUE),
        series.curve("epsilon_l, locations", _of("budgets", "epsilon_l"), AMBER),
    ]


def _power(series: _Series) -> list[Curve]:
    return [series.curve("p_tx", _of("budgets", "p_tx"), BLUE)]


def _utility(series: _Series) -> list[Curve]:
    return [series.curve("utility", lambda frame: frame.utility, VIOLET)]


def _fixed(log: FlightLog, held: Comparison | Missing | None, name: str) -> list[Curve]:
    """Return what fixed budgets and power of equal cost would have had, where that is known."""
    if held is None or isinstance(held, Missing):
        return []
    times = np.array([(frame.stamp_ns - log.frames[0].stamp_ns) / 1e9 for frame in sent_frames(log)])
    return [Curve("fixed, of equal cost", times, getattr(held.fixed, name), GREY, dashed=True)]


def _spent(series: _Series) -> list[Curve]:
    return [
        series.curve("mission", _of("record", "spent_mission_epsilon"), RED),
        series.curve("object, one frame", _of("record", "spent_object_epsilon"), BLUE),
        series.curve("cell, one frame", _of("record", "spent_cell_epsilon"), GREY, dashed=True),
    ]


def _likeness(series: _Series, measured: dict[int, FrameMeasures]) -> list[Curve]:
    def read(case: str, score: str) -> Callable[[FrameLog], Any]:
        return lambda frame: (
            getattr(measured[frame.index].pictures.get(case), score, None) if frame.index in measured else None
        )

    return [
        series.curve(f"{label}, {place}", read(case, score), colour, dashed=place == "people")
        for case, label, colour in (("without_protection", "unprotected", GREY), ("with_protection", "protected", RED))
        for score, place in (("ssim", "whole"), ("ssim_sensitive", "people"))
    ]


def _accuracy(series: _Series, measured: dict[int, FrameMeasures]) -> list[Curve]:
    def read(case: str) -> Callable[[FrameLog], Any]:
        return lambda frame: measured[frame.index].accuracy.get(case) if frame.index in measured else None

    return [
        series.curve("as flown", read("received"), GREEN),
        series.curve("unprotected", read("without_protection"), GREY),
        series.curve("descriptors alone", read("descriptors_only"), AMBER, dashed=True),
    ]


def _latency(series: _Series) -> list[Curve]:
    def read(stage: str) -> Callable[[FrameLog], Any]:
        return lambda frame: frame.stage_ms.get(stage)

    return [series.curve(stage, read(stage), _STAGE_COLOURS[stage]) for stage in STAGES]


def draw(curves: Sequence[Curve], unit: str, name: str) -> str:
    """Return a chart as an SVG element that scales with its page, or nothing when no curve has a value."""
    curves = [curve for curve in curves if np.isfinite(curve.values).any()]
    if not curves:
        return ""
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    for curve in curves:
        _draw_curve(axes, curve)
    _style(axes, curves, unit)
    return _svg(figure, name)


def _draw_curve(axes: Axes, curve: Curve) -> None:
    few = np.isfinite(curve.values).sum() < 30
    axes.plot(
        curve.times,
        curve.values,
        color=curve.colour,
        label=curve.name,
        linewidth=1.6,
        linestyle=(0, (3, 2)) if curve.dashed else "-",
        marker="o" if few else None,
        markersize=3,
    )


def _style(axes: Axes, curves: Sequence[Curve], unit: str) -> None:
    values = np.concatenate([curve.values for curve in curves])
    values = values[np.isfinite(values)]
    if values.min() > 0 and _LINEAR_RANGE < values.max() / values.min() < _LOG_RANGE:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.set_xlabel("time (s)", color=INK)
    axes.set_ylabel(unit, color=INK)
    axes.tick_params(colors=INK, labelsize=9, length=0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    axes.margins(x=0.01, y=0.12)
    if len(curves) > 1:
        columns = len(curves) if len(curves) < 4 else (len(curves) + 1) // 2
        axes.figure.legend(loc="outside upper left", ncols=columns, frameon=False, fontsize=9, labelcolor=INK)


def _svg(figure: Figure, name: str) -> str:
    """Return the drawing without its XML head, with text as text and identifiers of its own among other charts."""
    import matplotlib

    buffer = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": name, "font.family": "sans-serif"}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    svg = buffer.getvalue()
    for pattern, replacement in _SVG_CLEANING:
        svg = pattern.sub(replacement, svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{name} over time"', 1)


#: What a page does not need of an SVG file: its head, its style sheet (which would apply to the page), identifiers that
#: are no target of a reference and would repeat from chart to chart, fonts other than the page's, and a fixed size.
_SVG_CLEANING = [
    (re.compile(pattern, re.DOTALL), replacement)
    for pattern, replacement in (
        (r"^.*?(?=<svg)", ""),
        (r"<metadata>.*?</metadata>|<style.*?</style>", ""),
        (r'<g id="[a-z0-9._]+"/>', ""),
        (r'<g id="[a-z0-9._]+">', "<g>"),
        (r"font-family: [^;\"]*;? ?", ""),
        (r'(?<=<svg)([^>]*?) width="[^"]*"', r"\1"),
        (r'(?<=<svg)([^>]*?) height="[^"]*"', r"\1"),
        (r"\n\s*", "\n"),
    )
]
