"""Tight composition of a Gaussian part with many pure epsilons, by convolving privacy losses on a grid.

The worst epsilon-DP mechanism is randomized response, whose privacy loss is +-epsilon; every other is post-processing
of it (Kairouz, Oh and Viswanath 2015). Its loss is moved onto a grid so that its hockey-stick curve is interpolated
between grid points (connect the dots, Doroshenko et al. 2022), which never understates a loss; the sum of all losses
follows by a Fourier transform, and the Gaussian part enters in closed form:

    delta(epsilon) = sum over s of P(sum of losses = s) * delta_Gauss(epsilon - s).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from scipy.optimize import brentq

from .calibration import gaussian_delta
from .composition import mu_from_pure, total_epsilon
from .domain import FloatArray, not_negative, positive, probability

_POINTS = 1 << 16
_TAIL_LOG = 46.0  # -log of the mass that may fall off the grid, about 1e-20
_SMALLEST_DELTA = 1e-11  # below it rounding in the Fourier transform would show; the closed forms serve


def mixed_epsilon(mu: float, pure: Mapping[float, int], delta: float) -> float:
    """Return an epsilon that holds at ``delta`` for mu-Gaussian DP together with pure epsilons, tight to about 0.1 %.

    Args:
        mu: composed Gaussian DP parameter of the Gaussian releases; infinity gives infinity.
        pure: how many releases there were of each pure epsilon.
        delta: strictly between 0 and 1; below 1e-11 the closed forms of :mod:`composition` are returned.

    Raises:
        ValueError: a parameter out of its range.
    """
    delta = float(probability("delta", delta))
    counts = {float(not_negative("pure epsilon", key)): number for key, number in pure.items() if number and key}
    epsilons, numbers = np.array(list(counts)), np.array(list(counts.values()), np.float64)
    squares = float(np.square(mu_from_pure(epsilons)) @ numbers) if counts else 0.0
    bound = float(total_epsilon(mu, float(epsilons @ numbers), squares, delta))
    if not counts or not 0 < bound < np.inf or delta < _SMALLEST_DELTA:
        return bound
    losses, mass = _loss_distribution(epsilons, numbers)

    def excess(epsilon: float) -> float:
        return float(mass @ _hockey_stick(epsilon - losses, mu)) - delta

    if excess(0.0) <= 0:
        return 0.0
    return bound if excess(bound) >= 0 else float(brentq(excess, 0.0, bound, xtol=1e-9, rtol=1e-9))


def round_up(epsilon: float, ratio: float = 1.001) -> float:
    """Return the next value of a geometric grid at or above ``epsilon``, so that histograms of budgets stay small."""
    if epsilon == 0 or not np.isfinite(epsilon):
        return epsilon
    exponent = np.ceil(np.log(positive("epsilon", epsilon)) / np.log(ratio) - 1e-9)
    return float(max(ratio**exponent, epsilon))


def _hockey_stick(epsilon: FloatArray, mu: float) -> FloatArray:
    """Return delta of the Gaussian part at ``epsilon`` of any sign; mu = 0 means that there is none."""
    if mu == 0:
        return -np.expm1(np.minimum(epsilon, 0.0))
    return gaussian_delta(epsilon, mu)


def _loss_distribution(epsilons: FloatArray, numbers: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the values and the masses of the summed privacy losses."""
    total, likely = float(epsilons @ numbers), float(np.sqrt(2 * _TAIL_LOG * (np.square(epsilons) @ numbers)))
    mean = 0.0 if total < likely else (epsilons * np.tanh(epsilons / 2)) @ numbers  # Hoeffding: within it +- likely
    step = 2.1 * min(total, likely) / _POINTS
    spectrum = np.zeros(_POINTS // 2 + 1, np.complex128)
    for epsilon, number in zip(epsilons, numbers, strict=True):
        with np.errstate(divide="ignore"):
            spectrum += number * np.log(np.fft.rfft(_one_loss(epsilon, step)))
    mass = np.maximum(np.fft.irfft(np.exp(spectrum), _POINTS), 0.0)
    first = int(np.rint(mean / step)) - _POINTS // 2
    index = np.arange(first, first + _POINTS)
    mass = mass[index % _POINTS]
    keep = mass > 1e-22
    return index[keep] * step, mass[keep]


def _one_loss(epsilon: float, step: float) -> FloatArray:
    """Return the circular grid distribution of one loss: mass from the slope changes of the interpolated curve."""
    low = int(np.floor(epsilon / step))
    high = low + 1
    x_low, x_high = np.exp(low * step), np.exp(high * step)
    miss = 1 / (1 + np.exp(epsilon))
    right = -(1 - miss - x_low * miss) / (x_high - x_low)
    left = (1 - miss - miss / x_low - (1 - 1 / x_high)) / (1 / x_low - 1 / x_high)
    under: dict[int, float] = {-high: 1 + left, -low: -miss - left, low: right + miss, high: -right}
    if low == 0:
        under[0] = right - left
    mass = np.zeros(_POINTS)
    for position, weight in under.items():
        mass[position % _POINTS] += max(float(weight), 0.0) * np.exp(position * step)
    return mass / mass.sum()
