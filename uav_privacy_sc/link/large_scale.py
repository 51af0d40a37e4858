"""What comes and goes along the way: line of sight over elevation, shadowing, blockage, interference."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import ndtr

from uav_privacy_sc.link.config import LinkConfig

#: a and b of P_LoS = 1 / (1 + a exp(-b (theta - a))), theta in degrees (Al-Hourani, Kandeepan and Lardner 2014).
LINE_OF_SIGHT = {
    "suburban": (4.88, 0.43),
    "urban": (9.61, 0.16),
    "dense_urban": (12.08, 0.11),
    "high_rise": (27.23, 0.08),
}


def line_of_sight_probability(elevation_deg: float, environment: str) -> float:
    """Return the probability of line of sight at an elevation; below the horizon it is that at the horizon."""
    a, b = LINE_OF_SIGHT[environment]
    return 1.0 / (1.0 + a * math.exp(-b * (max(elevation_deg, 0.0) - a)))


class GaussMarkov:
    """A standard normal value that decorrelates by exp(-d / distance) over a way d (Gudmundson 1991)."""

    def __init__(self, distance_m: float, rng: np.random.Generator) -> None:
        self._distance, self._rng = distance_m, rng
        self._value, self._way = float(rng.standard_normal()), math.nan

    def value(self, way_m: float) -> float:
        """Return the value after ``way_m`` metres; coming back counts as moving on."""
        moved = 0.0 if math.isnan(self._way) else abs(way_m - self._way)
        self._way = way_m
        if moved > 0.0:
            keep = math.exp(-moved / self._distance)
            self._value = keep * self._value + math.sqrt(1.0 - keep**2) * float(self._rng.standard_normal())
        return self._value


class Blockage:
    """Clear or blocked by turns: a two-state Markov process in continuous time, begun in its steady state."""

    def __init__(self, rate_hz: float, duration_s: float, rng: np.random.Generator) -> None:
        self._relaxation = rate_hz + 1.0 / duration_s
        self.share = rate_hz / self._relaxation
        self._rng, self._time = rng, math.nan
        self._blocked = bool(rng.random() < self.share)

    def blocked(self, time_s: float) -> bool:
        """Return whether the sight is blocked at a time; a clock that jumps back counts as moving on."""
        passed = 0.0 if math.isnan(self._time) else abs(time_s - self._time)
        self._time = time_s
        if passed > 0.0:
            keep = math.exp(-passed * self._relaxation)
            probability = self.share + ((1.0 if self._blocked else 0.0) - self.share) * keep
            self._blocked = bool(self._rng.random() < probability)
        return self._blocked


class LargeScale:
    """The loss beyond path loss, in dB, and the power of noise and interference over that of noise."""

    def __init__(self, config: LinkConfig, rng: np.random.Generator) -> None:
        self._config, self._rng = config, rng
        self._sight = GaussMarkov(config.shadowing_distance_m, rng)
        self._shadow = GaussMarkov(config.shadowing_distance_m, rng)
        self._blockage = Blockage(config.blockage_rate_hz, config.blockage_duration_s, rng)

    def loss_db(self, time_s: float, way_m: float, elevation_deg: float) -> tuple[float, bool]:
        """Return NLoS, shadowing and blockage losses together, in dB, and whether there is a clear line of sight.

        Shadowing may be a gain, and leaves the sight as it is.
        """
        config, clear = self._config, True
        loss = config.shadowing_sigma_db * self._shadow.value(way_m)
        if config.blockage_rate_hz > 0.0 and self._blockage.blocked(time_s):
            loss, clear = loss + config.blockage_loss_db, False
        if config.line_of_sight == "elevation" and not self._sees(way_m, elevation_deg):
            loss, clear = loss + config.nlos_loss_db, False
        return loss, clear

    def noise_rise(self) -> float:
        """Return (noise + interference) / noise of this block."""
        config = self._config
        if config.interference_to_noise == 0.0:
            return 1.0
        return 1.0 + config.interference_to_noise * float(self._rng.random() < config.interference_activity)

    def _sees(self, way_m: float, elevation_deg: float) -> bool:
        """Whether there is line of sight: a Gaussian that moves with the way, cut at the right probability."""
        chance = line_of_sight_probability(elevation_deg, self._config.environment)
        return bool(ndtr(self._sight.value(way_m)) < chance)
