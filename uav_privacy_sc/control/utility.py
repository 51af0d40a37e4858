"""What a point (epsilon_v, epsilon_l, SNR) is worth to a mission (P1 Eq. 31 to 42). All functions broadcast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.privacy.location import grid_expected_error, planar_laplace_expected_error

Numbers = Any  # a float or an array of them
#: Normalized utilities below this are rounding, and 0.
ROUNDING = 1e-12


def semantic_quality(policy: ScenarioPolicy, epsilon_v: Numbers, snr: Numbers) -> Numbers:
    """Return A_sem = alpha log2(1 + SNR) - beta / epsilon_v (P1 Eq. 31); ``snr`` is linear."""
    return policy.alpha * np.log2(1.0 + np.asarray(snr, np.float64)) - policy.beta / np.asarray(epsilon_v, np.float64)


def location_error(policy: ScenarioPolicy, epsilon_l: Numbers) -> Numbers:
    """Return E_loc, the mechanism's own expected error in image sides, quantization and clipping included."""
    if policy.location_branch == "grid":
        return grid_expected_error(epsilon_l, policy.grid_size)
    return planar_laplace_expected_error(epsilon_l, policy.scale)


def normalized_quality(policy: ScenarioPolicy, quality: Numbers) -> Numbers:
    """Return A_sem between a_min (0) and a_ref (1), clipped (P1 Eq. 33)."""
    return _from_nothing(np.clip((np.asarray(quality) - policy.a_min) / (policy.a_ref - policy.a_min), 0.0, 1.0))


def location_utility(policy: ScenarioPolicy, epsilon_l: Numbers, error: Numbers) -> Numbers:
    """Return U_loc: 1 - E_loc / e_max, clipped (P1 Eq. 34, 35), or gamma_loc log2(1 + epsilon_l) (Eq. 32) by name."""
    if policy.location_utility == "log":
        return policy.gamma_loc * np.log2(1.0 + np.asarray(epsilon_l, np.float64))
    return _from_nothing(1.0 - np.clip(np.asarray(error) / policy.e_max, 0.0, 1.0))


def _from_nothing(share: Numbers) -> Numbers:
    """Return a share of utility, exactly 0 where a constraint met with equality leaves nothing but rounding."""
    return np.where(share < ROUNDING, 0.0, share)


def utility(policy: ScenarioPolicy, epsilon_v: Numbers, epsilon_l: Numbers, snr: Numbers) -> Numbers:
    """Return U = lambda1 A_sem + lambda2 U_loc, both normalized (P1 Eq. 38)."""
    semantic = normalized_quality(policy, semantic_quality(policy, epsilon_v, snr))
    location = location_utility(policy, epsilon_l, location_error(policy, epsilon_l))
    return policy.lambda1 * semantic + policy.lambda2 * location


def violation(policy: ScenarioPolicy, quality: Numbers, error: Numbers) -> Numbers:
    """Return by how much a point misses Eq. 41 and 42, each in units of its own scale; 0 where it meets both."""
    semantic = (policy.a_min - np.asarray(quality)) / (policy.a_ref - policy.a_min)
    location = np.asarray(error) / policy.e_max - 1.0
    return np.maximum(semantic, 0.0) + np.maximum(location, 0.0)


@dataclass(frozen=True)
class Assessment:
    """What a point is worth, whatever chose it. ``violation`` is 0 where Eq. 41 and 42 hold."""

    utility: float
    semantic_quality: float
    location_error: float
    violation: float


def assess(policy: ScenarioPolicy, epsilon_v: float, epsilon_l: float, snr: float) -> Assessment:
    """Return utility, quality, error and violation of one point at a linear SNR."""
    quality, error = semantic_quality(policy, epsilon_v, snr), location_error(policy, epsilon_l)
    semantic, location = normalized_quality(policy, quality), location_utility(policy, epsilon_l, error)
    worth = policy.lambda1 * semantic + policy.lambda2 * location
    missed = float(violation(policy, quality, error))
    return Assessment(float(worth), float(quality), float(error), missed if missed > 1e-9 else 0.0)
