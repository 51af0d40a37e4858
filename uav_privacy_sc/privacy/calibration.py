"""Calibration of the Gaussian mechanism: sigma from (epsilon, delta), and back.

The *analytic* calibration (Balle and Wang, 2018, Theorem 8) is exact for every epsilon: with ``mu = sensitivity /
sigma`` the mechanism is (epsilon, delta)-DP if and only if

    Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu) <= delta.

Written like that it overflows and cancels. Because ``exp(epsilon) phi(b) = phi(a)`` for ``a = mu/2 - epsilon/mu`` and
``b = mu/2 + epsilon/mu``, the left side is ``phi(a) (M(-a) - M(b))`` with the Mills ratio ``M(x) = Phi(-x)/phi(x)``,
which is a scaled complementary error function; its logarithm is exact from epsilon 1e-6 to 1e3 and delta 1e-15 to 0.1
and beyond.

The *classical* calibration (P1 Eq. 15) is proved for epsilon < 1 only; :func:`actual_epsilon` says what it really
gives.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf, erfcx, ndtr, ndtri

from .domain import FloatArray, choice, positive, probability

METHODS = ("analytic", "classical")

_SQRT2 = np.sqrt(2.0)
_LOG_SQRT_2PI = 0.5 * np.log(2 * np.pi)
_SMALL_MU = 0.01  # below it M(-a) - M(b) cancels, and a quadrature of -M' takes its place
_NODES, _WEIGHTS = (array / 2 for array in np.polynomial.legendre.leggauss(10))
_NODES = _NODES + 0.5
_FAR = 1e8  # deviations beyond which delta is 0 whatever the formula says
_ITERATIONS = 80
_TABLE = np.linspace(np.log(1e-6), np.log(1e3), 2048)
_NUDGE = 1e-12  # sigma is rounded up by this much, so that rounding never costs privacy


class CalibrationError(ArithmeticError):
    """The solver did not reach its tolerance: no sigma is better than a wrong one."""


def gaussian_sigma(epsilon: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike, method: str = "analytic") -> Any:
    """Return the noise deviation that makes the Gaussian mechanism (epsilon, delta)-DP.

    Args:
        epsilon: privacy parameter, finite and above 0; broadcasts.
        delta: failure probability, strictly between 0 and 1; broadcasts.
        sensitivity: L2 sensitivity in the unit of the data, finite and above 0; broadcasts.
        method: ``analytic`` (exact, Balle and Wang 2018) or ``classical`` (P1 Eq. 15, proved for epsilon < 1).

    Returns:
        sigma in the unit of the data: a float for scalars, else a float64 array of the broadcast shape.

    Raises:
        ValueError: a parameter out of its range, by name.
    """
    epsilon, delta = positive("epsilon", epsilon), probability("delta", delta)
    sensitivity = positive("sensitivity", sensitivity)
    choice("method", method, METHODS)
    if method == "classical":
        return (sensitivity * np.sqrt(2 * np.log(1.25 / delta)) / epsilon)[()]
    if delta.ndim == 0 and epsilon.size:
        mu = _solve_mu(epsilon, delta, _tabulated_mu(epsilon, float(delta)))
    else:
        epsilon, delta = np.broadcast_arrays(epsilon, delta)
        mu = _solve_mu(epsilon, delta, _least_mu(epsilon, delta))
    return (sensitivity / mu * (1 + _NUDGE))[()]


def gaussian_epsilon(sigma: ArrayLike, delta: ArrayLike, sensitivity: ArrayLike) -> Any:
    """Return the smallest epsilon for which Gaussian noise of deviation ``sigma`` is (epsilon, delta)-DP.

    Args:
        sigma: noise deviation, finite and above 0; broadcasts.
        delta: failure probability, strictly between 0 and 1; broadcasts.
        sensitivity: L2 sensitivity in the unit of sigma; broadcasts.

    Returns:
        epsilon, 0 where the noise alone is within delta: a float for scalars, else a float64 array.

    Raises:
        ValueError: a parameter out of its range, by name.
    """
    sigma, sensitivity = positive("sigma", sigma), positive("sensitivity", sensitivity)
    return epsilon_from_mu(sensitivity / sigma, delta)


def epsilon_from_mu(mu: ArrayLike, delta: ArrayLike) -> Any:
    """Return the smallest epsilon for which mu-Gaussian DP implies (epsilon, delta)-DP (Dong et al. 2022, Corollary 1).

    Args:
        mu: Gaussian DP parameter, ``sensitivity / sigma``; 0 gives 0, infinity gives infinity; broadcasts.
        delta: failure probability, strictly between 0 and 1; broadcasts.

    Raises:
        ValueError: a parameter out of its range, by name.
    """
    mu, delta = np.broadcast_arrays(np.asarray(mu, np.float64), probability("delta", delta))
    if not (mu >= 0).all():
        raise ValueError(f"mu must be at least 0, got {mu.min()}; it is sensitivity / sigma")
    result = np.zeros(mu.shape)
    result[np.isinf(mu)] = np.inf
    solve = np.isfinite(mu) & (erf(mu / (2 * _SQRT2)) > delta)
    if solve.any():
        result[solve] = _solve_epsilon(mu[solve], delta[solve])
    return result[()]


def mu_from_epsilon(epsilon: ArrayLike, delta: ArrayLike) -> Any:
    """Return the largest mu for which mu-Gaussian DP implies (epsilon, delta)-DP: the inverse of
    :func:`epsilon_from_mu`.

    Raises:
        ValueError: a parameter out of its range, by name.
    """
    return (1.0 / np.asarray(gaussian_sigma(epsilon, delta, 1.0)))[()]


def gaussian_delta(epsilon: ArrayLike, mu: ArrayLike) -> Any:
    """Return the exact delta of mu-Gaussian DP at ``epsilon`` (any finite sign), both broadcasting.

    Raises:
        ValueError: mu that is not finite and above 0, or epsilon that is not finite.
    """
    epsilon, mu = np.broadcast_arrays(np.asarray(epsilon, np.float64), positive("mu", mu))
    if not np.isfinite(epsilon).all():
        raise ValueError("epsilon must be finite")
    delta = np.exp(log_delta(np.abs(epsilon), mu))
    below = np.minimum(epsilon, 0.0)  # delta(-e) = 1 - exp(-e) + exp(-e) delta(e), as the pair is symmetric
    return (np.where(epsilon < 0, np.exp(below) * delta - np.expm1(below), delta))[()]


def actual_epsilon(epsilon: ArrayLike, delta: ArrayLike, method: str = "analytic") -> Any:
    """Return the epsilon that a calibration really gives: ``classical`` at (20, 1e-5) gives 25.44, not 20.

    Raises:
        ValueError: a parameter out of its range, by name.
    """
    return gaussian_epsilon(gaussian_sigma(epsilon, delta, 1.0, method), delta, 1.0)


def log_delta(epsilon: FloatArray, mu: FloatArray) -> FloatArray:
    """Return the logarithm of the exact delta of mu-Gaussian DP at epsilon >= 0; arrays of one shape, unchecked."""
    with np.errstate(over="ignore"):
        ratio = np.minimum(epsilon / mu, mu / 2 + _FAR)
    a, b = mu / 2 - ratio, mu / 2 + ratio
    inner = (a > 0) & (mu >= _SMALL_MU)
    gap = _mills_gap(np.where(inner, 0.0, -a) if inner.any() else -a, b, mu)
    tail = _log_normal(a) + np.log(np.maximum(gap, np.finfo(float).tiny))
    if not inner.any():
        return tail
    body = ndtr(a) - np.exp(_log_normal(a)) * _mills(b)
    return np.where(inner, np.log(np.maximum(body, np.finfo(float).tiny)), tail)


def _log_normal(x: FloatArray) -> FloatArray:
    return -0.5 * x * x - _LOG_SQRT_2PI


def _mills(x: FloatArray) -> FloatArray:
    return np.sqrt(np.pi / 2) * erfcx(x / _SQRT2)


def _mills_gap(low: FloatArray, high: FloatArray, mu: FloatArray) -> FloatArray:
    """Return M(low) - M(high) where high = low + mu, without cancellation for small mu."""
    gap = np.asarray(_mills(low) - _mills(high))
    small = np.asarray(mu < _SMALL_MU)
    if small.any():
        width = np.asarray(mu)[small]
        points = np.asarray(low)[small][:, None] + width[:, None] * _NODES
        gap[small] = width * (_mills_slope(points) @ _WEIGHTS)
    return gap


def _mills_slope(x: FloatArray) -> FloatArray:
    """Return -M'(x) = 1 - x M(x), by its asymptotic series where the difference cancels."""
    square = np.maximum(x, 300.0) ** -2
    return np.where(x > 300.0, square * (1 - square * (3 - 15 * square)), 1 - x * _mills(x))


def _least_mu(epsilon: FloatArray, delta: FloatArray) -> FloatArray:
    """Return a lower bound of mu: both delta <= Phi(a) and delta(epsilon) <= delta(0) give one."""
    quantile = ndtri(delta)
    root = np.sqrt(quantile**2 + 2 * epsilon)
    by_tail = np.where(quantile < 0, 2 * epsilon / (root - np.minimum(quantile, 0)), quantile + root)
    return np.maximum(by_tail, 2 * ndtri((1 + delta) / 2))


@lru_cache(maxsize=16)
def _mu_table(delta: float) -> FloatArray:
    epsilon = np.exp(_TABLE)
    target = np.full_like(epsilon, delta)
    return np.log(_solve_mu(epsilon, target, _least_mu(epsilon, target)))


def _tabulated_mu(epsilon: FloatArray, delta: float) -> FloatArray:
    """Return mu to about six digits from a table, which saves Newton most of its way; outside it, the lower bound."""
    logarithm = np.log(epsilon)
    if logarithm.min() < _TABLE[0] or logarithm.max() > _TABLE[-1]:
        return _least_mu(epsilon, np.asarray(delta))
    return np.exp(np.interp(logarithm, _TABLE, _mu_table(delta)))


def _solve_mu(epsilon: FloatArray, delta: FloatArray, start: FloatArray) -> FloatArray:
    """Return mu with delta(epsilon, mu) = delta, by Newton on log delta over log mu.

    log delta is concave in log mu: from below Newton climbs without overshooting, from above its first step lands
    below.
    """
    target, mu = np.log(delta), start
    for _ in range(_ITERATIONS):
        value = log_delta(epsilon, mu)
        slope = mu * np.exp(_log_normal(mu / 2 - epsilon / mu) - value)
        step = (target - value) / slope
        mu = mu * np.exp(np.clip(step, -2, 2))
        if (np.abs(step) < 1e-8).all():  # the error after this step is about its square
            break
    return _converged(mu, np.abs(step))


def _solve_epsilon(mu: FloatArray, delta: FloatArray) -> FloatArray:
    """Return epsilon with delta(epsilon, mu) = delta, by Newton from the upper bound mu^2/2 - mu Phi^-1(delta).

    log delta is concave in epsilon (a convolution of log-concave functions), so Newton descends monotonically.
    """
    target = np.log(delta)
    epsilon = np.maximum(mu * (mu / 2 - ndtri(delta)), 0.0)
    for _ in range(_ITERATIONS):
        value = log_delta(epsilon, mu)
        a, b = mu / 2 - epsilon / mu, mu / 2 + epsilon / mu
        slope = np.exp(_log_normal(a) - value) * _mills(b)
        step = (value - target) / slope
        epsilon = np.maximum(epsilon + step, 0.0)
        size = np.abs(step) / np.maximum(epsilon, 1e-3)
        if (size < 1e-8).all():
            break
    return _converged(epsilon, size)


def _converged(result: FloatArray, error: FloatArray) -> FloatArray:
    if not (np.isfinite(result).all() and (error < 1e-7).all()):
        raise CalibrationError(f"the Gaussian calibration did not converge (relative step {np.max(error):.2g})")
    return result
