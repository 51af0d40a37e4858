"""The map attacker: AUC as theory says in the paper's profile, no more than released objects give in the hardened."""

from __future__ import annotations

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.attack import sensitive_map as attack
from uav_privacy_sc.attack.interface import Interception, PublicConfiguration, create
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy import visual
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import VisualConfig
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import Budgets

GRID = (22, 40)
PAPER = ProtectionConfig(VisualConfig(calibration="classical", undetected_cells=0))
HARDENED = ProtectionConfig(
    VisualConfig(map_source="released", lattice_step=2.0**-6),
    objects=ObjectConfig(DescriptorConfig(hide_score=True, shuffle=True)),
)


def flown(config: ProtectionConfig, frames: int = 6, epsilon_v: float = 1.0, epsilon_l: float = 1.0):
    """Return intercepted frames and the true sensitive cells of each."""
    rng = np.random.default_rng(8)
    stage, budgets = ProtectStage(config, RandomStreams(seed=8), Odometer(None, 1e-5)), Budgets(epsilon_v, epsilon_l, 1)
    heard, truth = [], []
    for stamp in range(frames):
        objects = scene.make_objects(
            rng.uniform(0.1, 0.9, (10, 2)), rng.uniform(0.02, 0.07, (10, 2)), rng.choice([0, 1, 3, 9], 10)
        )
        features = rng.normal(size=(16, *GRID)).astype(np.float32) / 5
        out = stage(features, objects, budgets, stamp)
        heard.append(Interception(out.features, out.objects, PublicConfiguration(config, budgets)))
        truth.append(attack.sensitive_cells(objects, GRID))
    return heard, np.array(truth)


def area(name: str, heard: list, truth: np.ndarray) -> attack.Roc:
    return attack.roc(np.array(create(name)(heard, np.random.default_rng(0))), truth)


def test_area_is_that_of_all_pairs_with_ties_by_half_and_of_the_curve() -> None:
    rng = np.random.default_rng(1)
    scores, truth = rng.integers(0, 6, 200), rng.random(200) < 0.3
    pairs = scores[truth][:, None] - scores[~truth]
    found = attack.roc(scores, truth)
    assert found.auc == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean())
    trapezoids = np.diff(found.false_positive) * (found.true_positive[1:] + found.true_positive[:-1]) / 2
    assert trapezoids.sum() == pytest.approx(found.auc)
    assert 0.02 < found.standard_error < 0.08


def test_without_both_kinds_of_cells_there_is_no_curve() -> None:
    with pytest.raises(ValueError, match="0 sensitive cells of 4"):
        attack.roc(np.arange(4), np.zeros(4, bool))
    with pytest.raises(ValueError, match="scores must be finite"):
        attack.roc(np.array([np.nan, 1]), np.array([True, False]))


@pytest.mark.parametrize("factors", [(0.3, 1.12), (0.52, 1.12), (0.9, 1.12)])
def test_power_tells_cells_apart_as_the_f_distribution_says(factors: tuple[float, float]) -> None:
    cells, config = 4000, VisualConfig()
    epsilon = np.repeat(np.array(factors)[:, None], cells, axis=1)
    noise = visual.release(np.zeros((16, 2, cells), np.float32), epsilon, config, np.random.default_rng(2))
    sensitive, other = visual.sigma_map(epsilon, config)[:, 0]
    theory = attack.theoretical_auc(sensitive, other, 16)
    found = attack.roc(attack.power_map(noise), np.repeat([[True], [False]], cells, axis=1))
    assert found.auc == pytest.approx(theory, abs=4 * found.standard_error + 1e-5)
    if factors[0] == 0.3:
        assert theory > 0.9999


def test_no_difference_no_area() -> None:
    assert attack.theoretical_auc(3.0, 3.0, 16) == pytest.approx(0.5)


def test_the_papers_noise_shows_people_where_released_places_would_not() -> None:
    heard, truth = flown(PAPER)
    places = area("map_released", heard, truth)
    for name in ("map_power", "map_likelihood"):
        noise = area(name, heard, truth)
        assert noise.auc > 0.99 > places.auc + 10 * noise.standard_error


def test_hardened_noise_shows_no_more_than_the_released_objects() -> None:
    heard, truth = flown(HARDENED, frames=10)
    places, power, adaptive = (area(name, heard, truth) for name in ("map_released", "map_power", "map_likelihood"))
    assert power.auc < places.auc + 2 * places.standard_error
    assert adaptive.auc == pytest.approx(places.auc, abs=2 * places.standard_error)
    assert places.auc < 0.9


def test_uniform_noise_shows_nothing() -> None:
    heard, truth = flown(ProtectionConfig(VisualConfig(mechanism="uniform")))
    power = area("map_power", heard, truth)
    assert power.auc == pytest.approx(0.5, abs=4 * power.standard_error)
    assert not attack.likelihood_score(heard[0]).any()


def test_released_map_is_the_share_of_draws_that_cover_a_cell() -> None:
    config = ProtectionConfig(objects=ObjectConfig())
    known = PublicConfiguration(config, Budgets(1.0, 1.0, 1.0))
    record = scene.make_objects([[0.53125, 0.53125]], [[0.1, 0.2]], [0])
    found = attack.released_map(Interception(None, record, known), GRID)
    rng = np.random.default_rng(3)
    step = np.arange(16)
    chance = np.exp(-np.abs(step - 8) / 2) / np.exp(-np.abs(step[:, None] - step) / 2).sum(axis=1)
    draws = (rng.choice(16, (4000, 2), p=chance / chance.sum()) + rng.random((4000, 2))) / 16
    boxes = scene.make_objects(draws, np.tile([[0.1, 0.2]], (4000, 1)), 0)
    share = scene.coverage(scene.corners(boxes), GRID).mean(axis=0)
    np.testing.assert_allclose(found, share, atol=0.05)


def test_a_class_that_may_be_a_lie_counts_by_its_chance() -> None:
    options = DescriptorConfig(label_epsilon=1.0)
    known = PublicConfiguration(ProtectionConfig(objects=ObjectConfig(options)), Budgets(1.0, 9.0, 1.0))
    car = attack.released_map(Interception(None, scene.make_objects([[0.5, 0.5]], [[0.2, 0.2]], [3]), known), GRID)
    person = attack.released_map(Interception(None, scene.make_objects([[0.5, 0.5]], [[0.2, 0.2]], [0]), known), GRID)
    assert 0 < car.max() < person.max() < 1


def test_the_adaptive_attacker_knows_a_public_map_exactly_and_reads_a_private_one_off_the_noise() -> None:
    heard, _ = flown(HARDENED, frames=1)
    config, frame = HARDENED.visual, heard[0]
    exact = visual.sigma_map(visual.allocate(frame.objects, GRID, 1.0, config), config)
    np.testing.assert_allclose(attack.infer_sigma(frame), exact)
    heard, truth = flown(PAPER, frames=4)
    sigma = np.array([attack.infer_sigma(frame) for frame in heard])
    assert np.median(sigma[truth]) > 3 * np.median(sigma[~truth])


def test_lost_packets_leave_no_guess() -> None:
    known = PublicConfiguration(PAPER, Budgets(1.0, 1.0, 1.0))
    lost = Interception(None, None, known)
    for name in ("map_power", "map_released", "map_likelihood"):
        assert create(name)([lost], np.random.default_rng(0)) == (None,)
    with pytest.raises(ValueError, match="were lost"):
        attack.infer_sigma(lost)
