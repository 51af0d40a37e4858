"""Averaging over frames: the noise of the mean falls as it must, weights help, what was lost is skipped."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.attack import averaging
from uav_privacy_sc.attack.averaging import running_mean, worth
from uav_privacy_sc.attack.interface import Interception, PublicConfiguration, create
from uav_privacy_sc.privacy import visual
from uav_privacy_sc.privacy.visual import VisualConfig
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets

SHAPE = (16, 22, 40)


def _known(mechanism: str = "uniform", **options: object) -> PublicConfiguration:
    return PublicConfiguration(ProtectionConfig(VisualConfig(mechanism=mechanism, **options)), Budgets(3.0, 1.0, 1.0))


def _frames(clean: np.ndarray, number: int, known: PublicConfiguration, moving: bool = False) -> list[Interception]:
    """Return releases of one scene; ``moving``: the released objects, of which the map is made, are drawn anew."""
    rng, found = np.random.default_rng(5), []
    config = known.protection.visual
    for _ in range(number):
        count = 4 if moving else 0
        labels = np.zeros(count, np.uint8)
        objects = scene.make_objects(rng.random((count, 2)), np.full((count, 2), 0.5), labels)
        epsilon = visual.allocate(objects, SHAPE[1:], known.budgets.epsilon_v, config, known.protection.budget_map)
        found.append(Interception(visual.release(clean, epsilon, config, rng), objects, known))
    return found


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    vectors = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=0) * 0.9


def _error(mean: np.ndarray | None, clean: np.ndarray) -> float:
    assert mean is not None
    return float(np.sqrt(((mean - clean) ** 2).mean()))


def test_independent_noise_falls_with_the_root_of_the_frames(clean: np.ndarray) -> None:
    means = running_mean(_frames(clean, 64, _known()))
    first = _error(means[0], clean)
    for number in (4, 16, 64):
        assert _error(means[number - 1], clean) == pytest.approx(first / np.sqrt(number), rel=0.03)


def test_weights_by_known_noise_beat_the_plain_mean_where_the_map_moves(clean: np.ndarray) -> None:
    frames = _frames(clean, 24, _known("region_aware", map_source="released"), moving=True)
    plain, weighted = (_error(running_mean(frames, each)[-1], clean) for each in (False, True))
    assert weighted < 0.9 * plain
    sigma = np.stack([averaging.infer_sigma(frame) for frame in frames])
    expected = np.sqrt((1 / (1 / sigma**2).sum(axis=0)).mean())
    assert weighted == pytest.approx(expected, rel=0.03)  # the least that any weights give


def test_lost_frames_add_nothing_and_another_shape_begins_anew(clean: np.ndarray) -> None:
    known = _known()
    frames = _frames(clean, 2, known)
    lost = Interception(None, None, known)
    means = running_mean([lost, frames[0], lost, frames[1]])
    assert means[0] is None and (means[1] == means[2]).all()  # type: ignore[union-attr]
    np.testing.assert_allclose(means[3], (frames[0].features + frames[1].features) / 2, atol=1e-5)
    small = replace(frames[0], features=frames[0].features[:, :5])  # type: ignore[index]
    np.testing.assert_allclose(running_mean([frames[0], small])[1], small.features, rtol=1e-6)


def test_frames_are_worth_the_root_of_their_number_in_mu() -> None:
    sigma = visual.sigma_map(np.ones((1, 1)), VisualConfig())[0, 0]
    assert worth(1.0, 1e-5, 1) == pytest.approx(1.0, rel=1e-6)
    alike = visual.sigma_map(np.full((1, 1), worth(1.0, 1e-5, 25)), VisualConfig())[0, 0]
    assert alike == pytest.approx(sigma / 5, rel=1e-4)
    with pytest.raises(ValueError, match="epsilon"):
        worth(float("nan"), 1e-5, 2)


def test_the_attackers_draw_the_mean_with_the_network_they_are_given(clean: np.ndarray) -> None:
    frames = [Interception(None, None, _known()), *_frames(clean, 2, _known())]

    def network(features: np.ndarray) -> np.ndarray:
        return np.full((2, 2, 3), round(100 + 10 * float(features[0, 0, 0])), np.uint8)

    for name in ("inverter_average", "inverter_average_adaptive"):
        guesses = create(name, network=network)(frames, np.random.default_rng(0))
        assert guesses[0] is None
        mean = (frames[1].features[0, 0, 0] + frames[2].features[0, 0, 0]) / 2  # type: ignore[index]
        assert guesses[2][0, 0, 0] == round(100 + 10 * float(mean))
    alone = create("inverter", network=network)(frames, np.random.default_rng(0))
    assert alone[0] is None and (alone[2] == network(frames[2].features)).all()
