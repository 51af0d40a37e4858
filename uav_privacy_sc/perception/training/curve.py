"""The loss curve of a training as a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np

_SIZE_INCHES, _DPI = (8.0, 4.5), 110
#: Points of a curve that is as long as a training may be.
_SHOWN = 3000
_COLOURS = ("#2166ac", "#c2571a", "#4d9221")


def smooth(values: np.ndarray, window: int) -> np.ndarray:
    """Return the running mean of ``(n,)`` values over the ``window`` up to each; fewer at the start."""
    total = np.concatenate([[0.0], np.cumsum(values)])
    end = np.arange(1, len(values) + 1)
    start = np.maximum(end - window, 0)
    return (total[end] - total[start]) / (end - start)


def plot_losses(path: Path, losses: list[list[float]], names: tuple[str, ...], title: str) -> None:
    """Write each loss over the steps to ``path``: thin as measured, thick as a running mean; one axis a loss."""
    from matplotlib.figure import Figure  # takes a second to import, which not every user of a checkpoint needs

    table = np.array(losses, np.float64).reshape(len(losses), len(losses[0]) if losses else len(names))
    steps, window = np.arange(1, len(table) + 1), max(1, min(200, len(table) // 20))
    shown = np.unique(np.linspace(0, len(table) - 1, min(_SHOWN, len(table))).astype(int)) if len(table) else []
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, max(1, table.shape[1]), sharex=True))
    figure.suptitle(f"{title}: {len(table):,} steps")
    for k, (axis, values) in enumerate(zip(axes, table.T, strict=False)):
        colour, running = _COLOURS[k % len(_COLOURS)], smooth(values, window)
        axis.plot(steps[shown], values[shown], color=colour, alpha=0.3, linewidth=0.7, label="each step")
        axis.plot(steps[shown], running[shown], color=colour, linewidth=1.8, label=f"mean of {window} steps")
        low, high = np.nanpercentile(values, (0.5, 98)) if len(values) else (0, 1)
        if np.isfinite([low, high]).all() and high > low:
            axis.set_ylim(low - 0.08 * (high - low), high + 0.15 * (high - low))
        axis.set_xlabel("step")
        axis.set_ylabel(f"{names[k] if k < len(names) else k} loss")
        axis.grid(alpha=0.25)
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=_DPI)
