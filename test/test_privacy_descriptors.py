"""Descriptors, predictive location and pacing: distributions, exact ratios, what is paid and when."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from uav_privacy_sc import scene
from uav_privacy_sc.privacy import descriptors, pacing, predictive
from uav_privacy_sc.privacy.accountant import BudgetExhausted, Expenditure, Odometer
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.randomness import RandomStreams

KINDS = len(scene.OBJECT_CLASSES)


@pytest.fixture
def streams() -> RandomStreams:
    return RandomStreams(seed=31)


def crowd(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    objects = scene.make_objects(
        rng.random((count, 2)), rng.uniform(0.01, 0.3, (count, 2)), rng.integers(0, KINDS, count), rng.random(count)
    )
    return objects[np.argsort(-objects["score"])]


@pytest.mark.parametrize("epsilon", [0.1, 2.0, 6.0])
def test_class_response_has_the_distribution_it_claims(streams: RandomStreams, epsilon: float) -> None:
    draws = 40000
    released = descriptors.release_labels(np.full(draws, 3), epsilon, streams.label)
    observed = np.bincount(released, minlength=KINDS)
    keep = descriptors.label_accuracy(epsilon)
    expected = np.full(KINDS, (1 - keep) / (KINDS - 1) * draws)
    expected[3] = keep * draws
    assert stats.chisquare(observed, expected * draws / expected.sum()).pvalue > 1e-4
    assert keep / ((1 - keep) / (KINDS - 1)) == pytest.approx(np.exp(epsilon))


@pytest.mark.parametrize("epsilon", [0.02, 0.5, 3.0])
def test_two_sided_geometric_noise_has_ratio_epsilon(streams: RandomStreams, epsilon: float) -> None:
    draws = descriptors.two_sided_geometric(epsilon, (60000,), streams.size)
    steps = np.arange(-40, 41)
    weight = np.exp(-epsilon * np.abs(steps)) * np.tanh(epsilon / 2)
    observed = np.array([(draws == step).sum() for step in steps])
    keep = weight * 60000 > 8
    statistic = ((observed - weight * 60000)[keep] ** 2 / (weight * 60000)[keep]).sum()
    assert stats.chi2.sf(statistic, keep.sum()) > 1e-4


def test_size_noise_is_on_octaves_and_stays_in_range(streams: RandomStreams) -> None:
    sizes = np.tile([0.25, 0.03], (20000, 1))
    released = descriptors.release_sizes(sizes, 8.0, streams.size)
    steps = np.log2(released) * descriptors.STEPS
    np.testing.assert_allclose(steps, np.rint(steps), atol=1e-3)
    spread = np.rint(steps[:, 0]) - np.log2(0.25) * descriptors.STEPS
    q = np.exp(-8.0 / (descriptors.STEPS + 1))
    assert np.mean(np.abs(spread)) == pytest.approx(2 * q / (1 - q**2), rel=0.05)
    extreme = descriptors.release_sizes([[0.0, -1.0], [5.0, 1.0]], 0.01, streams.size)
    assert (extreme >= 2.0**-descriptors.OCTAVES).all() and (extreme <= 1).all()
    with pytest.raises(ValueError, match="^sizes hold NaN or infinity"):
        descriptors.release_sizes([[np.nan, 0.1]], 1.0, streams.size)


@pytest.mark.parametrize("count", [0, 5, 40])
def test_padded_number_is_shifted_geometric_whatever_the_objects(streams: RandomStreams, count: int) -> None:
    config, objects = DescriptorConfig(count_epsilon=1.0, count_margin=6), crowd(count)
    numbers = np.array([len(descriptors.pad_objects(objects, config, streams.count)) for _ in range(3000)])
    draws = numbers - count - 6
    at = np.arange(-6, 7)
    expected = np.exp(-np.abs(at)) * np.tanh(0.5) * 3000
    observed = np.array([(draws == step).sum() for step in at])
    if count == 0:  # below zero there is nothing left to leave out
        expected[0] += 3000 - np.exp(-np.abs(np.arange(-6, 300))).sum() * np.tanh(0.5) * 3000
    assert stats.chi2.sf(((observed - expected) ** 2 / expected).sum(), len(at)) > 1e-4


def test_padding_keeps_the_objects_and_leaves_out_some_only_when_it_falls_short(streams: RandomStreams) -> None:
    objects, config = crowd(20), DescriptorConfig(count_epsilon=5.0, count_margin=4)
    padded = descriptors.pad_objects(objects, config, streams.count)
    assert len(padded) >= 20
    assert np.isin(objects["x"], padded["x"]).all()
    short = DescriptorConfig(count_epsilon=0.2, count_margin=0)
    sizes = [len(descriptors.pad_objects(objects, short, streams.count)) for _ in range(200)]
    assert min(sizes) < 20 < max(sizes)
    assert descriptors.pad_objects(objects, DescriptorConfig(), streams.count) is objects


def test_order_and_score_of_the_detector_are_gone_when_asked(streams: RandomStreams) -> None:
    objects = crowd(200)
    released = descriptors.release_descriptors(objects, DescriptorConfig(hide_score=True, shuffle=True), streams)
    assert (released["score"] == 1.0).all()
    assert not np.array_equal(released["x"], objects["x"])
    np.testing.assert_array_equal(np.sort(released["x"]), np.sort(objects["x"]))
    same = descriptors.release_descriptors(objects, DescriptorConfig(), streams)
    np.testing.assert_array_equal(same, objects)


def test_every_part_is_released_with_its_own_stream(streams: RandomStreams) -> None:
    config = DescriptorConfig(label_epsilon=1.0, size_epsilon=1.0)
    objects = crowd(100)
    both = descriptors.release_descriptors(objects, config, RandomStreams(4))
    one = descriptors.release_descriptors(objects, DescriptorConfig(label_epsilon=1.0), RandomStreams(4))
    np.testing.assert_array_equal(both["label"], one["label"])
    assert (both["w"] != objects["w"]).mean() > 0.8


@pytest.mark.parametrize("name", ["label_epsilon", "size_epsilon", "count_epsilon"])
@pytest.mark.parametrize("value", [0.0, float("nan"), float("inf")])
def test_descriptor_budgets_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        DescriptorConfig(**{name: value})


def run(config: predictive.PredictiveConfig, path: np.ndarray, epsilon_l: float = 4.0) -> tuple[np.ndarray, float]:
    """Return which frames renewed the one track of ``path`` (T, 2), and what it paid in all."""
    tracks, rng = predictive.PredictiveLocation(config), RandomStreams(seed=8).location
    releases = [tracks.release(center[None], [7], epsilon_l, rng) for center in path]
    return np.array([release.renewed[0] for release in releases]), sum(
        float(release.epsilon[0]) for release in releases
    )


@pytest.mark.parametrize("branch", predictive.BRANCHES)
def test_a_resting_track_pays_once_and_a_moving_one_for_its_way(branch: str) -> None:
    config = predictive.PredictiveConfig(branch=branch, threshold=8.0, test_ratio=1.0, scale=16.0)
    rest = np.tile([0.3, 0.6], (150, 1))
    renewed, paid = run(config, rest)
    assert renewed[0] and renewed.sum() <= 3
    assert paid == pytest.approx(renewed.sum() * 8.0)
    walk = np.stack([np.linspace(0.02, 0.98, 150), np.linspace(0.02, 0.98, 150)], axis=1)
    assert run(config, walk)[0].sum() > renewed.sum()


def test_a_kept_point_is_released_unchanged() -> None:
    tracks, rng = predictive.PredictiveLocation(), RandomStreams(seed=2).location
    first = tracks.release([[0.5, 0.5], [0.1, 0.9]], [1, 2], 4.0, rng)
    second = tracks.release([[0.1, 0.9], [0.5, 0.5]], [2, 1], 4.0, rng)
    assert not second.renewed.any() and (second.epsilon == 0).all()
    np.testing.assert_array_equal(second.centers, first.centers[::-1])
    np.testing.assert_array_equal(second.cells, first.cells[::-1])


def test_the_private_test_is_as_private_as_it_claims() -> None:
    """The chance of every answer sequence changes by at most e^epsilon_test when the path moves by one unit."""
    config, rng = predictive.PredictiveConfig(threshold=3.0, test_ratio=0.5), RandomStreams(seed=4).location
    answers = []
    for cell in (4, 5):
        centers = np.tile([(cell + 0.5) / 16, 2.5 / 16], (20000, 1))
        kept = predictive.frames_kept(config, centers, [2.5 / 16, 2.5 / 16], 2.0, 4, rng)
        answers.append(np.bincount(kept.astype(int), minlength=5) / 20000)
    ratio = np.log(answers[1] / answers[0])
    assert np.abs(ratio).max() <= 1.0 + 0.06
    assert np.abs(ratio).max() > 0.1, "the test does not look at the position at all"


def test_forgotten_tracks_leave_no_memory_and_pay_again() -> None:
    config = predictive.PredictiveConfig(forget_after=5)
    tracks, rng = predictive.PredictiveLocation(config), RandomStreams(seed=2).location
    tracks.release([[0.5, 0.5]], [1], 4.0, rng)
    for frame in range(10):
        tracks.release([[0.2, 0.2]], [100 + frame], 4.0, rng)
    assert len(tracks._epochs) <= 7
    assert tracks.release([[0.5, 0.5]], [1], 4.0, rng).renewed.all()


def test_strange_tracks_are_refused_and_no_tracks_are_fine() -> None:
    tracks, rng = predictive.PredictiveLocation(), RandomStreams(seed=2).location
    assert tracks.release(np.zeros((0, 2)), [], 1.0, rng).centers.shape == (0, 2)
    with pytest.raises(ValueError, match="^identities must be 2 different numbers"):
        tracks.release([[0.1, 0.1], [0.2, 0.2]], [3, 3], 1.0, rng)
    with pytest.raises(ValueError, match="^centers hold NaN"):
        tracks.release([[np.nan, 0.1]], [3], 1.0, rng)
    with pytest.raises(ValueError, match="^branch must be one of grid, planar_laplace"):
        predictive.PredictiveConfig(branch="hexagon")


def test_a_paced_mission_lasts_for_its_frames_and_no_longer() -> None:
    odometer, frames = Odometer(None, 1e-5, ceiling_epsilon=20.0), 50
    for index in range(frames):
        allowance = pacing.frame_allowance(odometer, frames)
        assert allowance.frames_left == frames - index
        pure = allowance.location_epsilon(0.4)
        cell = np.sqrt(0.6) * allowance.mu
        odometer.spend(Expenditure(index, cell, cell, cell, location_epsilon=pure))
    assert odometer.spent().mission.epsilon == pytest.approx(20.0, rel=1e-6)
    assert pacing.frame_allowance(odometer, frames).epsilon < 0.2
    with pytest.raises(BudgetExhausted):
        odometer.spend(Expenditure(0, 0.5, 0.5, 0.5, location_epsilon=0.5))


def test_thrift_leaves_more_to_later_frames() -> None:
    odometer = Odometer(None, 1e-5, ceiling_epsilon=10.0)
    first = pacing.frame_allowance(odometer, 100)
    for index in range(50):
        odometer.spend(Expenditure(index, 0.0, first.mu / 2, 0.0))
    assert pacing.frame_allowance(odometer, 100).mu > first.mu * 1.2
    assert first.cell_epsilon(9, 1.0) < first.cell_epsilon(1, 1.0) == pytest.approx(first.epsilon)


def test_pacing_without_a_ceiling_is_refused() -> None:
    with pytest.raises(ValueError, match="^ceiling_epsilon must be set"):
        pacing.frame_allowance(Odometer(None, 1e-5), 10)
    with pytest.raises(ValueError, match="^expected_frames must"):
        pacing.frame_allowance(Odometer(None, 1e-5, 1.0), 0)
    with pytest.raises(ValueError, match=r"^share must lie in \(0, 1\]"):
        pacing.frame_allowance(Odometer(None, 1e-5, 1.0), 10).location_epsilon(0.0)


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(0, 20), st.just(2)), elements=st.floats(-1e6, 1e6)),
    st.floats(1e-9, 1e6),
)
def test_every_released_descriptor_is_a_possible_one(sizes: np.ndarray, epsilon: float) -> None:
    streams = RandomStreams(seed=1)
    released = descriptors.release_sizes(sizes, epsilon, streams.size)
    assert ((released >= 2.0**-descriptors.OCTAVES) & (released <= 1)).all()
    labels = descriptors.release_labels(np.arange(len(sizes)) % KINDS, epsilon, streams.label)
    assert ((labels >= 0) & (labels < KINDS)).all()
    padded = descriptors.pad_objects(crowd(3), DescriptorConfig(count_epsilon=epsilon), streams.count)
    assert padded.dtype == scene.OBJECT_DTYPE and len(padded) <= 1000


def test_no_change_by_one_octave_in_all_costs_more_than_size_epsilon(
    streams: RandomStreams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two sizes an octave apart in all may be rounded to 17 sixteenths apart; the noise has to allow for it."""
    asked = []

    def silent(epsilon: float, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        asked.append(epsilon)
        return np.zeros(shape, np.int64)

    monkeypatch.setattr(descriptors, "two_sided_geometric", silent)
    rng = np.random.default_rng(0)
    low, share = rng.uniform(-7, -2, (20000, 2)), rng.random((20000, 1))
    near, far = (
        descriptors.release_sizes(np.exp2(x), 1.0, streams.size) for x in (low, low + np.hstack([share, 1 - share]))
    )
    apart = np.abs(np.rint(16 * np.log2(far)) - np.rint(16 * np.log2(near))).sum(axis=1).max()
    assert apart == 17
    assert apart * asked[0] <= 1.0 + 1e-12


def test_noise_that_no_integer_holds_is_refused(streams: RandomStreams) -> None:
    with pytest.raises(ValueError, match="^epsilon of integer noise must be at least"):
        descriptors.two_sided_geometric(1e-13, (3,), streams.size)


def test_the_third_coordinate_says_nothing(streams: RandomStreams) -> None:
    objects = crowd(4)
    objects["z"] = 0.7
    assert not descriptors.release_descriptors(objects, DescriptorConfig(), streams)["z"].any()


def test_the_count_is_hidden_only_where_nothing_tells_dummies_from_objects() -> None:
    all_of_it = {"count_epsilon": 1.0, "label_epsilon": 1.0, "size_epsilon": 1.0, "hide_score": True}
    assert DescriptorConfig(**all_of_it).hides_count
    for name in all_of_it:
        assert not DescriptorConfig(**{key: value for key, value in all_of_it.items() if key != name}).hides_count
