"""Class and count inference: matrices are those of the mechanisms, Bayes gains what it may within the DP bound."""

from __future__ import annotations

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.attack import inference
from uav_privacy_sc.attack.interface import Interception, PublicConfiguration, create
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy import descriptors
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets

EVEN = np.full(10, 0.1)
SKEWED = np.array([0.3, 0.1, 0.05, 0.35, 0.05, 0.03, 0.02, 0.02, 0.03, 0.05])


def frame(objects: np.ndarray | None, options: DescriptorConfig) -> Interception:
    config = ProtectionConfig(objects=ObjectConfig(options))
    return Interception(None, objects, PublicConfiguration(config, Budgets(1.0, 1.0, 1.0)))


@pytest.mark.parametrize("label_epsilon", [0.2, 1.0, 4.0])
def test_label_matrix_is_the_frequency_of_randomized_response(label_epsilon: float) -> None:
    draws = descriptors.release_labels(np.full(50000, 3), label_epsilon, np.random.default_rng(1))
    matrix = inference.label_matrix(label_epsilon)
    np.testing.assert_allclose(np.bincount(draws, minlength=10) / 50000, matrix[3], atol=0.012)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)


@pytest.mark.parametrize("true", [0, 3, 28])
def test_count_matrix_is_the_frequency_of_padding_with_its_clipped_ends(true: int) -> None:
    options = DescriptorConfig(count_epsilon=0.4, count_margin=3, count_limit=30)
    draws = descriptors.padded_numbers(true, options, (60000,), np.random.default_rng(2))
    matrix = inference.count_matrix(options, 30)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.bincount(draws, minlength=31) / 60000, matrix[true], atol=0.01)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomized_response_reaches_the_bound_for_an_even_prior_and_not_for_a_skewed_one(epsilon: float) -> None:
    matrix = inference.label_matrix(epsilon)
    even, skewed = (inference.vulnerability(matrix, prior, epsilon) for prior in (EVEN, SKEWED))
    assert even.posterior == pytest.approx(even.bound) == pytest.approx(descriptors.label_accuracy(epsilon))
    assert skewed.prior - 1e-12 <= skewed.posterior <= skewed.bound
    assert even.advantage > 0


def test_where_the_prior_is_strong_and_the_budget_small_hearing_adds_nothing() -> None:
    assert inference.vulnerability(inference.label_matrix(0.1), SKEWED, 0.1).advantage == pytest.approx(0.0)


def test_in_clear_everything_is_known() -> None:
    assert inference.vulnerability(inference.label_matrix(None), SKEWED, None).posterior == pytest.approx(1.0)


def test_telling_neighbours_apart_stays_within_the_bound_of_pure_dp() -> None:
    epsilon = 0.7
    counts = inference.count_matrix(DescriptorConfig(count_epsilon=epsilon), 40)
    labels = inference.label_matrix(epsilon)
    bound = inference.distinguishing_bound(epsilon)
    assert 0.5 * bound < inference.distinguishing_advantage(counts, 12, 13) <= bound
    assert 0.25 * bound < inference.distinguishing_advantage(labels, 0, 3) <= bound
    assert inference.distinguishing_advantage(counts, 12, 30) > bound  # no neighbours


def test_bayes_hits_as_often_as_its_vulnerability_says() -> None:
    rng, matrix = np.random.default_rng(4), inference.label_matrix(1.5)
    truth = rng.choice(10, 4000, p=SKEWED)
    heard = descriptors.release_labels(truth, 1.5, rng)
    table = np.array([inference.bayes(matrix, SKEWED, output) for output in range(10)])
    hits = (table[heard].argmax(axis=1) == truth).mean()
    assert hits == pytest.approx(inference.vulnerability(matrix, SKEWED, 1.5).posterior, abs=0.03)


def test_a_class_drawn_afresh_in_every_frame_is_averaged_away() -> None:
    rng, options = np.random.default_rng(5), DescriptorConfig(label_epsilon=1.0)
    truth = np.array([0, 3, 9])
    heard = []
    for _ in range(60):
        labels = descriptors.release_labels(truth, 1.0, rng)
        heard.append(frame(scene.make_objects(np.full((3, 2), 0.5), np.full((3, 2), 0.1), labels), options))
    heard.append(frame(None, options))
    pooled, single = create("label_bayes", pool=True)(heard, rng), create("label_bayes")(heard, rng)
    assert pooled[-1] is None and pooled[0].argmax(axis=1).tolist() == truth.tolist()
    assert pooled[0][range(3), truth].min() > 0.9
    assert np.mean([guess[range(3), truth].mean() for guess in single[:-1]]) < 0.3


def test_a_padded_count_is_known_better_the_longer_a_scene_stays() -> None:
    rng, options = np.random.default_rng(6), DescriptorConfig(count_epsilon=0.5)
    objects = scene.make_objects(np.full((12, 2), 0.5), np.full((12, 2), 0.1), 0)
    heard = [frame(descriptors.pad_objects(objects, options, rng), options) for _ in range(50)]
    single, pooled = create("count_bayes")(heard, rng), create("count_bayes", pool=True)(heard, rng)
    assert abs(int(pooled[0].argmax()) - 12) <= 1
    assert pooled[0].max() > 2 * np.mean([guess.max() for guess in single])


def test_a_count_in_clear_is_known_also_beyond_the_largest_expected() -> None:
    heard = frame(scene.make_objects(np.full((250, 2), 0.5), np.full((250, 2), 0.1), 0), DescriptorConfig())
    assert create("count_bayes")([heard], np.random.default_rng(0))[0].argmax() == 250


def test_what_no_secret_explains_is_refused() -> None:
    with pytest.raises(ValueError, match="no secret of the prior can give these outputs"):
        inference.bayes(np.eye(10), EVEN, [2, 3])
    with pytest.raises(ValueError, match="no secret of the prior can give these outputs"):
        inference.bayes(np.eye(10), EVEN, [11])
    with pytest.raises(ValueError, match="prior of shape"):
        inference.bayes(np.eye(10), EVEN[:3], [0])
