"""Budget pacing: what a frame may cost, so that a mission ceiling lasts for the frames to come.

The ceiling is turned into Gaussian DP, what has been spent is taken off (mu adds in squares), and the rest is shared
evenly among the frames expected. A flight that stays within every frame's allowance stays within the ceiling; one that
spends less leaves more to the frames after.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr

from .accountant import Odometer
from .calibration import epsilon_from_mu, mu_from_epsilon
from .domain import positive, whole


@dataclass(frozen=True)
class Allowance:
    """What one frame may cost the worst object.

    Attributes:
        mu: Gaussian DP parameter of all parts together; 0 when nothing is left.
        epsilon: the same as (epsilon, delta) at the odometer's delta.
        delta: the odometer's delta.
        frames_left: frames it was shared among.
    """

    mu: float
    epsilon: float
    delta: float
    frames_left: int

    def location_epsilon(self, share: float = 0.5) -> float:
        """Return the largest pure epsilon of descriptors within ``share`` of the allowance (0 when nothing is left).

        Raises:
            ValueError: share outside (0, 1].
        """
        mu = self._part(share)
        return float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))

    def cell_epsilon(self, cells: int, share: float = 0.5) -> float:
        """Return the largest epsilon of a cell, for an object that covers ``cells``, within ``share`` of the allowance.

        Raises:
            ValueError: share outside (0, 1], or cells below 1.
        """
        return float(epsilon_from_mu(self._part(share) / np.sqrt(whole("cells", cells)), self.delta))

    def _part(self, share: float) -> float:
        if not 0 < share <= 1:
            raise ValueError(f"share must lie in (0, 1], got {share}; use 0.5 for an even split")
        return self.mu * float(np.sqrt(share))


def frame_allowance(odometer: Odometer, expected_frames: int, ceiling_epsilon: float | None = None) -> Allowance:
    """Return what the next frame may cost.

    Args:
        odometer: what has been spent.
        expected_frames: frames of the whole mission; once they are over, the rest goes to one frame at a time.
        ceiling_epsilon: mission ceiling, or None for the odometer's own.

    Raises:
        ValueError: no ceiling anywhere, or a parameter out of its range.
    """
    ceiling = odometer.ceiling_epsilon if ceiling_epsilon is None else ceiling_epsilon
    if ceiling is None:
        raise ValueError("ceiling_epsilon must be set to pace a mission, got None; give the odometer a ceiling")
    total = float(mu_from_epsilon(positive("ceiling_epsilon", ceiling), odometer.delta))
    left = max(1, whole("expected_frames", expected_frames) - odometer.releases)
    rest = max(0.0, total**2 - odometer.mission_mu**2)
    mu = float(np.sqrt(rest / left))
    return Allowance(mu, float(epsilon_from_mu(mu, odometer.delta)), odometer.delta, left)
