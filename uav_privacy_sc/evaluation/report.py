"""One self-contained page about a flight: what left the aircraft, what each party made of it, and what it cost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined

from uav_privacy_sc.evaluation import headline, pictures
from uav_privacy_sc.evaluation.charts import flight_charts
from uav_privacy_sc.evaluation.following import following
from uav_privacy_sc.evaluation.headline import Summary, number
from uav_privacy_sc.evaluation.measures import FlightMeasures, FrameMeasures, frames_to_show
from uav_privacy_sc.evaluation.metrics import Missing, Score
from uav_privacy_sc.evaluation.tables import flight_tables, setting_rows
from uav_privacy_sc.flight import FlightLog, FrameLog

SHOWN_FRAMES = 5
#: The colour scale of budgets covers at least this ratio, so that equal budgets are not drawn at an end of it.
_LEAST_SPAN = 1.25


@dataclass(frozen=True)
class Panel:
    """One picture of a frame, or the reason why there is none. ``cells``: enlarge without smoothing."""

    title: str
    uri: str = ""
    note: str = ""
    reason: str = ""
    cells: bool = False


def write_report(path: Path, log: FlightLog, measures: FlightMeasures, summary: Summary) -> None:
    """Write the page about a flight to ``path``: one file, no network, under a few megabytes."""
    path.write_text(render_report(log, measures, summary), encoding="utf-8")


def render_report(log: FlightLog, measures: FlightMeasures, summary: Summary) -> str:
    """Return the page as text."""
    shown = frames_to_show(log, SHOWN_FRAMES)
    low, high = _budget_range(shown)
    by_index = {frame.index: frame for frame in measures.frames}
    environment = Environment(
        loader=PackageLoader("uav_privacy_sc.evaluation"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("report.html.j2").render(
        summary=summary,
        badges=_badges(summary),
        headline=_headline(log, summary),
        cards=_cards(summary),
        shown=[_shown(frame, by_index.get(frame.index), measures, low, high) for frame in shown],
        legend=pictures.class_legend(_classes(shown)),
        scale={"gradient": pictures.heat_gradient(), "ticks": _ticks(low, high)} if low > 0 else None,
        charts=flight_charts(log, measures, following(log, summary["configuration"]["options"])),
        tables=flight_tables(summary),
        unprotected=_unprotected(summary),
        setting=setting_rows(summary),
    )


def _headline(log: FlightLog, summary: Summary) -> list[str]:
    sent = [frame for frame in log.frames if frame.record is not None]
    shapes = [frame.raw_features.shape for frame in sent if frame.raw_features is not None]
    objects = float(np.mean([frame.record.objects for frame in sent if frame.record])) if sent else None
    return [
        headline.left_the_aircraft(summary, shapes[0] if shapes else None, objects),
        headline.eavesdropper_learned(summary),
        headline.what_it_cost(summary),
    ]


def _badges(summary: Summary) -> list[dict[str, Any]]:
    configuration, privacy = summary["configuration"], summary["privacy"]
    badges = [
        (f"scenario {configuration['scenario']}", False),
        (f"profile {configuration['profile']}", False),
        (f"{summary['frames']['in']} frames", False),
        ("two DDS domains" if configuration["isolate"] else "one DDS domain", not configuration["isolate"]),
    ]
    if privacy["seeded"]:
        badges.append(("seeded noise: an experiment, not private", True))
    if summary["interrupted"]:
        badges.append((f"interrupted after {summary['frames']['in']} frames", True))
    return [{"text": text, "alert": alert} for text, alert in badges]


def _cards(summary: Summary) -> list[dict[str, str]]:
    eve, ground, frames = summary["eavesdropper"], summary["ground"], summary["frames"]
    spent = summary["privacy"]["spent"]
    protected, bare = eve["with_protection"], eve["without_protection"]
    rows = (
        ("Eavesdropper's SSIM", number(protected["ssim"]), f"{number(bare['ssim'])} without protection"),
        (
            "… around people",
            number(protected["ssim_sensitive"]),
            f"{number(bare['ssim_sensitive'])} without protection",
        ),
        (
            "Right classes at the ground",
            _percent(ground["category_accuracy"]),
            f"{_percent(ground['without_protection']['category_accuracy'])} without protection",
        ),
        (
            "ε spent, mission",
            number(spent["mission"]["epsilon"], 1),
            f"ε {number(spent['cell']['epsilon'])} for a cell",
        ),
        ("Frames decoded", f"{frames['decoded']} of {frames['in']}", f"{sum(frames['dropped'].values())} dropped"),
        ("Frames a second", number(summary["fps"], 1), f"{number(summary['wall_s'], 1)} s in all"),
    )
    return [{"name": name, "value": value, "note": note} for name, value, note in rows]


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{share:.0%}"


def _budget_range(frames: list[FrameLog]) -> tuple[float, float]:
    """Return the smallest and largest epsilon of the maps to be shown, so that one colour scale serves all."""
    values = [frame.epsilon_map for frame in frames if frame.epsilon_map is not None]
    finite = np.concatenate([value[np.isfinite(value)].ravel() for value in values]) if values else np.zeros(0)
    if not finite.size:
        return 0.0, 0.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > _LEAST_SPAN * low else (low / _LEAST_SPAN, high * _LEAST_SPAN)


def _ticks(low: float, high: float) -> list[str]:
    return [f"{value:.3g}" for value in np.geomspace(low, high, 4)]


def _classes(frames: list[FrameLog]) -> set[int]:
    masks = [mask for frame in frames for mask in (frame.ground_mask, frame.truth_mask) if mask is not None]
    return {int(value) for mask in masks for value in np.unique(mask)}


def _shown(
    frame: FrameLog, measured: FrameMeasures | None, measures: FlightMeasures, low: float, high: float
) -> dict[str, Any]:
    return {
        "index": frame.index,
        "shape": _shape(frame),
        "facts": _facts(frame, measured),
        "panels": [
            _original(frame),
            _unprotected_picture(frame, measured, measures),
            _protected_picture(frame, measured),
            _budget_map(frame, low, high),
            _ground(frame, measured),
            _truth(frame),
        ],
    }


def _shape(frame: FrameLog) -> str:
    """Return the picture's aspect ratio for CSS: the grid covers exactly the picture, so every panel has it."""
    assert frame.image is not None
    return f"{frame.image.shape[1]} / {frame.image.shape[0]}"


def _facts(frame: FrameLog, measured: FrameMeasures | None) -> list[str]:
    facts = [] if measured is None else [f"{measured.time_s:.1f} s"]
    if frame.budgets is not None:
        budgets = frame.budgets
        facts += [f"ε_v {budgets.epsilon_v:.2f}", f"ε_l {budgets.epsilon_l:.2f}", f"p_tx {budgets.p_tx:.2f} W"]
    if frame.ground_snr_db is not None and frame.eve_snr_db is not None:
        facts.append(f"SNR {frame.ground_snr_db:.1f} dB at the ground, {frame.eve_snr_db:.1f} dB at the eavesdropper")
    return facts if frame.dropped is None else [*facts, f"dropped: {frame.dropped}"]


def _original(frame: FrameLog) -> Panel:
    assert frame.image is not None
    objects = frame.percept_objects
    found = "" if objects is None else f"; {len(objects)} objects detected"
    if found and frame.truth_objects is not None:
        found += f", {len(frame.truth_objects)} annotated"
    return Panel(
        "The camera's picture", pictures.data_uri(pictures.boxed(frame.image, objects)), "stays on board" + found
    )


def _unprotected_picture(frame: FrameLog, measured: FrameMeasures | None, measures: FlightMeasures) -> Panel:
    title = "Eavesdropper, without protection"
    picture = measures.unprotected.get(frame.index)
    if picture is None:
        return Panel(title, reason="not measured for this frame")
    return Panel(title, pictures.data_uri(picture), _scores(measured, "without_protection"))


def _protected_picture(frame: FrameLog, measured: FrameMeasures | None) -> Panel:
    title = "Eavesdropper, with protection"
    if frame.eve_reconstruction is None:
        return Panel(title, reason=frame.dropped or "the eavesdropper made no picture")
    return Panel(title, pictures.data_uri(frame.eve_reconstruction), _scores(measured, "with_protection"))


def _scores(measured: FrameMeasures | None, case: str) -> str:
    if measured is None or case not in measured.pictures:
        return ""
    scores = measured.pictures[case]
    text = f"SSIM {_score(scores.ssim)}, PSNR {_score(scores.psnr_db, 1)} dB"
    people = (
        "" if isinstance(scores.ssim_sensitive, Missing) else f"; around people SSIM {_score(scores.ssim_sensitive)}"
    )
    return text + people


def _score(score: Score, digits: int = 2) -> str:
    return number(None if isinstance(score, Missing) else score, digits)


def _budget_map(frame: FrameLog, low: float, high: float) -> Panel:
    title = "Privacy budget of each cell"
    if frame.epsilon_map is None:
        return Panel(title, reason=frame.dropped or "no budget was spent")
    rows, columns = frame.epsilon_map.shape
    finite = np.nan_to_num(frame.epsilon_map, posinf=high)
    uri = pictures.data_uri(pictures.heat_picture(finite, low, high), lossless=True)
    return Panel(title, uri, f"{rows} x {columns} cells, ε {finite.min():.2f} to {finite.max():.2f}", cells=True)


def _ground(frame: FrameLog, measured: FrameMeasures | None) -> Panel:
    title = "What the ground sees"
    if frame.ground_mask is None:
        return Panel(title, reason=frame.dropped or "nothing was decoded")
    objects = frame.ground_objects
    told = "object packet lost" if objects is None else f"{len(objects)} objects at displaced positions"
    right = measured.accuracy.get("received") if measured else None
    share = "" if right is None or isinstance(right, Missing) else f"; {right:.0%} of classes right"
    uri = pictures.data_uri(pictures.class_picture(frame.ground_mask, objects), lossless=True)
    return Panel(title, uri, told + share, cells=True)


def _truth(frame: FrameLog) -> Panel:
    if frame.truth_mask is not None:
        uri = pictures.data_uri(pictures.class_picture(frame.truth_mask), lossless=True)
        return Panel("True classes", uri, "for comparison only")
    if frame.truth_objects is not None and frame.image is not None:
        uri = pictures.data_uri(pictures.boxed(frame.image, frame.truth_objects))
        return Panel("Annotated objects", uri, f"{len(frame.truth_objects)} boxes, for comparison only")
    return Panel("True classes", reason="this source has no annotations")


def _unprotected(summary: Summary) -> list[str]:
    """Return what a reader must not take for protected, as this flight was configured."""
    privacy = summary["privacy"]
    notes = [
        "The class and the box size of every object, and how many there are, go out as they are: "
        "no ε above covers them.",
        "ε of a cell is about one cell of one frame. An object covers many cells and stays for many frames; "
        "what that adds up to is the ε of object, frame and mission.",
        "ε of object and mission count the objects that were detected. One that the detector missed is covered by ε of "
        "the frame only.",
        "That something is transmitted, when and how often, is visible to anyone who listens.",
        "Nothing here is encrypted. The eavesdropper hears over its own channel what the ground hears over its; "
        "only the noise stands between it and the picture.",
    ]
    if privacy.get("map_source") == "detections":
        notes.append(
            "The budget map follows the detections, as in the paper, so the strength of the noise shows where people "
            "are. The hardened profile builds the map from the released locations instead."
        )
    if privacy.get("mechanism") == "none":
        notes.append("The visual mechanism is 'none': features left without any noise.")
    if privacy["seeded"]:
        notes.append(
            "The noise came from a seed, so that the run can be repeated; whoever knows the seed can remove it."
        )
    return notes
