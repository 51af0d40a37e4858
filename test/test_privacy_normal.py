"""Float32 normal draws: the law, its tails, independence within and between pairs, odd sizes, extreme bits."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from uav_privacy_sc.privacy import normal
from uav_privacy_sc.privacy.randomness import RandomStreams

COUNT = 2_000_000


@pytest.fixture(scope="module")
def draws() -> np.ndarray:
    return normal.standard_normal((COUNT,), RandomStreams(seed=3).visual).astype(np.float64)


def test_draws_follow_the_normal_law(draws: np.ndarray) -> None:
    assert stats.kstest(draws, "norm").pvalue > 1e-3
    for moment, expected, variance in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)]:
        assert np.mean(draws**moment) == pytest.approx(expected, abs=4.5 * np.sqrt(variance / COUNT))


@pytest.mark.parametrize("edge", [1.0, 2.0, 3.0, 4.0, 4.5])
def test_tails_are_as_heavy_as_they_should_be(draws: np.ndarray, edge: float) -> None:
    for observed in (np.count_nonzero(draws > edge), np.count_nonzero(draws < -edge)):
        assert stats.binomtest(observed, COUNT, stats.norm.sf(edge)).pvalue > 1e-4


def test_the_two_draws_of_a_pair_and_their_neighbours_are_independent(draws: np.ndarray) -> None:
    first, second = draws[: COUNT // 2], draws[COUNT // 2 :]
    limit = 4.5 / np.sqrt(COUNT // 2)
    for left, right in [(first, second), (first[1:], second[:-1]), (first[1:], first[:-1]), (second[1:], second[:-1])]:
        for shape in (lambda x: x, np.square, np.abs, np.sign):
            assert abs(np.corrcoef(shape(left), shape(right))[0, 1]) < limit
    assert stats.kstest(first**2 + second**2, stats.expon(scale=2).cdf).pvalue > 1e-3


@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5, 7), (64, 40, 41), (2, 12801)])
def test_any_shape_is_filled(shape: tuple[int, ...]) -> None:
    drawn = normal.standard_normal(shape, RandomStreams(seed=3).visual)
    assert drawn.shape == shape and drawn.dtype == np.float32
    assert np.isfinite(drawn).all()
    assert len(np.unique(drawn)) > 0.99 * drawn.size - 1


@pytest.mark.parametrize(("word", "radius"), [(0, 7.54), ((1 << 64) - 1, 0.0)])
def test_the_extremes_of_the_bits_give_finite_draws(word: int, radius: float) -> None:
    stuck = SimpleNamespace(integers=lambda low, high, size, dtype: np.full(size, word, dtype))
    drawn = normal.standard_normal((2,), stuck)  # type: ignore[arg-type]
    assert np.hypot(*drawn) == pytest.approx(radius, abs=0.01)


def test_a_seed_repeats_the_draws() -> None:
    one, two = (normal.standard_normal((5000,), RandomStreams(seed=9).visual) for _ in range(2))
    np.testing.assert_array_equal(one, two)
