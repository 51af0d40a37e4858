"""Class and count inference: Bayes with the mechanism's exact matrix, and what differential privacy allows at most.

A channel is a matrix ``P[secret, output]``. What an attacker gains is Bayes vulnerability (Alvim et al. 2020): the
chance to name the secret in one try, before (``max_s pi_s``) and after (``sum_o max_s pi_s P[s, o]``) hearing the
output.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from uav_privacy_sc import scene
from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.attack.location_track import track_rows
from uav_privacy_sc.privacy.descriptors import DescriptorConfig, label_accuracy
from uav_privacy_sc.privacy.domain import FloatArray, positive, whole

_KINDS = len(scene.OBJECT_CLASSES)


@dataclass(frozen=True)
class Vulnerability:
    """Chance to name the secret in one try: by the prior alone, after hearing, and at most by the DP bound."""

    prior: float
    posterior: float
    bound: float

    @property
    def advantage(self) -> float:
        """What hearing adds."""
        return self.posterior - self.prior


def label_matrix(label_epsilon: float | None) -> FloatArray:
    """Return ``(10, 10)`` probabilities [true, released] of randomized response; the identity where it is in clear."""
    if label_epsilon is None:
        return np.eye(_KINDS)
    truth = label_accuracy(label_epsilon)
    return np.where(np.eye(_KINDS, dtype=bool), truth, (1 - truth) / (_KINDS - 1))


def count_matrix(config: DescriptorConfig, largest: int) -> FloatArray:
    """Return ``(largest + 1, count_limit + 1)`` probabilities [true number, released number] of the padded count.

    ``clip(n + margin + G, 0, limit)`` with ``P(G = k) = (1 - a) / (1 + a) a^|k|``, ``a = exp(-count_epsilon)``; the
    identity (as far as it reaches) where the number is in clear.
    """
    true = np.arange(whole("largest", largest, 0) + 1)[:, None]
    released = np.arange(config.count_limit + 1)
    if config.count_epsilon is None:
        return (true == np.arange(max(config.count_limit, largest) + 1)).astype(np.float64)
    ratio = float(np.exp(-positive("count_epsilon", config.count_epsilon)))
    step = released - (true + config.count_margin)
    mass = (1 - ratio) / (1 + ratio) * ratio ** np.abs(step)
    mass[:, 0] = _tail(-step[:, 0], ratio)  # all that would fall below, and above, is brought to the ends
    mass[:, -1] = _tail(step[:, -1], ratio)
    return mass


def _tail(reach: FloatArray, ratio: float) -> FloatArray:
    """Return P(G >= reach) of two-sided geometric noise (by symmetry also P(G <= -reach))."""
    above = ratio ** np.maximum(reach, 0) / (1 + ratio)
    return np.where(reach > 0, above, 1 - ratio ** (1.0 - np.minimum(reach, 0)) / (1 + ratio))


def bayes(matrix: FloatArray, prior: ArrayLike, outputs: ArrayLike) -> FloatArray:
    """Return the ``(S,)`` posterior of a secret after independent ``outputs`` of one channel ``(S, O)``.

    Raises:
        ValueError: a prior that is no distribution over the secrets, or outputs that no secret can give.
    """
    prior, outputs = np.asarray(prior, np.float64), np.asarray(outputs, np.intp).ravel()
    if prior.shape != (len(matrix),) or not (prior.min() >= 0 and abs(prior.sum() - 1) < 1e-6):
        raise ValueError(f"prior of shape {prior.shape} must be a distribution over {len(matrix)} secrets")
    possible = outputs.min(initial=0) >= 0 and outputs.max(initial=0) < matrix.shape[1]
    with np.errstate(divide="ignore"):
        logs = np.log(prior) + (np.log(matrix[:, outputs]).sum(axis=1) if possible else -np.inf)
    if not logs.max() > -np.inf:
        raise ValueError("no secret of the prior can give these outputs; check mechanism and prior")
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def vulnerability(matrix: FloatArray, prior: ArrayLike, epsilon: float | None) -> Vulnerability:
    """Return Bayes vulnerability before and after one output, and the most that a pure ``epsilon`` allows.

    ``epsilon`` bounds the log ratio between any two secrets; None is no bound. Then vulnerability grows at most by the
    factor ``k e^eps / (e^eps + k - 1)`` over k secrets (Alvim et al. 2015), which randomized response attains.
    """
    prior = np.asarray(prior, np.float64)
    before, kinds = float(prior.max()), len(prior)
    after = float((prior[:, None] * matrix).max(axis=0).sum())
    factor = np.inf if epsilon is None else kinds / (1 + (kinds - 1) * np.exp(-positive("epsilon", epsilon)))
    return Vulnerability(before, after, float(min(1.0, before * factor)))


def distinguishing_advantage(matrix: FloatArray, first: int, second: int) -> float:
    """Return true minus false positives of the best test between two secrets: their total variation distance."""
    return float(np.abs(matrix[first] - matrix[second]).sum() / 2)


def distinguishing_bound(epsilon: float) -> float:
    """Return the most that pure ``epsilon`` allows for it: ``tanh(epsilon / 2)`` (Kairouz et al. 2015)."""
    return float(np.tanh(positive("epsilon", epsilon) / 2))


@register("label_bayes", target="label", adaptive=True)
@dataclass(frozen=True)
class LabelBayes:
    """The posterior of every record's class; with ``pool``, from all frames of its track, each drawn afresh.

    ``prior`` is over the ten classes, even where none is given.
    """

    prior: tuple[float, ...] = (1 / _KINDS,) * _KINDS
    pool: bool = False

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(M, 10)`` posteriors a frame."""
        found = [None if frame.objects is None else np.zeros((len(frame.objects), _KINDS)) for frame in intercepted]
        for rows in track_rows(intercepted).values():
            groups = [rows] if self.pool else [[pair] for pair in rows]
            for group in groups:
                self._group(intercepted, group, found)
        return tuple(found)

    def _group(
        self, intercepted: Sequence[Interception], group: list[tuple[int, int]], found: list[np.ndarray | None]
    ) -> None:
        labels = [intercepted[frame].records["label"][row] for frame, row in group]
        matrix = label_matrix(intercepted[group[0][0]].known.protection.objects.descriptors.label_epsilon)
        belief = bayes(matrix, self.prior, labels)
        for frame, row in group:
            place = found[frame]
            assert place is not None
            place[row] = belief


@register("count_bayes", target="count", adaptive=True)
@dataclass(frozen=True)
class CountBayes:
    """The posterior of the number of objects; with ``pool``, from all frames of a scene whose number does not change.

    ``prior`` is over 0, 1, .., K - 1, even up to ``largest``, or the most records of a
    frame, where none is given. It goes by the number of records
    alone: where class, size or score are in clear, dummies can be told from objects and more is to be had.
    """

    prior: tuple[float, ...] = ()
    largest: int = 200
    pool: bool = False

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(K,)`` posteriors a frame."""
        heard = [frame for frame in intercepted if frame.objects is not None]
        largest = max([self.largest, *(len(frame.records) for frame in heard)])
        prior = np.array(self.prior) if self.prior else np.full(largest + 1, 1 / (largest + 1))
        together = self._posterior(heard, prior) if self.pool and heard else None
        return tuple(
            None if frame.objects is None else self._posterior([frame], prior) if together is None else together
            for frame in intercepted
        )

    @staticmethod
    def _posterior(heard: Sequence[Interception], prior: FloatArray) -> FloatArray:
        matrix = count_matrix(heard[0].known.protection.objects.descriptors, len(prior) - 1)
        return bayes(matrix, prior, [len(frame.records) for frame in heard])
