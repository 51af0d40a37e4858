"""The link as it is flown: geometry, time, lattice codes as a packet, and what is lost and how that is decoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeStages, some_objects

from uav_privacy_sc.link.clock import BLOCK_MARKS, FIRST_PERIOD_S, BlockClock, marked_gain_db
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.geometry import LiveRoute, Trajectory
from uav_privacy_sc.link.path_loss import path_loss_db
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.pipeline import GroundStage, LinkStage, Reception
from uav_privacy_sc.privacy.lattice import STEP

SHAPE = (CHANNELS, *GRID)


def whole_steps(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-500, 501, SHAPE).astype(np.float32) * np.float32(STEP)


def link(config: LinkConfig | None = None, route: object = None, **options: object) -> LinkStage:
    config = config or LinkConfig()
    ground, eve = np.random.default_rng(1), np.random.default_rng(2)
    return LinkStage(config, ground, eve, FlightLinks(config, ground, eve, route), **options)  # type: ignore[arg-type]


def leaving(speed: float = 20.0) -> Trajectory:
    time_s = np.arange(0.0, 31.0)
    position = np.stack([100 + speed * time_s, 0 * time_s, 0 * time_s + 50], axis=1)
    return Trajectory(time_s, position, np.where(time_s >= 10.0, 15.0, 0.0))


def test_gain_follows_trajectory_and_blockage_at_the_frames_own_time() -> None:
    config = LinkConfig(fading="none")
    stage = link(config, leaving())
    for index in range(200):
        sent = stage(whole_steps(), some_objects(1), 1.0, 7_000_000_000 + index * 100_000_000)
        distance = np.hypot(100 + 2.0 * index, 50)
        assert sent.distance_m == pytest.approx(distance)
        if index == 50 or index == 150:
            expected = -path_loss_db(config, distance) - (15.0 if index == 150 else 0.0)
            reference = -path_loss_db(config) - link(config).gain_db
            assert sent.ground_gain_db == pytest.approx(expected - reference, abs=1e-3)


def test_a_flight_that_begins_at_a_known_stamp_goes_on_there_after_a_restart() -> None:
    fresh = link(LinkConfig(fading="none"), leaving(), start_s=7.0)
    fresh(whole_steps(), some_objects(1), 1.0, 17_000_000_000)
    assert fresh(whole_steps(), some_objects(1), 1.0, 17_100_000_000).distance_m == pytest.approx(np.hypot(302, 50))


def test_the_clock_goes_by_stamps_and_a_pause_does_not_stretch_it() -> None:
    clock = BlockClock()
    assert clock.tick(5_000_000_000) == pytest.approx(FIRST_PERIOD_S)
    assert clock.tick(5_250_000_000) == pytest.approx(0.5)
    assert clock.tick(65_250_000_000) == pytest.approx(60.5)
    assert clock.tick(5_000_000_000) == pytest.approx(0.25)
    with pytest.raises(ValueError, match="^start_s is nan"):
        BlockClock(float("nan"))


def test_a_live_route_is_unknown_until_told_and_refuses_what_is_no_position() -> None:
    route = LiveRoute()
    config = LinkConfig(fading="none")
    stage = link(config, route)
    announced = stage.gain_db
    with pytest.raises(ValueError, match="no position is known"):
        route.position(0.0)
    route.move((0.0, 0.0, 35.0))
    with pytest.raises(ValueError, match="^position is"):
        route.move((0.0, float("nan"), 0.0))
    route.move((0.0, 40.0, 35.0))
    assert route.way(0.0) == pytest.approx(40.0) and route.blockage(0.0) == 0.0
    assert stage.gain_db == announced  # the block that was announced stays
    stage(whole_steps(), some_objects(1), 1.0, 1)
    assert stage.gain_db == pytest.approx(announced + path_loss_db(config) - path_loss_db(config, np.hypot(40, 35)))


@pytest.mark.parametrize("config", [LinkConfig(), LinkConfig(fading="rician", correlation="jakes", blockage_rate_hz=1)])
def test_a_seeded_link_repeats(config: LinkConfig) -> None:
    first, second = (link(config) for _ in range(2))
    for index in range(20):
        one, two = (stage(whole_steps(), some_objects(2), 0.5, index * 10**8) for stage in (first, second))
        assert one.ground_gain_db == two.ground_gain_db
        assert np.array_equal(one.eve.heard, two.eve.heard)


def test_codes_arrive_exactly_or_not_at_all_and_the_payload_is_told_either_way() -> None:
    config = LinkConfig(feature_airtime_s=0.01)
    stage, analog = link(config, coding="packet"), link(config)
    arrived = []
    for index in range(60):
        sent = stage(whole_steps(), some_objects(3), 0.1, index * 10**8, STEP)
        arrived.append(sent.ground.features is not None)
        if sent.ground.features is not None:
            assert np.array_equal(sent.ground.features, whole_steps())
        assert sent.ground.heard.shape == SHAPE
        assert sent.payload.feature_bits > 10 * whole_steps().size
        assert sent.record(1, 0.1, "packet")["payload_bits"] == sent.payload.bits
    assert 0 < sum(arrived) < 60
    payload = analog(whole_steps(), some_objects(3), 0.1, 0, STEP).payload
    assert payload.feature_bits == 0 and payload.feature_symbols == whole_steps().size // 2 and payload.bits > 3 * 96


def test_analog_features_are_lost_with_the_packet_that_has_their_scale() -> None:
    config = LinkConfig(object_rate=3.0)
    analog, packet = link(config), link(config, coding="packet")
    lost = []
    for index in range(100):
        sent = analog(whole_steps(), some_objects(3), 0.3, index * 10**8, STEP)
        for party in (sent.ground, sent.eve):
            assert (party.features is None) == (party.objects is None)
            lost.append(party.features is None)
    assert 20 < sum(lost) < 180
    codes = [packet(whole_steps(), some_objects(3), 0.3, index * 10**8, STEP).ground for index in range(100)]
    assert any(got.features is not None and got.objects is None for got in codes)  # codes need no scale


def test_every_block_has_a_gain_of_its_own_however_still_the_channel_stands() -> None:
    stage, gains = link(LinkConfig(fading="none")), []
    for index in range(6):
        gains.append(stage.gain_db)
        assert stage.gain_db == gains[-1] == float(np.float32(stage.gain_db))
        assert stage(whole_steps(), some_objects(1), 1.0, index * 10**8).ground_gain_db == gains[-1]
    assert all(one != two for one, two in zip(gains, gains[1:], strict=False))
    assert max(gains) - min(gains) < 1.4e-5 and len(set(gains)) == min(len(gains), BLOCK_MARKS)


def test_floats_cannot_go_as_a_packet() -> None:
    stage = link(coding="packet")
    announced = stage.gain_db
    with pytest.raises(ValueError, match="set protection's lattice_step"):
        stage(whole_steps(), some_objects(1), 1.0)
    with pytest.raises(ValueError, match="multiples of lattice_step"):
        stage(whole_steps() + np.float32(STEP / 3), some_objects(1), 1.0, 0, STEP)
    assert stage.gain_db == announced
    with pytest.raises(ValueError, match="^coding is 'morse'; choose one of analog, packet"):
        link(coding="morse")


def count_objects(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
    return np.full((2, 2), 10 * len(objects) + int(features.any()), np.uint8)


def test_lost_features_are_decoded_by_the_stated_policy() -> None:
    whole = Reception(whole_steps(), some_objects(3), 3.0, SHAPE)
    lost = Reception(None, some_objects(2), 3.0, SHAPE)
    prior, last = GroundStage(count_objects), GroundStage(count_objects, "last")
    assert prior(lost)[0, 0] == last(lost)[0, 0] == 20
    assert prior(whole)[0, 0] == last(whole)[0, 0] == 31
    assert (prior(lost)[0, 0], last(lost)[0, 0]) == (20, 31)
    assert prior(Reception(whole_steps(), None, 3.0, SHAPE))[0, 0] == 1
    with pytest.raises(ValueError, match="^lost_features is 'guess'"):
        GroundStage(count_objects, "guess")


def test_a_trajectory_on_the_command_line_of_the_node_is_checked(tmp_path: Path) -> None:
    from uav_privacy_sc.nodes.link_parameters import LinkParameters

    path = tmp_path / "way.csv"
    path.write_text("time_s,x_m,y_m,z_m\n0,0,0,50\n60,0,100,50\n")
    with pytest.raises(ValueError, match=r"way.csv: trajectory has a gap of 60 s"):
        LinkParameters(trajectory=str(path)).route()
    assert LinkParameters(trajectory=str(path), longest_gap_s=60.0).route().known
    path.write_text("time_s,x_m,y_m,z_m\n1,0,0,50\n0,0,100,50\n")
    with pytest.raises(ValueError, match="does not grow"):
        LinkParameters(trajectory=str(path)).route()
    with pytest.raises(ValueError, match="trajectory and position_topic are both set"):
        LinkParameters(trajectory=str(path), position_topic="fix").route()


def test_the_parameters_of_the_link_are_those_of_the_radio() -> None:
    from uav_privacy_sc.nodes.link_parameters import LinkParameters

    assert LinkParameters().radio() == LinkConfig()
    changed = LinkParameters(fading="rician", k_factor_db=3.0, blockage_rate_hz=0.2, line_of_sight="elevation")
    assert (changed.radio().k_factor_db, changed.radio().line_of_sight) == (3.0, "elevation")


def test_stand_ins_meet_silence_for_lost_features(stages: FakeStages) -> None:
    lost = Reception(None, None, -20.0, SHAPE)
    assert not lost.heard.any() and not len(lost.prior)
    assert GroundStage(stages.decode)(lost).max() == 0


@pytest.mark.parametrize("gain_db", [14.2, -7.3, 0.0, 31.999999, -250.0])
def test_marks_tell_blocks_of_one_gain_apart_whichever_messages_are_lost(gain_db):
    marked = [marked_gain_db(gain_db, block) for block in range(40)]
    assert marked == [float(np.float32(value)) for value in marked]  # as a Float32 carries them
    assert max(abs(value - gain_db) for value in marked) <= 1e-6 * max(1.0, abs(gain_db))
    for away in range(1, BLOCK_MARKS):
        assert all(first != second for first, second in zip(marked, marked[away:], strict=False))
    assert len(set(marked)) == BLOCK_MARKS >= 3
