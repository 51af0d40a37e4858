"""Packets: what they weigh and when they are lost, and what the link costs over the bare draw of its noise."""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pytest

from uav_privacy_sc.link.channel import BlockState, LinkConfig, transmit_codes, transmit_features, transmit_objects
from uav_privacy_sc.link.outage import capacity, packet_error_probability
from uav_privacy_sc.link.payload import HEADER_BITS, OBJECT_BITS, analog_payload, code_bits, code_rate, coded_payload
from uav_privacy_sc.scene import make_objects


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def lattice_codes() -> np.ndarray:
    return rng().integers(-2000, 2001, (16, 22, 40)).astype(np.int16)


def test_capacity_is_one_bit_at_zero_db():
    assert capacity(1.0) == pytest.approx(1.0)


def test_short_packets_need_more_than_capacity_and_long_ones_come_near():
    def lost(snr_db: float, bits: int) -> float:
        return packet_error_probability(10 ** (snr_db / 10), 1.0, bits, "finite_blocklength")

    assert lost(0.0, 100) > 0.2 and lost(0.0, 1_000_000) > 0.2  # at capacity
    assert lost(1.0, 100) > 1e-2 > 1e-6 > lost(1.0, 5000)  # a decibel above
    assert lost(-1.0, 5000) > 0.99
    assert np.all(np.diff([lost(snr, 200) for snr in np.linspace(-5, 5, 50)]) <= 0)


def test_finite_blocklength_agrees_with_the_published_rate():
    """Polyanskiy, Poor and Verdu 2010: real AWGN, SNR 1, n = 1000 at 1e-3 gives about 0.43 of 0.5 bit a use.

    A complex symbol is two real uses, so 500 symbols at about 0.87 bit.
    """
    loss = packet_error_probability(1.0, 0.87, round(0.87 * 500), "finite_blocklength")
    assert 1e-4 < loss < 1e-2


def test_hopeless_packets_are_lost_for_certain():
    for model in ("capacity", "finite_blocklength"):
        assert packet_error_probability(1e-30, 0.1, 1000, model) == pytest.approx(1.0)


def test_analog_frames_have_symbols_and_coded_frames_bits():
    config = LinkConfig()
    analog = analog_payload(16 * 22 * 40, 200, config)
    assert analog.feature_bits == 0 and analog.feature_symbols == 7040
    assert analog.object_bits == HEADER_BITS + 200 * OBJECT_BITS + 32
    assert analog.airtime_s == pytest.approx((analog.object_symbols + 7040) / config.bandwidth_hz)
    coded = coded_payload(lattice_codes(), 200, config)
    assert coded.feature_bits == HEADER_BITS + 12 * lattice_codes().size
    assert coded.bits == coded.feature_bits + coded.object_bits
    assert coded.airtime_s > config.feature_airtime_s


@pytest.mark.parametrize("with_scale", [False, True])
def test_the_object_packet_is_lost_by_the_bits_that_are_billed(with_scale):
    config, objects = (
        LinkConfig(object_rate=1.0, object_outage="finite_blocklength"),
        make_objects(*[np.ones((2, 2))] * 2, np.zeros(2, int)),
    )
    state = BlockState.from_gain_db(1.0)
    billed = analog_payload(10, 2, config) if with_scale else coded_payload(np.zeros(1, int), 2, config)
    loss = packet_error_probability(state.snr(1.0), 1.0, billed.object_bits, "finite_blocklength")

    class Draw:
        def __init__(self, value: float) -> None:
            self.random = lambda: value

    def arrives(value: float) -> bool:
        return transmit_objects(objects, 1.0, state, Draw(value), config, with_scale=with_scale) is not None

    assert 0.0 < loss < 1.0 and arrives(loss + 1e-9) and not arrives(loss - 1e-9)


def test_code_width_is_what_the_range_needs():
    assert code_bits(np.array([-1, 0, 1])) == HEADER_BITS + 3 * 2
    assert code_bits(np.array([7, 7], np.int16)) == HEADER_BITS
    assert code_bits(np.array([-32768, 32767], np.int16)) == HEADER_BITS + 2 * 16
    assert code_bits(np.zeros(0, np.int16)) == HEADER_BITS
    with pytest.raises(ValueError, match="codes are of type float64"):
        code_bits(np.zeros(3))


def test_codes_arrive_whole_or_not_at_all():
    codes, config = lattice_codes(), LinkConfig(feature_airtime_s=0.01)
    threshold_db = 10 * np.log10(2 ** code_rate(codes, config) - 1)
    above, below = (BlockState.from_gain_db(threshold_db + margin) for margin in (0.01, -0.01))
    assert np.array_equal(transmit_codes(codes, 1.0, above, rng(), config), codes)
    assert transmit_codes(codes, 1.0, below, rng(), config) is None


def test_less_airtime_needs_a_better_channel():
    codes = lattice_codes()
    assert code_rate(codes, LinkConfig(feature_airtime_s=0.01)) == pytest.approx(
        5 * code_rate(codes, LinkConfig(feature_airtime_s=0.05))
    )


def test_the_link_costs_at_most_half_more_than_its_bare_gaussian_draw():
    """16x40x40 features and 200 descriptors."""
    generator, state, config = rng(), BlockState.from_gain_db(10), LinkConfig()
    features = generator.standard_normal((16, 40, 40), np.float32)
    objects = make_objects(np.zeros((200, 2)), np.zeros((200, 2)), np.zeros(200, int))
    bare, ours = [], []
    for _ in range(300):
        start = time.perf_counter()
        generator.standard_normal(features.shape, np.float32)
        middle = time.perf_counter()
        transmit_features(features, 1.0, state, generator)
        transmit_objects(objects, 1.0, state, generator, config, with_scale=True)
        bare.append(middle - start)
        ours.append(time.perf_counter() - middle)
    assert median(ours) < 1.5 * median(bare)
