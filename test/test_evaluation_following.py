"""What following the channel gained, as the report says it: equal cost, and nothing claimed where nothing followed."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import FakeSource, FakeStages
from fake_flight import fake_attacker, fake_decoder, fake_log
from test_graph_fly import fly

from uav_privacy_sc.control.adaptation import Comparison, mission_epsilon
from uav_privacy_sc.evaluation.charts import flight_charts
from uav_privacy_sc.evaluation.following import DELTA, following
from uav_privacy_sc.evaluation.measures import FlightMeter
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.report import render_report
from uav_privacy_sc.evaluation.summary import SourceFacts, summarize
from uav_privacy_sc.flight import FlightLog


@pytest.fixture(scope="module")
def flown(tmp_path_factory: pytest.TempPathFactory) -> FlightLog:
    """A flight over a trajectory with blockage, through the nodes."""
    path = tmp_path_factory.mktemp("way") / "way.csv"
    rows = [f"{t:g},{60 + 60 * t:g},0,50,{14 if 1.5 <= t <= 2.5 else 0}" for t in np.arange(0.0, 5.0, 0.5)]
    path.write_text("time_s,x_m,y_m,z_m,blockage_db\n" + "\n".join(rows) + "\n")
    return fly(FakeStages(), FakeSource(40), parameters={"link": {"trajectory": str(path)}})


def test_budgets_and_power_follow_and_what_that_gains_is_measured_at_equal_cost(flown: FlightLog) -> None:
    held = following(flown)
    assert isinstance(held, Comparison) and len(held.gain_db) == 40
    assert mission_epsilon(held.fixed, DELTA) == pytest.approx(mission_epsilon(held.adaptive, DELTA), rel=1e-6)
    assert held.fixed.p_tx.mean() == pytest.approx(held.adaptive.p_tx.mean())
    assert held.utility_gain > 0.0
    power = held.adaptive.p_tx
    assert power[17:23].mean() > 2.0 * power[:10].mean()  # behind something, and farther away


def test_the_report_shows_it(flown: FlightLog) -> None:
    measures = FlightMeter(None, None, np.random.default_rng(0)).measure(flown)
    summary = summarize(flown, measures, SourceFacts("images"))
    found = summary["following"]
    assert found["utility_gain"] == pytest.approx(found["flown"]["utility"] - found["fixed"]["utility"])
    page = render_report(flown, measures, summary)
    assert "against fixed ones of equal mission" in page and "gained by following" in page
    assert "Distance to the ground" in page and "fixed, of equal cost" in page and "Payload of a frame" in page


def test_where_nothing_followed_nothing_is_claimed() -> None:
    log = fake_log(6)
    assert isinstance(following(log, {"epsilon_v": 2.0}), Missing)
    assert isinstance(following(fake_log(1, lost=(0,))), Missing)
    measures = FlightMeter(fake_attacker, fake_decoder, np.random.default_rng(0)).measure(log)
    summary = summarize(log, measures, SourceFacts("images"), {"epsilon_v": 2.0})
    assert summary["following"]["utility_gain"] is None
    assert summary["reasons"]["following.utility_gain"] == "the budgets were fixed"
    assert flight_charts(log, measures, Missing("no"))
