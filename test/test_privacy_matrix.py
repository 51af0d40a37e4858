"""Matrix mechanisms of P2: the lemma's coverage, the optimum, the design's figures, real privacy, measured energy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, stats

from uav_privacy_sc import scene
from uav_privacy_sc.privacy import calibration, matrix, matrix_comparison, visual
from uav_privacy_sc.privacy.randomness import RandomStreams

LENET, OURS = (120, 400), (16, 1600)
EPSILON, DELTA = 1.0, 1e-5


@pytest.fixture
def rng() -> np.random.Generator:
    return RandomStreams(seed=23).visual


def box_sensitivity(shape: tuple[int, int]) -> float:
    return 2 * np.sqrt(shape[0] * shape[1])


@pytest.mark.parametrize("shape", [(1, 1), (3, 4), LENET])
@pytest.mark.parametrize("delta", [1e-5, 1e-2, 0.3])
def test_lemma_2_covers_the_norm_with_the_sign_put_right(shape: tuple[int, int], delta: float) -> None:
    entries, zeta = shape[0] * shape[1], matrix.lemma2_zeta(shape, delta)
    assert stats.chi2.sf(zeta**2, entries) <= delta


def test_the_figures_of_the_design() -> None:
    tight = matrix.gaussian(LENET, EPSILON, DELTA, box_sensitivity(LENET)).energy
    udn = matrix.udn(LENET, EPSILON, DELTA, box_sensitivity(LENET)).energy
    idn = matrix.idn(LENET, EPSILON, DELTA, -1, 1).energy
    assert udn / tight == pytest.approx(426_890, rel=1e-5)
    assert idn / tight == pytest.approx(3_557, rel=2e-4)
    assert udn / idn == pytest.approx(LENET[0]), "P2: IDN improves the bound m times"


@pytest.mark.parametrize("shape", [LENET, OURS])
def test_every_mechanism_keeps_its_claim(shape: tuple[int, int]) -> None:
    allowed, s = calibration.mu_from_epsilon(EPSILON, DELTA), box_sensitivity(shape)
    weights = np.linspace(0.1, 3, shape[0])
    for noise in (
        matrix.gaussian(shape, EPSILON, DELTA, s),
        matrix.udn(shape, EPSILON, DELTA, s, weights),
        matrix.mvg(shape, EPSILON, DELTA, s, s / 2, weights),
        matrix.matrix_gaussian(shape, EPSILON, DELTA, s, np.diag(weights)),
    ):
        assert noise.mu_ball(s) <= allowed * (1 + 1e-9)
    for noise in (
        matrix.idn(shape, EPSILON, DELTA, -1, 1, weights),
        matrix.idn(shape, EPSILON, DELTA, -1, 1, weights, tight=True),
        matrix.box_gaussian(shape, EPSILON, DELTA, 2.0, weights, np.linspace(1, 2, shape[1])),
        matrix.matrix_mechanism(shape, EPSILON, DELTA, 2.0, np.diag(weights)),
    ):
        assert noise.mu_box(2.0) <= allowed * (1 + 1e-9)


def test_tight_forms_use_all_of_their_claim() -> None:
    allowed = calibration.mu_from_epsilon(EPSILON, DELTA)
    weights = np.linspace(0.1, 3, 120)
    assert matrix.idn(LENET, EPSILON, DELTA, -1, 1, weights, tight=True).mu_box(2.0) == pytest.approx(allowed)
    assert matrix.box_gaussian(LENET, EPSILON, DELTA, 2.0, weights, np.ones(400)).mu_box(2.0) == pytest.approx(allowed)
    assert matrix.gaussian(LENET, EPSILON, DELTA, 5.0).mu_ball(5.0) == pytest.approx(allowed)


def test_mu_of_the_box_is_reached_by_its_worst_corner(rng: np.random.Generator) -> None:
    noise = matrix.MatrixNoise(rng.uniform(1, 3, 4), rng.uniform(1, 3, 5))
    corner = 2.0 / noise.rows[:, None] / noise.columns
    assert noise.mu_box(2.0) == pytest.approx(np.linalg.norm(corner))
    basis = np.linalg.qr(rng.standard_normal((4, 4)))[0]
    turned = matrix.MatrixNoise(noise.rows, noise.columns, basis)
    signs = np.array(np.meshgrid(*[[-2.0, 2.0]] * 4)).reshape(4, -1)
    worst = np.linalg.norm((basis.T @ signs) / noise.rows[:, None], axis=0).max()
    assert turned.mu_box(2.0) >= worst * np.sqrt(np.sum(noise.columns**-2)) * (1 - 1e-12)


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=6), st.floats(1e-3, 1e3))
def test_deviations_are_the_optimum_of_p2(weights: list[float], bound: float) -> None:
    array = np.array(weights)
    sigma = matrix.optimal_deviations(array, bound)
    assert np.sum(sigma**-2) == pytest.approx(bound)
    assert array @ sigma**2 == pytest.approx(np.sum(np.sqrt(array)) ** 2 / bound)


def test_no_search_finds_better_deviations() -> None:
    weights, bound = np.array([1.0, 4.0, 0.2]), 0.7
    best = weights @ matrix.optimal_deviations(weights, bound) ** 2

    def objective(log_share: np.ndarray) -> float:
        share = np.exp(log_share) / np.exp(log_share).sum() * bound
        return float(weights @ (1 / share))

    found = optimize.minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12})
    assert found.fun == pytest.approx(best, rel=1e-6)


def test_general_mechanism_has_the_published_error_and_the_best_basis(rng: np.random.Generator) -> None:
    shape, s = (6, 5), 3.0
    w1, w2 = rng.standard_normal((4, 6)), rng.standard_normal((5, 5))
    noise = matrix.matrix_gaussian(shape, EPSILON, DELTA, s, w1, w2)
    nuclear = np.linalg.norm(w1, "nuc") * np.linalg.norm(w2, "nuc")
    expected = nuclear**2 / matrix.theorem2_bound(shape, EPSILON, DELTA, s)
    assert noise.utility_error(w1, w2) == pytest.approx(expected, rel=1e-3)  # directions of no use cost a little
    draws = [np.sum((w1 @ noise.sample(rng) @ w2.T) ** 2) for _ in range(4000)]
    assert np.mean(draws) == pytest.approx(noise.utility_error(w1, w2), rel=5 * np.std(draws) / np.mean(draws) / 63)


@pytest.mark.parametrize("shape", [(12, 40), OURS])
def test_measured_energy_is_the_theoretical_one(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    for noise in (
        matrix.udn(shape, EPSILON, DELTA, 2.0, np.linspace(0.1, 3, shape[0])),
        matrix.idn(shape, EPSILON, DELTA, -1, 1, tight=True),
        matrix.mvg(shape, EPSILON, DELTA, 2.0, 1.0),
        matrix.matrix_mechanism(shape, EPSILON, DELTA, 2.0, rng.standard_normal((shape[0], shape[0]))),
    ):
        energies = [np.sum(noise.sample(rng) ** 2) for _ in range(200)]
        assert np.mean(energies) == pytest.approx(noise.energy, abs=5 * np.std(energies) / np.sqrt(200))


def test_a_direction_pays_in_the_box_and_not_in_the_ball() -> None:
    weights = np.array([1.0] + [0.01] * 15)
    w1 = np.diag(np.sqrt(weights))
    even = matrix.idn(OURS, EPSILON, DELTA, -1, 1, tight=True).utility_error(w1)
    assert matrix.idn(OURS, EPSILON, DELTA, -1, 1, weights, tight=True).utility_error(w1) < 0.4 * even


def test_identity_workload_makes_the_matrix_mechanism_a_gaussian() -> None:
    ours = matrix.matrix_mechanism((8, 9), EPSILON, DELTA, 2.0, np.eye(8))
    assert ours.energy == pytest.approx(matrix.gaussian((8, 9), EPSILON, DELTA, 2 * np.sqrt(72)).energy)


@pytest.mark.parametrize("step", [None, 2.0**-6])
@pytest.mark.parametrize("form", ["analytic", "classical"])
@pytest.mark.parametrize("mechanism", ["matrix_udn", "matrix_idn", "matrix_mvg"])
def test_visual_mechanisms_give_at_least_the_cell_guarantee_they_claim(
    rng: np.random.Generator, mechanism: str, form: str, step: float | None
) -> None:
    config = visual.VisualConfig(
        mechanism=mechanism, calibration=form, lattice_step=step, channel_weights=tuple(np.linspace(1, 4, 16))
    )
    epsilon = visual.allocate(scene.no_objects(), (8, 10), 2.0, config)
    cell = visual.cost(epsilon, scene.no_objects(), config).cell
    allowed = calibration.mu_from_epsilon(2.0, DELTA)
    assert cell == pytest.approx(allowed) if form == "analytic" else cell < allowed / 5
    if form == "analytic":
        features = np.zeros((16, 8, 10), np.float32)
        noise = np.array([visual.release(features, epsilon, config, rng) for _ in range(100)])
        deviation = noise.std(axis=(0, 2, 3))
        even = 2.0 / allowed
        assert np.allclose(deviation, even, rtol=0.04) == (mechanism != "matrix_idn")
        if mechanism == "matrix_idn":
            assert np.sqrt(np.sum((0.5 / deviation) ** 2)) == pytest.approx(allowed, rel=0.02)


def test_idn_clips_every_entry_into_a_box_inside_the_ball(rng: np.random.Generator) -> None:
    config = visual.VisualConfig(mechanism="matrix_idn")
    features = np.full((16, 1, 1), 7, np.float32)
    clipped = visual._MECHANISMS["matrix_idn"]._clip_of(features, config)(features)
    assert 0.2499 < clipped.max() <= 0.25
    assert np.linalg.norm(clipped) <= 1.0


def test_matrix_mechanisms_refuse_a_varying_map_and_another_number_of_channels(rng: np.random.Generator) -> None:
    config = visual.VisualConfig(mechanism="matrix_udn")
    with pytest.raises(ValueError, match="^epsilon_map must be constant for matrix_udn"):
        visual.release(np.zeros((16, 1, 2), np.float32), np.array([[1.0, 2.0]]), config, rng)
    with pytest.raises(ValueError, match="^channels must match the features, got 16 for 8"):
        visual.release(np.zeros((8, 1, 2), np.float32), np.ones((1, 2)), config, rng)


def test_weights_out_of_range_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^weights must have shape \(4,\)"):
        matrix.udn((4, 5), EPSILON, DELTA, 1.0, [1.0, 2.0])
    with pytest.raises(ValueError, match="^weights must be finite and above 0, got 0.0"):
        matrix.udn((2, 5), EPSILON, DELTA, 1.0, [1.0, 0.0])
    with pytest.raises(ValueError, match="^channel_weights must be none or 16, got 2"):
        visual.VisualConfig(channel_weights=(1.0, 2.0))
    with pytest.raises(ValueError, match="^high - low must"):
        matrix.idn((2, 5), EPSILON, DELTA, 1.0, 1.0)


@pytest.mark.parametrize("shape", [(12, 40), OURS])
def test_comparison_shows_theory_and_measurement_in_agreement(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    rows = {row.mechanism: row for row in matrix_comparison.compare(shape, EPSILON, DELTA, rng, draws=20)}
    assert list(rows) == ["gaussian", "udn", "idn", "idn_tight", "mvg", "mm"]
    for row in rows.values():
        assert row.measured == pytest.approx(row.theoretical, abs=5 * row.standard_error)
        assert row.actual_epsilon <= EPSILON * (1 + 1e-9)
    assert rows["gaussian"].ratio == rows["gaussian"].relative_time == 1.0
    assert rows["idn_tight"].ratio == pytest.approx(1.0)
    assert rows["mvg"].ratio > rows["udn"].ratio > rows["idn"].ratio > 10
    assert rows["idn"].actual_epsilon == pytest.approx(0, abs=0.2), "the published form adds noise for nothing"
    assert rows["udn"].published_relative_time == pytest.approx(1.51, abs=0.01)
