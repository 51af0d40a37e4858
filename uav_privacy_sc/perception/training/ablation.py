"""Why the code is as it is: codecs of other widths, taps and grids, trained alike and measured alike.

Each variant is trained for the same steps on the same pictures and measured as the model card is
(:func:`measure_codec.codec_figures`): mask figures with features and prior at uniform budgets. What a variant costs an
object is told by its reach: the cells around an object's own that its pixels change, each of them charged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.reach import measure_reach
from uav_privacy_sc.perception.tap import Tap
from uav_privacy_sc.perception.training.batches import tap_set
from uav_privacy_sc.perception.training.codec import CodecTrainer, CodecTraining
from uav_privacy_sc.perception.training.measure_codec import codec_figures
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.perception.weights import load_module

#: Budgets of the ablation; None is no noise.
EPSILONS: tuple[float | None, ...] = (1, 3, 10, 100, None)


@dataclass(frozen=True)
class Variant:
    """A codec that might have been: C ``channels``, where the detector is tapped, and ``pool`` taps a cell's side."""

    channels: int
    tap: Tap
    pool: int = 1

    @property
    def name(self) -> str:
        """Short name, also of the folder."""
        return f"c{self.channels}-layer{self.tap.layer}-cell{self.cell}"

    @property
    def cell(self) -> int:
        """Network pixels to a cell's side."""
        return self.tap.stride * self.pool


_LAYER4, _LAYER6 = Tap(4, 128, 8), Tap(6, 128, 16)
#: The widths at the shipped tap and grid, then the other taps and grids at the shipped width.
VARIANTS = (
    *(Variant(channels, _LAYER4, 2) for channels in (1, 2, 4, 8, 16, 32)),
    Variant(16, _LAYER4, 4),
    Variant(16, _LAYER6),
    Variant(16, _LAYER6, 2),
    Variant(16, _LAYER4),
)


def run_ablation(
    detector_weights: Path,
    train: Samples,
    test: Samples,
    out: Path,
    steps: int,
    variants: Iterable[Variant] = VARIANTS,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> list[dict[str, Any]]:
    """Train and measure the variants on a detector's ``.pt`` file; write ``ablation.json`` as they come.

    A variant that the file has already, at as many steps, is not trained again.
    """
    out.mkdir(parents=True, exist_ok=True)
    path = out / "ablation.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    done = {(row["name"], row["steps"]) for row in rows}
    for tap in dict.fromkeys(v.tap for v in variants):
        todo = [v for v in variants if v.tap == tap and (v.name, steps) not in done]
        if not todo:
            continue
        detector = Detector(detector_weights, tap=tap)
        sets = [tap_set(s, detector, _told(progress, "features", len(s))) for s in (train, test)]
        for variant in todo:
            reach = measure_reach(detector.model.model[: tap.layer + 1], variant.cell, variant.pool)
            config = CodecTraining(steps=steps, channels=variant.channels, pool=variant.pool)
            trainer = CodecTrainer(sets[0], out / variant.name, config, tap, reach)
            trainer.run(_told(progress, variant.name, steps))
            codec = load_module(out / variant.name / "codec.pt", Codec)
            assert isinstance(codec, Codec)
            figures = codec_figures(sets[1], codec, EPSILONS)
            rows.append(_row(variant, steps, reach, sets[1].masks.shape, figures))
            path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return rows


def _told(progress: Callable[[str, int, int], None], what: str, total: int) -> Callable[..., None]:
    return lambda done, losses=None: progress(what, done, total)


def _row(variant: Variant, steps: int, reach: int, masks: tuple[int, ...], figures: dict[str, Any]) -> dict[str, Any]:
    grid = [side * 4 // variant.cell for side in masks[1:]]
    return {
        "name": variant.name,
        **asdict(variant),
        "cell": variant.cell,
        "grid": grid,
        "numbers": int(np.prod(grid)) * variant.channels,
        "reach_cells": reach,
        "steps": steps,
        "prior": figures["prior"],
        "both": {budget: row["both"] for budget, row in figures["uniform"].items()},
    }


def write_table(rows: list[dict[str, Any]], out: Path) -> Path:
    """Write ``ablation.md`` and ``ablation.png`` and return the table's path: accuracy (and mIoU) by budget."""
    budgets = list(rows[0]["both"])
    lines = [
        f"| C | layer | cell | numbers a frame | reach | {' | '.join(_heading(b) for b in budgets)} |",
        "|---" * (5 + len(budgets)) + "|",
    ]
    for row in rows:
        cells = [f"{row['both'][b]['accuracy']:.3f} ({row['both'][b]['miou']:.3f})" for b in budgets]
        start = [row["channels"], row["tap"]["layer"], f"{row['cell']} px", f"{row['numbers']:,}", row["reach_cells"]]
        lines.append(f"| {' | '.join(map(str, start + cells))} |")
    path = out / "ablation.md"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    _plot(rows, budgets, out / "ablation.png")
    return path


def _heading(budget: str) -> str:
    return "no noise" if budget == "none" else f"epsilon_v {budget}"


def _plot(rows: list[dict[str, Any]], budgets: list[str], path: Path) -> None:
    from matplotlib import pyplot as plt

    usual = VARIANTS[0].tap.layer, VARIANTS[0].cell
    widths = [row for row in rows if (row["tap"]["layer"], row["cell"]) == usual]
    grids = [row for row in rows if row["channels"] == 16]
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.85, len(budgets)))
    for budget, color in zip(budgets, colors, strict=True):
        ordered = sorted(widths, key=lambda row: row["channels"])
        values = [row["both"][budget]["accuracy"] for row in ordered]
        left.plot([row["channels"] for row in ordered], values, "o-", color=color, label=_heading(budget))
        right.plot([row["both"][budget]["accuracy"] for row in grids], range(len(grids)), "o", color=color)
    left.set(xscale="log", xlabel="channels C of the code", ylabel="share of pixels right")
    left.set_xticks([row["channels"] for row in widths], [str(row["channels"]) for row in widths])
    left.minorticks_off()
    left.legend(fontsize=8)
    right.set_yticks(range(len(grids)), [f"layer {row['tap']['layer']}, {row['cell']} px" for row in grids])
    right.set(xlabel="share of pixels right, C = 16", ylim=(-0.5, len(grids) - 0.5))
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=130)
    plt.close(figure)
