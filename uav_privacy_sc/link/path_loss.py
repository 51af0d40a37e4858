"""Large-scale gain and thermal noise."""

from __future__ import annotations

import numpy as np
from scipy.constants import Boltzmann, speed_of_light

from uav_privacy_sc.link.config import LinkConfig


def from_db(decibels: float) -> float:
    """Return the power ratio of ``decibels``."""
    return float(10.0 ** (decibels / 10.0))


def to_db(ratio: float) -> float:
    """Return a positive power ratio in dB."""
    return float(10.0 * np.log10(ratio))


def noise_power(config: LinkConfig) -> float:
    """Return the thermal noise power k T B F in watts."""
    return Boltzmann * config.temperature_k * config.bandwidth_hz * from_db(config.noise_figure_db)


def path_loss_db(config: LinkConfig, distance_m: float | None = None) -> float:
    """Return the mean loss in dB at ``distance_m`` (the configured one by default).

    Free space (Friis) up to one metre, exponent n beyond; distances below one metre count as one metre, so that the
    gain never passes that of the reference.
    """
    distance = max(config.distance_m if distance_m is None else distance_m, 1.0)
    reference = 20.0 * np.log10(4.0 * np.pi * config.carrier_hz / speed_of_light)
    return float(reference + 10.0 * config.path_loss_exponent * np.log10(distance) + config.excess_loss_db)
