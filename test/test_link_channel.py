"""One block of the air: the SNR that is claimed is the SNR that is measured, and fades are Exp(1) and independent."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from uav_privacy_sc.link import path_loss
from uav_privacy_sc.link.channel import (
    BlockState,
    LinkConfig,
    draw_fading,
    public_scale,
    transmit_features,
    transmit_objects,
)
from uav_privacy_sc.scene import make_objects, no_objects


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def objects(count: int) -> np.ndarray:
    return make_objects(np.full((count, 2), 0.5), np.full((count, 2), 0.1), np.zeros(count, int))


def fades(config: LinkConfig, count: int, seed: int = 0) -> np.ndarray:
    generator = rng(seed)
    mean = path_loss.from_db(-path_loss.path_loss_db(config))
    return np.array([draw_fading(config, generator).gain for _ in range(count)]) / mean


@pytest.mark.parametrize("snr_db", [-10.0, 0.0, 10.0, 25.0])
@pytest.mark.parametrize("power", [1e-3, 1.0, 500.0])
def test_measured_snr_is_the_claimed_snr_whatever_the_scale(snr_db, power):
    features = rng(1).normal(0.3, np.sqrt(power), (16, 40, 40)).astype(np.float32)
    state = BlockState.from_gain_db(snr_db - 10 * np.log10(0.25), noise_power=3e-13)
    received = transmit_features(features, 0.25, state, rng(2))
    assert state.snr_db(0.25) == pytest.approx(snr_db)
    measured = 10 * np.log10(
        np.mean(np.square(features, dtype=float)) / np.mean(np.square(received - features, dtype=float))
    )
    assert measured == pytest.approx(snr_db, abs=0.12)  # 25,600 samples: 0.04 dB standard deviation


def test_noise_is_that_of_complex_symbols_through_a_fade_of_known_phase():
    """Against the chain written out: pair up, scale, fade, add complex noise, equalize, unscale."""
    features = rng(3).normal(0, 2, 40_000).astype(np.float32)
    state, p_tx = BlockState(2e-12, 1e-12), 0.7
    scale = public_scale(features)
    symbols = (features[0::2] + 1j * features[1::2]) / scale / np.sqrt(2)
    assert np.mean(np.abs(symbols) ** 2) == pytest.approx(1.0)
    coefficient = np.sqrt(p_tx * state.gain) * np.exp(1.234j)
    noise = rng(4).normal(0, np.sqrt(state.noise_power / 2), (2, symbols.size))
    equalized = (coefficient * symbols + noise[0] + 1j * noise[1]) / coefficient * scale * np.sqrt(2)
    written_out = np.stack([equalized.real, equalized.imag], axis=1).ravel() - features
    ours = transmit_features(features, p_tx, state, rng(5)) - features
    assert np.std(ours) == pytest.approx(np.std(written_out), rel=0.02)
    assert stats.ks_2samp(ours, written_out).pvalue > 1e-3


def test_features_keep_their_shape_and_type_and_are_not_changed_in_place():
    features = rng(1).normal(size=(3, 5, 7)).astype(np.float32)
    before = features.copy()
    received = transmit_features(features, 1.0, BlockState.from_gain_db(10), rng())
    assert received.shape == (3, 5, 7) and received.dtype == np.float32
    assert np.array_equal(features, before) and not np.array_equal(received, before)


def test_fade_power_is_exponential_with_mean_one():
    drawn = fades(LinkConfig(), 20_000)
    assert stats.kstest(drawn, "expon").pvalue > 1e-3
    assert drawn.mean() == pytest.approx(1.0, abs=0.03)


def test_ground_and_eavesdropper_fade_independently_and_so_do_blocks():
    ground, eve = fades(LinkConfig(), 5000, seed=1), fades(LinkConfig().eavesdropper, 5000, seed=2)
    assert abs(np.corrcoef(ground, eve)[0, 1]) < 0.05
    assert abs(np.corrcoef(ground[1:], ground[:-1])[0, 1]) < 0.05


def test_eavesdropper_hears_from_its_own_distance():
    config = LinkConfig(distance_m=400.0, eavesdropper_distance_m=100.0, fading="none")
    nearer = draw_fading(config.eavesdropper, rng()).gain_db - draw_fading(config, rng()).gain_db
    assert nearer == pytest.approx(10 * config.path_loss_exponent * np.log10(4.0))


def test_path_loss_is_free_space_at_exponent_two():
    config = LinkConfig(carrier_hz=2.4e9, path_loss_exponent=2.0, excess_loss_db=0.0)
    assert path_loss.path_loss_db(config, 1000.0) == pytest.approx(100.05, abs=0.01)  # 32.44 + 20 log10(f_MHz d_km)


def test_noise_power_is_minus_174_dbm_a_hertz_and_the_noise_figure():
    config = LinkConfig(bandwidth_hz=1e6, noise_figure_db=5.0)
    assert path_loss.to_db(path_loss.noise_power(config)) + 30 == pytest.approx(-174 + 60 + 5, abs=0.1)


def test_mean_gain_of_the_shipped_link_is_that_which_the_paper_implies():
    """P1 section 5.7: 8.216 dB at 0.2596 W is a gain of 14.1 dB, -7.184 dB at 0.0094 W one of 13.1 dB."""
    state = draw_fading(LinkConfig(fading="none"), rng())
    assert state.gain_db == pytest.approx(14.0, abs=1.5)
    assert state.snr_db(1.0) == pytest.approx(state.gain_db)


def test_deep_fade_gives_finite_numbers():
    features = rng(1).normal(size=1000).astype(np.float32)
    received = transmit_features(features, 1e-6, BlockState.from_gain_db(-150), rng())
    assert np.isfinite(received).all() and np.std(received) > 1e6


def test_a_fade_of_exactly_zero_cannot_be_drawn():
    class Zeros:
        def standard_normal(self, size=None):
            return np.zeros(size)

    assert draw_fading(LinkConfig(), Zeros()).gain > 0.0


def test_features_without_power_arrive_as_zeros_and_an_empty_block_as_empty():
    state = BlockState.from_gain_db(10)
    assert not transmit_features(np.zeros((2, 3), np.float32), 1.0, state, rng()).any()
    assert transmit_features(np.zeros((16, 0, 40), np.float32), 1.0, state, rng()).shape == (16, 0, 40)


def test_very_large_features_do_not_overflow():
    features = np.full(100, 1e25, np.float32)
    assert public_scale(features) == pytest.approx(1e25, rel=1e-5)


def test_cell_scale_gives_every_cell_the_snr_of_the_block():
    """A tenth of the cells is twenty times as strong; without the scale they take the others' share of the SNR."""
    scale = np.ones((40, 40))
    scale[:, :4] = 20.0
    features = (rng(1).normal(size=(16, 40, 40)) * scale).astype(np.float32)
    state = BlockState.from_gain_db(10.0)

    def weak_cell_snr_db(**options) -> float:
        error = transmit_features(features, 1.0, state, rng(2), **options) - features
        return 10 * np.log10(np.mean(features[..., 4:] ** 2) / np.mean(error[..., 4:] ** 2))

    assert weak_cell_snr_db(cell_scale=scale) == pytest.approx(10.0, abs=0.2)
    assert weak_cell_snr_db(cell_scale=7.0 * scale) == pytest.approx(10.0, abs=0.2)
    assert weak_cell_snr_db() == pytest.approx(10.0 - 10 * np.log10(0.1 * 400 + 0.9), abs=0.3)


@pytest.mark.parametrize("scale", [np.ones((4, 5)), np.zeros((5, 4)), np.full((5, 4), np.nan)])
def test_cell_scale_that_does_not_fit_is_refused_by_name(scale):
    with pytest.raises(ValueError, match="^cell_scale has shape"):
        transmit_features(np.ones((2, 5, 4), np.float32), 1.0, BlockState.from_gain_db(10), rng(), cell_scale=scale)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_features_that_are_not_finite_are_refused_by_name(bad):
    features = np.ones(10, np.float32)
    features[3] = bad
    with pytest.raises(ValueError, match="features hold NaN or infinity"):
        transmit_features(features, 1.0, BlockState.from_gain_db(10), rng())


@pytest.mark.parametrize("p_tx", [0.0, -1.0, float("nan"), float("inf")])
def test_power_that_is_no_power_is_refused_by_name(p_tx):
    with pytest.raises(ValueError, match="^p_tx is"):
        transmit_features(np.ones(4, np.float32), p_tx, BlockState.from_gain_db(10), rng())


@pytest.mark.parametrize("name", ["gain", "noise_power"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf")])
def test_state_refuses_what_is_no_gain_or_noise(name, value):
    with pytest.raises(ValueError, match=f"^{name} is"):
        BlockState(**{"gain": 1.0, "noise_power": 1.0, name: value})


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(LinkConfig) if f.type == "float"])
def test_configuration_refuses_nan_and_infinity_by_name(field):
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"^{field} is"):
            LinkConfig(**{field: value})


@pytest.mark.parametrize(
    "change", [{"fading": "nakagami"}, {"distance_m": 0.0}, {"bandwidth_hz": -1.0}, {"object_outage": "never"}]
)
def test_configuration_refuses_what_is_out_of_range_by_name(change):
    with pytest.raises(ValueError, match=f"^{next(iter(change))} is"):
        LinkConfig(**change)


def test_every_parameter_says_whether_it_is_published_or_ours():
    for item in LinkConfig.parameters():
        assert item.metadata["source"] in ("published", "ours") and item.metadata["about"]


def test_objects_arrive_unchanged_above_outage_and_are_lost_below():
    config, sent = LinkConfig(object_rate=1.0), objects(7)
    assert np.array_equal(transmit_objects(sent, 1.0, BlockState.from_gain_db(0.01), rng(), config), sent)
    assert transmit_objects(sent, 1.0, BlockState.from_gain_db(-0.01), rng(), config) is None


def test_an_empty_scene_is_a_packet_that_can_be_lost_too():
    config = LinkConfig(object_rate=1.0)
    assert len(transmit_objects(no_objects(), 1.0, BlockState.from_gain_db(5), rng(), config)) == 0
    assert transmit_objects(no_objects(), 1.0, BlockState.from_gain_db(-5), rng(), config) is None


def test_loss_over_rayleigh_fading_is_the_outage_probability():
    """P(log2(1 + SNR) < R) = 1 - exp(-(2^R - 1) / mean SNR)."""
    config, generator = LinkConfig(object_rate=1.0), rng(8)
    mean_gain_db = draw_fading(dataclasses.replace(config, fading="none"), generator).gain_db
    p_tx = 10 ** ((3.0 - mean_gain_db) / 10)
    sent, trials = objects(1), 8000
    lost = sum(
        transmit_objects(sent, p_tx, draw_fading(config, generator), generator, config) is None for _ in range(trials)
    )
    expected = 1 - np.exp(-1 / 10**0.3)
    assert lost / trials == pytest.approx(expected, abs=4 * np.sqrt(expected * (1 - expected) / trials))
