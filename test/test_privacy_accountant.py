"""Odometer and ledger: composition, the ceiling, restarts, kill -9, tampering, failing closed."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import random
import select
import signal
import sqlite3
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uav_privacy_sc.privacy import calibration
from uav_privacy_sc.privacy.accountant import (
    BudgetExhausted,
    Expenditure,
    LedgerError,
    Odometer,
    TrackExpenditure,
)
from uav_privacy_sc.privacy.ledger import Ledger

DELTA = 1e-5


def frame(stamp_ns: int = 0, scale: float = 1.0, **changes: object) -> Expenditure:
    base = Expenditure(stamp_ns, 0.2 * scale, 0.5 * scale, 3.0 * scale, location_epsilon=0.1 * scale)
    return dataclasses.replace(base, **changes)


def test_visual_releases_compose_by_gaussian_dp() -> None:
    odometer = Odometer(None, DELTA)
    for index in range(25):
        odometer.spend(frame(index, location_epsilon=0.0))
    report = odometer.spent()
    assert report.cell.epsilon == pytest.approx(calibration.epsilon_from_mu(0.2, DELTA))
    assert report.object.epsilon == pytest.approx(calibration.epsilon_from_mu(0.5, DELTA))
    assert report.frame.epsilon == pytest.approx(calibration.epsilon_from_mu(3.0, DELTA))
    assert report.mission.epsilon == pytest.approx(calibration.epsilon_from_mu(2.5, DELTA))
    assert (report.releases, report.mission.delta) == (25, DELTA)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=20))
def test_mission_grows_with_every_release_and_is_at_least_every_object(costs: list[tuple[float, float]]) -> None:
    odometer, before = Odometer(None, DELTA), 0.0
    for mu, pure in costs:
        odometer.spend(Expenditure(0, mu / 2, mu, mu * 2, location_epsilon=pure))
        mission = odometer.spent().mission.epsilon
        assert mission >= before - 1e-9
        before = mission
    basic = calibration.epsilon_from_mu(np.sqrt(sum(mu**2 for mu, _ in costs)), DELTA) + sum(pure for _, pure in costs)
    assert before <= basic * (1 + 1e-9)


def test_the_clock_may_jump_back_and_the_odometer_only_grows() -> None:
    odometer = Odometer(None, DELTA)
    odometer.spend(frame(10))
    first = odometer.spent().mission.epsilon
    odometer.spend(frame(3))
    assert odometer.spent().mission.epsilon > first


def test_a_resting_track_is_told_from_the_worst_object_of_every_frame() -> None:
    odometer = Odometer(None, DELTA)
    for index in range(10):
        mover = index % 5
        odometer.spend(frame(index, object_mu=0.0, tracks={mover: TrackExpenditure(0.0, 0.1)}))
    report = odometer.spent()
    assert report.track is not None
    assert report.track.epsilon == pytest.approx(0.2)
    assert report.mission.epsilon == pytest.approx(1.0)


def test_ceiling_stops_the_release_that_would_pass_it_and_records_nothing() -> None:
    odometer = Odometer(None, DELTA, ceiling_epsilon=20.0)
    count = 0
    with pytest.raises(BudgetExhausted, match=r"above ceiling_epsilon=20; release refused"):
        while True:
            odometer.spend(frame())
            count += 1
    report = odometer.spent()
    assert report.releases == count > 1
    assert report.mission.epsilon <= 20.0
    assert odometer.remaining() == pytest.approx(20.0 - report.mission.epsilon)
    assert not odometer.allows(frame()) and odometer.allows(frame(scale=1e-3))


def test_an_unprotected_release_is_infinite_and_never_passes_a_ceiling() -> None:
    naked = frame(cell_mu=math.inf, object_mu=math.inf, frame_mu=math.inf)
    free = Odometer(None, DELTA)
    free.spend(naked)
    assert math.isinf(free.spent().mission.epsilon) and free.remaining() is None
    with pytest.raises(BudgetExhausted):
        Odometer(None, DELTA, 1e9).spend(naked)


def test_a_restart_continues_the_count(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, DELTA)
    for index in range(7):
        odometer.spend(frame(index, seeded=index == 3, tracks={index % 2: TrackExpenditure(0.5, 0.1)}))
    before, history = odometer.spent(), list(odometer.history())
    odometer.close()
    again = Odometer(path, DELTA, ceiling_epsilon=100.0)
    assert dataclasses.replace(again.spent(), ceiling_epsilon=None) == before
    assert before.seeded_releases == 1
    assert list(again.history()) == history
    assert [round(after, 12) for _, after in history][-1] == round(before.mission.epsilon, 12)
    assert again.spend(frame()) == 8


def killed_child(path: Path, pause_s: float, wait: bool) -> int:
    """Fork a child that writes the number of every release it may publish; kill it; return the last whole number."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with contextlib.suppress(BaseException):
            odometer = Odometer(path, DELTA)
            for stamp in range(10**9):
                os.write(write, f"{odometer.spend(frame(stamp))}\n".encode())
        os._exit(1)
    os.close(write)
    if wait:
        select.select([read], [], [], 10.0)
    time.sleep(pause_s)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        numbers = pipe.read().split(b"\n")[:-1]
    return int(numbers[-1]) if numbers else 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_nothing_published_is_lost_in_a_hundred_kills(tmp_path: Path) -> None:
    path, rng, recorded, published_at_all = tmp_path / "flight.ledger", random.Random(4), 0, 0
    for number in range(100):
        published = killed_child(path, rng.uniform(0.0, 0.02), wait=number % 3 > 0)
        odometer = Odometer(path, DELTA)
        releases = odometer.spent().releases
        odometer.close()
        assert releases >= max(published, recorded), "published but not recorded, or recorded and lost"
        recorded, published_at_all = releases, published_at_all + (published > 0)
    assert published_at_all > 60, "most children were killed before they published: the test shows nothing"


def filled(path: Path, key: bytes | None = None) -> None:
    odometer = Odometer(path, DELTA, key=key)
    for index in range(5):
        odometer.spend(frame(index))
    odometer.close()


def tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


@pytest.mark.parametrize(
    "statements",
    [
        ["UPDATE release SET content = replace(content, '0.5', '0.1') WHERE sequence = 3"],
        ["DELETE FROM release WHERE sequence = 3"],
        ["DELETE FROM release WHERE sequence = 5"],
        ["DELETE FROM release"],
        ["UPDATE release SET sequence = 9 WHERE sequence = 5"],
        ["DELETE FROM release WHERE sequence = 5", "UPDATE head SET sequence = 4"],
        ["DELETE FROM head"],
        ["INSERT OR REPLACE INTO release SELECT 3, content, hash FROM release WHERE sequence = 2"],
    ],
)
def test_a_touched_ledger_is_not_trusted(tmp_path: Path, statements: list[str]) -> None:
    path = tmp_path / "flight.ledger"
    filled(path)
    tamper(path, *statements)
    with pytest.raises(LedgerError, match="changed or removed|were removed"):
        Odometer(path, DELTA)


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM release",
        "UPDATE release SET content = ''",
        "DELETE FROM head",
        "INSERT OR REPLACE INTO release SELECT 3, content, hash FROM release WHERE sequence = 2",
        "INSERT OR REPLACE INTO head SELECT 1, sequence, hash FROM release WHERE sequence = 2",
        "INSERT INTO release SELECT 7, content, hash FROM release WHERE sequence = 2",
    ],
)
def test_the_ledger_itself_refuses_to_shrink(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "flight.ledger"
    filled(path)
    connection = sqlite3.connect(path)
    with pytest.raises(sqlite3.DatabaseError, match="the ledger only grows"):
        connection.execute(statement)
    with pytest.raises(sqlite3.DatabaseError, match="the ledger only grows"):
        connection.execute("UPDATE head SET sequence = 1")
    connection.close()
    assert Odometer(path, DELTA).spent().releases == 5


def test_a_keyed_chain_cannot_be_read_or_forged_with_another_key(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    filled(path, key=b"on board")
    assert Odometer(path, DELTA, key=b"on board").spent().releases == 5
    for key in (None, b"guess"):
        with pytest.raises(LedgerError, match="the key is wrong"):
            Odometer(path, DELTA, key=key)


@pytest.mark.parametrize("kept", [0, 3])
def test_without_the_key_nobody_can_cut_the_tail_off(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "flight.ledger"
    filled(path, key=b"on board")
    last = f"SELECT hash FROM release WHERE sequence = {kept}" if kept else f"SELECT '{'0' * 64}'"
    tamper(path, f"UPDATE head SET sequence = {kept}, hash = ({last})", f"DELETE FROM release WHERE sequence > {kept}")
    with pytest.raises(LedgerError, match="were removed"):
        Odometer(path, DELTA, key=b"on board")


def test_a_ledger_can_be_read_while_it_grows(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    writer, done = Odometer(path, DELTA), threading.Event()

    def fly() -> None:
        for index in range(300):
            writer.spend(frame(index))
        done.set()

    thread = threading.Thread(target=fly)
    thread.start()
    while not done.is_set():  # a reader that saw the head of one moment and the rows of another would cry wolf
        reader = Odometer(path, DELTA)
        assert len(list(reader.history())) >= reader.releases
        list(writer.history())
        reader.close()
    thread.join()
    assert writer.releases == 300


def test_reading_does_not_take_over_what_someone_else_wrote(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    first, second = Odometer(path, DELTA), Odometer(path, DELTA)
    first.spend(frame())
    assert len(list(second.history())) == 1
    with pytest.raises(LedgerError, match="only one odometer may write it"):
        second.spend(frame())


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_removed_or_replaced_while_flying_is_noticed(tmp_path: Path, suffix: str, replaced: bool) -> None:
    path = tmp_path / "flight.ledger"
    filled(path)
    odometer = Odometer(path, DELTA)
    odometer.spend(frame())
    victim = Path(f"{path}{suffix}")
    content = victim.read_bytes()
    victim.rename(tmp_path / "moved")
    if replaced:
        victim.write_bytes(content)
    with pytest.raises(LedgerError, match="removed or replaced"):
        odometer.spend(frame())


def test_a_second_writer_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    first, second = Odometer(path, DELTA), Odometer(path, DELTA)
    first.spend(frame())
    with pytest.raises(LedgerError, match="only one odometer may write it"):
        second.spend(frame())
    assert second.spent().releases == 0 and first.spend(frame()) == 2


def test_a_file_rolled_back_while_flying_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, DELTA)
    odometer.spend(frame())
    tamper(path, "DELETE FROM release", "UPDATE head SET sequence = 0")
    with pytest.raises(LedgerError, match="changed by someone else"):
        odometer.spend(frame())


def test_a_locked_ledger_fails_closed_and_works_again_once_free(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, DELTA, busy_timeout_s=0.05)
    lock = sqlite3.connect(path, isolation_level=None)
    lock.execute("BEGIN IMMEDIATE")
    with pytest.raises(LedgerError, match="cannot be written: database is locked"):
        odometer.spend(frame())
    assert odometer.spent().releases == 0
    lock.execute("ROLLBACK")
    assert odometer.spend(frame()) == 1


def test_a_full_disk_fails_closed(tmp_path: Path) -> None:
    odometer = Odometer(tmp_path / "flight.ledger", DELTA)
    connection = odometer._ledger._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(LedgerError, match="cannot be written: database or disk is full"):
        for index in range(1000):
            odometer.spend(frame(index))
    recorded = odometer.spent().releases
    connection.execute(f"PRAGMA max_page_count = {pages + 1000}")
    assert odometer.spend(frame()) == recorded + 1


def test_what_is_no_ledger_is_refused_and_left_alone(tmp_path: Path) -> None:
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, " * 200)
    connection = sqlite3.connect(database)
    connection.execute("CREATE TABLE mine (x)")
    connection.commit()
    for path in (text, database, tmp_path / "missing" / "flight.ledger"):
        before = path.read_bytes() if path.exists() else None
        with pytest.raises(LedgerError, match="cannot be opened|no ledger"):
            Odometer(path, DELTA)
        assert (path.read_bytes() if path.exists() else None) == before


def test_threads_share_one_odometer(tmp_path: Path) -> None:
    odometer = Odometer(tmp_path / "flight.ledger", DELTA)
    threads = [threading.Thread(target=lambda: [odometer.spend(frame()) for _ in range(20)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert odometer.spent().releases == 80
    odometer.close()
    assert Odometer(tmp_path / "flight.ledger", DELTA).spent().releases == 80


def test_numpy_numbers_are_recorded_like_any_other(tmp_path: Path) -> None:
    odometer = Odometer(tmp_path / "flight.ledger", DELTA)
    one = np.float32(0.25)
    tracks = {int(np.int64(3)): TrackExpenditure(one, one)}
    odometer.spend(Expenditure(np.int64(5), one, one, one, one, seeded=np.bool_(True), tracks=tracks))  # type: ignore[arg-type]
    again = [expenditure for expenditure, _ in odometer.history()]
    assert again == [Expenditure(5, 0.25, 0.25, 0.25, 0.25, seeded=True, tracks={3: TrackExpenditure(0.25, 0.25)})]


@pytest.mark.parametrize("value", [-0.1, float("nan")])
@pytest.mark.parametrize("name", ["cell_mu", "object_mu", "frame_mu", "location_epsilon", "count_epsilon"])
def test_a_spent_budget_never_comes_back(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be at least 0"):
        frame(**{name: value})


@pytest.mark.parametrize("value", [0.0, 1.0, float("nan")])
def test_settings_out_of_range_are_refused_by_name(value: float) -> None:
    with pytest.raises(ValueError, match="^delta must"):
        Odometer(None, value)
    if value != 1.0:
        with pytest.raises(ValueError, match="^ceiling_epsilon must"):
            Odometer(None, DELTA, value)


def test_a_ledger_of_other_rows_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "fleet.ledger")
    ledger.append({"kind": "fleet upload", "client": 3})
    ledger.close()
    with pytest.raises(LedgerError, match="rows of a fleet upload, not of a flight"):
        Odometer(tmp_path / "fleet.ledger", 1e-5)


def test_a_long_flight_with_many_tracks_is_reported_quickly() -> None:
    odometer = Odometer(None, DELTA)
    for index in range(40):
        cost = {100 * index + track: TrackExpenditure(0.1 + 0.001 * track, 0.05) for track in range(50)}
        odometer.spend(frame(index, tracks=cost))
    start = time.perf_counter()
    report = odometer.spent()
    assert time.perf_counter() - start < 0.2
    assert report.track is not None
    assert report.track.epsilon == pytest.approx(calibration.epsilon_from_mu(0.149, DELTA) + 0.05, rel=0.05)
