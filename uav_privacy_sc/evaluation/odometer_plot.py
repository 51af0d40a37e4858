"""What a ledger says was spent, over the flight, as a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from uav_privacy_sc.evaluation.charts import AMBER, BLUE, GREEN, GREY, GRID, INK, RED
from uav_privacy_sc.evaluation.headline import delta_text
from uav_privacy_sc.privacy.accountant import Expenditure
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon
from uav_privacy_sc.privacy.composition import mu_from_pure, total_epsilon

SUFFIXES = (".png", ".svg", ".pdf")
_SIZE_INCHES, _DPI = (8.0, 6.0), 150
#: More marks than this are drawn as a line.
_FEW = 200
#: Points of a curve that is as long as a flight may be.
_SHOWN = 2000


@dataclass(frozen=True)
class SpendingHistory:
    """A row for each release: mission epsilon after it, what it cost one object, and whether its noise was seeded.

    Attributes:
        mission, object: ``(n,)`` epsilons at ``delta``; infinite where nothing protected.
        mu_squared: ``(n,)`` squared Gaussian parameter of one object up to and with each release.
        seeded: ``(n,)`` whether the release was an experiment.
        delta: failure probability of all of them.
    """

    mission: np.ndarray
    object: np.ndarray
    mu_squared: np.ndarray
    seeded: np.ndarray
    delta: float

    @classmethod
    def from_ledger(cls, history: Iterable[tuple[Expenditure, float]], delta: float) -> SpendingHistory:
        """Collect what ``Odometer.history`` yields."""
        rows = list(history)
        mu = np.array([row.object_mu for row, _ in rows], np.float64)
        pure = np.array([row.pure_epsilon for row, _ in rows], np.float64)
        endless = ~np.isfinite(pure)
        pure_squared = np.where(endless, np.inf, mu_from_pure(np.where(endless, 0.0, pure)) ** 2)
        return cls(
            np.array([mission for _, mission in rows], np.float64),
            np.asarray(total_epsilon(mu, pure, pure_squared, delta)).reshape(-1),
            np.cumsum(mu**2 + pure_squared),
            np.array([row.seeded for row, _ in rows], bool),
            delta,
        )

    def __len__(self) -> int:
        return len(self.mission)

    def planned(self, ceiling: float, frames: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the mission epsilons of a flight that spends the ceiling evenly (``privacy.pacing``).

        Frame numbers, from 1 to ``frames`` and as many as a curve can show, and the epsilon after each.
        """
        shown = np.unique(np.linspace(1, frames, min(frames, _SHOWN)).round().astype(np.int64))
        total = float(mu_from_epsilon(ceiling, self.delta))
        return shown, np.asarray(epsilon_from_mu(total * np.sqrt(shown / frames), self.delta))

    def allowances(self, ceiling: float, frames: int) -> np.ndarray:
        """Return ``(n,)`` what each release was allowed to cost by pacing, given what those before it had spent."""
        before = np.concatenate([[0.0], self.mu_squared[:-1]])
        rest = np.maximum(float(mu_from_epsilon(ceiling, self.delta)) ** 2 - before, 0.0)
        left = np.maximum(1, frames - np.arange(len(self)))
        return np.asarray(epsilon_from_mu(np.sqrt(rest / left), self.delta)).reshape(-1)


def draw_spending(
    history: SpendingHistory, path: Path, ceiling: float | None = None, expected_frames: int | None = None
) -> None:
    """Draw a ledger to a file: the mission above, each release below, with ceiling and pace where there are any.

    Args:
        history: at least one release.
        path: ``.png``, ``.svg`` or ``.pdf``.
        ceiling: mission epsilon that no release may pass.
        expected_frames: frames that the ceiling was to last for; draws the pace.

    Raises:
        OSError: the file cannot be written.
    """
    figure = Figure(figsize=_SIZE_INCHES, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    paced = ceiling is not None and expected_frames is not None
    releases = np.arange(1, len(history) + 1)
    _mission(above, releases, history)
    _single(below, releases, history)
    if ceiling is not None:
        above.axhline(ceiling, color=GREY, linestyle=(0, (4, 3)), label=f"ceiling {ceiling:g}")
    if paced:
        assert ceiling is not None and expected_frames is not None
        above.plot(*history.planned(ceiling, expected_frames), color=GREEN, linestyle=":", label="even pace")
        below.plot(releases, history.allowances(ceiling, expected_frames), color=GREEN, linestyle=":", label="allowed")
    for axes in (above, below):
        _style(axes)
    below.set_xlabel("release", color=INK)
    below.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.savefig(path, dpi=_DPI, metadata={} if path.suffix == ".png" else {"Creator": None})


def _mission(axes: Axes, releases: np.ndarray, history: SpendingHistory) -> None:
    axes.set_title(
        f"One object in all frames so far (delta {delta_text(history.delta)})", color=INK, fontsize=11, loc="left"
    )
    axes.plot(releases, _finite(history.mission), color=RED, label="mission")
    endless = ~np.isfinite(history.mission)
    if endless.any():
        first = int(releases[endless][0])
        axes.axvspan(first, int(releases[-1]), color=RED, alpha=0.15, label=f"unbounded from {first} on: unprotected")


def _single(axes: Axes, releases: np.ndarray, history: SpendingHistory) -> None:
    axes.set_title("One object in this frame alone", color=INK, fontsize=11, loc="left")
    line, marker = ("none", ".") if len(history) <= _FEW else ("-", "none")
    for chosen, colour, label in ((~history.seeded, BLUE, "release"), (history.seeded, AMBER, "release, seeded noise")):
        if chosen.any():
            values = np.where(chosen, _finite(history.object), np.nan)
            axes.plot(releases, values, color=colour, linestyle=line, marker=marker, label=label)


def _finite(values: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(values), values, np.nan)


def _style(axes: Axes) -> None:
    axes.set_ylabel("epsilon", color=INK)
    axes.set_ylim(bottom=0.0)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_axisbelow(True)
    axes.tick_params(colors=INK, length=0)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    axes.legend(frameon=False, labelcolor=INK, fontsize=9)
