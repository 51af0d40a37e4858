"""The channel over a flight: correlated fading, line of sight, shadowing, blockage, interference, along a way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.constants import speed_of_light
from scipy.special import j0

from uav_privacy_sc.link import path_loss
from uav_privacy_sc.link.channel import LinkConfig, draw_fading
from uav_privacy_sc.link.fading import JakesFading, line_of_sight, rician, scattered
from uav_privacy_sc.link.geometry import Trajectory, View
from uav_privacy_sc.link.large_scale import Blockage, GaussMarkov, LargeScale, line_of_sight_probability
from uav_privacy_sc.link.process import FlightLinks, LinkProcess

CARRIER = 2.4e9
WAVELENGTH = speed_of_light / CARRIER


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def straight_flight(seconds: float = 60.0, speed: float = 10.0) -> Trajectory:
    time_s = np.linspace(0.0, seconds, 61)
    position = np.stack([50 + speed * time_s, 0 * time_s, 0 * time_s + 80], axis=1)
    blockage = np.where((time_s > 20) & (time_s < 40), 15.0, 0.0)
    return Trajectory(time_s, position, blockage)


def test_correlated_fading_is_rayleigh_over_the_ensemble():
    generator = rng(1)
    power = [abs(JakesFading(CARRIER, generator).coefficient(12.3)) ** 2 for _ in range(4000)]
    assert np.mean(power) == pytest.approx(1.0, abs=0.06)
    assert stats.kstest(power, "expon").pvalue > 1e-3


@pytest.mark.parametrize("wavelengths", [0.05, 0.2, 0.38, 1.0])
def test_correlated_fading_has_clarkes_autocorrelation(wavelengths):
    generator = rng(2)
    pairs = []
    for _ in range(4000):
        fading = JakesFading(CARRIER, generator)
        pairs.append(fading.coefficient(5.0) * np.conj(fading.coefficient(5.0 + wavelengths * WAVELENGTH)))
    assert np.mean(pairs).real == pytest.approx(j0(2 * np.pi * wavelengths), abs=0.06)


def test_correlated_fading_survives_a_clock_that_jumps_back():
    fading = JakesFading(CARRIER, rng())
    assert fading.coefficient(3.0) == fading.coefficient(3.0)


@pytest.mark.parametrize("k_factor", [0.0, 1.0, 10.0])
def test_rician_power_has_mean_one_and_the_variance_of_its_k_factor(k_factor):
    generator = rng(3)
    power = np.array([abs(rician(scattered(generator), k_factor)) ** 2 for _ in range(40_000)])
    assert power.mean() == pytest.approx(1.0, abs=0.03)
    assert power.var() == pytest.approx((2 * k_factor + 1) / (k_factor + 1) ** 2, rel=0.07)


def rician_power(k_factor: float) -> stats.rv_continuous:
    """|h|^2 is noncentral chi-square: two degrees of freedom of variance 1 / 2 (K + 1) each, about a mean."""
    return stats.ncx2(2, 2 * k_factor, scale=1 / (2 * (k_factor + 1)))


@pytest.mark.parametrize("how", ["nlos", "blocked", "scripted"])
def test_rician_fading_has_its_strong_path_in_sight_only(how):
    """Blocks that are 60 dB down have no sight; K = 10 dB fades too little to be taken for them."""
    changes = {
        "nlos": {"line_of_sight": "elevation", "nlos_loss_db": 60.0, "elevation_deg": 20.0},
        "blocked": {"blockage_rate_hz": 0.5, "blockage_loss_db": 60.0},
        "scripted": {},
    }[how]
    config = LinkConfig(fading="rician", k_factor_db=10.0, **changes)
    process = LinkProcess(config, rng(11))
    scripted = [60.0 * (how == "scripted" and i % 2) for i in range(6000)]
    gains = np.array([process.state(100.0 * i, blockage_db=loss).gain for i, loss in enumerate(scripted)])
    fades = gains * path_loss.from_db(path_loss.path_loss_db(config))
    seen, hidden = fades[fades > 1e-3], fades[fades <= 1e-3] * 1e6
    assert len(seen) > 1000 and len(hidden) > 1000
    assert stats.kstest(hidden, "expon").pvalue > 1e-3
    assert stats.kstest(seen, rician_power(10.0).cdf).pvalue > 1e-3


def test_the_strong_path_turns_by_a_turn_a_wavelength_and_forwards_when_it_gets_shorter():
    angles = [np.angle(line_of_sight(CARRIER, fraction * WAVELENGTH)) for fraction in (0.0, 0.25, -0.25, 1.0)]
    assert angles == pytest.approx([0.0, np.pi / 2, -np.pi / 2, 0.0], abs=1e-9)


def fade_covariance(pairs: list[tuple[float, float]]) -> float:
    power = np.array(pairs)
    return float(np.mean((power[:, 0] - 1.0) * (power[:, 1] - 1.0)))


@pytest.mark.parametrize("elevation_deg", [0.0, 60.0])
@pytest.mark.parametrize("wavelengths", [0.1, 0.25, 0.7])
@pytest.mark.parametrize("positions", [False, True])
def test_rician_fades_are_correlated_as_scattering_and_a_strong_path_with_doppler_are(
    elevation_deg, wavelengths, positions
):
    """Cov(|h|^2, |h'|^2) = (J0(kd)^2 + 2 K J0(kd) cos(kd cos theta)) / (K + 1)^2, theta between way and path."""
    config = LinkConfig(carrier_hz=CARRIER, fading="rician", k_factor_db=6.0, correlation="jakes", speed_mps=1.0)
    config = replace(config, elevation_deg=elevation_deg, distance_m=500.0)
    way, along, generator, pairs = wavelengths * WAVELENGTH, np.cos(np.radians(elevation_deg)), rng(12), []
    mean = path_loss.from_db(-path_loss.path_loss_db(config))
    for _ in range(3000):
        process = LinkProcess(config, generator)
        if positions:
            views = [View(config.distance_m - along * nearer, elevation_deg) for nearer in (0.0, way)]
            states = [process.state(0.0, seen, metres) for seen, metres in zip(views, (0.0, way), strict=True)]
        else:
            states = [process.state(time_s) for time_s in (0.0, way)]
        pairs.append((states[0].gain / mean, states[1].gain / mean))
    k_factor, angle = 10**0.6, 2 * np.pi * wavelengths
    expected = (j0(angle) ** 2 + 2 * k_factor * j0(angle) * np.cos(angle * along)) / (k_factor + 1) ** 2
    assert fade_covariance(pairs) == pytest.approx(expected, abs=0.035)


def test_a_hovering_aircraft_whose_fixes_wander_keeps_its_fade():
    process = LinkProcess(LinkConfig(fading="rician", correlation="jakes", path_loss_exponent=1e-9), rng(13))
    gains = [process.state(0.1 * i, View(100.0 + 0.5 * np.sin(i), 30.0), 7.0).gain for i in range(20)]
    assert np.ptp(gains) < 1e-9 * np.mean(gains)


def test_with_the_papers_configuration_the_process_draws_what_the_single_block_draws():
    config = LinkConfig()
    process, generator = LinkProcess(config, rng(4)), rng(5)
    over_time = [process.state(0.1 * i).gain for i in range(3000)]
    one_by_one = [draw_fading(config, generator).gain for _ in range(3000)]
    assert stats.ks_2samp(over_time, one_by_one).pvalue > 1e-3
    assert abs(np.corrcoef(over_time[1:], over_time[:-1])[0, 1]) < 0.06


def test_slow_flight_under_jakes_fades_smoothly_and_fast_flight_does_not():
    def step_db(speed: float) -> float:
        process = LinkProcess(LinkConfig(correlation="jakes", speed_mps=speed), rng(6))
        return float(np.median(np.abs(np.diff([process.state(0.1 * i).gain_db for i in range(500)]))))

    assert step_db(0.005) < 0.5 < 2.0 < step_db(20.0)


def test_line_of_sight_grows_with_elevation_and_falls_with_the_city():
    elevations = [0.0, 10.0, 30.0, 60.0, 90.0]
    for environment in ("suburban", "urban", "dense_urban", "high_rise"):
        assert np.all(np.diff([line_of_sight_probability(angle, environment) for angle in elevations]) > 0)
    at_thirty = [line_of_sight_probability(30.0, name) for name in ("suburban", "urban", "dense_urban", "high_rise")]
    assert np.all(np.diff(at_thirty) < 0)
    assert line_of_sight_probability(90.0, "urban") > 0.999
    assert line_of_sight_probability(-5.0, "urban") == line_of_sight_probability(0.0, "urban")


def test_share_of_blocks_in_sight_is_the_probability_at_that_elevation():
    config = LinkConfig(line_of_sight="elevation", environment="urban", nlos_loss_db=7.0)
    large_scale = LargeScale(config, rng(7))
    found = [large_scale.loss_db(0.0, 300.0 * i, 20.0) for i in range(4000)]
    assert set(found) == {(0.0, True), (7.0, False)}
    losses = np.array([loss for loss, _ in found])
    assert np.mean(losses == 0.0) == pytest.approx(line_of_sight_probability(20.0, "urban"), abs=0.03)


def test_shadowing_is_normal_in_db_and_decorrelates_over_its_distance():
    config = LinkConfig(shadowing_sigma_db=4.0, shadowing_distance_m=30.0)
    large_scale = LargeScale(config, rng(8))
    found = [large_scale.loss_db(0.0, 30.0 * i, 20.0) for i in range(8000)]
    assert all(clear for _, clear in found)
    losses = np.array([loss for loss, _ in found])
    assert losses.std() == pytest.approx(4.0, rel=0.06) and losses.mean() == pytest.approx(0.0, abs=0.25)
    assert np.corrcoef(losses[1:], losses[:-1])[0, 1] == pytest.approx(np.exp(-1), abs=0.05)


def test_standing_still_neither_shadowing_nor_sight_changes():
    value = GaussMarkov(30.0, rng())
    assert len({value.value(5.0) for _ in range(10)}) == 1


def test_blockage_has_its_share_and_its_mean_length():
    blockage = Blockage(0.1, 2.0, rng(9))
    states = np.array([blockage.blocked(0.05 * i) for i in range(200_000)])
    ends = np.sum(states[:-1] & ~states[1:])
    assert states.mean() == pytest.approx(0.1 / (0.1 + 0.5), rel=0.12)
    assert states.sum() * 0.05 / ends == pytest.approx(2.0, rel=0.12)


def test_interference_raises_the_noise_in_its_share_of_blocks():
    config = LinkConfig(interference_to_noise=3.0, interference_activity=0.25)
    process = LinkProcess(config, rng(10))
    rise = np.array([process.state(0.1 * i).noise_power for i in range(4000)]) / path_loss.noise_power(config)
    assert set(np.round(rise, 6)) == {1.0, 4.0}
    assert np.mean(rise > 2) == pytest.approx(0.25, abs=0.03)


def test_gain_follows_distance_and_scripted_blockage_of_the_ground_only():
    config = LinkConfig(fading="none")
    links = FlightLinks(config, rng(1), rng(2), straight_flight(), ground=(0, 0, 0), eavesdropper=(0, 0, 0))
    for time_s, blocked in ((0.0, 0.0), (30.0, 15.0), (60.0, 0.0)):
        ground, eve = links.states(time_s)
        distance = np.hypot(50 + 10 * time_s, 80)
        loss = path_loss.path_loss_db(config, distance)
        assert 10 * np.log10(eve.gain) == pytest.approx(-loss)
        assert 10 * np.log10(ground.gain) == pytest.approx(-loss - blocked)


def test_without_a_trajectory_the_configured_distances_hold():
    config = LinkConfig(fading="none")
    ground, eve = FlightLinks(config, rng(1), rng(2)).states(12.0)
    there = draw_fading(config, rng())
    assert ground.gain_db == pytest.approx(
        there.gain_db, abs=1.4e-5
    )  # but for the number of the block in its last places
    assert ground.noise_power == there.noise_power and eve == draw_fading(config.eavesdropper, rng())


def test_ground_and_eavesdropper_fade_independently_along_one_flight():
    config = LinkConfig(correlation="jakes", distance_m=300.0, eavesdropper_distance_m=300.0)
    gains = []
    for seed in range(400):
        links = FlightLinks(config, rng(seed), rng(10_000 + seed))
        gains.append([state.gain for state in links.states(1.0)])
    ground, eve = np.array(gains).T
    assert abs(np.corrcoef(ground, eve)[0, 1]) < 0.15


def test_one_metre_is_the_nearest_distance():
    config = LinkConfig(fading="none")
    process = LinkProcess(config, rng())
    assert process.state(0.0, View(0.0, 90.0), 0.0) == process.state(0.0, View(1.0, 90.0), 0.0)
