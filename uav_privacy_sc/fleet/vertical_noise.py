"""What noise a party adds to its intermediate features (P2, section 4), and what that noise really gives.

A party releases a matrix X (m, n): a column for each of n records, m intermediate features, clipped before anything
else. P2 says "epsilon" and does not always mean the same; three readings are kept apart here:

*record*  Two data sets differ in one record. All that both parties release about it, once, is (epsilon, delta)-DP. The
          matrix of a mechanism is one column (m, 1); the other columns do not depend on the record.
*entry*   What P2 plots. The Gaussian is calibrated for one entry of one release ("the epsilon in the results is that
          of the Gaussian on every element"; sensitivity 2, entries in [-1, 1]), and the matrix mechanisms get what
          basic composition makes of it for the whole matrix: mn epsilon and mn delta.
*matrix*  P2's Definition 3 and its sensitivity 2 sqrt(mn): the whole matrix of a release may change, epsilon is for one
          release by one party.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.privacy import matrix
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, gaussian_sigma, mu_from_epsilon
from uav_privacy_sc.privacy.domain import choice, positive, probability
from uav_privacy_sc.privacy.matrix import MatrixNoise

READINGS = ("record", "entry", "matrix")
#: Names as they are drawn. Under a norm bound the tight form of UDN is the analytic Gaussian itself.
MECHANISMS = {
    "classical": "Gaussian, classical",
    "analytic": "Gaussian, analytic (UDN, tight)",
    "udn": "UDN, as in P2",
    "idn": "IDN, as in P2",
    "idn_tight": "IDN, tight",
    "mvg": "MVG",
    "mm": "MM",
}
PARTIES = 2
#: Mechanisms whose calibration is for entries in a range, not for a norm.
_BOXED = ("idn", "idn_tight", "mm")


@dataclass(frozen=True)
class Clip:
    """What a column of features (m,) is held to: a Euclidean norm of at most ``bound``, or entries within +-``bound``.

    Raises:
        ValueError: another kind, or a bound that is not finite and above 0.
    """

    kind: str
    bound: float

    def __post_init__(self) -> None:
        choice("kind", self.kind, ("ball", "box"))
        positive("bound", self.bound)

    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return features ``(..., m)`` float64, clipped along the last axis.

        Raises:
            ValueError: features that are not finite.
        """
        if not np.isfinite(features).all():
            raise ValueError("features hold NaN or infinity; nothing is released")
        if self.kind == "box":
            return np.clip(features, -self.bound, self.bound)
        # One unit in the last place shorter, so that rounding never leaves the ball.
        norm = np.linalg.norm(features, axis=-1, keepdims=True)
        return features * np.minimum(1.0, self.bound * (1 - 1e-12) / np.maximum(norm, np.finfo(float).tiny))

    def column_mu(self, noise: MatrixNoise) -> float:
        """Return the Gaussian DP parameter of one column that may change at will within the clip."""
        if self.kind == "ball":
            return float(2 * self.bound / noise.rows.min())
        return float(2 * self.bound * np.sqrt(np.sum(noise.rows**-2.0)))


def clip_for(mechanism: str, reading: str, features: int) -> Clip:
    """Return the clip that makes the sensitivity of a calibration true.

    By *record*, a box of half-width 1 / sqrt(m) lies inside the unit ball that norm-bound mechanisms are given.
    """
    if reading != "record":
        return Clip("box", 1.0)
    return Clip("box", features**-0.5) if mechanism in _BOXED else Clip("ball", 1.0)


def noise_for(mechanism: str, reading: str, shape: tuple[int, int], epsilon: float, delta: float) -> MatrixNoise:
    """Return the noise that a party adds to a matrix ``shape`` (m features, n records).

    Args:
        mechanism: one of :data:`MECHANISMS`; utility weights are all 1, as in P2 (W = E).
        reading: one of :data:`READINGS`: what epsilon and delta are for.

    Raises:
        ValueError: a parameter out of its range, or mn delta of 1 and more for the reading *entry*.
    """
    choice("mechanism", mechanism, tuple(MECHANISMS))
    choice("reading", reading, READINGS)
    epsilon, delta = float(positive("epsilon", epsilon)), float(probability("delta", delta))
    if reading == "record":
        column = _noise_of_record(mechanism, shape[0], epsilon, delta)
        return MatrixNoise(column.rows * column.columns[0], np.ones(shape[1]), column.row_basis)
    if reading == "matrix":
        return _noise_of_matrix(mechanism, shape, epsilon, delta)
    if mechanism in ("classical", "analytic", "mm"):  # P2: MM's sensitivity is of an element, too
        method = "classical" if mechanism == "classical" else "analytic"
        return MatrixNoise(np.full(shape[0], gaussian_sigma(epsilon, delta, 2.0, method)), np.ones(shape[1]))
    size = shape[0] * shape[1]
    if size * delta >= 1:
        raise ValueError(
            f"delta={delta:g} times {size} entries of a release is 1 or more: P2's composition says nothing then; take "
            "a smaller delta, batch or number of features"
        )
    return _noise_of_matrix(mechanism, shape, size * epsilon, size * delta)


def _noise_of_record(mechanism: str, features: int, epsilon: float, delta: float) -> MatrixNoise:
    """Return one party's noise on one record's column so that both parties' together are (epsilon, delta)-DP.

    Gaussian mechanisms compose exactly (mu / sqrt(2) each); those of a paper's own bound get half of both.
    """
    shape, half, share = (features, 1), 1 / np.sqrt(features), mu_from_epsilon(epsilon, delta) / np.sqrt(PARTIES)
    tight_epsilon = float(epsilon_from_mu(share, delta))  # what one party gives at this delta, for the tight forms
    own = epsilon / PARTIES, delta / PARTIES
    if mechanism == "classical":
        return MatrixNoise(np.full(features, gaussian_sigma(*own, 2.0, "classical")), np.ones(1))
    if mechanism == "analytic":
        return MatrixNoise(np.full(features, 2.0 / share), np.ones(1))
    if mechanism == "udn":
        return matrix.udn(shape, *own, 2.0)
    if mechanism == "idn":
        return matrix.idn(shape, *own, -half, half)
    if mechanism == "idn_tight":
        return matrix.idn(shape, tight_epsilon, delta, -half, half, tight=True)
    if mechanism == "mvg":
        return matrix.mvg(shape, *own, 2.0, gamma=1.0)
    return matrix.matrix_mechanism(shape, tight_epsilon, delta, 2 * half, np.eye(features))


def _noise_of_matrix(mechanism: str, shape: tuple[int, int], epsilon: float, delta: float) -> MatrixNoise:
    """Return the noise for entries in [-1, 1] of which all may change (P2, section 4.2)."""
    root = float(np.sqrt(shape[0] * shape[1]))
    if mechanism in ("classical", "analytic"):
        sigma = gaussian_sigma(epsilon, delta, 2 * root, mechanism)
        return MatrixNoise(np.full(shape[0], sigma), np.ones(shape[1]))
    if mechanism == "udn":
        return matrix.udn(shape, epsilon, delta, 2 * root)
    if mechanism == "mvg":
        return matrix.mvg(shape, epsilon, delta, 2 * root, gamma=root)
    if mechanism == "mm":
        return matrix.matrix_mechanism(shape, epsilon, delta, 2.0, np.eye(shape[0]))
    return matrix.idn(shape, epsilon, delta, -1.0, 1.0, tight=mechanism == "idn_tight")


@dataclass(frozen=True)
class Given:
    """What a training's noise really gives, as epsilon at the setting's delta, by exact Gaussian composition.

    Attributes:
        entry: one entry of one release.
        record_release: one record's columns of one release by both parties.
        record: one record's own columns in all releases by both parties.
        release: the whole matrix of one release by one party.
        training: the whole matrices of all releases by both parties. Where the parties' models learn from their data,
            a record moves everybody's later features, and this is the only one of the five that holds for it.
    """

    entry: float
    record_release: float
    record: float
    release: float
    training: float


def given(noise: MatrixNoise, clip: Clip, delta: float, releases_of_record: int = 1, releases: int = 1) -> Given:
    """Return what the noise of every release gives for features under ``clip``."""
    entry = 2 * clip.bound / noise.rows.min()
    column = clip.column_mu(noise)
    whole = column * np.sqrt(len(noise.columns))
    found = (
        entry,
        column * np.sqrt(PARTIES),
        column * np.sqrt(PARTIES * releases_of_record),
        whole,
        whole * np.sqrt(PARTIES * releases),
    )
    return Given(*(float(epsilon_from_mu(mu, delta)) for mu in found))
