"""What a frame may spend, what a release is, and the record of what it spent."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np

from uav_privacy_sc.control.bcd import OperatingPoint
from uav_privacy_sc.control.policy import BRANCHES, ScenarioPolicy


class ProtectionError(RuntimeError):
    """Nothing may be released for this frame; the message says why in one line, without any of the frame's data."""


@dataclass(frozen=True)
class Budgets:
    """What one frame may spend, chosen together by the budget server; ``stamp_ns`` is when it was last confirmed.

    The clock of ``stamp_ns`` is monotonic, so that simulated time and looped bags do no harm.
    """

    epsilon_v: float
    epsilon_l: float
    p_tx: float
    location_branch: str = "grid"
    grid_size: int = 16
    location_scale: float = 100.0
    stamp_ns: int = 0

    @classmethod
    def from_point(cls, point: OperatingPoint, policy: ScenarioPolicy, stamp_ns: int = 0) -> Budgets:
        """Join what the optimizer chose with what the scenario fixes."""
        fixed = (policy.location_branch, policy.grid_size, policy.scale)
        return cls(float(point.epsilon_v), float(point.epsilon_l), float(point.p_tx), *fixed, stamp_ns)

    def check(self) -> None:
        """Refuse a budget that is none.

        Raises:
            ProtectionError: a value is not finite and above 0, or the branch is unknown.
        """
        for name in ("epsilon_v", "epsilon_l", "p_tx", "location_scale"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ProtectionError(f"no budget: {name} is {value:g}")
        if self.location_branch not in BRANCHES:
            raise ProtectionError(f"no budget: location_branch is {self.location_branch!r}")


#: The values of :class:`Budgets` that the budget server has as parameters, changed together or not at all.
BUDGET_NAMES = tuple(item.name for item in fields(Budgets) if item.name != "stamp_ns")


@dataclass(frozen=True)
class ReleaseRecord:
    """What one release spent and how it was made; published beside it, on the aircraft's side only.

    ``epsilon_cell_*`` are over the grid of this frame; ``spent_*`` are the odometer's totals after this release, and
    ``spent_track_epsilon`` is 0 without tracking. ``location_epsilon``, ``label_epsilon``, ``size_epsilon`` and
    ``count_epsilon`` are what this release cost: 0 for what was sent in clear, and for places that were kept.
    ``lattice_step`` is 0 for features that are no whole steps. ``allowance_epsilon`` is what pacing allowed the frame.
    ``detector_sha256`` and ``codec_sha256`` are checksums of the networks' files, empty where nobody told them: they
    say what was released with, and nothing of any frame.
    """

    stamp_ns: int
    mechanism: str
    calibration: str
    map_rule: str
    map_source: str
    location_branch: str
    seeded: bool
    objects: int
    epsilon_v: float
    epsilon_l: float
    p_tx: float
    delta: float
    c_clip: float
    epsilon_cell_min: float
    epsilon_cell_mean: float
    epsilon_cell_max: float
    spent_cell_epsilon: float
    spent_object_epsilon: float
    spent_frame_epsilon: float
    spent_mission_epsilon: float
    spent_mission_delta: float
    spent_track_epsilon: float = 0.0
    lattice_step: float = 0.0
    location_mode: str = "independent"
    location_epsilon: float = 0.0
    label_epsilon: float = 0.0
    size_epsilon: float = 0.0
    count_epsilon: float = 0.0
    score_hidden: bool = False
    order_shuffled: bool = False
    paced: bool = False
    allowance_epsilon: float = 0.0
    frames_left: int = 0
    detector_sha256: str = ""
    codec_sha256: str = ""

    def as_text(self) -> dict[str, str]:
        """Return every value as text that reads back to the same value."""
        return {item.name: repr(getattr(self, item.name)).strip("'") for item in fields(self)}

    @classmethod
    def from_text(cls, values: dict[str, str]) -> ReleaseRecord:
        """Read what :meth:`as_text` wrote, an older version's, too.

        Raises:
            ValueError: a value is missing or does not read as its type.
        """
        readers: dict[str, Callable[[str], Any]] = {"int": int, "float": float, "bool": "True".__eq__, "str": str}
        missing = [item.name for item in fields(cls) if item.name not in values and item.default is MISSING]
        if missing:
            raise ValueError(f"record lacks {', '.join(missing)}")
        given = [item for item in fields(cls) if item.name in values]
        return cls(**{item.name: readers[str(item.type)](values[item.name]) for item in given})


@dataclass(frozen=True)
class Release:
    """What may leave the aircraft, and ``epsilon_map`` (rows, columns), which may not."""

    features: np.ndarray
    objects: np.ndarray
    record: ReleaseRecord
    epsilon_map: np.ndarray
