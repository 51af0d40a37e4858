"""The map attacker: region-aware noise is stronger where people are, so the strength of the noise shows them.

A received cell is a vector of C values with total deviation s (mechanism and channel). Its power over ``s^2`` is
chi-square with C degrees of freedom, non-central by ``|v|^2 / s^2 <= (c_clip / s)^2``. Between cells of deviations s1 >
s0 the likelihood ratio is monotone in the power, so no attacker does better on single cells than
:func:`theoretical_auc`, ``P(F(C, C) > s0^2 / s1^2)``. What is left is context: what released places say of each cell
(:func:`released_map`). Where the map is made of released objects the noise tells nothing that they do not, and these
are all there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import f as f_distribution
from scipy.stats import rankdata

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inference import bayes, label_matrix
from uav_privacy_sc.attack.interface import Guesses, Interception, PublicConfiguration, register
from uav_privacy_sc.attack.location import StreetPrior, posterior
from uav_privacy_sc.privacy import visual
from uav_privacy_sc.privacy.domain import FloatArray

_CLOSE = 1e-9


@dataclass(frozen=True)
class Roc:
    """Rates at every threshold, from none to all, and the area with its standard error (Hanley and McNeil 1982)."""

    false_positive: FloatArray
    true_positive: FloatArray
    auc: float
    standard_error: float


def roc(scores: FloatArray, truth: NDArray[np.bool_]) -> Roc:
    """Return the ROC of scores against true sensitive cells, of any common shape; ties count half.

    Raises:
        ValueError: scores that are not finite, or cells all of one kind, for which there is no ROC.
    """
    scores, truth = np.asarray(scores, np.float64).ravel(), np.asarray(truth, bool).ravel()
    positives, negatives = int(truth.sum()), int((~truth).sum())
    if not np.isfinite(scores).all() or len(scores) != len(truth):
        raise ValueError(f"scores must be finite, one a cell: got {len(scores)} for {len(truth)} cells")
    if not positives or not negatives:
        raise ValueError(f"{positives} sensitive cells of {len(truth)}: a ROC needs both kinds; leave the frame out")
    area = (rankdata(scores)[truth].sum() - positives * (positives + 1) / 2) / (positives * negatives)
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.diff(scores[order]) != 0, True)  # where a threshold can lie
    hits, alarms = np.cumsum(truth[order])[last], np.cumsum(~truth[order])[last]
    error = np.sqrt(_auc_variance(area, positives, negatives))
    rates = np.append(0, alarms / negatives), np.append(0, hits / positives)
    return Roc(*rates, float(area), float(error))


def _auc_variance(area: float, positives: int, negatives: int) -> float:
    twice, both = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (positives - 1) * (twice - area**2) + (negatives - 1) * (both - area**2)
    return max(float(spread), 0.0) / (positives * negatives)


def theoretical_auc(sigma_sensitive: float, sigma_other: float, channels: int) -> float:
    """Return the best AUC from one cell's power at two total deviations.

    ``P(F(C, C) > (sigma_other / sigma_sensitive)^2)``. The features' own power is left out; it is small where noise
    protects.
    """
    return float(f_distribution.sf((sigma_other / sigma_sensitive) ** 2, channels, channels))


def sensitive_cells(objects: np.ndarray, grid_shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Return ``(rows, columns)`` bool: the cells of pedestrians and people, the truth that the attacker is after."""
    chosen = objects[np.isin(objects["label"], scene.SENSITIVE_LABELS)]
    return np.asarray(scene.coverage(scene.corners(chosen), grid_shape).any(axis=0))


def power_map(features: NDArray[np.float32]) -> FloatArray:
    """Return the mean square over channels of every cell: what anybody sees."""
    return np.einsum("chw,chw->hw", features, features, dtype=np.float64) / len(features)


def log_likelihood_map(features: NDArray[np.float32], sigma: FloatArray) -> FloatArray:
    """Return ``(L, rows, columns)`` log likelihoods of every cell at ``(L,)`` total deviations above 0.

    ``-C log s - (C power) / (2 s^2)``: the features' own power counts as noise.
    """
    squares = power_map(features) * len(features)
    levels = np.asarray(sigma, np.float64)[:, None, None]
    return -len(features) * np.log(levels) - squares / (2 * levels**2)


@dataclass(frozen=True)
class SigmaLevels:
    """The deviations that a frame can have, by Kerckhoffs, channel included.

    ``sigma`` ``(L,)`` distinct, ``share`` ``(L,)`` prior of each, ``sensitive`` ``(L,)`` bool: whether it is that of a
    sensitive object's cells, ``own`` (L,) the mechanism's part of it.
    """

    sigma: FloatArray
    share: FloatArray
    sensitive: NDArray[np.bool_]
    own: FloatArray


def sigma_levels(frame: Interception, sensitive_share: float = 0.05) -> SigmaLevels:
    """Return the levels of the region-aware map of a frame, or the single one of another mechanism.

    ``sensitive_share`` is the prior of cells that differ from the background, parted evenly.
    """
    config, known = frame.known.protection, frame.known.budgets
    if config.visual.mechanism == "none":
        return _levels(np.zeros(1), np.zeros(1, bool), frame.channel_sigma, sensitive_share)
    if config.visual.mechanism == "uniform":
        own = visual.sigma_map(np.full((1, 1), known.epsilon_v), config.visual).ravel()
        return _levels(own, np.zeros(1, bool), frame.channel_sigma, sensitive_share)
    if config.visual.mechanism != "region_aware":  # some other mechanism: as strong everywhere as it looks
        own = np.zeros(1) if frame.features is None else np.sqrt(power_map(frame.features).mean(keepdims=True)[0])
        return _levels(own, np.zeros(1, bool), 0.0, sensitive_share)
    epsilon, sensitive = _possible_epsilons(frame.known)
    own = visual.sigma_map(epsilon[None], config.visual)[0]
    return _levels(own, sensitive, frame.channel_sigma, sensitive_share)


def _possible_epsilons(known: PublicConfiguration) -> tuple[FloatArray, NDArray[np.bool_]]:
    """Return the distinct epsilons of a budget map, background first, and whether each is a sensitive object's."""
    rule, epsilon_v = known.protection.budget_map, known.budgets.epsilon_v
    background, context = rule.kappa_bg * epsilon_v, rule.kappa_ctx * epsilon_v
    table = np.maximum(rule.class_factors * epsilon_v, rule.epsilon_min)
    if rule.rule == "algorithm1":
        context, table = min(context, background), np.minimum(table, background)
    ordered = [background, context, *table.tolist()]
    people = {ordered[2 + label] for label in scene.SENSITIVE_LABELS}
    distinct = list(dict.fromkeys(ordered))
    return np.array(distinct), np.array([value in people and value != background for value in distinct])


def _levels(own: FloatArray, sensitive: NDArray[np.bool_], channel: float, share: float) -> SigmaLevels:
    rest = max(len(own) - 1, 1)
    weights = np.full(len(own), share / rest)
    weights[0] = 1.0 - share if len(own) > 1 else 1.0
    return SigmaLevels(np.maximum(np.hypot(own, channel), _CLOSE), weights, sensitive, own)


def likelihood_score(frame: Interception, sensitive_share: float = 0.05) -> FloatArray:
    """Return the log odds of every cell to have a sensitive object's deviation, knowing all deviations there can be.

    Between two levels it is monotone in the power. Zero where the mechanism has one level only: nothing is to be seen.
    """
    if frame.features is None:
        raise ValueError("features of this frame were lost; leave it out")
    levels = sigma_levels(frame, sensitive_share)
    if not levels.sensitive.any():
        return np.zeros(frame.features.shape[1:])
    logs = log_likelihood_map(frame.features, levels.sigma) + np.log(levels.share)[:, None, None]
    return logsumexp(logs[levels.sensitive], axis=0) - logsumexp(logs[~levels.sensitive], axis=0)


def released_map(frame: Interception, grid_shape: tuple[int, int], prior: StreetPrior | None = None) -> FloatArray:
    """Return the probability of every cell to lie under a sensitive object, from released objects alone.

    ``1 - prod_j (1 - P(label_j sensitive) P(box_j covers the cell))`` over the records, each with the posterior of its
    place and, under randomized response, of its class. Sizes are taken as they came.
    """
    prior, miss = prior or StreetPrior.uniform(), np.ones(grid_shape)
    matrix = label_matrix(frame.known.protection.objects.descriptors.label_epsilon)
    even = np.full(len(matrix), 1 / len(matrix))
    for record in frame.records:
        chance = float(bayes(matrix, even, record["label"])[list(scene.SENSITIVE_LABELS)].sum())
        if chance > 0.0:
            place = posterior([[record["x"], record["y"]]], frame.known.budgets, prior)
            down = _covers(place.y, record["h"], grid_shape[0])
            across = _covers(place.x, record["w"], grid_shape[1])
            miss *= 1.0 - chance * (down @ place.probability @ across.T).clip(0, 1)
    return 1.0 - miss


def _covers(centers: FloatArray, side: float, cells: int) -> FloatArray:
    """Return ``(cells, K)`` 1 where a box of this side around each centre meets the cell (as ``scene.grid_boxes``)."""
    low, high = np.floor((centers - side / 2) * cells), np.ceil((centers + side / 2) * cells)
    index = np.arange(cells)[:, None]
    return ((index >= low) & (index < high)).astype(np.float64)


def infer_sigma(frame: Interception) -> FloatArray:
    """Return ``(rows, columns)`` the total deviation of every cell as an adaptive attacker believes it.

    Where the map is public (one level, or made of released objects that were received) it is computed; else every cell
    gets the most probable of the levels there can be, its neighbours' power counted by half a weight each.
    """
    if frame.features is None:
        raise ValueError("features of this frame were lost; leave it out")
    config, shape = frame.known.protection, frame.features.shape[1:]
    public = config.visual.map_source == "released" and frame.objects is not None
    if config.visual.mechanism != "region_aware" or not public:
        return _guessed_sigma(frame)
    epsilon = visual.allocate(frame.records, shape, frame.known.budgets.epsilon_v, config.visual, config.budget_map)
    return np.maximum(np.hypot(visual.sigma_map(epsilon, config.visual), frame.channel_sigma), _CLOSE)


def _guessed_sigma(frame: Interception) -> FloatArray:
    assert frame.features is not None
    levels = sigma_levels(frame)
    logs = log_likelihood_map(frame.features, levels.sigma)
    padded = np.pad(logs, ((0, 0), (1, 1), (1, 1)), mode="edge")
    around = padded[:, :-2, 1:-1] + padded[:, 2:, 1:-1] + padded[:, 1:-1, :-2] + padded[:, 1:-1, 2:]
    best = (logs + 0.5 * around + np.log(levels.share)[:, None, None]).argmax(axis=0)
    return levels.sigma[best]


@register("map_power", target="sensitive_map", adaptive=False)
@dataclass(frozen=True)
class Power:
    """The received power of every cell."""

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(H', W')`` scores a frame."""
        return tuple(None if frame.features is None else power_map(frame.features) for frame in intercepted)


@register("map_released", target="sensitive_map", adaptive=True)
@dataclass(frozen=True)
class Released:
    """What the released objects alone give: the floor that no protection of features goes below.

    ``grid_shape`` is that of the map where features were lost.
    """

    prior: StreetPrior | None = None
    grid_shape: tuple[int, int] = (22, 40)

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(H', W')`` scores a frame."""
        return tuple(None if frame.objects is None else self._one(frame) for frame in intercepted)

    def _one(self, frame: Interception) -> FloatArray:
        shape = self.grid_shape if frame.features is None else frame.features.shape[1:]
        return released_map(frame, (shape[0], shape[1]), self.prior)


@register("map_likelihood", target="sensitive_map", adaptive=True)
@dataclass(frozen=True)
class Likelihood:
    """Log odds of every cell from the noise and, where they arrived, the released objects, added as Bayes has it.

    Where the map is made of released objects the noise adds nothing to them, which this attacker knows.
    """

    prior: StreetPrior | None = None
    sensitive_share: float = 0.05

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return ``(H', W')`` scores a frame."""
        return tuple(None if frame.features is None else self._one(frame) for frame in intercepted)

    def _one(self, frame: Interception) -> FloatArray:
        assert frame.features is not None
        noise = likelihood_score(frame, self.sensitive_share)
        if frame.objects is None:
            return noise
        chance = released_map(frame, (noise.shape[0], noise.shape[1]), self.prior).clip(1e-4, 1 - 1e-4)
        places = np.log(chance) - np.log1p(-chance)
        if frame.known.protection.visual.map_source == "released":
            return places
        return noise + places - np.log(self.sensitive_share / (1 - self.sensitive_share))
