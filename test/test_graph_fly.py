"""Flights through all seven nodes in this process, with stand-ins for the networks."""

from __future__ import annotations

import errno
import os
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FakeSource, FakeStages
from rosbags.highlevel import AnyReader

from uav_privacy_sc import graph
from uav_privacy_sc.flight import FlightConfig, FlightEvent, FlightLog


def fly(stages: FakeStages, source: FakeSource | None = None, **options: Any) -> FlightLog:
    keywords = {name: options.pop(name) for name in ("observer", "bag", "should_stop") if name in options}
    config = FlightConfig(**{"seed": 1, **options})
    return graph.fly(source or FakeSource(), config, stages=stages.by_node(), **keywords)


def test_every_frame_reaches_both_parties_and_the_log_has_all_of_it(stages: FakeStages) -> None:
    log = fly(stages, FakeSource(6))
    assert not log.interrupted and log.dropped == {}
    assert {log.counts[name] for name in ("frames_in", "perceived", "released", "received", "decoded")} == {6}
    assert [frame.index for frame in log.frames] == list(range(6))
    for frame in log.frames:
        missing = [name for name, value in vars(frame).items() if value is None]
        assert set(missing) <= {"dropped", "truth_mask", "ground_objects", "eve_objects"}
        assert frame.raw_features is not None and frame.eve_features is not None and frame.record is not None
        assert frame.raw_features.shape == frame.eve_features.shape
        assert frame.record.stamp_ns == frame.stamp_ns
        assert frame.ground_snr_db == pytest.approx(frame.gain_db + 10 * np.log10(frame.budgets.p_tx), abs=1e-3)
    assert all(len(log.stage_ms[stage]) == 6 for stage in ("perceive", "budget", "protect", "link", "decode", "attack"))
    assert log.counts["wall_s"] > 0


def test_a_seeded_flight_repeats_bit_for_bit_and_another_seed_does_not() -> None:
    first, second = (fly(FakeStages(), FakeSource(5)) for _ in range(2))
    other = fly(FakeStages(), FakeSource(5), seed=2)
    for one, two in zip(first.frames, second.frames, strict=True):
        assert np.array_equal(one.eve_features, two.eve_features)
        assert one.gain_db == two.gain_db
        assert (one.record.epsilon_v, one.record.p_tx) == (two.record.epsilon_v, two.record.p_tx)
    assert not np.array_equal(first.frames[0].eve_features, other.frames[0].eve_features)


def test_a_flight_without_a_seed_does_not_repeat() -> None:
    first, second = (fly(FakeStages(), FakeSource(2), seed=None) for _ in range(2))
    assert not np.array_equal(first.frames[0].eve_features, second.frames[0].eve_features)
    assert not first.frames[0].record.seeded


def test_power_and_budget_of_a_frame_are_those_for_the_block_that_it_meets(stages: FakeStages) -> None:
    from uav_privacy_sc.control.bcd import optimize_at_db
    from uav_privacy_sc.control.policy import select_policy

    for frame in fly(stages, FakeSource(6), profile="paper").frames:
        point = optimize_at_db(select_policy("surveillance"), frame.gain_db)
        assert frame.budgets.p_tx == pytest.approx(point.p_tx)
        assert frame.record.epsilon_v == pytest.approx(point.epsilon_v)
        assert frame.utility == pytest.approx(point.utility)


def test_a_broken_frame_is_dropped_counted_and_the_flight_goes_on(stages: FakeStages) -> None:
    log = fly(stages, FakeSource(6, broken=(0, 3)))
    assert (log.counts["frames_in"], log.counts["broken"], log.counts["decoded"]) == (6, 2, 4)
    assert [frame.index for frame in log.frames if frame.dropped] == [0, 3]
    assert log.frames[3].dropped == "camera: broken frame: it is no image in a known format"


def test_a_spent_ceiling_stops_releases_and_the_log_says_so(stages: FakeStages) -> None:
    log = fly(stages, FakeSource(8), parameters={"protection": {"epsilon_ceiling": 40.0, "reach_cells": 0}})
    assert 0 < log.counts["released"] < 8
    assert log.counts["perceived"] == 8
    assert log.counts["received"] == log.counts["released"]
    assert all("mission budget spent" in reason for reason in log.dropped)
    assert all(frame.eve_features is None for frame in log.frames if frame.dropped)


def test_a_stage_that_fails_on_one_frame_loses_that_frame_only(stages: FakeStages) -> None:
    perceive = stages.perceive

    def failing(image: np.ndarray) -> Any:
        if image[0, 0, 0] == 2:
            raise RuntimeError("out of memory\nin a long message")
        return perceive(image)

    stages.perceive = failing  # type: ignore[method-assign]
    log = fly(stages, FakeSource(5))
    assert log.dropped == {"perception: RuntimeError: out of memory": 1}
    assert log.counts["decoded"] == 4


def test_a_failing_attacker_costs_the_ground_nothing(stages: FakeStages) -> None:
    def failing(features: np.ndarray) -> np.ndarray:
        raise RuntimeError("no")

    stages.attack = failing  # type: ignore[method-assign]
    log = fly(stages, FakeSource(3))
    assert log.counts["decoded"] == 3 and log.dropped == {}


def test_the_bag_holds_every_message_of_the_recorded_topics_and_none_from_before_protection(
    stages: FakeStages, tmp_path: Path
) -> None:
    log = fly(stages, FakeSource(5), bag=tmp_path / "deep" / "bag")
    assert log.bag == tmp_path / "deep" / "bag"
    with AnyReader([tmp_path / "deep" / "bag"]) as reader:
        counts = {connection.topic.lstrip("/"): connection.msgcount for connection in reader.connections}
        stamps = [
            reader.deserialize(data, connection.msgtype).header.stamp
            for connection, _, data in reader.messages()
            if connection.topic == "/tx/features"
        ]
    assert set(counts) == {topic.name for topic in graph.TOPICS.values() if topic.recorded}
    assert {counts[name] for name in counts if not name.startswith(("link/", "budget/"))} == {5}
    assert counts["link/ground/gain_db"] >= 5 and counts["link/eve/snr_db"] == 5
    assert [stamp.sec * 10**9 + stamp.nanosec for stamp in stamps] == [frame.stamp_ns for frame in log.frames]


def test_a_full_disk_ends_the_recording_and_not_the_flight(
    stages: FakeStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def write(self: Any, connection: Any, stamp: int, message: bytes) -> None:
        written.append(stamp)
        if len(written) == 12:
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("rosbags.rosbag2.Writer.write", write)
    log = fly(stages, FakeSource(5), bag=tmp_path / "bag")
    assert log.counts["decoded"] == 5
    assert log.bag_fault == f"bag {tmp_path / 'bag'} is cut off after 12 messages: No space left on device"
    assert len(written) == 12


def test_an_existing_bag_is_not_touched(stages: FakeStages, tmp_path: Path) -> None:
    source = FakeSource(1)
    with pytest.raises(FileExistsError, match="remove it"):
        fly(stages, source, bag=tmp_path)
    assert source.closed and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scenario": "nowhere"}, "'nowhere'"),
        ({"profile": "soft"}, "'soft'"),
        ({"parameters": {"protection": {"delta": float("nan")}}}, "delta is nan"),
        ({"parameters": {"link": {"distance_m": -1}}}, "distance_m is -1"),
    ],
)
def test_what_a_user_can_put_right_is_one_line(
    stages: FakeStages, tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    threads = threading.active_count()
    with pytest.raises(ValueError, match=message) as refusal:
        fly(stages, bag=tmp_path / "bag", **options)
    assert "\n" not in str(refusal.value)
    assert threading.active_count() == threads
    assert not (tmp_path / "bag").exists()


def test_a_flight_can_be_stopped_between_frames(stages: FakeStages) -> None:
    source = FakeSource(50)
    log = fly(stages, source, should_stop=lambda: len(stages.perceived) >= 3)
    assert log.interrupted and source.closed
    assert 1 <= len(log.frames) <= 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_a_flight_with_what_was_measured_and_a_whole_bag(
    stages: FakeStages, tmp_path: Path, number: signal.Signals
) -> None:
    before = signal.getsignal(number)

    def observer(event: FlightEvent) -> None:
        if event.kind == "frame" and event.done == 2:
            os.kill(os.getpid(), number)
            os.kill(os.getpid(), number)  # a second one changes nothing

    log = fly(stages, FakeSource(50), observer=observer, bag=tmp_path / "bag")
    assert log.interrupted and 2 <= len(log.frames) <= 4
    assert signal.getsignal(number) == before
    with AnyReader([tmp_path / "bag"]) as reader:
        assert reader.message_count > 10


def test_ctrl_c_in_an_observer_ends_a_flight_cleanly(stages: FakeStages) -> None:
    threads = threading.active_count()

    def observer(event: FlightEvent) -> None:
        if event.kind == "frame":
            raise KeyboardInterrupt

    log = fly(stages, FakeSource(50), observer=observer)
    assert log.interrupted and len(log.frames) <= 3
    assert threading.active_count() == threads


def test_an_error_in_an_observer_comes_out_after_the_clean_up(stages: FakeStages) -> None:
    threads, source = threading.active_count(), FakeSource(5)

    def observer(event: FlightEvent) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fly(stages, source, observer=observer)
    assert source.closed and threading.active_count() == threads


def test_observers_hear_of_take_off_every_frame_and_the_end(stages: FakeStages) -> None:
    events: list[FlightEvent] = []
    fly(stages, FakeSource(3), observer=events.append)
    assert [(event.kind, event.done, event.total) for event in events] == [
        ("ready", 0, 3),
        ("frame", 1, 3),
        ("frame", 2, 3),
        ("frame", 3, 3),
        ("end", 3, 3),
    ]


OTHER_KINDS: list[dict[str, Any]] = [{"isolate": False}, {"namespace": "/uav1"}, {"profile": "paper"}, {"in_flight": 1}]


@pytest.mark.parametrize("options", OTHER_KINDS)
def test_other_flights_lose_nothing_either(stages: FakeStages, tmp_path: Path, options: dict[str, Any]) -> None:
    log = fly(stages, FakeSource(3), bag=tmp_path / "bag", **options)
    assert log.counts["decoded"] == 3
    with AnyReader([tmp_path / "bag"]) as reader:
        prefix = options.get("namespace", "")
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
    assert counts[f"{prefix}/ground/mask"] == 3


def test_frames_that_share_a_stamp_are_not_mixed_up(stages: FakeStages) -> None:
    log = fly(stages, FakeSource(4, repeat_stamp=True))
    assert [frame.index for frame in log.frames] == [0, 1, 2, 3]
    assert log.counts["decoded"] == 4


def test_a_ledger_on_disk_goes_on_from_flight_to_flight(stages: FakeStages, tmp_path: Path) -> None:
    first = fly(stages, FakeSource(2), ledger=tmp_path / "ledger")
    second = fly(stages, FakeSource(2), ledger=tmp_path / "ledger")
    assert second.frames[0].record.spent_mission_epsilon > first.frames[-1].record.spent_mission_epsilon
