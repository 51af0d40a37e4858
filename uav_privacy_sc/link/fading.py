"""Small-scale fading of unit mean power: a new draw a block, or correlated along the way flown."""

from __future__ import annotations

import cmath
import math

import numpy as np
from scipy.constants import speed_of_light

from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.path_loss import from_db

#: Fades deeper than -120 dB (one block in 10^12 under Rayleigh) count as -120 dB, so that equalization stays finite.
DEEPEST_FADE = 1e-12
#: Plane waves in the sum of sinusoids; the fourth moment of its envelope is then 1.5 % short of a Rayleigh one's.
WAVES = 32


def scattered(rng: np.random.Generator) -> complex:
    """Draw a circular complex Gaussian coefficient with E|h|^2 = 1."""
    real, imaginary = rng.standard_normal(2) / np.sqrt(2.0)
    return complex(real, imaginary)


def line_of_sight(carrier_hz: float, nearer_m: float) -> complex:
    """Return the unit coefficient of a path that has become ``nearer_m`` shorter: exp(j 2 pi nearer / wavelength).

    Over a way w at an angle theta to the path nearer = w cos(theta). A wave from ahead turns forwards, as in
    :class:`JakesFading`: approaching is a positive Doppler.
    """
    return cmath.exp(2j * math.pi * carrier_hz / speed_of_light * nearer_m)


def rician(coefficient: complex, k_factor: float, sight: complex = 1.0) -> complex:
    """Add a line of sight of ``k_factor`` (linear) times the scattered power, keeping E|h|^2 = 1.

    ``sight`` is its unit coefficient (:func:`line_of_sight`).
    """
    return (k_factor**0.5 * sight + coefficient) / (k_factor + 1.0) ** 0.5


def fade_gain(config: LinkConfig, coefficient: complex, sight: complex | None = 1.0) -> float:
    """Return |h_f|^2 of a scattered coefficient under the configured fading.

    ``sight`` is None where there is no line of sight: Rician fading is Rayleigh there.
    """
    if config.fading == "none":
        return 1.0
    if config.fading == "rician" and sight is not None:
        coefficient = rician(coefficient, from_db(config.k_factor_db), sight)
    return max(abs(coefficient) ** 2, DEEPEST_FADE)


def fade_power(config: LinkConfig, rng: np.random.Generator) -> float:
    """Draw |h_f|^2 of one block; its mean is 1 (Rayleigh: Exp(1), P1 section 2.3)."""
    return fade_gain(config, scattered(rng))


class JakesFading:
    """Scattering that changes along the way: a sum of plane waves from random directions (Clarke, Jakes).

    Over the ensemble E|h|^2 = 1 and E[h(x) h*(x + d)] = J0(2 pi d / wavelength); at a steady speed v that is
    J0(2 pi f_D tau) with the Doppler f_D = v f / c. As a function of the way flown it has no state: a gap or a clock
    that jumps back does no harm.
    """

    def __init__(self, carrier_hz: float, rng: np.random.Generator, waves: int = WAVES) -> None:
        directions, phases = rng.uniform(0.0, 2.0 * np.pi, (2, waves))
        self._wave_numbers = 2.0 * np.pi * carrier_hz / speed_of_light * np.cos(directions)
        self._phases = phases

    def coefficient(self, way_m: float) -> complex:
        """Return the complex coefficient after ``way_m`` metres."""
        angles = self._wave_numbers * way_m + self._phases
        return complex(np.exp(1j * angles).sum() / np.sqrt(len(angles)))
