"""The record says which networks perceived, and nothing else can get into it by that way."""

from __future__ import annotations

import pytest
from conftest import FakeSource, FakeStages
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue

from uav_privacy_sc import graph
from uav_privacy_sc.evaluation.measures import FlightMeasures
from uav_privacy_sc.evaluation.summary import summarize
from uav_privacy_sc.flight import FlightConfig
from uav_privacy_sc.nodes.conversion import MalformedMessage, make_header, record_from_message, record_to_message
from uav_privacy_sc.nodes.networks import networks_from_message, networks_to_message

NETWORKS = {"detector_sha256": "a" * 64, "codec_sha256": "0" * 64}


class Known:
    """A stand-in that has checksums."""

    networks = NETWORKS

    def __init__(self) -> None:
        self.perceive = FakeStages().perceive

    def __call__(self, image: object) -> object:
        return self.perceive(image)  # type: ignore[arg-type]


def test_checksums_come_back_and_whatever_else_is_refused() -> None:
    assert networks_from_message(networks_to_message(NETWORKS)) == NETWORKS
    assert networks_from_message(networks_to_message({})) == {}
    for value in ("", "a" * 63, "A" * 64, "person at 0.5 0.5", "a" * 64 + "\n"):
        status = DiagnosticStatus(values=[KeyValue(key="codec_sha256", value=value), KeyValue(key="x", value="y")])
        with pytest.raises(MalformedMessage, match="codec_sha256 is no SHA-256"):
            networks_from_message(DiagnosticArray(status=[status]))


def test_every_record_of_a_flight_names_its_networks_and_metrics_do(stages: FakeStages) -> None:
    log = graph.fly(FakeSource(3), FlightConfig(seed=1), stages={**stages.by_node(), "perception": Known()})
    records = [frame.record for frame in log.frames if frame.record is not None]
    assert len(records) == 3
    assert {(record.detector_sha256, record.codec_sha256) for record in records} == {("a" * 64, "0" * 64)}
    assert record_from_message(record_to_message(records[0], make_header(1, ""), "x")) == records[0]
    assert summarize(log, FlightMeasures())["networks"] == NETWORKS


def test_networks_that_nobody_named_are_null_with_a_reason(stages: FakeStages) -> None:
    log = graph.fly(FakeSource(2), FlightConfig(seed=1), stages=stages.by_node())
    assert log.dropped == {}
    summary = summarize(log, FlightMeasures())
    assert summary["networks"] == {"detector_sha256": None, "codec_sha256": None}
    assert summary["reasons"]["networks.codec_sha256"] == "perception did not say"
