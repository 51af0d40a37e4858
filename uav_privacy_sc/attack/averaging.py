"""Averaging over frames: where camera and scene stand still, noise is drawn anew in each frame, features are not.

With deviations ``s_t`` of a cell in T frames the mean of the received vectors, weighted by ``1 / s_t^2``, is all that
the frames tell of the features (a sufficient statistic of the Gaussian). Its deviation is
``1 / sqrt(sum_t 1 / s_t^2)``, ``s / sqrt(T)`` where all are alike: T frames are worth one of ``sqrt(T)`` times the mu
of Gaussian differential privacy (:func:`worth`), composition seen from the other side. The plain attacker takes the
plain mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.attack.inversion import PlainInverter
from uav_privacy_sc.attack.sensitive_map import infer_sigma
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon
from uav_privacy_sc.privacy.domain import FloatArray


def running_mean(intercepted: Sequence[Interception], weighted: bool = False) -> list[np.ndarray | None]:
    """Return, for every frame, the mean ``(C, H', W')`` float32 of the features heard up to it.

    Args:
        intercepted: frames in order. A lost one adds nothing; features of another shape begin a new mean.
        weighted: by the inverse of each cell's variance as :func:`sensitive_map.infer_sigma` knows it; else alike.

    None stands where nothing has been heard yet.
    """
    found: list[np.ndarray | None] = []
    total: FloatArray = np.zeros((0, 0, 0))
    weights: FloatArray = np.zeros((0, 0))
    for frame in intercepted:
        if frame.features is not None:
            shape = frame.features.shape
            if total.shape != shape:
                total, weights = np.zeros(shape), np.zeros(shape[1:])
            weight = 1 / infer_sigma(frame) ** 2 if weighted else np.ones(shape[1:])
            total, weights = total + weight * frame.features, weights + weight
        found.append((total / weights).astype(np.float32) if total.size else None)
    return found


def worth(epsilon: float, delta: float, frames: int) -> float:
    """Return the epsilon of one frame that tells as much as ``frames`` independent ones of ``epsilon``, at ``delta``.

    ``mu = sqrt(frames) mu(epsilon)`` through the analytic Gaussian.

    Raises:
        ValueError: a parameter out of its range.
    """
    return float(epsilon_from_mu(math.sqrt(frames) * float(mu_from_epsilon(epsilon, delta)), delta))


@register("inverter_average", target="picture", adaptive=False, over_time=True)
@dataclass
class AverageInverter(PlainInverter):
    """The plain inverter on the mean of all features heard so far: what to do against a camera that hovers."""

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return an RGB uint8 picture ``(8 H', 8 W', 3)`` a frame; one drawn already where a frame brought nothing."""
        assert self.network is not None
        means = running_mean(intercepted, self.adaptive)
        return tuple(None if mean is None else self.network(mean) for mean in means)


@register("inverter_average_adaptive", target="picture", adaptive=True, over_time=True)
@dataclass
class AdaptiveAverageInverter(AverageInverter):
    """The adaptive inverter on the mean weighted by what is known of every cell's noise."""

    adaptive = True
