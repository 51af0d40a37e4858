"""A flight as one dictionary of numbers, ``metrics.json``: what cannot be computed is null, with reason beside it."""

from __future__ import annotations

import json
import math
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc import __version__
from uav_privacy_sc.evaluation import metrics
from uav_privacy_sc.evaluation.following import as_metrics, following
from uav_privacy_sc.evaluation.measures import EVE_CASES, GROUND_CASES, FlightMeasures
from uav_privacy_sc.evaluation.metrics import Missing, Score
from uav_privacy_sc.flight import COUNTS, STAGES, FlightLog, FrameLog

SCHEMA = 1
PICTURE_SCORES = ("ssim", "psnr_db", "ssim_sensitive", "psnr_sensitive_db")
#: Where epsilon is spent, from the weakest unit to the strongest (``ReleaseRecord.spent_*``); where places follow
#: tracks, there is ``track`` before the mission, too.
PRIVACY_UNITS = ("cell", "object", "frame", "mission")


@dataclass(frozen=True)
class SourceFacts:
    """What is to be remembered of the source: its kind, what its annotations held that was set aside, and notes."""

    kind: str = ""
    oddities: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def summarize(
    log: FlightLog,
    measures: FlightMeasures,
    source: SourceFacts | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the metrics of a flight as plain dictionaries, numbers, text and None.

    ``reasons`` maps the dotted path of each null metric to why it is null. Means are over the frames that
    have a value; ``frames_measured`` is how many were compared with their original. ``options`` are kept as the
    part of the configuration that :class:`FlightConfig` does not know.
    """
    source = source or SourceFacts()
    tree = {
        "schema": SCHEMA,
        "version": __version__,
        "source": {"name": log.source_name, "rate_hz": log.rate_hz, **asdict(source)},
        "configuration": {**_configuration(log), "options": dict(options or {})},
        "interrupted": log.interrupted,
        "frames": _frames(log),
        "fps": _fps(log),
        "wall_s": log.counts["wall_s"],
        "stage_ms": {stage: _percentiles(log.stage_ms.get(stage, [])) for stage in STAGES},
        "budgets": _budgets(log),
        "following": as_metrics(following(log, options)),
        "link": _link(log),
        "privacy": _privacy(log),
        "networks": _networks(log),
        "frames_measured": len(measures.frames),
        "ground": _ground(log, measures),
        "eavesdropper": _eavesdropper(measures),
    }
    reasons: dict[str, str] = {}
    return {**_plain(tree, (), reasons), "reasons": reasons}


def write_metrics(path: Path, summary: dict[str, Any]) -> None:
    """Write a summary as JSON; ``allow_nan=False`` makes a NaN that slipped through an error here, not downstream."""
    path.write_text(json.dumps(summary, indent=2, allow_nan=False) + "\n", encoding="utf-8")


def _plain(value: Any, path: tuple[str, ...], reasons: dict[str, str]) -> Any:
    """Turn what JSON does not know into what it does, noting at ``path`` why a metric is null."""
    if isinstance(value, Missing):
        reasons[".".join(path)] = value.reason
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(item, (*path, str(name)), reasons) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, (*path, str(place)), reasons) for place, item in enumerate(value)]
    if isinstance(value, (bool, str, int)) or value is None:
        return value
    if isinstance(value, np.generic):
        return _plain(value.item(), path, reasons)
    if isinstance(value, float):
        return value if math.isfinite(value) else _plain(Missing(f"the value is {value}"), path, reasons)
    return str(value)


def _configuration(log: FlightLog) -> dict[str, Any]:
    config = asdict(log.config)
    return {**config, "devices": log.devices, "python": platform.python_version(), "machine": platform.machine()}


def _frames(log: FlightLog) -> dict[str, Any]:
    counts = {name.removeprefix("frames_"): int(log.counts[name]) for name in COUNTS}
    return {**counts, "dropped": log.dropped}


def _fps(log: FlightLog) -> Score:
    wall_s = log.counts["wall_s"]
    return log.counts["frames_in"] / wall_s if wall_s > 0 and log.counts["frames_in"] else Missing("no frame was flown")


def _percentiles(milliseconds: list[float]) -> dict[str, Any]:
    if not milliseconds:
        missing = Missing("the stage never ran")
        return {"p50": missing, "p95": missing, "n": 0}
    p50, p95 = np.percentile(milliseconds, [50, 95])
    return {"p50": p50, "p95": p95, "n": len(milliseconds)}


def _mean(frames: list[FrameLog], attribute: str, reason: str) -> Score:
    return _mean_values([getattr(frame, attribute) for frame in frames], reason)


def _mean_values(values: list[float | None], reason: str) -> Score:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(np.mean(known)) if known else Missing(reason)


def _budgets(log: FlightLog) -> dict[str, Any]:
    used = [frame.budgets for frame in log.frames if frame.budgets is not None]
    means: dict[str, Any] = {
        f"{name}_mean": _mean_values([getattr(budget, name) for budget in used], "the budget server chose nothing")
        for name in ("epsilon_v", "epsilon_l", "p_tx")
    }
    statuses = [frame.status for frame in log.frames if frame.status is not None]
    means["utility_mean"] = _mean(log.frames, "utility", "the budget server chose nothing")
    return {**means, "status": {name: statuses.count(name) for name in sorted(set(statuses))}}


def _link(log: FlightLog) -> dict[str, Any]:
    """Mean SNR and gain, each a mean of decibels over frames (a mean of powers would hide the deep fades)."""
    nothing = "nothing was transmitted"
    sent = [(frame.payload, frame.budgets) for frame in log.frames if frame.payload is not None]
    payloads = [payload for payload, _ in sent]
    energies = [budgets.p_tx * payload.airtime_s for payload, budgets in sent if budgets is not None]
    return {
        "ground_snr_db_mean": _mean(log.frames, "ground_snr_db", nothing),
        "eve_snr_db_mean": _mean(log.frames, "eve_snr_db", nothing),
        "gain_db_mean": _mean(log.frames, "gain_db", nothing),
        "distance_m_mean": _mean(log.frames, "distance_m", nothing),
        "payload_bits_mean": _mean_values([payload.bits for payload in payloads], nothing),
        "feature_bits_mean": _mean_values([payload.feature_bits for payload in payloads], nothing),
        "object_bits_mean": _mean_values([payload.object_bits for payload in payloads], nothing),
        "feature_symbols_mean": _mean_values([payload.feature_symbols for payload in payloads], nothing),
        "airtime_ms_mean": _mean_values([1e3 * payload.airtime_s for payload in payloads], nothing),
        "transmit_energy_j": float(sum(energies)) if energies else Missing(nothing),
    }


#: Options of protection as the record has them.
_OPTIONS = ("lattice_step", "location_mode", "score_hidden", "order_shuffled", "paced")
#: Budgets of a descriptor, the most that any frame paid, for an empty frame pays nothing; 0 sends that part in clear.
_DESCRIPTORS = ("label_epsilon", "size_epsilon", "count_epsilon")


def last_record(log: FlightLog) -> Any:
    """Return the record of the last release, or None: its ``spent_*`` are the totals of the flight."""
    return next((frame.record for frame in reversed(log.frames) if frame.record is not None), None)


def _privacy(log: FlightLog) -> dict[str, Any]:
    record = last_record(log)
    if record is None:
        nothing = Missing("nothing was released")
        return {"spent": {unit: {"epsilon": nothing, "delta": nothing} for unit in PRIVACY_UNITS}, "seeded": None}
    spent = {
        unit: {"epsilon": _spent(getattr(record, f"spent_{unit}_epsilon")), "delta": record.spent_mission_delta}
        for unit in (PRIVACY_UNITS if record.spent_track_epsilon == 0.0 else (*PRIVACY_UNITS[:-1], "track", "mission"))
    }
    names = ("mechanism", "calibration", "map_rule", "map_source", "location_branch", "seeded", "c_clip", *_OPTIONS)
    records = [frame.record for frame in log.frames if frame.record is not None]
    paid = {name: max(getattr(one, name) for one in records) for name in _DESCRIPTORS}
    return {"spent": spent, **{name: getattr(record, name) for name in names}, **paid}


def _networks(log: FlightLog) -> dict[str, Any]:
    """Return the checksums of the networks that perceived, as the last record has them."""
    record = last_record(log)
    missing = Missing("nothing was released" if record is None else "perception did not say")
    return {name: getattr(record, name, "") or missing for name in ("detector_sha256", "codec_sha256")}


def _spent(epsilon: float) -> Score:
    return epsilon if math.isfinite(epsilon) else Missing("unbounded: nothing protects this unit")


def _ground(log: FlightLog, measures: FlightMeasures) -> dict[str, Any]:
    """Return how right the ground's mask is, and how much of that the features contributed beyond descriptors."""
    cases: dict[str, Any] = {
        case: {
            "category_accuracy": measures.ground(case, metrics.category_accuracy),
            "object_accuracy": measures.ground(case, metrics.object_accuracy),
            "mean_iou": measures.ground(case, metrics.mean_iou)
            if measures.labelled == "masks"
            else Missing("needs class masks of every pixel; this source has none"),
        }
        for case in GROUND_CASES
    }
    errors = [frame.location_error for frame in measures.frames]
    return {
        "category_accuracy": cases["received"]["category_accuracy"],
        "accuracy_over": {"masks": "all pixels", "boxes": "pixels inside annotated boxes"}.get(measures.labelled),
        **cases,
        "from_features": _difference(
            cases["received"]["category_accuracy"], cases["descriptors_only"]["category_accuracy"]
        ),
        "location_error": _mean_values(errors, "no frame whose received objects pair with the detected ones"),
        "features_lost": sum(frame.ground_heard is False for frame in log.frames),
        "objects_lost": sum(frame.record is not None and frame.ground_objects is None for frame in log.frames),
    }


def _difference(first: Score, second: Score) -> Score:
    for score in (first, second):
        if isinstance(score, Missing):
            return score
    return first - second  # type: ignore[operator]


def _eavesdropper(measures: FlightMeasures) -> dict[str, Any]:
    cases: dict[str, Any] = {
        case: {score: measures.picture_mean(case, score) for score in PICTURE_SCORES} for case in EVE_CASES
    }
    return {**cases, "sensitive_boxes_from": measures.sensitive_from}
