"""A flight waits for its recorder: a bag must not begin with the second frame."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

from conftest import FakeSource

from uav_privacy_sc.flight import FlightConfig
from uav_privacy_sc.graph import NODES, TOPICS
from uav_privacy_sc.nodes.flight import Flight


def test_every_recorded_topic_needs_one_listener_more_than_the_graph_has() -> None:
    flight = Flight(FakeSource(1), FlightConfig(), None, None, None, {})
    listeners = Counter(topic for spec in NODES.values() for topic in spec.takes)
    heard = SimpleNamespace(wanted=lambda topic, by=1: listeners[topic] >= by)
    flight.nodes = dict.fromkeys(NODES, heard)
    assert flight._recorder_listens()  # nothing is recorded
    recorder: Any = object()
    flight._bag = recorder
    recorded = [topic for spec in NODES.values() for topic in spec.gives if TOPICS[topic].recorded]
    for topic in recorded:
        assert not flight._recorder_listens(), topic
        listeners[topic] += 1
    assert flight._recorder_listens()
