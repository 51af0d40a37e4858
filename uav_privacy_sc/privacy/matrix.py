"""Matrix Gaussian mechanisms (P2): noise with a direction, as published and in a tight form.

Noise is ``Z = U1 N U2^T`` for standard normal ``N``; ``Uk = Wk diag(sigma_k)`` with an orthogonal basis ``Wk``. Two
relations between neighbouring matrices matter, and what is tight depends on which holds:

*ball*  the difference D has Frobenius norm at most s. Then ``mu = sup ||U1^-1 D U2^-T|| = s / (min sigma_1 min
        sigma_2)``: only the smallest deviation counts, so among mechanisms of equal mu isotropic noise has the least
        energy, and a direction gains nothing.
*box*   every entry lies in [low, high]. Then without bases ``mu = (high - low) sqrt(sum 1/sigma_1^2 sum 1/sigma_2^2)``,
        and P2's closed-form optimum over directions applies with this exact mu.

P2 bounds <N, D> by ||N|| ||D|| (Lemma 2), which costs a factor that grows with the number of entries; the tight forms
let the analytic Gaussian say what mu gives epsilon and delta.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from .calibration import mu_from_epsilon
from .domain import FloatArray, positive, probability, whole

_LEAST_WEIGHT = 1e-9  # of the largest: a direction of no use would get infinite noise


@dataclass(frozen=True)
class MatrixNoise:
    """Matrix Gaussian noise: deviations along rows and columns, and optional orthogonal bases.

    Attributes:
        rows: ``(m,)`` deviations sigma_1.
        columns: ``(n,)`` deviations sigma_2.
        row_basis, column_basis: ``(m, m)`` and ``(n, n)`` orthogonal matrices, or None for the identity.
    """

    rows: FloatArray
    columns: FloatArray
    row_basis: FloatArray | None = None
    column_basis: FloatArray | None = None

    @property
    def energy(self) -> float:
        """Expected squared Frobenius norm of the noise (P2 Theorem 4)."""
        return float(np.sum(self.rows**2) * np.sum(self.columns**2))

    def utility_error(self, w1: FloatArray | None = None, w2: FloatArray | None = None) -> float:
        """Expected ``||W1 Z W2^T||_F^2`` for utility subspaces W1 and W2 (P2, section 3); None is the identity."""
        return float(
            utility_weights(len(self.rows), w1, self.row_basis)
            @ self.rows**2
            * (utility_weights(len(self.columns), w2, self.column_basis) @ self.columns**2)
        )

    def mu_ball(self, sensitivity: float) -> float:
        """Gaussian DP parameter when neighbours differ by at most ``sensitivity`` in Frobenius norm; exact."""
        return float(sensitivity / (self.rows.min() * self.columns.min()))

    def mu_box(self, width: float) -> float:
        """Gaussian DP parameter when every entry may move by ``width``; exact without bases, else an upper bound."""
        rows, columns = _box_factor(self.rows, self.row_basis), _box_factor(self.columns, self.column_basis)
        return float(width * np.sqrt(rows * columns))

    def sample(self, rng: np.random.Generator) -> FloatArray:
        """Return one ``(m, n)`` float64 draw."""
        noise = rng.standard_normal((len(self.rows), len(self.columns)))
        noise *= self.rows[:, None]
        if not (self.columns == 1).all():
            noise *= self.columns
        if self.row_basis is not None:
            noise = self.row_basis @ noise
        return noise if self.column_basis is None else noise @ self.column_basis.T


def gaussian(shape: tuple[int, int], epsilon: float, delta: float, sensitivity: float) -> MatrixNoise:
    """Return independent Gaussian noise through the analytic calibration: the tight mechanism for the ball.

    Raises:
        ValueError: a parameter out of its range.
    """
    sigma = float(positive("sensitivity", sensitivity)) / mu_from_epsilon(epsilon, delta)
    return _noise(shape, np.full(shape[0], sigma))


def udn(
    shape: tuple[int, int], epsilon: float, delta: float, sensitivity: float, weights: ArrayLike | None = None
) -> MatrixNoise:
    """Return unimodal directional noise as P2 states it (Theorem 2): directions along rows, columns alike.

    Args:
        shape: ``(m, n)`` of the matrix.
        epsilon, delta: the claim.
        sensitivity: Frobenius sensitivity s_2(f).
        weights: ``(m,)`` utility weights P_1i, or None for all 1. Its tight form is :func:`gaussian`.

    Raises:
        ValueError: a parameter out of its range.
    """
    bound = theorem2_bound(shape, epsilon, delta, sensitivity)
    return _noise(shape, optimal_deviations(_weights(weights, shape[0]), bound))


def idn(
    shape: tuple[int, int],
    epsilon: float,
    delta: float,
    low: float,
    high: float,
    weights: ArrayLike | None = None,
    tight: bool = False,
) -> MatrixNoise:
    """Return independent directional noise for entries in [low, high] (P2 Theorem 3), or its tight form.

    Raises:
        ValueError: a parameter out of its range.
    """
    width = float(positive("high - low", high - low))
    if tight:
        bound = (mu_from_epsilon(epsilon, delta) / width) ** 2 / shape[1]
    else:
        loss = _paper_loss(shape, epsilon, delta)
        bound = shape[0] / (width**2 * shape[0] * shape[1]) * loss**2
    return _noise(shape, optimal_deviations(_weights(weights, shape[0]), bound))


def matrix_gaussian(
    shape: tuple[int, int],
    epsilon: float,
    delta: float,
    sensitivity: float,
    w1: FloatArray | None = None,
    w2: FloatArray | None = None,
) -> MatrixNoise:
    """Return P2's general mechanism (Theorem 1) with its closed-form optimum for utility subspaces W1 and W2.

    The bases are the right singular vectors of W1 and W2, which make ``sum sqrt(P_i)`` the nuclear norm, its least
    value.

    Raises:
        ValueError: a parameter out of its range.
    """
    bound = np.sqrt(theorem2_bound(shape, epsilon, delta, sensitivity))
    (basis1, weights1), (basis2, weights2) = _directions(shape[0], w1), _directions(shape[1], w2)
    return MatrixNoise(optimal_deviations(weights1, bound), optimal_deviations(weights2, bound), basis1, basis2)


def box_gaussian(
    shape: tuple[int, int], epsilon: float, delta: float, width: float, weights1: ArrayLike, weights2: ArrayLike
) -> MatrixNoise:
    """Return the tight general mechanism for entries that may move by ``width``, with directions in both ways.

    Raises:
        ValueError: a parameter out of its range.
    """
    bound = mu_from_epsilon(epsilon, delta) / float(positive("width", width))
    rows = optimal_deviations(_weights(weights1, shape[0]), bound)
    return MatrixNoise(rows, optimal_deviations(_weights(weights2, shape[1]), bound))


def mvg(
    shape: tuple[int, int],
    epsilon: float,
    delta: float,
    sensitivity: float,
    gamma: float,
    weights: ArrayLike | None = None,
) -> MatrixNoise:
    """Return matrix-variate Gaussian noise (Chanyaswad et al. 2018, Theorem 2), directions along rows.

    Args:
        shape, epsilon, delta, sensitivity: as in :func:`udn`.
        gamma: largest Frobenius norm of the matrix itself.
        weights: ``(m,)`` relative precisions of the rows, or None for equal ones.

    Raises:
        ValueError: a parameter out of its range.
    """
    share = _weights(weights, shape[0])
    # ||sigma(Sigma^-1)||_2 ||sigma(I)||_2 <= bound, the row precisions in the given proportions
    precision = mvg_bound(shape, epsilon, delta, sensitivity, gamma) / np.sqrt(shape[1]) * share / np.linalg.norm(share)
    return _noise(shape, 1 / np.sqrt(precision))


def matrix_mechanism(
    shape: tuple[int, int], epsilon: float, delta: float, width: float, workload: FloatArray
) -> MatrixNoise:
    """Return the matrix mechanism (Li et al. 2015) for row queries ``workload`` (k, m): noise A^-1 b for a strategy A.

    The strategy is the eigen design ``A^T A = (W^T W)^(1/2)``, which meets the singular value bound where its columns
    come out equal; b is analytic Gaussian noise for the sensitivity of A under entries that may move by ``width``.

    Raises:
        ValueError: a parameter out of its range.
    """
    basis, weights = _directions(shape[0], np.asarray(workload, np.float64))
    strategy = np.maximum(weights, _LEAST_WEIGHT * weights.max()) ** 0.25
    assert basis is not None
    reach = np.sqrt(shape[1] * np.sum(np.square(strategy * np.abs(basis).sum(axis=0))))
    scale = float(positive("width", width)) * reach / mu_from_epsilon(epsilon, delta)
    return MatrixNoise(scale / strategy, np.ones(shape[1]), basis)


def lemma2_zeta(shape: tuple[int, int], delta: float) -> float:
    """Return zeta with ``Pr[||N||_F <= zeta] >= 1 - delta`` (P2 Lemma 2, with the sign under its root put right)."""
    entries, log = whole("m", shape[0]) * whole("n", shape[1]), -np.log(probability("delta", delta))
    return float(np.sqrt(2 * log + 2 * np.sqrt(entries * log) + entries))


def theorem2_bound(shape: tuple[int, int], epsilon: float, delta: float, sensitivity: float) -> float:
    """Return B, the largest ``||U1^-1||_F^2 ||U2^-1||_F^2`` of P2 Theorem 1, or ``||U1^-1||_F^2`` of Theorem 2."""
    return float((_paper_loss(shape, epsilon, delta) / positive("sensitivity", sensitivity)) ** 2)


def mvg_bound(shape: tuple[int, int], epsilon: float, delta: float, sensitivity: float, gamma: float) -> float:
    """Return the bound on ``||sigma(Sigma^-1)||_2 ||sigma(Psi^-1)||_2`` of Chanyaswad et al. (2018), Theorem 2."""
    epsilon, s = float(positive("epsilon", epsilon)), float(positive("sensitivity", sensitivity))
    gamma = float(positive("gamma", gamma))
    steps = np.arange(1, min(shape) + 1)
    harmonic, half = np.sum(1 / steps), np.sum(1 / np.sqrt(steps))
    alpha = (harmonic + half) * gamma**2 + 2 * harmonic * gamma * s
    beta = 2 * (shape[0] * shape[1]) ** 0.25 * lemma2_zeta(shape, delta) ** 2 * harmonic * s
    return float((4 * epsilon / (beta + np.sqrt(beta**2 + 8 * alpha * epsilon))) ** 2)


def optimal_deviations(weights: FloatArray, bound: float) -> FloatArray:
    """Return deviations that minimize ``sum P_i sigma_i^2`` under ``sum 1/sigma_i^2 = bound`` (P2, section 3).

    By the Karush-Kuhn-Tucker conditions; a direction of almost no weight is treated as having a little.
    """
    root = np.sqrt(np.maximum(weights, _LEAST_WEIGHT * weights.max()))
    return np.sqrt(root.sum() / (root * bound))


def utility_weights(size: int, w: FloatArray | None = None, basis: FloatArray | None = None) -> FloatArray:
    """Return ``(size,)`` weights P_i: squared column norms of ``W basis`` (P2, section 3)."""
    if w is None:
        return np.ones(size)
    return np.sum(np.square(np.asarray(w) if basis is None else w @ basis), axis=0)


def _paper_loss(shape: tuple[int, int], epsilon: float, delta: float) -> float:
    """Return the largest y with ``y^2/2 + zeta y <= epsilon``, free of cancellation."""
    epsilon, zeta = float(positive("epsilon", epsilon)), lemma2_zeta(shape, delta)
    return float(2 * epsilon / (zeta + np.sqrt(zeta**2 + 2 * epsilon)))


def _noise(shape: tuple[int, int], rows: FloatArray) -> MatrixNoise:
    return MatrixNoise(rows, np.ones(shape[1]))


def _weights(weights: ArrayLike | None, size: int) -> FloatArray:
    if weights is None:
        return np.ones(size)
    array = positive("weights", weights)
    if array.shape != (size,):
        raise ValueError(f"weights must have shape ({size},), got {array.shape}; give one for every direction")
    return array


def _directions(size: int, w: FloatArray | None) -> tuple[FloatArray | None, FloatArray]:
    if w is None:
        return None, np.ones(size)
    _, singular, transposed = np.linalg.svd(np.asarray(w, np.float64), full_matrices=True)
    return transposed.T, np.concatenate([singular, np.zeros(size - len(singular))]) ** 2


def _box_factor(sigma: FloatArray, basis: FloatArray | None) -> float:
    reach = 1.0 if basis is None else np.abs(basis).sum(axis=0)
    return float(np.sum(np.square(reach / sigma)))
