"""Protection fails closed: each fault is injected into a running node, named in diagnostics, and cured if it can be."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, some_objects
from diagnostic_msgs.msg import DiagnosticStatus
from rclpy.logging import LoggingSeverity, set_logger_level
from std_msgs.msg import Float32
from test_nodes_budgets import Bench, sender, server

from uav_privacy_sc import graph
from uav_privacy_sc.nodes import protection as module
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, record_from_message, tensor_to_message
from uav_privacy_sc.nodes.protection import ProtectionNode
from uav_privacy_sc.privacy import visual

TX = tuple(name for name in graph.TOPICS if name.startswith("tx/"))


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


class Rig:
    """Protection under a budget, with everything that it says and sends heard."""

    def __init__(self, bench: Bench, ledger: Path, **overrides: Any) -> None:
        self.bench = bench
        self.sent = {name: bench.listen(name) for name in TX}
        self.diagnostics = bench.listen("diagnostics", graph.DIAGNOSTICS)
        overrides = {"ledger": str(ledger), "max_budget_age_s": 60.0, **overrides}
        self.node = bench.add(ProtectionNode(context=bench.context, overrides=overrides, use_global_arguments=False))
        self.send = sender(bench)
        self.gain = bench.publisher("link/ground/gain_db")

    def confirm(self) -> None:
        """Let the budget be known, and confirmed by the server."""
        self.gain.publish(Float32(data=12.0))
        assert self.bench.until(lambda: (held := self.node.follower.budgets) is not None and held.stamp_ns > 0)

    def budget_age_s(self) -> float:
        """How long ago the budget was confirmed."""
        return (time.monotonic_ns() - self.node.follower.budgets.stamp_ns) / 1e9

    def released(self) -> set[int]:
        """How many messages the topics of the air have seen: one number, or something is wrong.

        Of the step only the newest is kept for a slow listener, so it counts for nothing unless it has seen more.
        """
        numbers = {name: len(messages) for name, messages in self.sent.items()}
        step = numbers.pop("tx/lattice_step")
        return set(numbers.values()) | ({step} if step > max(numbers.values()) else set())

    def handled(self) -> int:
        """How many frames have been released or dropped."""
        return sum(self.node.drops.values()) + self.node.counts["frames"]

    def send_and_wait(self, stamp: int) -> None:
        """Send a frame and wait for what becomes of it."""
        before = self.handled()
        self.send(stamp)
        assert self.bench.until(lambda: self.handled() > before)

    def expect_release(self, stamp: int, count: int) -> None:
        self.send(stamp)
        assert self.bench.until(lambda: self.released() == {count}), self.node.status()
        assert self.node.status()[0]

    def expect_refusal(self, cause: str, count: int, send: Callable[[], Any]) -> None:
        drops = sum(self.node.drops.values())
        send()
        assert self.bench.until(lambda: sum(self.node.drops.values()) > drops)
        self.expect_diagnosis(cause)
        assert self.bench.until(lambda: self.released() == {count}, timeout_s=2.0), self.released()

    def expect_diagnosis(self, cause: str) -> None:
        self.diagnostics.clear()
        assert self.bench.until(lambda: bool(self._errors(cause))), f"no diagnosis of {cause!r}: {self.node.status()}"

    def _errors(self, cause: str) -> list[Any]:
        statuses = [status for message in self.diagnostics for status in message.status]
        return [s for s in statuses if s.level == DiagnosticStatus.ERROR and cause in s.message]


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "flight.ledger"


def test_no_budget_yet_and_then_one(bench: Bench, ledger: Path) -> None:
    rig = Rig(bench, ledger)
    rig.expect_refusal("no budget", 0, lambda: rig.send(1))
    server(bench)
    rig.confirm()
    rig.expect_release(2, 1)


def test_a_stale_budget_and_then_a_confirmed_one(bench: Bench, ledger: Path) -> None:
    rig = Rig(bench, ledger, max_budget_age_s=2.0)
    server(bench, heartbeat_s=0.1, max_gain_age_s=0.3)
    rig.confirm()
    rig.expect_release(1, 1)
    assert bench.until(lambda: rig.budget_age_s() > 2.2)
    rig.expect_refusal("stale budget", 1, lambda: rig.send(2))
    rig.gain.publish(Float32(data=12.0))
    assert bench.until(lambda: rig.budget_age_s() < 1.0)
    rig.expect_release(3, 2)


def test_a_ceiling_once_reached_stays_reached_over_a_restart(bench: Bench, ledger: Path) -> None:
    server(bench)
    rig = Rig(bench, ledger, epsilon_ceiling=25.0, reach_cells=0)
    rig.confirm()
    stamp = 0
    while not rig.node.drops["not released"]:
        stamp += 1
        assert stamp < 50
        rig.send_and_wait(stamp)
    count = rig.node.counts["frames"]
    assert count > 0
    rig.expect_refusal("mission budget spent", count, lambda: rig.send(100))
    bench.executor.remove_node(rig.node)
    bench.nodes.remove(rig.node)
    rig.node.close()
    again = Rig(bench, ledger, epsilon_ceiling=25.0, reach_cells=0)
    again.confirm()
    again.expect_refusal("mission budget spent", count, lambda: again.send(101))


@pytest.fixture
def rig(bench: Bench, ledger: Path) -> Rig:
    """A node that has released one frame."""
    server(bench)
    rig = Rig(bench, ledger)
    rig.confirm()
    rig.expect_release(1, 1)
    return rig


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_features_that_are_not_finite(rig: Rig, value: float) -> None:
    rig.expect_refusal("not a finite", 1, lambda: rig.send(2, value=value))
    rig.expect_release(3, 2)


@pytest.mark.parametrize("channels", [1, CHANNELS - 1, CHANNELS + 1])
def test_features_of_a_wrong_shape(rig: Rig, channels: int) -> None:
    objects, features = (rig.bench.publisher(f"semantic/{name}") for name in ("objects", "features"))
    rig.bench.until(lambda: features.get_subscription_count() > 0 and objects.get_subscription_count() > 0)

    def send() -> None:
        header = make_header(2, "camera")
        objects.publish(objects_to_message(some_objects(1), header))
        features.publish(tensor_to_message(np.zeros((channels, *GRID), np.float32), header))

    rig.expect_refusal(f"{channels} channels", 1, send)
    rig.expect_release(3, 2)


def test_an_exception_in_the_mechanism_halts_until_a_restart(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: Any) -> Any:
        raise RuntimeError("a cosmic ray")

    monkeypatch.setattr(visual, "release", broken)
    rig.expect_refusal("a cosmic ray", 1, lambda: rig.send(2))
    monkeypatch.undo()
    rig.expect_refusal("halted, restart protection", 1, lambda: rig.send(3))


def test_a_full_disk_and_then_a_freed_one(rig: Rig) -> None:
    connection = rig.node.stage.odometer._ledger._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    stamp = 1
    while not rig.node.drops["not released"]:
        stamp += 1
        assert stamp < 200
        rig.send_and_wait(stamp)
    count = rig.node.counts["frames"]
    rig.expect_refusal("full", count, lambda: rig.send(300))
    assert rig.node.stage.odometer.releases == count
    connection.execute("PRAGMA max_page_count = 1000000")
    rig.expect_release(301, count + 1)


def test_a_locked_ledger_and_then_an_unlocked_one(rig: Rig, ledger: Path) -> None:
    other = sqlite3.connect(ledger, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    rig.expect_refusal("locked", 1, lambda: rig.send(2))
    other.execute("ROLLBACK")
    other.close()
    rig.expect_release(3, 2)


def test_a_ledger_that_was_touched_stays_refused(rig: Rig, ledger: Path) -> None:
    other = sqlite3.connect(ledger, isolation_level=None)
    other.execute("DROP TRIGGER head_grows")
    other.execute("UPDATE head SET hash = 'x'")
    other.close()
    for stamp in (2, 3):
        rig.expect_refusal("changed by someone else", 1, lambda stamp=stamp: rig.send(stamp))


def test_a_detector_that_is_gone_and_comes_back(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SILENCE_S", 0.3)
    rig.expect_diagnosis("nothing from perception")
    assert rig.released() == {1}
    rig.expect_release(2, 2)


def test_half_a_frame_is_not_released(rig: Rig) -> None:
    objects = rig.bench.publisher("semantic/objects")
    rig.bench.until(lambda: objects.get_subscription_count() > 0)
    for stamp in range(2, 12):
        objects.publish(objects_to_message(some_objects(1), make_header(stamp, "camera")))
        rig.bench.until(lambda: False, timeout_s=0.06)
    assert rig.bench.until(lambda: rig.node.drops["half a frame"] > 0)
    assert rig.released() == {1}


def test_a_seed_is_warned_of_at_the_start_and_stands_in_every_record(bench: Bench, ledger: Path, capfd) -> None:
    set_logger_level("protection", LoggingSeverity.INFO)  # a flight in this process leaves its nodes' loggers quiet
    server(bench)
    rig = Rig(bench, ledger, seed=3)
    warned = capfd.readouterr()
    assert "EXPERIMENT: the noise has a seed" in warned.err + warned.out
    rig.confirm()
    rig.expect_release(1, 1)
    assert record_from_message(rig.sent["tx/record"][0]).seeded
    assert "EXPERIMENT" in rig.node.status()[1]


def test_without_a_seed_nothing_speaks_of_an_experiment(rig: Rig) -> None:
    assert not record_from_message(rig.sent["tx/record"][0]).seeded
    assert rig.node.status()[1] == "protected"
