"""What P3 says of its curves, held against ours. P3 prints no number, only figures: its claims are orders."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.fleet.checkpoint import State

#: Means closer than this, in dB, are no order: so much other draws of noise and channels change them.
UNDECIDED_DB = 0.3


@dataclass(frozen=True)
class Claim:
    """``better`` lies above each of ``worse``, by the mean PSNR of all rounds, or of the last fifth (``late``)."""

    where: str
    text: str
    better: str
    worse: tuple[str, ...]
    late: bool = True

    def measured(self, states: Mapping[str, State]) -> tuple[float, float] | None:
        """Return the PSNR of the better one and of the best of the others, None where one of them was not run."""
        if any(name not in states for name in (self.better, *self.worse)):
            return None
        mean: Callable[[State], float] = late_psnr if self.late else mean_psnr
        return mean(states[self.better]), max(mean(states[name]) for name in self.worse)


_FIVE = ("fedavg", "fedavg-ideal", "fedsfr", "fedsfr-ms-privacy", "fedsfr-ms-power")
CLAIMS = (
    Claim("Fig. 2", "FedSFR+OL+MS converges faster than FedAvg+OL (ideal)", _FIVE[3], (_FIVE[1],), late=False),
    Claim("Fig. 2", "FedAvg+OL is trained worse than FedAvg+OL (ideal)", _FIVE[1], (_FIVE[0],)),
    Claim("Fig. 2", "FedAvg+OL is trained worse than FedSFR+OL", _FIVE[2], (_FIVE[0],)),
    Claim("Fig. 2", "model selection helps late in training", _FIVE[4], (_FIVE[2],)),
    Claim("Fig. 2 (c)", "under severe noise FedSFR+OL+MS stays above FedAvg+OL (ideal)", f"{_FIVE[3]}-sigma-10",
          (f"{_FIVE[1]}-sigma-10",)),
    Claim("Fig. 2 (c)", "under severe noise 'privacy' is above 'power'", f"{_FIVE[3]}-sigma-10",
          (f"{_FIVE[4]}-sigma-10",)),
    Claim("Fig. 3", "more noise in the selection hurts FedAvg more than in the values", f"{_FIVE[1]}-uneven-0.75",
          (f"{_FIVE[1]}-uneven-2",)),
    Claim("Fig. 3", "more noise in the selection hurts FedSFR more than in the values", f"{_FIVE[3]}-uneven-0.75",
          (f"{_FIVE[3]}-uneven-2",)),
    Claim("Fig. 3", "with it, FedSFR still stays above FedAvg (ideal)", f"{_FIVE[3]}-uneven-2",
          (f"{_FIVE[1]}-uneven-2",)),
    Claim("Fig. 4 (c)", "S_th/N = 0.15 is best", _FIVE[3], ("threshold-0.11", "threshold-0.19")),
    Claim("Fig. 4 (c)", "S_th/N = 0.19 is worst", "threshold-0.11", ("threshold-0.19",)),
)  # fmt: skip


def verdict(found: tuple[float, float]) -> str:
    """Return whether ours are in the same order."""
    gain = found[0] - found[1]
    if abs(gain) < UNDECIDED_DB:
        return f"undecided: within {UNDECIDED_DB:g} dB"
    return "as P3" if gain > 0 else "the other way round"


def series(state: State) -> np.ndarray:
    """Return the PSNR of every round in dB."""
    return np.array([record["psnr"] for record in state.history])


def mean_psnr(state: State) -> float:
    """Return the mean over all rounds: how fast it has learned."""
    return float(series(state).mean())


def late_psnr(state: State) -> float:
    """Return the mean over the last fifth of the rounds, one at least."""
    values = series(state)
    return float(values[-max(1, len(values) // 5) :].mean())
