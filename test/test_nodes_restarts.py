"""Link or budget server killed in flight and started again: no unprotected frame goes out, and the flight resumes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_nodes_processes import NETWORKS, START_TIMEOUT_S, Listener, Processes, pictures, processes

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.base import message_type, qos_profile
from uav_privacy_sc.nodes.conversion import lost_tensor_shape, tensor_from_message

__all__ = ["pictures", "processes"]


@pytest.fixture
def parties(domains: tuple[int, int]) -> Iterator[tuple[Listener, Listener]]:
    listeners = Listener(domains[0]), Listener(domains[1])
    yield listeners
    for listener in listeners:
        listener.close()


def said(listener: Listener) -> list[str]:
    """Collect what protection says in its diagnostics."""
    heard: list[str] = []

    def note(message: Any) -> None:
        heard.extend(status.message for status in message.status if status.name.endswith("protection"))

    listener.node.create_subscription(message_type(graph.DIAGNOSTICS), "diagnostics", note, qos_profile("record"))
    return heard


@pytest.mark.parametrize("victim", ["link", "budget_server"])
def test_a_flight_resumes_after_a_node_was_killed(
    processes: Processes,
    parties: tuple[Listener, Listener],
    domains: tuple[int, int],
    pictures: Path,
    victim: str,
) -> None:
    onboard, ground = parties
    sent, received, words = onboard.listen("tx/features"), ground.listen("ground/rx/features"), said(onboard)
    options = {"link": (f"ground_domain_id:={domains[1]}", "fading:=none"), "budget_server": ()}
    for name in ("link", "budget_server"):
        processes.start(name, *options[name])
    processes.start("protection", "max_budget_age_s:=1.0")
    for name in NETWORKS[:2]:
        processes.start(name, fake=True)
    processes.start("camera", f"source:={pictures}", "loop:=true", "rate_hz:=5.0")
    assert ground.until(lambda: len(received) > 2, START_TIMEOUT_S)
    assert onboard.until(lambda: len(sent) > 0, 10.0)

    victim_process = processes.running.pop(victim)
    victim_process.kill()
    victim_process.communicate()
    words.clear()
    assert onboard.until(lambda: any("stale budget" in word for word in words), 15.0), words
    sent.clear()
    quiet = time.monotonic() + 1.5
    onboard.until(lambda: time.monotonic() > quiet, 3.0)
    assert sent == []  # fail closed: nothing goes out under a budget that nobody confirms

    ground.until(lambda: False, 0.3)
    received.clear()
    processes.start(victim, *options[victim])
    assert ground.until(lambda: len(received) > 2, START_TIMEOUT_S)
    assert onboard.until(lambda: bool(words) and words[-1] == "protected", 15.0)
    for message in received:  # a frame of one grey has no spread; released ones have noise in every cell
        assert lost_tensor_shape(message) is None
        assert (tensor_from_message(message).std(axis=0) > 0.1).all()


def test_a_trajectory_that_is_none_is_one_line_and_exit_2(processes: Processes, tmp_path: Path) -> None:
    (tmp_path / "way.csv").write_text("time_s,x_m,y_m,z_m\n0,0,0,50\n-1,9,0,50\n")
    processes.start("link", f"trajectory:={tmp_path / 'way.csv'}")
    process = processes.running.pop("link")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert (
        errors.startswith(f"link: {tmp_path / 'way.csv'}: trajectory time_s does not grow") and errors.count("\n") == 1
    )
