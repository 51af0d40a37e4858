"""How a mission's ceiling bounds what one frame may spend."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.privacy.calibration import epsilon_from_mu, mu_from_epsilon
from uav_privacy_sc.privacy.composition import mu_from_pure

#: Divisions of epsilon_total between epsilon_v and epsilon_l that are priced; the dearest one counts.
SPLITS = 65
#: Relative width at which the bisection ends.
PRECISION = 1e-6
#: A share below this one of the policy's epsilon_total is none.
LEAST_SHARE = 1e-6


@lru_cache(maxsize=256)
def frame_epsilon(
    policy: ScenarioPolicy, epsilon_ceiling: float, delta: float, frames: int, alone: bool = False
) -> float:
    """Return the largest epsilon_total, up to the policy's, at which ``frames`` frames keep to a mission ceiling.

    Priced as the odometer prices a cell at epsilon_v and a place at epsilon_l in every frame
    (``privacy.composition.total_epsilon``), for the dearest divisions of epsilon_total that the policy leaves,
    whichever way they change from frame to frame. Over many frames that is far more than ceiling over frames, because
    mu adds in squares. An object of several cells, or a class with kappa above 1, costs more.

    The share also holds for a mission that changes from scenario to scenario, each at its own share of the same ceiling
    and frames: all are priced by the Gaussian bound, in which frames add. ``alone`` (or a single frame) says that no
    other scenario comes in; then the better of the odometer's two bounds counts: over few frames the share is larger.

    Raises:
        ValueError: ``epsilon_ceiling`` is not finite and above 0, ``frames`` is below 1, or no epsilon is small enough,
            because even delta alone, in so many frames, passes the ceiling.
    """
    if not (math.isfinite(epsilon_ceiling) and epsilon_ceiling > 0.0):
        raise ValueError(f"epsilon_ceiling is {epsilon_ceiling!r}; give a finite number above 0")
    if frames < 1:
        raise ValueError(f"frames is {frames!r}; give at least 1")

    def share_by(price: Callable[[ScenarioPolicy, float, int], float]) -> float:
        return _largest(
            policy.epsilon_total, lambda total: price(squeezed(policy, total), delta, frames) <= epsilon_ceiling
        )

    share = share_by(_gaussian_price)
    if alone or frames == 1:
        share = max(share, share_by(_basic_price))
    if share == 0.0:
        raise ValueError(
            f"epsilon_ceiling is {epsilon_ceiling:g}, too little for {frames} frames at delta {delta:g}; raise it"
        )
    return share


def _splits(policy: ScenarioPolicy) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    epsilon_v = np.asarray(np.linspace(policy.epsilon_v_min, policy.epsilon_v_max, SPLITS), np.float64)
    return epsilon_v, policy.epsilon_total - epsilon_v


# The odometer takes the smaller of two bounds of the mission. Each has a share of its own here, of which one is taken:
# with it one and the same bound holds for any mixture of divisions, which the smaller of two need not. The shares of
# several scenarios must come from one bound, and only in the Gaussian one does a frame's cost not depend on the others.


def _gaussian_price(policy: ScenarioPolicy, delta: float, frames: int) -> float:
    """Everything in Gaussian DP: squares of mu add, so no mixture costs more than frames of its dearest division."""
    epsilon_v, epsilon_l = _splits(policy)
    squares = mu_from_epsilon(epsilon_v, delta) ** 2 + mu_from_pure(epsilon_l) ** 2
    return float(epsilon_from_mu(math.sqrt(frames * float(squares.max())), delta))


def _basic_price(policy: ScenarioPolicy, delta: float, frames: int) -> float:
    """Pure epsilons added to what features compose to.

    mu squared is convex in epsilon_v, so the mean of a mixture of divisions lies on or below the chord of its ends; one
    frame is no mixture.
    """
    epsilon_v, epsilon_l = _splits(policy)
    squares = mu_from_epsilon(epsilon_v, delta) ** 2
    if frames > 1:
        squares = np.linspace(squares[0], squares[-1], SPLITS)
    return float((epsilon_from_mu(np.sqrt(frames * squares), delta) + frames * epsilon_l).max())


def _largest(limit: float, fits: Callable[[float], bool]) -> float:
    """Return the largest number up to ``limit`` that fits, from below, where all smaller ones do; 0 if hardly any."""
    if fits(limit):
        return limit
    low, high = limit * LEAST_SHARE, limit
    if not fits(low):
        return 0.0
    while high - low > PRECISION * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


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
