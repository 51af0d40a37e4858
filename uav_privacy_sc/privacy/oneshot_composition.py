"""What many one-shot Laplace releases cost together, at a delta: their privacy losses convolved on a grid.

A release is post-processing of one (values "same") or two (selection and fresh values) vectors under Laplace noise.
Such a vector whose change has L1 norm D is no worse than one number that changes by D. Change one entry after the
other: by group privacy (Dong, Roth and Su 2022) the trade-off function is at least the chain ``T_b(1 - T_a)`` of those
of the steps. For log-concave noise a threshold is the best test at every level, and the same one serves both steps, so
the chain of shifts a and b is the shift a + b. Hence the loss of the scalar discrete Laplace mechanism dominates, and
losses of dominating pairs add, whatever earlier releases showed.

Within a cell of the grid mass is moved to both ends such that its chance under either input stays what it was
(connect the dots, Doroshenko et al. 2022), which never understates delta.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from .domain import FloatArray, probability, whole
from .mixture import mixed_epsilon
from .oneshot import OneshotLaplace

_POINTS = 1 << 17
_TAIL_LOG = 46.0  # -log of the mass that may fall off the grid, about 1e-20
_SMALLEST_DELTA = 1e-11  # below it rounding in the Fourier transform would show
_LARGEST_PURE = 300.0  # beyond it randomized response would overflow, and has nothing to add

#: Shift and scale of one number under discrete Laplace noise, in steps.
Term = tuple[int, float]


def composed_epsilon(releases: Mapping[OneshotLaplace, int], delta: float) -> float:
    """Return an epsilon that holds at ``delta`` for all releases about one client's data together.

    The least of three bounds: the sum of the pure epsilons; that sum composed as randomized response; and the convolved
    losses of the Laplace vectors.

    Args:
        releases: how often each mechanism was used.
        delta: strictly between 0 and 1; below 1e-11 the pure sum is returned.

    Raises:
        ValueError: a delta out of range, or a number of releases that is not a whole number.
    """
    delta = float(probability("delta", delta))
    counts = {mechanism: whole("releases", number, 0) for mechanism, number in releases.items()}
    pure = math.fsum(number * mechanism.worst_case_epsilon for mechanism, number in counts.items())
    if not pure or delta < _SMALLEST_DELTA:
        return pure
    terms: Counter[Term] = Counter()
    budgets: Counter[float] = Counter()
    for mechanism, number in counts.items():
        budgets[mechanism.worst_case_epsilon] += number
        for term in mechanism_terms(mechanism):
            terms[term] += number
    bounds = [pure, laplace_epsilon(terms, delta)]
    if max(budgets) < _LARGEST_PURE:
        bounds.append(mixed_epsilon(0.0, budgets, delta))
    return min(bounds)


def mechanism_terms(mechanism: OneshotLaplace) -> tuple[Term, ...]:
    """Return the scalar discrete Laplace mechanisms that dominate one release."""
    shift = 2 * math.floor(mechanism.bound / mechanism.step)
    sigmas = (mechanism.sigma_1,) if mechanism.values == "same" else (mechanism.sigma_1, mechanism.sigma_2)
    return tuple((shift, sigma / mechanism.step) for sigma in sigmas)


def laplace_epsilon(terms: Mapping[Term, int], delta: float) -> float:
    """Return the epsilon at ``delta`` of scalar discrete Laplace mechanisms, (shift, scale) in steps, used so often."""
    kept = {term: number for term, number in terms.items() if number and term[0]}
    total = math.fsum(number * shift / scale for (shift, scale), number in kept.items())
    if not kept:
        return 0.0
    losses, mass = _loss_distribution(kept, total)

    def excess(epsilon: float) -> float:
        return float(mass @ -np.expm1(np.minimum(epsilon - losses, 0.0))) - delta

    if excess(0.0) <= 0:
        return 0.0
    return total if excess(total) >= 0 else float(brentq(excess, 0.0, total, xtol=1e-9, rtol=1e-9))


def _loss_distribution(terms: Mapping[Term, int], total: float) -> tuple[FloatArray, FloatArray]:
    """Return values and masses of the summed loss; each lies within +-epsilon, so Hoeffding bounds how far it goes."""
    squares = math.fsum(number * (shift / scale) ** 2 for (shift, scale), number in terms.items())
    likely = math.sqrt(2 * _TAIL_LOG * squares)
    width = 2.1 * min(total, likely) / _POINTS
    spectrum, mean = np.ones(_POINTS // 2 + 1, np.complex128), 0.0
    for term, number in terms.items():
        index, mass = _one_loss(term, width)
        mean += number * float(mass @ index)
        spectrum *= np.fft.rfft(np.bincount(index % _POINTS, mass, _POINTS)) ** number
    summed = np.maximum(np.fft.irfft(spectrum, _POINTS), 0.0)
    first = (0 if total < likely else round(mean)) - _POINTS // 2
    index = np.arange(first, first + _POINTS)
    return np.asarray(index * width), np.asarray(summed[index % _POINTS])


def _one_loss(term: Term, width: float) -> tuple[NDArray[np.int64], FloatArray]:
    """Return grid indices (repeated ones add up) and masses of the loss of one mechanism.

    The output k (in steps from the first input) has chance c q^abs(k), q = exp(-1/scale), c = (1 - q)/(1 + q), and loss
    (abs(k - shift) - abs(k))/scale: epsilon for k <= 0, -epsilon for k >= shift, and (shift - 2 k)/scale between.
    """
    shift, scale = term
    epsilon, half = shift / scale, 1 / (1 + math.exp(-1 / scale))
    cells = np.arange(math.floor(-epsilon / width), math.floor(epsilon / width) + 1)
    starts = cells * width
    last = np.minimum(np.floor((shift - scale * starts) / 2), shift - 1)
    first = np.maximum(np.floor((shift - scale * (starts + width)) / 2) + 1, 1)
    number = np.maximum(last - first + 1, 0)
    geometric = -np.expm1(-number / scale) * half  # c times the sum of q^j over as many j
    under_first = np.exp(-first / scale) * geometric
    excess = np.maximum((shift - 2 * last) / scale - starts, 0.0)
    under_second = np.exp(-last / scale - excess) * geometric  # times exp(start of the cell)
    low, high = _ends(under_first, under_second, width)
    atoms = np.array([epsilon, -epsilon])
    places = np.floor(atoms / width).astype(np.int64)
    weights = np.array([half, half * math.exp(-epsilon)])
    atom_low, atom_high = _ends(weights, weights * np.exp(-(atoms - places * width)), width)
    index = np.concatenate([cells, cells + 1, places, places + 1])
    return index, np.concatenate([low, high, atom_low, atom_high])


def _ends(under_first: FloatArray, under_second: FloatArray, width: float) -> tuple[FloatArray, FloatArray]:
    """Share the mass of a cell out to its ends such that its chances under both inputs stay."""
    gap = -math.expm1(-width)
    high = np.clip((under_first - under_second) / gap, 0.0, under_first)
    return under_first - high, high
