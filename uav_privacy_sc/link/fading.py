"""Small-scale fading of unit mean power."""

from __future__ import annotations

import numpy as np

from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.path_loss import from_db

#: Fades deeper than -120 dB (one block in 10^12 under Rayleigh) count as -120 dB, so that equalization stays finite.
DEEPEST_FADE = 1e-12


def scattered(rng: np.random.Generator) -> complex:
    """Draw a circular complex Gaussian coefficient with E|h|^2 = 1."""
    real, imaginary = rng.standard_normal(2) / np.sqrt(2.0)
    return complex(real, imaginary)


def rician(coefficient: complex, k_factor: float) -> complex:
    """Add a line of sight of ``k_factor`` (linear) times the scattered power, keeping E|h|^2 = 1."""
    return (k_factor**0.5 + coefficient) / (k_factor + 1.0) ** 0.5


def fade_power(config: LinkConfig, rng: np.random.Generator) -> float:
    """Draw |h_f|^2 of one block; its mean is 1 (Rayleigh: Exp(1), P1 section 2.3)."""
    if config.fading == "none":
        return 1.0
    coefficient = scattered(rng)
    if config.fading == "rician":
        coefficient = rician(coefficient, from_db(config.k_factor_db))
    return max(abs(coefficient) ** 2, DEEPEST_FADE)
