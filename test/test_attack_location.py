"""Attackers on places: likelihoods against what the mechanisms do, known closed forms, and that Bayes is best."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.attack import location as attack
from uav_privacy_sc.attack.interface import Interception, PublicConfiguration, create
from uav_privacy_sc.attack.location_track import (
    Motion,
    RenewalLikelihood,
    averaged_error,
    diffusion,
    locate_track,
)
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy import location
from uav_privacy_sc.privacy.predictive import PredictiveConfig, PredictiveLocation
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets

GRID, PLANAR = Budgets(1.0, 1.0, 1.0), Budgets(1.0, 1.0, 1.0, "planar_laplace")
STREET = attack.StreetPrior.from_mask(np.abs(np.add.outer(np.arange(64), -np.arange(64))) < 6)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(5)


def release(centers: np.ndarray, budgets: Budgets, rng: np.random.Generator) -> np.ndarray:
    if budgets.location_branch == "grid":
        return location.release_grid(centers, budgets.epsilon_l, budgets.grid_size, rng)[0]
    return location.release_planar_laplace(centers, budgets.epsilon_l, budgets.location_scale, rng)


def test_grid_likelihood_is_the_frequency_of_the_mechanism(rng: np.random.Generator) -> None:
    budgets = replace(GRID, grid_size=5, epsilon_l=0.8)
    places, center, draws = (np.indices((5, 5)).reshape(2, -1).T[:, ::-1] + 0.5) / 5, np.array([[0.31, 0.95]]), 40000
    _, cells = location.release_grid(np.tile(center, (draws, 1)), 0.8, 5, rng)
    probability = np.exp(attack.log_likelihood(places, center, budgets))[:, 0]
    assert probability.sum() == pytest.approx(1.0)
    observed = np.bincount(cells, minlength=25) / draws
    assert np.abs(observed - probability).max() < 5 * np.sqrt(0.25 / draws)


@pytest.mark.parametrize("center", [(0.02, 0.5), (0.01, 0.985), (0.15, 0.004)])
def test_what_is_clipped_to_edges_and_corners_has_its_true_probability(
    center: tuple[float, float], rng: np.random.Generator
) -> None:
    rate, draws = 25.0, 60000
    budgets = replace(PLANAR, epsilon_l=rate / 100)
    released = release(np.tile(center, (draws, 1)), budgets, rng)
    spot = np.array([center])
    scale = rate**2 / (2 * np.pi)
    for corner in ((0.0, 0.0), (0.0, 1.0)):  # the mass itself; its constant is 1 / (2 pi)
        mass = np.exp(attack.log_likelihood(np.array([corner]), spot, budgets))[0, 0] / (2 * np.pi)
        share = (released == corner).all(axis=1).mean()
        assert share == pytest.approx(mass, abs=5 * np.sqrt(mass / draws) + 1e-4)
    along = np.linspace(0, 1, 2001)[1:-1]  # a density along the edge
    edge = np.stack([np.zeros_like(along), along], axis=1)
    mass = np.exp(attack.log_likelihood(edge, spot, budgets))[:, 0].sum() / 2000 * scale
    share = ((released[:, 0] == 0) & (released[:, 1] > 0) & (released[:, 1] < 1)).mean()
    assert share == pytest.approx(mass, abs=5 * np.sqrt(mass / draws) + 1e-3)


def test_the_most_likely_place_of_planar_laplace_is_the_release_itself(rng: np.random.Generator) -> None:
    released = release(rng.uniform(0.3, 0.7, (20, 2)), PLANAR, rng)
    np.testing.assert_allclose(attack.locate(released, PLANAR, estimator="ml").points, released, atol=1e-4)


def test_the_most_likely_place_of_many_releases_is_their_geometric_median(rng: np.random.Generator) -> None:
    released = release(np.full((15, 2), 0.4), PLANAR, rng)
    point = released.mean(axis=0)
    for _ in range(500):
        weight = 1 / np.maximum(np.linalg.norm(released - point, axis=1), 1e-9)
        point = weight @ released / weight.sum()
    np.testing.assert_allclose(attack.most_likely(released, PLANAR).best(), point, atol=1e-4)


@pytest.mark.parametrize("epsilon_l", [0.05, 1.0, 8.0])
def test_the_most_likely_cell_is_the_released_one_at_the_border_too(epsilon_l: float) -> None:
    places = (np.indices((16, 16)).reshape(2, -1).T + 0.5) / 16
    guess = attack.locate(places, replace(GRID, epsilon_l=epsilon_l), estimator="ml")
    np.testing.assert_allclose(guess.points, places)


@pytest.mark.parametrize("budgets", [GRID, replace(GRID, epsilon_l=4.0), replace(PLANAR, epsilon_l=0.1)])
def test_bayes_is_nowhere_worse_than_likelihood_or_prior_and_knows_its_own_error(
    budgets: Budgets, rng: np.random.Generator
) -> None:
    truth = STREET.draw(350, rng)
    released = release(truth, budgets, rng)
    scores = {
        name: attack.score(attack.locate(released, budgets, STREET, name), truth, 16, STREET)
        for name in ("ml", "mean", "median")
    }
    error, slack = {name: score.error.mean() for name, score in scores.items()}, 0.002
    assert error["median"] < min(error["ml"], scores["ml"].blind_error.mean()) + slack
    squares = {name: (score.error**2).mean() for name, score in scores.items()}
    assert squares["mean"] < min(squares["ml"], (scores["ml"].blind_error ** 2).mean()) + slack
    assert scores["median"].hit.mean() > scores["median"].blind_hit.mean()
    own = attack.locate(released, budgets, STREET).expected_error.mean()
    assert own == pytest.approx(error["median"], rel=0.08)


def test_a_street_helps_the_attacker(rng: np.random.Generator) -> None:
    truth = STREET.draw(400, rng)
    released = release(truth, GRID, rng)
    flat, street = (
        attack.score(attack.locate(released, GRID, prior), truth, 16).error.mean() for prior in (None, STREET)
    )
    assert street < 0.93 * flat


def test_prior_from_public_layouts_peaks_where_they_are_and_excludes_nothing(rng: np.random.Generator) -> None:
    prior = attack.StreetPrior.from_centers(np.clip(rng.normal(0.25, 0.03, (500, 2)), 0, 1), 32)
    assert prior.weights.min() > 0 and prior.weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(attack.blind_guess(prior).points[0], [0.25, 0.25], atol=0.03)
    empty = attack.StreetPrior.from_centers(np.zeros((0, 2)), 8)
    np.testing.assert_allclose(empty.weights, 1 / 64)
    with pytest.raises(ValueError, match="weights of shape"):
        attack.StreetPrior(np.zeros((4, 4)))


@pytest.mark.parametrize("frames", [16, 64])
def test_averaging_planar_laplace_falls_as_theory_says(frames: int, rng: np.random.Generator) -> None:
    errors = []
    for center in rng.uniform(0.3, 0.7, (60, 2)):
        released = release(np.tile(center, (frames, 1)), PLANAR, rng)
        errors.append(np.linalg.norm(locate_track(released, PLANAR).points[-1] - center))
    assert np.mean(errors) == pytest.approx(float(averaged_error(1.0, 100.0, frames)), rel=0.2)


def test_averaging_the_grid_ends_at_quantization(rng: np.random.Generator) -> None:
    truth = rng.random((60, 2))
    errors = [
        np.linalg.norm(locate_track(release(np.tile(center, (200, 1)), GRID, rng), GRID).points[-1] - center)
        for center in truth
    ]
    assert np.mean(errors) == pytest.approx(0.3826 / 16, rel=0.25)  # mean distance to the middle of a unit square


def test_predictive_release_keeps_the_attackers_error_where_it_was(rng: np.random.Generator) -> None:
    budgets, config = replace(GRID, epsilon_l=4.0), ObjectConfig(location_mode="predictive", threshold=16.0)
    truth = rng.random((40, 2))
    places = PredictiveLocation(PredictiveConfig(threshold=16.0))
    kept = np.array([places.release(truth, np.arange(40), 4.0, rng).centers for _ in range(64)])
    drawn = np.array([release(truth, budgets, rng) for _ in range(64)])
    error = {}
    for name, released, options in (("kept", kept, config), ("drawn", drawn, None)):
        for frames in (1, 64):
            guesses = [locate_track(released[:frames, k], budgets, release=options).points[-1] for k in range(40)]
            error[name, frames] = np.linalg.norm(guesses - truth, axis=1).mean()
    assert error["kept", 64] > 0.9 * error["kept", 1]
    assert error["drawn", 64] < 0.7 * error["drawn", 1]


@pytest.mark.parametrize("branch", ["grid", "planar_laplace"])
def test_the_renewal_attackers_posterior_is_calibrated(branch: str, rng: np.random.Generator) -> None:
    """Its own expected error is the true one only where its likelihood is the mechanism's."""
    budgets, config = Budgets(1.0, 1.0, 1.0, branch), ObjectConfig(location_mode="predictive")
    truth = STREET.draw(120, rng)
    places = PredictiveLocation(PredictiveConfig(branch=branch))
    released = np.array([places.release(truth, np.arange(120), 1.0, rng).centers for _ in range(24)])
    guesses = [locate_track(released[:, k], budgets, STREET, release=config) for k in range(120)]
    errors = np.linalg.norm([g.points[-1] for g in guesses] - truth, axis=1)
    own = np.array([g.expected_error[-1] for g in guesses])
    assert abs((errors - own).mean()) < 3.5 * (errors - own).std() / np.sqrt(120)


def test_renewal_likelihood_sums_to_one_over_what_can_be_released() -> None:
    """All sequences of three places on a 2 x 2 grid: an exact check of hidden renewals, for one object."""
    budgets, config = replace(GRID, grid_size=2), ObjectConfig(location_mode="predictive", threshold=1.0)
    cells, spot, total = np.array([[0.25, 0.25], [0.75, 0.25], [0.25, 0.75], [0.75, 0.75]]), np.array([[0.3, 0.3]]), 0.0
    for a in range(4):
        for b in range(4):
            for c in range(4):
                total += np.exp(RenewalLikelihood(cells[[a, b, c]], budgets, config)(spot)[0])
    assert total == pytest.approx(1.0, abs=1e-6)


def test_a_walk_on_the_lattice_has_the_variance_of_its_step_and_loses_nothing() -> None:
    kernel, x = diffusion(101, 0.01, 0.004), (np.arange(101) - 50) * 0.01
    assert kernel[50] @ x**2 == pytest.approx(0.004**2, rel=1e-6)
    np.testing.assert_allclose(kernel.sum(axis=1), 1.0)
    np.testing.assert_allclose(kernel.sum(axis=0), 1.0)


@pytest.mark.parametrize("budgets", [GRID, PLANAR])
def test_the_filter_beats_single_frames_on_a_walk_and_is_calibrated(budgets: Budgets, rng: np.random.Generator) -> None:
    walked, single, own = [], [], []
    for _ in range(8):
        path = np.clip(rng.uniform(0.3, 0.7, 2) + np.cumsum(rng.normal(0, 0.003, (50, 2)), axis=0), 0, 1)
        released = release(path, budgets, rng)
        guess = locate_track(released, budgets, motion=Motion(0.003))
        walked.append(np.linalg.norm(guess.points - path, axis=1).mean())
        single.append(np.linalg.norm(attack.locate(released, budgets).points - path, axis=1).mean())
        own.append(guess.expected_error.mean())
    assert np.mean(walked) < 0.5 * np.mean(single)
    assert np.mean(own) == pytest.approx(np.mean(walked), rel=0.3)


def test_registered_attackers_follow_frames_losses_and_granted_tracks(rng: np.random.Generator) -> None:
    known = PublicConfiguration(ProtectionConfig(), PLANAR)
    truth = np.array([[0.3, 0.3], [0.7, 0.6]])
    heard = []
    for frame in range(30):
        order = rng.permutation(2)
        objects = scene.make_objects(release(truth, PLANAR, rng)[order], np.full((2, 2), 0.1), [0, 0])
        lost = frame == 7
        heard.append(Interception(None, None if lost else objects, known, tracks=None if lost else order))
    guesses = create("location_track")(heard, rng)
    assert guesses[7] is None
    for frame, points in zip(heard, guesses, strict=True):
        if points is not None:
            assert np.linalg.norm(points - truth[frame.tracks], axis=1).max() < 0.015
    for name in ("location_ml", "location_bayes"):
        single = create(name)(heard, rng)
        assert single[7] is None and single[0].shape == (2, 2)


def test_what_cannot_be_attacked_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="released holds no frame"):
        locate_track(np.zeros((0, 2)), GRID)
    with pytest.raises(ValueError, match="estimator must be one of"):
        attack.locate([[0.5, 0.5]], GRID, estimator="oracle")
    with pytest.raises(ValueError, match="step"):
        Motion(float("nan"))
