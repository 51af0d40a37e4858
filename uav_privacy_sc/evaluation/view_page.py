"""What each party of a recorded flight saw, as one page to leaf through: no desktop and no network needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from uav_privacy_sc import __version__
from uav_privacy_sc.data.flight_bag import Badge, SeenFrame
from uav_privacy_sc.evaluation import pictures
from uav_privacy_sc.evaluation.charts import AMBER, BLUE, GREEN, GREY, RED, Chart, Curve, draw

_LOST = "nothing was received"


@dataclass(frozen=True)
class ShownFrame:
    """A frame on the page: two pictures as data URIs (empty where there is none) and what to say of them."""

    index: int
    time_s: float
    ground: str
    ground_note: str
    eve: str
    eve_note: str
    facts: list[str]


@dataclass
class FlightView:
    """Collects a recorded flight: a row of numbers for every frame, pictures of the chosen ones.

    Attributes:
        rows: every frame, without its pictures.
        shown: the frames on the page.
        classes: of the masks on the page, for the legend.
    """

    rows: list[SeenFrame] = field(default_factory=list)
    shown: list[ShownFrame] = field(default_factory=list)
    classes: set[int] = field(default_factory=set)
    shape: str = "16 / 9"

    def add(self, frame: SeenFrame, show: bool) -> None:
        """Take in a frame; with ``show`` it comes on the page."""
        if show:
            self.shown.append(self._show(frame))
        self.rows.append(SeenFrame(frame.stamp_ns, record=frame.record, sent=frame.sent))

    def times_s(self) -> np.ndarray:
        """Return the time of each frame since the first."""
        stamps = np.array([row.stamp_ns for row in self.rows], np.int64)
        return (stamps - stamps.min(initial=stamps[0] if len(stamps) else 0)) / 1e9

    def curve(self, name: str, read: str, colour: str, dashed: bool = False) -> Curve:
        """Return a number of the records over time: ``record.x`` or ``sent.x``; NaN where a frame has none."""
        holder, field_name = read.split(".")
        found = [
            getattr(row.record, field_name, None) if holder == "record" else row.sent_value(field_name)
            for row in self.rows
        ]
        values = np.array([np.nan if value is None else value for value in found], np.float64)
        return Curve(name, self.times_s(), values, colour, dashed)

    def _show(self, frame: SeenFrame) -> ShownFrame:
        first_ns = self.rows[0].stamp_ns if self.rows else frame.stamp_ns
        ground = eve = ""
        if frame.mask is not None:
            self.classes |= {int(value) for value in np.unique(frame.mask)}
            self.shape = f"{frame.mask.shape[1]} / {frame.mask.shape[0]}"
            ground = pictures.data_uri(pictures.class_picture(frame.mask, frame.objects), lossless=True)
        if frame.picture is not None:
            eve = pictures.data_uri(frame.picture)
        time_s = (frame.stamp_ns - first_ns) / 1e9
        notes = (ground_note(frame), eve_note(frame))
        return ShownFrame(len(self.rows), time_s, ground, notes[0], eve, notes[1], facts(frame))


def ground_note(frame: SeenFrame) -> str:
    """Say what the ground had to go by."""
    if frame.mask is None:
        return _LOST
    told = f"{len(frame.objects)} objects, where they were released" if frame.objects is not None else "no objects"
    told = "object packet lost" if frame.objects_lost else told
    return f"{told}; feature packet lost" if frame.features_lost else told


def eve_note(frame: SeenFrame) -> str:
    """Say what the eavesdropper's picture is."""
    return _LOST if frame.picture is None else "the picture that it draws from what it overheard"


def facts(frame: SeenFrame) -> list[str]:
    """Return what a frame cost and met, as far as the bag tells."""
    said = []
    if frame.record is not None:
        record = frame.record
        said += [f"ε_v {record.epsilon_v:.2f}", f"ε_l {record.epsilon_l:.2f}", f"p_tx {record.p_tx:.2f} W"]
        said.append(f"mission ε {record.spent_mission_epsilon:.1f}")
    gain_db = frame.sent_value("gain_db")
    return said if gain_db is None else [*said, f"gain {gain_db:.1f} dB"]


def view_charts(view: FlightView) -> list[Chart]:
    """Return budgets, power, cost and channel over the flight; those alone of which the bag knows something."""
    charts = (
        (
            "Privacy budgets",
            "epsilon",
            "smaller is more private",
            [view.curve("ε_v", "record.epsilon_v", BLUE), view.curve("ε_l", "record.epsilon_l", AMBER)],
        ),
        ("Transmit power", "W", "chosen with the budgets", [view.curve("p_tx", "record.p_tx", RED)]),
        (
            "Privacy spent so far",
            "epsilon",
            "of one object in all frames; stays with the owner of the flight",
            [view.curve("mission", "record.spent_mission_epsilon", RED)],
        ),
        ("Gain to the ground", "dB", "what the controller steers by", [view.curve("gain", "sent.gain_db", GREEN)]),
        ("Distance to the ground", "m", "slant range", [view.curve("distance", "sent.distance_m", GREY)]),
    )
    drawn = [Chart(title, note, draw(curves, unit, title)) for title, unit, note, curves in charts]
    return [chart for chart in drawn if chart.svg]


def write_view(path: Path, view: FlightView, name: str, badge: Badge, about: Sequence[tuple[str, str]]) -> None:
    """Write the page to ``path``: one file.

    Args:
        path: of the page.
        view: the flight.
        name: what the page calls it.
        badge: whether it was protected.
        about: further rows of name and value.
    """
    environment = Environment(
        loader=PackageLoader("uav_privacy_sc.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    frames: list[dict[str, Any]] = [vars(frame) for frame in view.shown]
    page = environment.get_template("view.html.j2").render(
        version=__version__,
        name=name,
        badge=badge,
        frames=frames,
        total=len(view.rows),
        shape=view.shape,
        legend=pictures.class_legend(view.classes),
        charts=view_charts(view),
        about=about,
    )
    path.write_text(page, encoding="utf-8")
