"""How a mission's ceiling bounds what one frame may spend."""

from __future__ import annotations

import math
from dataclasses import replace

from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon


def frame_epsilon(remaining_epsilon: float, delta: float, frames_left: int) -> float:
    """Return the Gaussian epsilon that each of the frames left may spend so that together they spend what remains.

    In Gaussian DP the squares of mu add up, so a frame gets mu / sqrt(frames): far more than epsilon / frames.

    Raises:
        ValueError: ``remaining_epsilon`` is not finite and above 0, or ``frames_left`` below 1.
    """
    if not (math.isfinite(remaining_epsilon) and remaining_epsilon > 0.0):
        raise ValueError(f"remaining_epsilon is {remaining_epsilon!r}; give a finite number above 0")
    if frames_left < 1:
        raise ValueError(f"frames_left is {frames_left!r}; give at least 1")
    mu = float(mu_from_epsilon(remaining_epsilon, delta)) / math.sqrt(frames_left)
    return float(epsilon_from_mu(mu, delta))


def paced(policy: ScenarioPolicy, ceiling: float) -> ScenarioPolicy:
    """Return the policy with epsilon_total brought down to ``ceiling``; never up.

    Raises:
        ValueError: the ceiling leaves less than the policy's least budgets; then nothing may be released.
    """
    if not ceiling > 0.0:
        raise ValueError(f"ceiling is {ceiling!r}; give a number above 0")
    return policy if ceiling >= policy.epsilon_total else replace(policy, epsilon_total=float(ceiling))


def squeezed(policy: ScenarioPolicy, ceiling: float) -> ScenarioPolicy:
    """Return the paced policy, its least budgets brought down in proportion where the ceiling leaves less than they.

    Such a mission flies below what its policy calls useful; where that breaks Eq. 41 or 42 the solver says so.

    Raises:
        ValueError: ``ceiling`` is not above 0.
    """
    least = policy.epsilon_v_min + policy.epsilon_l_min
    if 0.0 < ceiling < least:
        share = (
            (1.0 - 1e-9) * ceiling / least
        )  # a little less, so that rounding does not lift their sum above the total
        policy = replace(policy, epsilon_v_min=share * policy.epsilon_v_min, epsilon_l_min=share * policy.epsilon_l_min)
    return paced(policy, ceiling)
