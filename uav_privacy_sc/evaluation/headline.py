"""What a flight came to in plain words, for the head of a report and for the terminal."""

from __future__ import annotations

from typing import Any

from uav_privacy_sc.flight import STAGES

Summary = dict[str, Any]


def number(value: float | None, digits: int = 2, unit: str = "") -> str:
    """Return a number for people: fixed decimals, four significant digits where large, a dash where there is none."""
    if value is None:
        return "–"
    text = f"{value:.{digits}f}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{text} {unit}".strip()


def delta_text(delta: float | None) -> str:
    """Return a delta as 1e-5, a dash where there is none."""
    return "–" if delta is None else f"{delta:g}".replace("e-0", "e-")


def left_the_aircraft(summary: Summary, tensor_shape: tuple[int, ...] | None, objects: float | None) -> str:
    """Return one sentence about what was transmitted."""
    frames = summary["frames"]
    if not frames["released"]:
        return "Nothing left the aircraft: no frame was released."
    tensor = "a tensor of features" if tensor_shape is None else "a {}x{}x{} tensor of features".format(*tensor_shape)
    protected = summary["privacy"].get("mechanism") != "none"
    descriptors = "" if objects is None else f" and {objects:.1f} object descriptors (class, size, displaced position)"
    return (
        f"No picture left the aircraft. What left, for {frames['released']} of {frames['in']} frames, was "
        f"{tensor}{' with noise added' if protected else ' without noise'}{descriptors}."
    )


def eavesdropper_learned(summary: Summary) -> str:
    """Return one sentence about what an eavesdropper with a trained inversion network makes of it."""
    eve = summary["eavesdropper"]
    protected, bare, blind = (eve[case] for case in ("with_protection", "without_protection", "blind"))
    if protected["ssim"] is None:
        return "What an eavesdropper sees was not measured."
    text = f"The eavesdropper's picture resembles the original with an SSIM of {number(protected['ssim'])}"
    if bare["ssim"] is not None:
        text += f"; without protection it would be {number(bare['ssim'])}"
    if blind["ssim"] is not None:
        text += f", and {number(blind['ssim'])} having heard nothing"
    if protected["ssim_sensitive"] is not None and bare["ssim_sensitive"] is not None:
        text += f". Inside the boxes around people: {number(protected['ssim_sensitive'])}"
        text += f" instead of {number(bare['ssim_sensitive'])}"
    return f"{text}.{_warning(protected, bare)}"


def _warning(protected: dict[str, Any], bare: dict[str, Any]) -> str:
    """Say so where protection did not lower the likeness: a report must not let that pass as success."""
    worse = [
        place
        for score, place in (("ssim", "the whole picture"), ("ssim_sensitive", "people"))
        if protected[score] is not None and bare[score] is not None and protected[score] >= bare[score]
    ]
    return f" Protection did not lower this likeness for {' and '.join(worse)}." if worse else ""


def what_it_cost(summary: Summary) -> str:
    """Return one sentence about what protection cost the ground, and how much privacy the flight has spent."""
    ground = summary["ground"]
    accuracy, bare, alone = (
        ground[case]["category_accuracy"] for case in ("received", "without_protection", "descriptors_only")
    )
    parts = []
    if accuracy is not None:
        text = f"The ground gets {accuracy:.0%} of {ground['accuracy_over']} right"
        if bare is not None:
            text += f" ({bare:.0%} without protection"
            text += ")" if alone is None else f", {alone:.0%} from the descriptors alone)"
        parts.append(text)
    mission = summary["privacy"]["spent"]["mission"]
    if mission["epsilon"] == 0.0:
        parts.append(f"{'no' if parts else 'No'} object was detected, so none's privacy was counted")
    elif mission["epsilon"] is not None:
        parts.append(
            f"{'the' if parts else 'The'} flight has spent ε = {number(mission['epsilon'], 1)} of one object's privacy "
            f"(δ = {delta_text(mission['delta'])})"
        )
    return f"{', and '.join(parts)}." if parts else "What protection cost was not measured."


def terminal_lines(summary: Summary) -> list[tuple[str, str]]:
    """Return the summary as ten pairs of a word and a line."""
    source, frames, link, eve = (summary[name] for name in ("source", "frames", "link", "eavesdropper"))
    budgets, spent, ground = summary["budgets"], summary["privacy"]["spent"], summary["ground"]
    with_, without = eve["with_protection"], eve["without_protection"]
    ended = f"interrupted after {frames['in']} frames, " if summary["interrupted"] else ""
    return [
        ("flight", f"{source['name']}, {ended}{number(summary['wall_s'], 1)} s, {number(summary['fps'])} frames/s"),
        ("frames", _frames_line(frames)),
        ("link", f"SNR at the ground {number(link['ground_snr_db_mean'], 1)} dB, "
                 f"at the eavesdropper {number(link['eve_snr_db_mean'], 1)} dB (means)"),
        ("budgets", f"epsilon_v {number(budgets['epsilon_v_mean'])}, epsilon_l {number(budgets['epsilon_l_mean'])}, "
                    f"p_tx {number(budgets['p_tx_mean'])} W (means)"),
        ("spent", ", ".join(f"{unit} {number(spent[unit]['epsilon'])}" for unit in spent)
                  + f" (epsilon at delta {delta_text(spent['mission']['delta'])})"),
        ("ground", f"category accuracy {number(ground['category_accuracy'], 3)}, "
                   f"without protection {number(ground['without_protection']['category_accuracy'], 3)}, "
                   f"descriptors alone {number(ground['descriptors_only']['category_accuracy'], 3)}"),
        ("picture", _picture_line(with_, without, "ssim", "psnr_db")),
        ("people", _picture_line(with_, without, "ssim_sensitive", "psnr_sensitive_db")),
        ("stages", _stage_line(summary["stage_ms"])),
    ]  # fmt: skip


def _frames_line(frames: dict[str, Any]) -> str:
    counts = ", ".join(f"{frames[name]} {name}" for name in ("in", "released", "received", "decoded"))
    lost = "; ".join(f"{count}x {reason}" for reason, count in frames["dropped"].items())
    return f"{counts}{f'; dropped: {lost}' if lost else ''}"


def _picture_line(with_: dict[str, Any], without: dict[str, Any], ssim: str, psnr: str) -> str:
    return (
        f"eavesdropper's SSIM {number(with_[ssim], 3)} (unprotected {number(without[ssim], 3)}), "
        f"PSNR {number(with_[psnr], 1)} dB (unprotected {number(without[psnr], 1)} dB)"
    )


def _stage_line(stages: dict[str, dict[str, Any]]) -> str:
    return "ms p50/p95: " + ", ".join(
        f"{stage} {number(stages[stage]['p50'], 0)}/{number(stages[stage]['p95'], 0)}" for stage in STAGES
    )
