"""Figures of results: described by a protocol as data, drawn here, written as PNG and SVG.

Colours are Okabe and Ito's, which people with any colour vision tell apart; every line has a marker of its own, too.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7A5195", "#333333")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PUBLISHED_COLOUR = "#666666"
_INK, _GRID = "#222222", "#dddddd"
_PANEL_INCHES = (4.3, 3.1)
_DPI = 200


@dataclass(frozen=True)
class Series:
    """One line, or one set of bars: values with their intervals; ``published`` are what a paper says."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    published: bool = False
    colour: int | None = None
    dashed: bool = False
    marked: bool = True


@dataclass(frozen=True)
class Panel:
    """One plot. ``kind`` is ``lines`` or ``bars``; bars stand over ``ticks``; ``flat`` are named horizontal levels.

    ``bounds`` are those of the quantity: an interval may reach beyond them, the axis does not.
    """

    title: str
    x_label: str
    y_label: str
    series: Sequence[Series]
    kind: str = "lines"
    ticks: Sequence[str] = ()
    log_x: bool = False
    log_y: bool = False
    flat: Sequence[tuple[str, float]] = ()
    y_from: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def empty(self) -> bool:
        """Whether nothing was measured for it: it has no point but published ones."""
        return not any(len(series.x) for series in self.series if not series.published)


@dataclass(frozen=True)
class Figure:
    """Panels side by side under one legend, or a grid of pictures with names of rows and columns."""

    name: str
    title: str
    panels: Sequence[Panel] = ()
    note: str = ""
    columns: int = 2
    stretch: float = 1.0
    pictures: Sequence[Sequence[np.ndarray]] = ()
    row_names: Sequence[str] = ()
    column_names: Sequence[str] = ()
    source: dict[str, Any] = field(default_factory=dict)

    def measured(self) -> Figure | None:
        """Return it without panels that have no point, which its note names; None where nothing is left."""
        if not self.panels:
            return self if self.pictures else None
        left_out = [panel.title or panel.y_label for panel in self.panels if panel.empty]
        if not left_out:
            return self
        kept = [panel for panel in self.panels if not panel.empty]
        note = f"{self.note} Left out, for nothing could be measured: {', '.join(left_out)}.".strip()
        return replace(self, panels=kept, note=note) if kept else None

    def write(self, folder: Path) -> list[Path]:
        """Write PNG and SVG below a folder and return their paths.

        Raises:
            OSError: it cannot be written.
        """
        canvas = draw(self)
        paths = []
        for suffix in ("png", "svg"):
            path = folder / f"{self.name}.{suffix}"
            with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
                canvas.savefig(path, dpi=_DPI, metadata={"Date": None} if suffix == "svg" else None)
            paths.append(path)
        return paths

    def svg(self) -> str:
        """Return it as SVG text for a page."""
        buffer = io.StringIO()
        with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": self.name}):
            draw(self).savefig(buffer, format="svg", metadata={"Date": None})
        return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def draw(figure: Figure) -> Canvas:
    """Return the drawn canvas of a figure."""
    style = {"font.family": "DejaVu Sans", "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9}
    with matplotlib.rc_context(style):
        return _draw_pictures(figure) if figure.pictures else _draw_panels(figure)


def _draw_panels(figure: Figure) -> Canvas:
    columns = min(figure.columns, len(figure.panels))
    rows = -(-len(figure.panels) // columns)
    width = max(columns * _PANEL_INCHES[0] * figure.stretch, 5.2)
    named = len({series.name for panel in figure.panels for series in panel.series})
    legend_rows = -(-named // max(1, int(width / 2.6)))
    height = rows * _PANEL_INCHES[1] + 0.35 + 0.24 * legend_rows
    canvas = Canvas(figsize=(width, height), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False)
    handles: dict[str, Any] = {}
    for place, axes in enumerate(grid.flat):
        if place >= len(figure.panels):
            axes.set_visible(False)
            continue
        handles.update({_math(name): item for name, item in _draw_panel(axes, figure.panels[place]).items()})
    canvas.suptitle(_math(figure.title), fontsize=10.5, fontweight="bold", color=_INK)
    if len(handles) > 1:
        across = min(len(handles), max(1, int(width / 2.6)))
        canvas.legend(
            handles.values(), handles.keys(), loc="outside lower center", ncols=across, frameon=False, fontsize=8.5
        )
    return canvas


def _draw_panel(axes: Axes, panel: Panel) -> dict[str, Any]:
    handles = _bars(axes, panel) if panel.kind == "bars" else _lines(axes, panel)
    for _, level in panel.flat:
        axes.axhline(level, color=PUBLISHED_COLOUR, linewidth=1, linestyle=(0, (1, 1.5)), zorder=1)
    axes.set(title=_math(panel.title), xlabel=_math(panel.x_label), ylabel=_math(panel.y_label))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y" if panel.kind == "bars" else "both", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    if panel.y_from is not None:
        axes.set_ylim(bottom=panel.y_from)
    axes.margins(y=0.1)
    if panel.bounds is not None:
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, panel.bounds[0]), min(high, panel.bounds[1]))
    _name_levels(axes, panel.flat)
    return handles


def _math(text: str) -> str:
    """Return text with the field's symbols set as such."""
    for plain, symbol in (("ε_v", r"$\varepsilon_v$"), ("ε_l", r"$\varepsilon_l$"), ("κ_bg", r"$\kappa_{bg}$")):
        text = text.replace(plain, symbol)
    return text


def _name_levels(axes: Axes, flat: Sequence[tuple[str, float]]) -> None:
    """Name horizontal levels beside the plot, moved apart where they are close."""
    to_axes = axes.transAxes.inverted()
    last = -1.0
    for name, level in sorted(flat, key=lambda item: item[1]):
        place = float(to_axes.transform(axes.transData.transform((axes.get_xlim()[0], level)))[1])
        last = max(place, last + 0.055)
        axes.text(1.01, last, _math(name), transform=axes.transAxes, va="center", fontsize=7.5, color=PUBLISHED_COLOUR)


def _lines(axes: Axes, panel: Panel) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    for place, series in enumerate(panel.series):
        number = place if series.colour is None else series.colour
        colour = PUBLISHED_COLOUR if series.published else COLOURS[number % len(COLOURS)]
        marker = "x" if series.published else MARKERS[number % len(MARKERS)] if series.marked else "none"
        style = "none" if series.published else "--" if series.dashed else "-"
        (line,) = axes.plot(
            series.x, series.y, color=colour, marker=marker, linestyle=style, markersize=5, linewidth=1.6, zorder=3
        )
        if number >= len(COLOURS):  # colours begin anew: such a marker is hollow
            line.set_markerfacecolor("white")
        handles[series.name] = line
        if series.low is not None and series.high is not None:
            axes.fill_between(series.x, series.low, series.high, color=colour, alpha=0.16, linewidth=0, zorder=2)
    if panel.log_x:
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis, *axes.get_xlim())
    elif all(float(value).is_integer() for series in panel.series for value in series.x):  # no round one and a half
        axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True))
    if panel.log_y:
        axes.set_yscale("log")
        _plain_ticks(axes.yaxis, *axes.get_ylim())
    return handles


def _plain_ticks(axis: Any, low: float, high: float) -> None:
    """Label powers of ten, or 1, 2 and 5 of each where there are few, as plain numbers."""
    decades = np.log10(high / low)
    steps = (1.0,) if decades > 2.2 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    powers = range(int(np.floor(np.log10(low))) - 1, int(np.ceil(np.log10(high))) + 1)
    places = [step * 10.0**power for power in powers for step in steps]
    axis.set_major_locator(FixedLocator([place for place in places if low <= place <= high]))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def _bars(axes: Axes, panel: Panel) -> dict[str, Any]:
    handles: dict[str, Any] = {}
    wide = 0.8 / max(1, len(panel.series))
    for place, series in enumerate(panel.series):
        number = place if series.colour is None else series.colour
        at = np.asarray(series.x, float) + (place - (len(panel.series) - 1) / 2) * wide
        colour = "#ffffff" if series.published else COLOURS[number % len(COLOURS)]
        own = PUBLISHED_COLOUR if series.colour is None else COLOURS[number % len(COLOURS)]
        edge = own if series.published else colour
        bars = axes.bar(
            at, series.y, wide * 0.92, color=colour, edgecolor=edge, hatch="///" if series.published else None
        )
        handles[series.name] = bars
        if series.low is not None and series.high is not None:
            y = np.asarray(series.y)
            reach = np.stack([y - np.asarray(series.low), np.asarray(series.high) - y]).clip(0)
            axes.errorbar(at, y, reach, fmt="none", ecolor=_INK, elinewidth=1, capsize=2.5, zorder=4)
    axes.set_xticks(range(len(panel.ticks)), [_math(tick) for tick in panel.ticks], fontsize=8)
    if panel.log_y:
        axes.set_yscale("log")
    return handles


def _draw_pictures(figure: Figure) -> Canvas:
    rows, columns = len(figure.pictures), max(len(row) for row in figure.pictures)
    shape = figure.pictures[0][0].shape
    width = 2.05 * columns + 0.3
    canvas = Canvas(figsize=(width, rows * (2.0 * shape[0] / shape[1] + 0.06) + 0.75), layout="constrained")
    grid = canvas.subplots(rows, columns, squeeze=False)
    for row, pictures in enumerate(figure.pictures):
        for column in range(columns):
            axes = grid[row, column]
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if column < len(pictures):
                axes.imshow(pictures[column], interpolation="nearest", aspect="auto")
            if row == 0:
                axes.set_title(_math(figure.column_names[column]), fontsize=8)
        grid[row, 0].set_ylabel(figure.row_names[row] if figure.row_names else "", fontsize=8)
    canvas.suptitle(_math(figure.title), fontsize=10, fontweight="bold", color=_INK)
    return canvas
