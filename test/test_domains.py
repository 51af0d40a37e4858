"""Flights side by side on one computer get DDS domains of their own."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import FakeSource, FakeStages
from rclpy.context import Context
from rclpy.node import Node
from rosbags.highlevel import AnyReader

from uav_privacy_sc import graph
from uav_privacy_sc.flight import FlightConfig, FlightEvent
from uav_privacy_sc.nodes.domains import reserved_domains


def test_a_domain_is_reserved_once_and_free_again_afterwards() -> None:
    with reserved_domains(2) as found:
        assert len(set(found)) == 2
        with pytest.raises(RuntimeError, match="only 0 of 2 DDS domains are free"), reserved_domains(1, found):
            pass
    with reserved_domains(2, found) as again:
        assert sorted(again) == sorted(found)


def test_a_domain_that_somebody_is_in_is_not_given_away() -> None:
    with reserved_domains(1) as (taken,):
        pass
    stranger = Context()
    stranger.init(domain_id=taken)
    node = Node("stranger", context=stranger, use_global_arguments=False)
    try:
        with pytest.raises(RuntimeError, match="free"), reserved_domains(1, [taken]):
            pass
    finally:
        node.destroy_node()
        stranger.shutdown()


def test_a_flight_within_a_flight_shares_no_domain_with_it(
    stages: FakeStages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with reserved_domains(4) as four:
        pass
    monkeypatch.setattr(reserved_domains.__wrapped__, "__defaults__", (four,))  # type: ignore[attr-defined]

    def observer(event: FlightEvent) -> None:
        if event.kind == "ready":
            inner = graph.fly(FakeSource(3), FlightConfig(), stages=FakeStages().by_node())
            assert inner.counts["decoded"] == 3

    graph.fly(FakeSource(5), FlightConfig(), observer, tmp_path / "bag", stages=stages.by_node())
    with AnyReader([tmp_path / "bag"]) as reader:
        counts = {connection.topic: connection.msgcount for connection in reader.connections}
    assert counts["/tx/features"] == counts["/ground/mask"] == 5
    assert stages.perceived == list(range(5))
