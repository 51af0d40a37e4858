"""Tables and figures of the baseline protocol, and the table that says when to pick which."""

from __future__ import annotations

from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.result_tables import ResultTable, plain, reasons, with_interval
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.evaluation.statistics import Estimate, estimate

UNIFORM = "features, uniform ε_v 1"
_COLUMNS = (
    ("channel uses", "channel_uses", 0, 1.0),
    ("kbit", "bits", 1, 1e-3),
    ("arrives", "arrives", 2, 1.0),
    ("accuracy", "category_accuracy", 3, 1.0),
    ("… objects", "object_accuracy", 3, 1.0),
    ("SSIM", "ssim", 3, 1.0),
    ("SSIM, people", "ssim_sensitive", 3, 1.0),
    ("PSNR people (dB)", "psnr_sensitive", 2, 1.0),
    ("people found", "people_found", 3, 1.0),
    ("people not hidden", "exposed", 3, 1.0),
)


def tables(results: Results, setting: Setting) -> list[ResultTable]:
    """Return the comparison, and when to pick which."""
    return [_comparison(results, setting), _choice(results)]


def _comparison(results: Results, setting: Setting) -> ResultTable:
    rows, missing = [], []
    for method in results.distinct("mechanism"):
        cells = []
        for _, metric, digits, unit in _COLUMNS:
            found = estimate(
                (value * unit for value in results.values(metric, method).values()), results.reason(metric, method)
            )
            if "features" not in method or metric != "exposed":
                missing.append((metric, found))
            cells.append(with_interval(found, digits))
        rows.append((method, *cells))
    notes = (
        setting.preset.about,
        "All have the complex symbols of the analog features, at the same power and fade; a JPEG has the bits that the "
        "block's capacity carries in them, and is not sent where none is so small. Accuracy: the ground's mask, from "
        "the picture it received or from features and descriptors. People found: recall (IoU 0.5) of the shipped "
        "detector in what the eavesdropper has. People not hidden: those the detector on board missed.",
        *reasons(missing),
    )
    heads = ("what is sent", *(name for name, *_ in _COLUMNS))
    return ResultTable("baseline", "Hidden people and JPEG against protected features", heads, rows, notes)


def _choice(results: Results) -> ResultTable:
    def mean(metric: str, method: str) -> str:
        found = estimate(results.values(metric, method).values())
        return plain(found.mean if isinstance(found, Estimate) else None, 2)

    def row(want: str, pick: str, method: str, but: str) -> tuple[str, ...]:
        figures = (mean("category_accuracy", method), mean("ssim_sensitive", method), mean("people_found", method))
        return (want, pick, *figures, but)

    def its_cost() -> str:
        """What remains to be said of the guarantee: what it costs on the ground, as measured."""
        bare, kept = mean("category_accuracy", "features, no protection"), mean("category_accuracy", UNIFORM)
        return f"the ground's accuracy is {kept}, without protection {bare}"

    rows = [
        row(
            "pictures to look at, trusted listeners only",
            "encrypt a JPEG",
            "JPEG, nothing hidden",
            "who breaks the cipher has everything",
        ),
        row(
            "pictures to look at, faces of no use, misses tolerated",
            "black out, then JPEG",
            "JPEG, people blacked out",
            "no guarantee: who the detector missed stays visible, and places are exact",
        ),
        row(
            "a map of what is where, and a guarantee for each cell",
            "region-aware, κ_bg 300",
            "features, region-aware ε_v 1, κ_bg 300",
            "ε is 0.3 inside the boxes of people that were found, up to 300 outside",
        ),
        row(
            "a guarantee whatever the detector missed",
            "uniform ε_v 1",
            UNIFORM,
            its_cost(),
        ),
    ]
    heads = ("who wants", "picks", "accuracy", "SSIM, people", "people found", "but")
    return ResultTable("baseline-choice", "When to pick which", heads, rows, words=2)


def figures(results: Results, setting: Setting) -> list[Figure]:
    """Return the ground's accuracy over what the eavesdropper has of people, one point a way of sending."""
    panels = []
    for metric, label in (("ssim_sensitive", "SSIM around people"), ("people_found", "people a detector finds")):
        series = []
        for number, method in enumerate(results.distinct("mechanism")):
            x = estimate(results.values(metric, method).values())
            y = estimate(results.values("category_accuracy", method).values())
            if isinstance(x, Estimate) and isinstance(y, Estimate):
                series.append(Series(method, [x.mean], [y.mean], colour=number))
        if series:
            panels.append(Panel("", f"eavesdropper: {label}", "ground: category accuracy", series))
    return [Figure("baseline", "Hidden people and JPEG against protected features", panels)] if panels else []
