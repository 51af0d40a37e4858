"""Composition: what several releases about the same thing cost together.

Gaussian releases compose in closed form: mu is the root of summed squares (Dong, Roth and Su 2022, Corollary 2). Pure
epsilons add. Where both meet, two upper bounds hold and the smaller is taken:

* the epsilon of the Gaussian part at delta plus the sum of the pure epsilons (basic composition);
* every pure epsilon turned into Gaussian DP and composed there. Its trade-off function is the two chords of the
  Gaussian one with the same fixed point, and chords of a convex curve lie above it, so epsilon-DP implies mu-Gaussian
  DP for ``mu = -2 Phi^-1(1 / (1 + exp(epsilon)))``. It grows with the root of the number of releases.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri_exp

from .calibration import epsilon_from_mu
from .domain import not_negative, probability


def compose_mu(mu: ArrayLike) -> float:
    """Return the Gaussian DP parameter of independent releases with parameters ``mu`` (any shape)."""
    return float(np.sqrt(np.sum(np.square(np.asarray(mu, np.float64)))))


def mu_from_pure(epsilon: ArrayLike) -> Any:
    """Return the smallest mu for which epsilon-DP implies mu-Gaussian DP; 0 gives 0.

    Raises:
        ValueError: an epsilon that is NaN, infinite or below 0.
    """
    epsilon = not_negative("epsilon", epsilon)
    return (np.maximum(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)), 0.0))[()]


def total_epsilon(mu: ArrayLike, pure_sum: ArrayLike, pure_mu_squared: ArrayLike, delta: float) -> Any:
    """Return an epsilon that holds, at ``delta``, for a Gaussian part and a pure part together.

    Args:
        mu: composed Gaussian DP parameter of the Gaussian releases; infinity gives infinity; any shape.
        pure_sum: sum of the pure epsilons, of the same shape.
        pure_mu_squared: sum of ``mu_from_pure(epsilon)**2`` over the same releases, of the same shape.
        delta: strictly between 0 and 1.

    Raises:
        ValueError: delta out of range.
    """
    probability("delta", delta)
    mu, pure_sum = np.asarray(mu, np.float64), np.asarray(pure_sum, np.float64)
    basic, gaussian = epsilon_from_mu(np.stack([mu, np.sqrt(mu**2 + pure_mu_squared)]), delta)
    return np.minimum(basic + pure_sum, gaussian)[()]
