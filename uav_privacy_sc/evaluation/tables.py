"""The numbers of a summary as the tables of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from uav_privacy_sc.evaluation.headline import Summary, delta_text, number
from uav_privacy_sc.flight import STAGES


@dataclass(frozen=True)
class Table:
    """Rows of text below their heads; the first cell of a row names it."""

    title: str
    heads: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]


def flight_tables(summary: Summary) -> list[Table]:
    """Return the tables of a report: eavesdropper, ground, privacy, time, frames, link, and following."""
    return [
        _eavesdropper(summary),
        _ground(summary),
        _privacy(summary),
        _stages(summary),
        _frames(summary),
        _air(summary),
        _following(summary),
    ]


def _eavesdropper(summary: Summary) -> Table:
    eve = summary["eavesdropper"]
    cases = ("with_protection", "without_protection", "blind")
    rows = [
        (label, *(number(eve[case][score], digits) for case in cases))
        for label, score, digits in (
            ("SSIM, whole picture", "ssim", 3),
            ("SSIM, around people", "ssim_sensitive", 3),
            ("PSNR, whole picture (dB)", "psnr_db", 2),
            ("PSNR, around people (dB)", "psnr_sensitive_db", 2),
        )
    ]
    title = f"The eavesdropper's picture (boxes from {eve['sensitive_boxes_from']})"
    return Table(title, ("", "protected", "unprotected", "heard nothing"), rows)


def _ground(summary: Summary) -> Table:
    ground = summary["ground"]
    cases = ("received", "without_protection", "descriptors_only")
    rows = [
        (label, *(number(ground[case][score], 3) for case in cases))
        for label, score in (
            ("category accuracy", "category_accuracy"),
            ("… on objects", "object_accuracy"),
            ("mean IoU", "mean_iou"),
        )
    ]
    rows.append(("displacement of objects (image sides)", number(ground["location_error"], 4), "", ""))
    rows.append(("object packets lost", str(ground["objects_lost"]), "", ""))
    rows.append(("feature packets lost", str(ground["features_lost"]), "", ""))
    over = ground["accuracy_over"] or "nothing: no annotations"
    return Table(f"The ground's mask, over {over}", ("", "as flown", "unprotected", "descriptors alone"), rows)


def _privacy(summary: Summary) -> Table:
    spent = summary["privacy"]["spent"]
    what = {
        "cell": "one cell of one frame",
        "object": "one object in one frame",
        "frame": "all of one frame",
        "track": "one tracked object in all frames",
        "mission": "one object in all frames",
    }
    rows = [
        (f"{unit}: {what[unit]}", number(value["epsilon"]), delta_text(value["delta"])) for unit, value in spent.items()
    ]
    return Table("Privacy spent, worst case", ("", "ε", "δ"), rows)


def _stages(summary: Summary) -> Table:
    rows = [
        (
            stage,
            *(number(summary["stage_ms"][stage][name], 1) for name in ("p50", "p95")),
            str(summary["stage_ms"][stage]["n"]),
        )
        for stage in STAGES
    ]
    return Table(
        "Time of each stage (ms; the attack gives way to the others)", ("", "median", "95th percentile", "n"), rows
    )


def _frames(summary: Summary) -> Table:
    frames = summary["frames"]
    rows = [(name, str(frames[name])) for name in ("in", "broken", "perceived", "released", "received", "decoded")]
    rows += [(f"dropped: {reason}", str(count)) for reason, count in frames["dropped"].items()]
    rows += [(f"annotations: {name}", str(count)) for name, count in summary["source"]["oddities"].items()]
    return Table("Frames", ("", "count"), rows)


def _air(summary: Summary) -> Table:
    link, budgets = summary["link"], summary["budgets"]
    rows = [
        ("SNR at the ground (dB)", number(link["ground_snr_db_mean"], 2)),
        ("SNR at the eavesdropper (dB)", number(link["eve_snr_db_mean"], 2)),
        ("gain to the ground (dB)", number(link["gain_db_mean"], 2)),
        ("distance to the ground (m)", number(link["distance_m_mean"], 0)),
        ("payload (bits a frame)", number(link["payload_bits_mean"], 0)),
        ("… of it object packet", number(link["object_bits_mean"], 0)),
        ("… of it features (0: analog)", number(link["feature_bits_mean"], 0)),
        ("complex symbols of features", number(link["feature_symbols_mean"], 0)),
        ("airtime of a frame (ms)", number(link["airtime_ms_mean"], 2)),
        ("transmit energy of the flight (J)", number(link["transmit_energy_j"], 4)),
        ("ε_v, features", number(budgets["epsilon_v_mean"])),
        ("ε_l, locations", number(budgets["epsilon_l_mean"])),
        ("p_tx (W)", number(budgets["p_tx_mean"], 3)),
        ("utility", number(budgets["utility_mean"], 3)),
    ]
    rows += [(f"controller: {name.replace('_', ' ')}", f"{count} frames") for name, count in budgets["status"].items()]
    return Table("Link and budgets (means over frames)", ("", ""), rows)


def _following(summary: Summary) -> Table:
    found = summary["following"]
    labels = (
        ("utility", "utility", 3),
        ("share of frames whose constraints held", "constraints_held", 3),
        ("ε_v, features", "epsilon_v", 3),
        ("ε_l, locations", "epsilon_l", 3),
        ("p_tx (W)", "p_tx", 3),
    )
    rows = [
        (label, *(number(found[case][name], digits) for case in ("flown", "fixed"))) for label, name, digits in labels
    ]
    rows.append(("gained by following", number(found["utility_gain"], 3), ""))
    title = "Budgets and power that follow, against fixed ones of equal mission ε and energy"
    return Table(title, ("", "as flown", "fixed"), rows)


def setting_rows(summary: Summary) -> list[tuple[str, str]]:
    """Return name and value of everything that a repetition of the flight needs."""
    configuration, privacy, source = summary["configuration"], summary["privacy"], summary["source"]
    rows: list[tuple[str, Any]] = [
        ("source", f"{source['name']} ({source['kind'] or 'unknown kind'}) at {source['rate_hz']:g} frames a second"),
        ("scenario", configuration["scenario"]),
        ("profile", configuration["profile"]),
        ("seed", "none: cryptographic noise" if configuration["seed"] is None else configuration["seed"]),
        ("devices", ", ".join(f"{name} {device}" for name, device in configuration["devices"].items()) or None),
        ("ledger", configuration["ledger"] or "in memory only"),
        ("frames measured", f"{summary['frames_measured']} of {summary['frames']['in']}"),
        ("version", f"{summary['version']}, Python {configuration['python']}, {configuration['machine']}"),
    ]
    names = ("mechanism", "calibration", "map_rule", "map_source", "location_branch", "c_clip")
    rows += [(name.replace("_", " "), privacy.get(name)) for name in names]
    for node, values in configuration["parameters"].items():
        rows += [(f"{node or 'all nodes'}: {name}", value) for name, value in values.items()]
    rows += list(configuration["options"].items())
    return [(name, str(value)) for name, value in rows if value is not None]
