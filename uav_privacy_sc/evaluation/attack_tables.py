"""Tables and figures of the attackers' protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from uav_privacy_sc.attack.averaging import worth as epsilon_of
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.result_tables import Cell, ResultTable, reasons, with_interval, with_tests
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate, paired

PICTURE_ATTACKERS = ("inverter", "inverter_adaptive", "gradient", "gradient_adaptive")
#: What the map attackers are run on: mechanism, and what the budget map is made of.
MAPS = {
    "map of detections": ("region_aware", "detections"),
    "map of released": ("region_aware", "released"),
    "no map": ("uniform", "released"),
}
_MAP_TITLES = ("map of detections (paper profile)", "map of released objects (hardened)", "uniform noise (control)")
#: False alarm rates at which a ROC is kept.
FALSE_ALARMS = (0.0, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: What is drawn over the number of frames: metric, label, bounds, and the attackers by kind.
_HOVERING = (
    ("ssim", "attack SSIM", ("inverter", "inverter_average", "inverter_adaptive", "inverter_average_adaptive")),
    ("category_accuracy", "accuracy of the eavesdropper's mask", ("decoder", "decoder, mean")),
)
MODES = (("none", None), ("uniform", 20.0), ("uniform", 10.0), ("region_aware", 20.0), ("region_aware", 10.0))
#: What an attacker makes of nothing, and of a message about something else.
CONTROLS = (
    ("silence", None),
    ("flat picture", None),
    *(("noise alone", epsilon) for epsilon in (20.0, 10.0, 1.0)),
    ("another picture", None),
)
DELTA = 1e-5
_METRICS = (("ssim", 4), ("psnr_sensitive", 2))
_BOUNDS = {"ssim": (-0.05, 1.0), "psnr_sensitive": (0.0, 40.0)}


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return P1's Table 3 beside ours, its paired tests, and what the other attackers learn."""
    return [
        _table3(results, setting),
        _tests(results, setting),
        _frames(results, setting),
        _places(results, setting),
        _maps(results),
        _hits(results),
    ]


def _known(results: Results) -> list[str]:
    """Return the picture attackers that were measured, the known ones first."""
    found = [name for name in results.distinct("attacker", metric="ssim", condition="")]
    return [name for name in PICTURE_ATTACKERS if name in found] + [n for n in found if n not in PICTURE_ATTACKERS]


def _table3(results: Results, setting: Setting) -> ResultTable:
    rows, missing = [], []
    for mechanism, epsilon in (*MODES, ("uniform", 1.0), ("region_aware", 1.0), *CONTROLS):
        for attacker in _known(results):
            cells: list[str] = []
            for metric, digits in _METRICS:
                key: dict[str, Any] = {"epsilon_v": epsilon, "attacker": attacker}
                found = estimate(
                    results.values(metric, mechanism, **key).values(), results.reason(metric, mechanism, **key)
                )
                if (mechanism, epsilon) in CONTROLS and metric == "ssim" and isinstance(found, Missing):
                    break
                missing.append((f"{metric}, {attacker}", found))
                cells.append(with_interval(found, digits))
                theirs = published.find("Table 3", metric, mechanism, epsilon_v=epsilon, attacker=attacker)
                cells.append(published.text(theirs, digits))
            else:
                samples = len(results.values("ssim", mechanism, epsilon, attacker=attacker))
                rows.append(
                    (mechanism.replace("_", "-"), f"{epsilon:g}" if epsilon else "–", attacker, *cells, f"{samples}")
                )
    heads = ("mode", "ε_v", "attacker", "SSIM", "P1", "PSNR people (dB)", "P1", "n")
    notes = (
        setting.preset.about,
        "± are 95 % intervals over samples, seeds averaged within each; P1's are over 20 images x 5 seeds taken as 100 "
        "independent runs. No channel noise. Silence: the features are all zero. Flat picture: one "
        "colour, the mean of what silence gives. Noise alone: that of uniform at that ε_v, on features that are zero. "
        "Another picture: the features are those of the next sample. Where a picture does not exceed these, it is no "
        "evidence that anything was learnt. "
        "All pictures are compared at eight pixels a cell and side. gradient starts from a faint random picture, "
        "gradient_adaptive from the adaptive inverter's, which it keeps near to.",
    )
    title = "Attackers on pictures (P1 Table 3)"
    return ResultTable("attackers", title, heads, rows, (*notes, *reasons(missing)), words=3)


def _tests(results: Results, setting: Setting) -> ResultTable:
    rows: list[tuple[Cell, ...]] = []
    for epsilon in (20.0, 10.0, 1.0):
        for attacker in _known(results):
            cells = []
            for metric, digits in (("ssim", 4), ("ssim_sensitive", 4), ("psnr_sensitive", 2)):
                pair = (results.values(metric, m, epsilon, attacker=attacker) for m in ("region_aware", "uniform"))
                cells.append((paired(*pair), digits))
            rows.append((f"{epsilon:g}", attacker, *cells))
    heads = ("ε_v", "attacker", "SSIM", "SSIM, people", "PSNR people (dB)")
    title = "Region-aware less uniform at equal ε_v, by attacker (paired t-tests)"
    text, notes = with_tests(heads, rows)
    return ResultTable("attackers-paired", title, heads, text, (setting.preset.about, *notes), words=2)


def _frames(results: Results, setting: Setting) -> ResultTable:
    """Return what averaging over the frames of a hovering camera gives, frame for frame against the mean."""
    rows, missing = [], []
    for mechanism in ("uniform", "region_aware"):
        for number in setting.preset.track_frames:
            key: dict[str, Any] = {"epsilon_v": 1.0, "condition": f"{number} frames"}
            for attacker in results.distinct("attacker", mechanism=mechanism, condition=key["condition"]):
                found = []
                for metric in ("ssim", "ssim_sensitive", "category_accuracy", "object_accuracy"):
                    values = results.values(metric, mechanism, attacker=attacker, **key).values()
                    found.append(estimate(values, results.reason(metric, mechanism, attacker=attacker, **key)))
                missing += [(attacker, item) for item in found if not _elsewhere(item)]
                worth = f"{epsilon_of(1.0, DELTA, number):.3g}"
                rows.append((mechanism.replace("_", "-"), attacker, f"{number}", worth, *map(with_interval, found)))
    heads = ("mode", "attacker", "frames", "worth ε_v", "SSIM", "SSIM, people", "accuracy", "… objects")
    notes = (
        "ε_v = 1 in every frame. Camera and scene stand still, the worst case; noise is drawn anew in each frame. "
        "inverter, inverter_adaptive and decoder have the last frame alone, the others the mean of all. Worth: the ε_v "
        "of one frame that tells as much, by the analytic Gaussian at δ = 1e-5. Accuracy: of the mask that the "
        "ground's public decoder makes of features alone.",
        *reasons(missing),
    )
    return ResultTable("attackers-frames", "Averaging features over frames", heads, rows, notes, words=2)


def _elsewhere(found: Estimate | Missing) -> bool:
    """Return whether a metric is absent because it is none of the attacker's: a picture has no mask."""
    return isinstance(found, Missing) and found.reason == "not measured"


def _places(results: Results, setting: Setting) -> ResultTable:
    rows, missing = [], []
    for branch in ("grid", "planar_laplace"):
        for condition in results.distinct("condition", mechanism=branch):
            for attacker in results.distinct("attacker", mechanism=branch, condition=condition):
                if attacker:
                    key = {"condition": condition, "attacker": attacker}
                    values = results.values("location_error", branch, **key)
                    found = estimate(values.values(), results.reason("location_error", branch, **key))
                    missing.append((attacker, found))
                    rows.append((branch, condition, attacker, with_interval(found, 4), f"{len(values)}"))
    heads = ("mechanism", "heard", "attacker", "error (image sides)", "n")
    notes = (
        "ε_l = 1, objects that stand still. 'released' is what was sent, taken at its word. Street map: the road in "
        "the ground decoder's mask of the same frame's features at ε_v = 1, which an eavesdropper has.",
        *reasons(missing),
    )
    return ResultTable("attackers-location", "Attackers on places", heads, rows, notes, words=3)


def _maps(results: Results) -> ResultTable:
    rows, missing = [], []
    for condition, (mechanism, _) in MAPS.items():
        for attacker in results.distinct("attacker", metric="auc"):
            key = {"epsilon_v": 1.0, "attacker": attacker, "condition": condition}
            area = estimate(results.values("auc", mechanism, **key).values(), results.reason("auc", mechanism, **key))
            key["condition"] = f"{condition} at 0.05"
            hits = estimate(results.values("hits_at", mechanism, **key).values())
            missing.append((attacker, area))
            rows.append((condition, attacker, with_interval(area), with_interval(hits)))
    heads = ("budget map", "attacker", "ROC AUC of sensitive cells", "found at 5 % false alarms")
    notes = (
        "ε_v = 1; 0.5 is guessing. map_released uses the descriptors alone: the floor. No map: uniform noise, the "
        "control; what map_power has there are the features themselves.",
        *reasons(missing),
    )
    return ResultTable("attackers-map", "Attackers on where people are", heads, rows, notes, words=2)


def _hits(results: Results) -> ResultTable:
    rows, missing = [], []
    for mechanism in ("label descriptor", "count descriptor"):
        for condition in results.distinct("condition", mechanism=mechanism):
            blind = estimate(results.values("hit", mechanism, attacker="blind", condition=condition).values())
            for attacker in results.distinct("attacker", mechanism=mechanism):
                if attacker == "blind":
                    continue
                key = {"attacker": attacker, "condition": condition}
                values = results.values("hit", mechanism, **key)
                found = estimate(values.values(), results.reason("hit", mechanism, **key))
                missing.append((f"{attacker}, {condition}", found))
                rows.append((mechanism, condition, attacker, *map(with_interval, (found, blind)), f"{len(values)}"))
    heads = ("descriptor", "sent", "attacker", "share named right", "blind", "n")
    notes = (
        "Class frequencies are VisDrone's (validation part). Blind: always the most frequent class, having heard "
        "nothing; of the number nothing is public, so nobody guesses it blindly.",
        *reasons(missing),
    )
    return ResultTable("attackers-descriptors", "Attackers on class and number", heads, rows, notes, words=3)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return Table 3 as bars, what averaging gives over frames, errors of places, and the map attackers' ROC."""
    return [_bars(results), _averages(results, setting), _tracks(results, setting), _rocs(results), _aucs(results)]


def _over_frames(results: Results, setting: Setting, metric: str, mechanism: str, **key: Any) -> tuple[list, list]:
    """Return the numbers of frames at which something was measured, and the estimates there."""
    x, items = [], []
    for number in setting.preset.track_frames:
        item = estimate(results.values(metric, mechanism, condition=f"{number} frames", **key).values())
        if isinstance(item, Estimate):
            x.append(float(number))
            items.append(item)
    return x, items


def _line(name: str, x: list[float], items: list[Estimate], colour: int, **style: Any) -> Series:
    ends = [item.low for item in items], [item.high for item in items]
    return Series(name, x, [item.mean for item in items], *ends, colour=colour, **style)


def _averages(results: Results, setting: Setting) -> Figure:
    panels = []
    for mechanism in ("uniform", "region_aware"):
        for metric, label, names in _HOVERING:
            series = []
            for number, attacker in enumerate(names):
                x, items = _over_frames(results, setting, metric, mechanism, epsilon_v=1.0, attacker=attacker)
                if items:
                    alone = number % 2 == 0
                    name = f"{attacker}{' (last frame)' if alone else ''}"
                    series.append(_line(name, x, items, number + 4 * (metric != "ssim"), dashed=alone))
            title = f"{mechanism.replace('_', '-')}, ε_v 1"
            panels.append(Panel(title, "frames heard of a hovering camera", label, series, log_x=True))
    return Figure("attackers-frames", "Averaging features over frames: what independent noise does not hide", panels)


def _rocs(results: Results) -> Figure:
    panels = []
    for (condition, (mechanism, _)), title in zip(MAPS.items(), _MAP_TITLES, strict=True):
        series = []
        for number, attacker in enumerate(results.distinct("attacker", metric="auc")):
            key = {"epsilon_v": 1.0, "attacker": attacker}
            found = [
                (
                    rate,
                    estimate(
                        results.values("hits_at", mechanism, condition=f"{condition} at {rate:g}", **key).values()
                    ),
                )
                for rate in FALSE_ALARMS
            ]
            known = [(rate, item) for rate, item in found if isinstance(item, Estimate)]
            if known:
                series.append(_line(attacker, [rate for rate, _ in known], [item for _, item in known], number))
        guessing = Series("guessing", FALSE_ALARMS, FALSE_ALARMS, colour=7, dashed=True, marked=False)
        panel = Panel(title, "cells falsely taken", "sensitive cells found", series, bounds=(0.0, 1.02), y_from=0.0)
        panels.append(replace(panel, series=[*series, guessing] if series else []))
    return Figure("attackers-roc", "ROC of the map attackers, means over samples", panels, columns=3)


def _bars(results: Results) -> Figure:
    panels = []
    order = {"inverter": 0, "gradient": 1} | {name: number for number, name in enumerate(_known(results))}
    labels = {"ssim": "attack SSIM, whole picture", "psnr_sensitive": "attack PSNR, people (dB)"}
    shown = (*MODES, *CONTROLS)
    ticks = [f"{m.replace('_aware', '')}\n{'' if e is None else f'ε {e:g}'}" for m, e in MODES]
    ticks += [f"{name.removesuffix(' alone')}\nε {e:g}" if e else name.replace(" ", "\n") for name, e in CONTROLS]
    for metric, label in labels.items():
        series = []
        for number, attacker in enumerate(_known(results)):
            found = [estimate(results.values(metric, m, epsilon, attacker=attacker).values()) for m, epsilon in shown]
            known = [(place, item) for place, item in enumerate(found) if isinstance(item, Estimate)]
            ours = [item for _, item in known]
            ends = [item.low for item in ours], [item.high for item in ours]
            series.append(Series(attacker, [p for p, _ in known], [i.mean for i in ours], *ends, colour=number))
        for attacker in ("inverter", "gradient"):
            theirs = [published.find("Table 3", metric, m, epsilon_v=e, attacker=attacker) for m, e in MODES]
            given = [(place, item.value) for place, item in enumerate(theirs) if item is not None]
            series.append(
                Series(
                    f"P1, {attacker}",
                    [p for p, _ in given],
                    [v for _, v in given],
                    published=True,
                    colour=order[attacker],
                )
            )
        panels.append(Panel("", "", label, series, "bars", ticks, bounds=_BOUNDS[metric]))
    note = (
        "Right of P1's modes: what an attacker draws without the picture's features. Noise is that of the uniform mode."
    )
    return Figure("attackers", "Attackers on pictures (P1 Table 3)", panels, note, columns=1, stretch=1.9)


def _tracks(results: Results, setting: Setting) -> Figure:
    panels = []
    for branch, title in (("grid", "grid"), ("planar_laplace", "planar Laplace")):
        series = []
        names = ("released", "location_ml", "location_bayes", "location_bayes, street map", "location_track")
        for number, attacker in enumerate((*names, "location_track, street map")):
            x, items = _over_frames(results, setting, "location_error", branch, attacker=attacker)
            if items:
                series.append(_line(attacker, x, items, number))
        if series:
            y_label = "error (image sides)"
            panels.append(
                Panel(title, "frames heard of an object that stands still", y_label, series, log_x=True, log_y=True)
            )
    return Figure("attackers-location", "Averaging over time: what independent releases of a place give away", panels)


def _aucs(results: Results) -> Figure:
    series = []
    for number, attacker in enumerate(results.distinct("attacker", metric="auc")):
        found = [
            estimate(results.values("auc", mechanism, 1.0, attacker=attacker, condition=each).values())
            for each, (mechanism, _) in MAPS.items()
        ]
        known = [(place, item) for place, item in enumerate(found) if isinstance(item, Estimate)]
        series.append(_line(attacker, [place for place, _ in known], [item for _, item in known], number))
    ticks = ("map of detections\n(P1)", "map of released\n(hardened)", "uniform noise\n(control)")
    panel = Panel(
        "",
        "",
        "ROC AUC of sensitive cells",
        series,
        "bars",
        ticks,
        flat=(("guessing", 0.5),),
        bounds=(0.0, 1.02),
        y_from=0.0,
    )
    return Figure("attackers-map", "What the strength of the noise tells about people", [panel], columns=1)
