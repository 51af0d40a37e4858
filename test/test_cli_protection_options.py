"""Options of protection on the command line: they reach the node, and metrics.json says what was flown with."""

from __future__ import annotations

import numpy as np
import pytest
from fake_flight import fake_attacker, fake_decoder, fake_log

from uav_privacy_sc.cli import main
from uav_privacy_sc.commands import fly
from uav_privacy_sc.evaluation.measures import FlightMeter
from uav_privacy_sc.evaluation.summary import SourceFacts, summarize


@pytest.mark.parametrize("verb", [["demo"], ["run", "--source", "synthetic"]])
def test_location_mode_and_pace_reach_protection(verb: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[fly.FlightOrder] = []
    monkeypatch.setattr(fly, "carry_out", lambda order: orders.append(order) or 0)
    words = ["--location-mode", "predictive", "--epsilon-ceiling", "40", "--expected-frames", "300"]
    assert main([*verb, *words]) == 0
    wanted = {"location_mode": "predictive", "epsilon_ceiling": 40.0, "expected_frames": 300}
    assert orders[0].config.parameters["protection"] == wanted


def test_the_summary_says_which_options_protected_the_flight() -> None:
    log = fake_log(3, lost=())
    measures = FlightMeter(fake_attacker, fake_decoder, np.random.default_rng(0)).measure(log)
    summary = summarize(log, measures, SourceFacts("images", {}, ()))
    options = ("lattice_step", "location_mode", "label_epsilon", "size_epsilon", "count_epsilon", "paced")
    assert {name: summary["privacy"][name] for name in options} == {
        "lattice_step": 0.0,
        "location_mode": "independent",
        "label_epsilon": 0.0,
        "size_epsilon": 0.0,
        "count_epsilon": 0.0,
        "paced": False,
    }
