"""Normal draws: the law, its tails, independence within and between pairs, sizes, extreme bits, resolution."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from uav_privacy_sc.privacy import normal, visual
from uav_privacy_sc.privacy.randomness import RandomStreams

COUNT = 2_000_000


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    return normal.standard_normal((COUNT,), RandomStreams(seed=3).visual)


def test_draws_follow_the_normal_law(draws: np.ndarray) -> None:
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    for moment, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]:
        assert np.mean(draws**moment) == pytest.approx(expected, abs=4.5 * np.sqrt(variance / COUNT))


@pytest.mark.parametrize("edge", [1.0, 2.0, 3.0, 4.0, 4.5])
def test_tails_are_as_heavy_as_they_should_be(draws: np.ndarray, edge: float) -> None:
    for observed in (np.count_nonzero(draws > edge), np.count_nonzero(draws < -edge)):
        assert stats.binomtest(observed, COUNT, stats.norm.sf(edge)).pvalue > 1e-4


def test_the_two_draws_of_a_pair_and_their_neighbours_are_independent(draws: np.ndarray) -> None:
    blocks = draws[: COUNT // (2 * normal._PAIRS) * 2 * normal._PAIRS].reshape(-1, 2, normal._PAIRS)
    first, second = blocks[:, 0].ravel(), blocks[:, 1].ravel()
    limit = 4.5 / np.sqrt(len(first))
    for left, right in [(first, second), (first[1:], second[:-1]), (first[1:], first[:-1]), (second[1:], second[:-1])]:
        for shape in (lambda x: x, np.square, np.abs, np.sign):
            assert abs(np.corrcoef(shape(left), shape(right))[0, 1]) < limit
    assert stats.kstest(first**2 + second**2, stats.expon(scale=2).cdf).pvalue > 1e-3
    assert stats.kstest(np.arctan2(second, first), stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5, 7), (64, 40, 41), (2, 12801)])
def test_any_shape_is_filled(shape: tuple[int, ...]) -> None:
    drawn = normal.standard_normal(shape, RandomStreams(seed=3).visual)
    assert drawn.shape == shape and drawn.dtype == np.float64
    assert np.isfinite(drawn).all()
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("room", [np.empty((4, 4), np.float32), np.empty((4, 4)).T[:2]])
def test_only_whole_rows_of_doubles_are_filled(room: np.ndarray) -> None:
    with pytest.raises(ValueError, match="^out must be"):
        normal.fill(room, RandomStreams(seed=3).visual)


@pytest.mark.parametrize("angle", [0.0, 0.25, 0.5, 0.75, 1 - 2.0**-53])
@pytest.mark.parametrize(("share", "radius"), [(0.0, 0.0), (0.5, 1.1774), (1 - 2.0**-53, 8.5716)])
def test_the_extremes_of_the_bits_give_finite_draws(angle: float, share: float, radius: float) -> None:
    bits = iter([angle, share])
    stuck = SimpleNamespace(random=lambda out: out.fill(next(bits)))
    drawn = normal.standard_normal((2,), stuck)  # type: ignore[arg-type]
    expected = radius * np.array([np.cos(2 * np.pi * angle), np.sin(2 * np.pi * angle)])
    np.testing.assert_allclose(drawn, expected, atol=1e-4)


def test_noise_and_features_meet_in_double_and_are_rounded_once() -> None:
    """In single precision 16 draws are enough to refute every wrong guess of a cell: none of them gives the floats."""
    config, epsilon = visual.VisualConfig(mechanism="uniform"), np.full((30, 40), 0.3)
    features = np.random.default_rng(1).standard_normal((2 * normal.BLOCK, 30, 40), np.float32)
    released = visual.release(features, epsilon, config, RandomStreams(seed=4).visual)
    stream = RandomStreams(seed=4).visual
    noise = np.concatenate([normal.standard_normal((normal.BLOCK, 30, 40), stream) for _ in range(2)])
    clipped = features * visual.clip_scale(features, 1.0)
    np.testing.assert_array_equal(released, (noise * visual.sigma_map(epsilon, config) + clipped).astype(np.float32))
    assert len(np.unique(noise * 2.0**30 % 1)) > 0.99 * noise.size, "the bits beyond those of a float32 are not drawn"


def test_a_seed_repeats_the_draws() -> None:
    one, two = (normal.standard_normal((5000,), RandomStreams(seed=9).visual) for _ in range(2))
    np.testing.assert_array_equal(one, two)
