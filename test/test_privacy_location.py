"""Location release: Eq. 18 exactly, the planar Laplace law, expected errors, edges, extreme budgets, floating point."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from uav_privacy_sc.privacy import location
from uav_privacy_sc.privacy.randomness import RandomStreams


@pytest.fixture
def rng() -> np.random.Generator:
    return RandomStreams(seed=11).location


def eq18(cell: tuple[int, int], epsilon_l: float, size: int) -> np.ndarray:
    """Return the (N, N) probabilities [b, a] of P1 Eq. 18, read literally."""
    a, b = np.meshgrid(np.arange(size), np.arange(size))
    weight = np.exp(-epsilon_l / 2 * (abs(a - cell[0]) + abs(b - cell[1])))
    return weight / weight.sum()


@pytest.mark.parametrize("cell", [(0, 0), (2, 4), (5, 1)])
@pytest.mark.parametrize("epsilon_l", [0.05, 0.7, 3.0])
def test_grid_release_has_the_distribution_of_eq18(
    rng: np.random.Generator, cell: tuple[int, int], epsilon_l: float
) -> None:
    size, draws = 6, 60000
    center = np.tile((np.array(cell) + 0.3) / size, (draws, 1))
    centers, cells = location.release_grid(center, epsilon_l, size, rng)
    observed = np.bincount(cells, minlength=size * size).astype(float)
    expected = eq18(cell, epsilon_l, size).ravel() * draws
    keep = expected > 5
    statistic = ((observed - expected)[keep] ** 2 / expected[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum() - 1) > 1e-4
    np.testing.assert_allclose(centers * size - 0.5, np.stack([cells % size, cells // size], axis=1), atol=1e-9)


def test_objects_of_one_call_are_released_independently(rng: np.random.Generator) -> None:
    pair = np.full((2, 2), 0.5)
    steps = np.array([location.release_grid(pair, 1.0, 16, rng)[0] for _ in range(4000)])
    assert abs(np.corrcoef(steps[:, 0, 0], steps[:, 1, 0])[0, 1]) < 4 / np.sqrt(4000)
    assert abs(np.corrcoef(steps[:, 0, 0], steps[:, 0, 1])[0, 1]) < 4 / np.sqrt(4000)


def test_border_belongs_to_the_last_cell_and_strays_are_clamped(rng: np.random.Generator) -> None:
    strays = np.array([[1.0, 1.0], [1.2, -0.3], [0.0, 0.999999]])
    np.testing.assert_array_equal(location.grid_cells(strays, 16), [[15, 15], [15, 0], [0, 15]])
    centers, cells = location.release_grid(strays, 1e3, 16, rng)
    np.testing.assert_array_equal(cells, [255, 15, 240])
    assert (location.release_planar_laplace(strays, 1e6, 100.0, rng) <= 1).all()


@pytest.mark.parametrize("epsilon_l", [1e-9, 1e-3, 700.0, 1e6])
def test_extreme_budgets_underflow_nothing(rng: np.random.Generator, epsilon_l: float) -> None:
    with np.errstate(all="raise"):
        centers, cells = location.release_grid(rng.random((500, 2)), epsilon_l, 64, rng)
        location.release_planar_laplace(rng.random((500, 2)), epsilon_l, 1.0, rng)
    assert np.isfinite(centers).all()
    if epsilon_l < 1e-2:
        assert stats.kstest(centers[:, 0], "uniform").pvalue > 1e-4


def test_planar_laplace_radius_is_gamma_and_its_angle_uniform(rng: np.random.Generator) -> None:
    displacement = location.release_planar_laplace(np.full((20000, 2), 0.5), 2.0, 500.0, rng) - 0.5
    radius = np.hypot(*displacement.T) * 500
    assert stats.kstest(radius, stats.gamma(2, scale=1 / 2.0).cdf).pvalue > 1e-3
    angle = np.arctan2(displacement[:, 1], displacement[:, 0])
    assert stats.kstest(angle, stats.uniform(-np.pi, 2 * np.pi).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(radius, angle).statistic) < 4 / np.sqrt(20000)


def test_planar_laplace_noise_is_added_on_a_lattice_without_seeing_the_centre() -> None:
    centers = np.array([[0.31415926, 0.27182818]])
    zero = location.release_planar_laplace(np.full((1, 2), 0.5), 3.0, 50.0, RandomStreams(2).location)
    moved = location.release_planar_laplace(centers, 3.0, 50.0, RandomStreams(2).location)
    steps = moved / location.LATTICE
    np.testing.assert_array_equal(steps, np.rint(steps))
    expected = np.rint(centers / location.LATTICE) * location.LATTICE - 0.5
    np.testing.assert_array_equal(moved - zero, expected)
    np.testing.assert_array_equal(moved.astype(np.float32), moved)


@pytest.mark.parametrize("epsilon_l", [0.05, 1.0, 4.0, 50.0])
@pytest.mark.parametrize("size", [1, 2, 16])
def test_grid_expected_error_is_the_mean_of_what_happens(rng: np.random.Generator, epsilon_l: float, size: int) -> None:
    centers = rng.random((60000, 2))
    error = np.hypot(*(location.release_grid(centers, epsilon_l, size, rng)[0] - centers).T)
    tolerance = 4.5 * error.std() / np.sqrt(len(error))
    assert error.mean() == pytest.approx(location.grid_expected_error(epsilon_l, size), abs=tolerance)


def test_grid_expected_error_agrees_with_eq18_and_numeric_quadrature() -> None:
    size, epsilon_l = 3, 1.3
    total = 0.0
    for a, b in np.ndindex(size, size):
        probability = eq18((a, b), epsilon_l, size)
        for za, zb in np.ndindex(size, size):
            cx, cy = (za + 0.5) / size, (zb + 0.5) / size
            mean, _ = integrate.dblquad(
                lambda y, x, cx=cx, cy=cy: np.hypot(x - cx, y - cy),
                a / size, (a + 1) / size, b / size, (b + 1) / size, epsabs=1e-10,
            )  # fmt: skip
            total += probability[zb, za] * mean
    assert location.grid_expected_error(epsilon_l, size) == pytest.approx(total, rel=1e-7)


def test_the_errors_that_the_design_states() -> None:
    assert location.grid_expected_error(1e4, 16) == pytest.approx(0.0239, abs=5e-5)
    assert location.grid_expected_error(4.0, 16) == pytest.approx(0.045, abs=5e-4)
    assert location.grid_expected_error([10.0, 3.1], 16) == pytest.approx([0.0248, 0.0584], abs=4e-4)


def test_expected_errors_are_vectorized_and_fall_with_the_budget() -> None:
    epsilons = np.logspace(-3, 3, 50).reshape(10, 5)
    for error in (location.grid_expected_error(epsilons, 16), location.planar_laplace_expected_error(epsilons, 100.0)):
        assert error.shape == (10, 5)
        assert (np.diff(error.ravel()) <= 1e-15).all()
    assert isinstance(location.grid_expected_error(1.0, 16), float)


def test_planar_laplace_expected_error_bounds_the_clipped_error(rng: np.random.Generator) -> None:
    centers = rng.random((40000, 2))
    for scale, tight in [(400.0, True), (2.0, False)]:
        error = np.hypot(*(location.release_planar_laplace(centers, 1.0, scale, rng) - centers).T)
        bound = location.planar_laplace_expected_error(1.0, scale)
        assert error.mean() < bound
        assert (error.mean() > 0.98 * bound) == tight


@pytest.mark.parametrize("epsilon_l", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 2, 7])
def test_replacement_epsilon_is_the_worst_ratio_of_eq18(epsilon_l: float, size: int) -> None:
    tables = np.array([np.log(eq18((a, b), epsilon_l, size)) for a, b in np.ndindex(size, size)])
    worst = (tables.max(axis=0) - tables.min(axis=0)).max()
    assert location.grid_replacement_epsilon(epsilon_l, size) == pytest.approx(worst, abs=1e-12)
    assert worst <= 2 * max(size - 1, 0) * epsilon_l + 1e-12


@pytest.mark.parametrize("epsilon_l", [0.01, 0.1, 1.0, 5.0, 50.0])
def test_one_grid_step_costs_at_most_epsilon_l_and_at_least_half_of_it(epsilon_l: float) -> None:
    exact = location.grid_step_epsilon(epsilon_l, 8)
    assert epsilon_l / 2 <= exact + 1e-12
    assert exact <= epsilon_l
    if epsilon_l < 10:
        tables = np.array([[np.log(eq18((a, b), epsilon_l, 8)) for a in range(8)] for b in range(8)])
        assert exact == pytest.approx(np.abs(np.diff(tables, axis=0)).max(), abs=1e-9)
        assert exact == pytest.approx(np.abs(np.diff(tables, axis=1)).max(), abs=1e-9)


def test_no_objects_is_a_valid_release(rng: np.random.Generator) -> None:
    centers, cells = location.release_grid(np.zeros((0, 2)), 1.0, 16, rng)
    assert centers.shape == (0, 2) and cells.shape == (0,)
    assert location.release_planar_laplace(np.zeros((0, 2)), 1.0, 100.0, rng).shape == (0, 2)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_parameters_and_centres_out_of_range_are_refused_by_name(rng: np.random.Generator, value: float) -> None:
    center = np.full((1, 2), 0.5)
    for call in (
        lambda: location.release_grid(center, value, 16, rng),
        lambda: location.release_planar_laplace(center, value, 1.0, rng),
        lambda: location.grid_expected_error(value, 16),
        lambda: location.planar_laplace_expected_error(value, 1.0),
    ):
        with pytest.raises(ValueError, match="^epsilon_l must"):
            call()
    with pytest.raises(ValueError, match="^scale must"):
        location.release_planar_laplace(center, 1.0, value, rng)
    with pytest.raises(ValueError, match="^grid_size must"):
        location.release_grid(center, 1.0, value, rng)  # type: ignore[arg-type]
    if not np.isfinite(value):
        with pytest.raises(ValueError, match="^centers hold NaN or infinity"):
            location.release_grid(np.full((1, 2), value), 1.0, 16, rng)


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(0, 20), st.just(2)), elements=st.floats(-1e6, 1e6)),
    st.floats(1e-9, 1e9),
    st.integers(1, 64),
    st.floats(1e-6, 1e6),
)
def test_every_release_lies_on_its_lattice_inside_the_image(
    centers: np.ndarray, epsilon_l: float, size: int, scale: float
) -> None:
    stream, before = RandomStreams(seed=1).location, centers.copy()
    released, cells = location.release_grid(centers, epsilon_l, size, stream)
    np.testing.assert_array_equal(released, np.stack([cells % size + 0.5, cells // size + 0.5], axis=1) / size)
    assert ((cells >= 0) & (cells < size * size)).all()
    moved = location.release_planar_laplace(centers, epsilon_l, scale, stream)
    assert ((moved >= 0) & (moved <= 1)).all()
    np.testing.assert_array_equal(moved / location.LATTICE, np.rint(moved / location.LATTICE))
    np.testing.assert_array_equal(centers, before)


@given(st.floats(1e-9, 1e9), st.integers(1, 200))
def test_expected_grid_error_lies_between_quantization_and_a_uniform_guess(epsilon_l: float, size: int) -> None:
    error = location.grid_expected_error(epsilon_l, size)
    finest, blind = location.grid_expected_error(1e9, size), location.grid_expected_error(1e-9, size)
    assert finest * (1 - 1e-9) <= error <= blind * (1 + 1e-9) < 0.53
