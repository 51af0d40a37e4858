"""Visual release: the clip, the noise's distribution, independence, the lattice, the registry, the cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from uav_privacy_sc import scene
from uav_privacy_sc.privacy import calibration, lattice, visual
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import VisualConfig

STEP = 2.0**-6


@pytest.fixture
def rng() -> np.random.Generator:
    return RandomStreams(seed=5).visual


def test_clip_bounds_every_cell_and_leaves_short_vectors_alone(rng: np.random.Generator) -> None:
    features = rng.standard_normal((16, 9, 11)).astype(np.float32) * np.float32(10) ** rng.integers(-3, 4, (9, 11))
    clipped = features.astype(np.float32) * visual.clip_scale(features.astype(np.float32), 1.0)
    norm = np.linalg.norm(clipped.astype(np.float64), axis=0)
    short = np.linalg.norm(features, axis=0) < 0.999
    assert norm.max() <= 1.0
    assert norm[~short].min() > 0.9999
    np.testing.assert_array_equal(clipped[:, short], features[:, short].astype(np.float32))


_LARGEST = float(np.finfo(np.float32).max)


@given(hnp.arrays(np.float32, (64, 2, 3), elements=st.floats(-_LARGEST, _LARGEST, width=32)), st.floats(1e-12, 1e12))
def test_no_finite_vector_exceeds_the_clip(features: np.ndarray, c_clip: float) -> None:
    clipped = features * visual.clip_scale(features, c_clip)
    assert np.linalg.norm(clipped.astype(np.float64), axis=0).max() <= c_clip


@pytest.mark.parametrize(("c_clip", "value", "channels"), [(5.38e-6, 3e38, 64), (5.58e-5, 3e38, 64), (1e-12, 3e-12, 1)])
def test_the_clip_holds_where_its_factor_is_subnormal(c_clip: float, value: float, channels: int) -> None:
    features = np.full((channels, 1, 1), value, np.float32)
    clipped = features * visual.clip_scale(features, c_clip)
    assert np.linalg.norm(clipped.astype(np.float64)) <= c_clip


@pytest.mark.parametrize("step", [None, STEP])
def test_noise_is_gaussian_with_the_deviation_of_its_cell(rng: np.random.Generator, step: float | None) -> None:
    epsilon = np.array([[0.3, 1.12], [1.95, 10.0]])
    config = VisualConfig(lattice_step=step)
    value = np.zeros((20000, 2, 2), np.float32)
    released = visual.release(value, epsilon, config, rng).astype(np.float64)
    sigma = calibration.gaussian_sigma(epsilon, 1e-5, 2.0)
    for row, column in np.ndindex(2, 2):
        sample = released[:, row, column] / sigma[row, column]
        assert stats.kstest(sample, "norm").pvalue > 1e-3 or step  # a lattice has ties; its moments are tested below
        assert sample.mean() == pytest.approx(0, abs=4 / np.sqrt(20000))
        assert sample.std() == pytest.approx(1, abs=4 / np.sqrt(40000))


def test_noise_is_independent_between_cells_and_channels(rng: np.random.Generator) -> None:
    released = visual.release(np.zeros((40, 30, 40), np.float32), np.full((30, 40), 1.0), VisualConfig(), rng)
    flat = released.reshape(40, -1).astype(np.float64)
    across = np.corrcoef(flat)[np.triu_indices(40, 1)]
    assert np.abs(across).max() < 5 / np.sqrt(1200)
    neighbours = (released[:, :, 1:] * released[:, :, :-1]).mean() / released.var()
    assert abs(neighbours) < 4 / np.sqrt(released.size)


def test_release_is_centred_on_the_clipped_vector(rng: np.random.Generator) -> None:
    features = np.zeros((4, 1, 4000), np.float32)
    features[0] = 5.0
    released = visual.release(features, np.full((1, 4000), 20.0), VisualConfig(mechanism="uniform"), rng)
    sigma = calibration.gaussian_sigma(20.0, 1e-5, 2.0)
    assert released[0].mean() == pytest.approx(1.0, abs=5 * sigma / np.sqrt(4000))
    assert released[1].mean() == pytest.approx(0.0, abs=5 * sigma / np.sqrt(4000))


@settings(max_examples=50)
@given(
    hnp.arrays(np.float32, (16, 2, 3), elements=st.floats(-(2.0**60), 2.0**60, width=32)),
    st.sampled_from([2.0**-3, 2.0**-6, 2.0**-9]),
)
def test_lattice_norm_never_exceeds_the_clip(features: np.ndarray, step: float) -> None:
    scale = visual.clip_scale(features, 1.0)
    silent = np.zeros((2, 3))
    cut = lattice.release(features, lambda block: block * scale, silent, step, 1.0, RandomStreams(1).visual)
    counts = lattice.encode(cut, step).astype(object)
    assert (np.square(counts).sum(axis=0) <= step**-2).all()
    np.testing.assert_allclose(cut, features * scale, atol=step)


def test_lattice_release_holds_whole_steps_and_crosses_the_wire_unchanged(rng: np.random.Generator) -> None:
    features = rng.standard_normal((16, 5, 7)).astype(np.float32)
    released = visual.release(features, np.full((5, 7), 0.08), VisualConfig(lattice_step=STEP), rng)
    wire = lattice.encode(released, STEP)
    assert wire.dtype == np.int16
    np.testing.assert_array_equal(lattice.decode(wire, STEP), released)
    assert np.abs(released).max() > 50, "noise of sigma 81 was cut short"
    with pytest.raises(ValueError, match="^features are not multiples of lattice_step"):
        lattice.encode(features, STEP)


def test_lattice_noise_does_not_depend_on_the_value() -> None:
    config, epsilon = VisualConfig(lattice_step=STEP), np.full((3, 3), 1.0)
    features = np.full((4, 3, 3), 0.1234567, np.float32)
    noise = visual.release(np.zeros_like(features), epsilon, config, RandomStreams(3).visual)
    shifted = visual.release(features, epsilon, config, RandomStreams(3).visual)
    np.testing.assert_array_equal(shifted - noise, np.full_like(features, np.floor(0.1234567 / STEP) * STEP))


def test_a_vector_too_long_for_the_lattice_is_refused(rng: np.random.Generator) -> None:
    with pytest.raises(ArithmeticError, match="exceeds c_clip"):
        lattice.release(np.full((16, 1, 1), 0.5, np.float32), lambda block: block, np.ones((1, 1)), STEP, 1.0, rng)


@pytest.mark.parametrize("mechanism", visual.mechanisms())
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nan_and_infinity_are_refused(rng: np.random.Generator, mechanism: str, value: float) -> None:
    features = np.zeros((16, 3, 4), np.float32)
    features[3, 2, 1] = value
    config = VisualConfig(mechanism=mechanism)
    epsilon = visual.allocate(scene.no_objects(), (3, 4), 1.0, config)
    with pytest.raises(ValueError, match="features hold NaN or infinity"):
        visual.release(features, epsilon, config, rng)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_an_epsilon_that_protects_nothing_is_refused(rng: np.random.Generator, value: float) -> None:
    epsilon = np.ones((3, 4))
    epsilon[1, 1] = value
    with pytest.raises(ValueError, match="^epsilon_map must"):
        visual.release(np.zeros((16, 3, 4), np.float32), epsilon, VisualConfig(), rng)


def test_wrong_shapes_are_refused(rng: np.random.Generator) -> None:
    for shape in [(16, 4, 3), (3, 4), (16, 3, 4, 1)]:
        with pytest.raises(ValueError, match="^features must be"):
            visual.release(np.zeros(shape, np.float32), np.ones((3, 4)), VisualConfig(), rng)


def test_the_input_is_never_changed(rng: np.random.Generator) -> None:
    features = rng.standard_normal((16, 3, 4)).astype(np.float32) * 9
    before = features.copy()
    for mechanism in visual.mechanisms():
        config = VisualConfig(mechanism=mechanism)
        out = visual.release(features, visual.allocate(scene.no_objects(), (3, 4), 1.0, config), config, rng)
        assert not np.shares_memory(out, features)
    np.testing.assert_array_equal(features, before)


def test_classical_calibration_is_available_and_pays_for_what_it_really_gives() -> None:
    config = VisualConfig(mechanism="uniform", calibration="classical")
    epsilon = np.full((1, 1), 20.0)
    cost = visual.cost(epsilon, scene.no_objects(), config)
    assert visual.sigma_map(epsilon, config)[0, 0] == pytest.approx(2 * np.sqrt(2 * np.log(1.25e5)) / 20)
    assert calibration.epsilon_from_mu(cost.cell, 1e-5) == pytest.approx(25.4426, abs=1e-3)


def test_cost_composes_over_the_cells_an_object_covers() -> None:
    config = VisualConfig(mechanism="uniform")
    objects = scene.make_objects([[0.25, 0.5], [0.75, 0.5]], [[0.2, 0.4], [0.1, 0.2]], [0, 3])
    cost = visual.cost(np.full((10, 20), 1.0), objects, config)
    mu = calibration.mu_from_epsilon(1.0, 1e-5)
    cells = scene.coverage(scene.corners(objects), (10, 20)).sum(axis=(1, 2))
    assert cost.cell == pytest.approx(mu)
    assert cost.frame == pytest.approx(mu * np.sqrt(200))
    np.testing.assert_allclose(cost.objects, mu * np.sqrt(cells), rtol=1e-6)
    assert cost.object == cost.objects.max()


def test_a_frame_in_which_nobody_was_detected_is_not_free() -> None:
    epsilon = np.full((10, 20), 1.0)
    nobody = visual.cost(epsilon, scene.no_objects(), VisualConfig())
    assert nobody.object == nobody.cell > 0
    larger = visual.cost(epsilon, scene.no_objects(), VisualConfig(undetected_cells=9))
    assert larger.object == pytest.approx(3 * larger.cell)
    assert visual.cost(epsilon, scene.no_objects(), VisualConfig(undetected_cells=0)).object == 0.0
    reaching = visual.cost(epsilon, scene.no_objects(), VisualConfig(reach_cells=2))
    assert reaching.object == pytest.approx(5 * reaching.cell), "a missed object of one cell changes 25"
    everywhere = visual.cost(epsilon, scene.no_objects(), VisualConfig(reach_cells=40))
    assert everywhere.object == pytest.approx(everywhere.frame)


def test_an_object_is_charged_for_what_it_changes_around_its_box() -> None:
    epsilon, wide = np.full((10, 20), 1.0), VisualConfig(mechanism="uniform", reach_cells=2)
    objects = scene.make_objects(
        [[0.525, 0.55], [0.025, 0.05], [0.5, 0.5]], [[0.04, 0.08], [0.04, 0.08], [0.0, 0.0]], [0] * 3
    )
    mu = calibration.mu_from_epsilon(1.0, 1e-5)
    np.testing.assert_allclose(visual.cost(epsilon, objects, wide).objects, mu * np.sqrt([25, 9, 0]), rtol=1e-6)


def test_no_protection_costs_everything_and_changes_nothing(rng: np.random.Generator) -> None:
    config = VisualConfig(mechanism="none")
    features = rng.standard_normal((16, 3, 4)).astype(np.float32)
    epsilon = visual.allocate(scene.no_objects(), (3, 4), 1.0, config)
    np.testing.assert_array_equal(visual.release(features, epsilon, config, rng), features)
    cost = visual.cost(epsilon, scene.no_objects(), config)
    assert np.isinf([cost.cell, cost.object, cost.frame]).all()


def test_a_mechanism_can_be_added_by_name(rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visual, "_MECHANISMS", dict(visual._MECHANISMS))

    @visual.register("half")
    class Half(visual.CellGaussian):
        def allocate(self, objects, grid_shape, epsilon_v, map_config):  # type: ignore[no-untyped-def]
            return np.full(grid_shape, epsilon_v / 2)

    config = VisualConfig(mechanism="half")
    epsilon = visual.allocate(scene.no_objects(), (3, 4), 1.0, config)
    assert visual.release(np.zeros((2, 3, 4), np.float32), epsilon, config, rng).shape == (2, 3, 4)
    assert visual.cost(epsilon, scene.no_objects(), config).cell == pytest.approx(
        calibration.mu_from_epsilon(0.5, 1e-5)
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("mechanism", "magic"), ("calibration", "exact"), ("map_source", "truth"), ("c_clip", float("nan"))]
    + [("c_clip", 1e-20), ("delta", 1.0), ("lattice_step", 0.01), ("lattice_step", float("inf"))],
)
def test_a_wrong_setting_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"^{field} must"):
        VisualConfig(**{field: value})


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1])
def test_tabulated_sigma_is_never_below_the_exact_one_and_hardly_above(delta: float) -> None:
    epsilon = np.exp(np.random.default_rng(0).uniform(np.log(1e-4), np.log(1e3), (100, 200)))
    epsilon[0, :2] = 1e-4, 1e3
    ratio = visual.sigma_map(epsilon, VisualConfig(delta=delta)) / calibration.gaussian_sigma(epsilon, delta, 2.0)
    assert ratio.min() >= 1.0
    assert ratio.max() <= 1 + 1e-6
    outside = np.array([[1e-5, 2e3]])
    exact = calibration.gaussian_sigma(outside, delta, 2.0)
    np.testing.assert_array_equal(visual.sigma_map(outside, VisualConfig(delta=delta)), exact)


def test_huge_finite_features_are_clipped_and_released(rng: np.random.Generator) -> None:
    features = np.full((16, 2, 2), 3e38, np.float32)
    released = visual.release(features, np.full((2, 2), 1e3), VisualConfig(), rng)
    assert np.isfinite(released).all()
    assert released.mean() == pytest.approx(0.25, abs=0.05)
