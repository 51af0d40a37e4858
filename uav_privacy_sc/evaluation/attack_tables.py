"""Tables and figures of the attackers' protocol."""

from __future__ import annotations

from typing import Any

from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.result_tables import Cell, ResultTable, reasons, with_interval, with_tests
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate, paired

PICTURE_ATTACKERS = ("inverter", "inverter, adaptive", "gradient", "gradient_adaptive")
MODES = (("none", None), ("uniform", 20.0), ("uniform", 10.0), ("region_aware", 20.0), ("region_aware", 10.0))
#: What an attacker makes of nothing, and of a message about something else: what exceeds them was learnt.
CONTROLS = (("silence", None), ("another picture", None))
_METRICS = (("ssim", 4), ("psnr_sensitive", 2))
_BOUNDS = {"ssim": (-0.05, 1.0), "psnr_sensitive": (0.0, 40.0)}


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return P1's Table 3 beside ours, its paired tests, and what the other attackers learn."""
    return [
        _table3(results, setting),
        _tests(results, setting),
        _places(results, setting),
        _maps(results),
        _hits(results),
    ]


def _known(results: Results) -> list[str]:
    """Return the picture attackers that were measured, the known ones first."""
    found = [name for name in results.distinct("attacker", metric="ssim")]
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
                if (mechanism, epsilon) in CONTROLS and isinstance(found, Missing):
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
        "independent runs. Direct interception, no channel noise. Silence: the features are all zero. "
        "Another picture: the features are those of the next sample. Only what exceeds both was learnt.",
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
    for condition in ("map of detections", "map of released"):
        for attacker in results.distinct("attacker", metric="auc"):
            key = {"epsilon_v": 1.0, "attacker": attacker, "condition": condition}
            found = estimate(
                results.values("auc", "region_aware", **key).values(), results.reason("auc", "region_aware", **key)
            )
            missing.append((attacker, found))
            rows.append((condition, attacker, with_interval(found)))
    heads = ("budget map", "attacker", "ROC AUC of sensitive cells")
    notes = ("ε_v = 1; 0.5 is guessing. map_released uses the descriptors alone: the floor.", *reasons(missing))
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
        "Class frequencies are VisDrone's (training part). Blind: always the most frequent class, having heard "
        "nothing; of the number nothing is public, so nobody guesses it blindly.",
        *reasons(missing),
    )
    return ResultTable("attackers-descriptors", "Attackers on class and number", heads, rows, notes, words=3)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return Table 3 as bars, errors of places over frames, and the map attackers."""
    return [_bars(results), _tracks(results, setting), _aucs(results)]


def _bars(results: Results) -> Figure:
    panels = []
    order = {"inverter": 0, "gradient": 1} | {name: number for number, name in enumerate(_known(results))}
    labels = {"ssim": "attack SSIM, whole picture", "psnr_sensitive": "attack PSNR, people (dB)"}
    for metric, label in labels.items():
        series = []
        for number, attacker in enumerate(_known(results)):
            found = [estimate(results.values(metric, m, epsilon, attacker=attacker).values()) for m, epsilon in MODES]
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
        ticks = [f"{m.replace('_aware', '')}\n{'' if e is None else f'ε {e:g}'}" for m, e in MODES]
        panels.append(Panel("", "", label, series, "bars", ticks, bounds=_BOUNDS[metric]))
    return Figure("attackers", "Attackers on pictures (P1 Table 3)", panels)


def _tracks(results: Results, setting: Setting) -> Figure:
    panels = []
    for branch, title in (("grid", "grid"), ("planar_laplace", "planar Laplace")):
        series = []
        names = ("released", "location_ml", "location_bayes", "location_bayes, street map", "location_track")
        for number, attacker in enumerate((*names, "location_track, street map")):
            x, items = [], []
            for frames in setting.preset.track_frames:
                values = results.values("location_error", branch, condition=f"{frames} frames", attacker=attacker)
                item = estimate(values.values())
                if isinstance(item, Estimate):
                    x.append(float(frames))
                    items.append(item)
            if items:
                ends = [item.low for item in items], [item.high for item in items]
                series.append(Series(attacker, x, [item.mean for item in items], *ends, colour=number))
        if series:
            y_label = "error (image sides)"
            panels.append(
                Panel(title, "frames heard of an object that stands still", y_label, series, log_x=True, log_y=True)
            )
    return Figure("attackers-location", "Averaging over time: what independent releases of a place give away", panels)


def _aucs(results: Results) -> Figure:
    series, conditions = [], ("map of detections", "map of released")
    for number, attacker in enumerate(results.distinct("attacker", metric="auc")):
        found = [
            estimate(results.values("auc", "region_aware", 1.0, attacker=attacker, condition=each).values())
            for each in conditions
        ]
        known = [(place, item) for place, item in enumerate(found) if isinstance(item, Estimate)]
        ours = [item for _, item in known]
        ends = [item.low for item in ours], [item.high for item in ours]
        series.append(Series(attacker, [p for p, _ in known], [i.mean for i in ours], *ends, colour=number))
    ticks = ("map of detections\n(P1)", "map of released\n(hardened)")
    panel = Panel("", "", "ROC AUC of sensitive cells", series, "bars", ticks, flat=(("guessing", 0.5),), y_from=0.0)
    return Figure("attackers-map", "What the strength of the noise tells about people", [panel], columns=1)
