"""What cannot be measured: infeasible points and pictures without annotations are missing, counted and said."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import pytest
from fake_networks import FakeNetworks, drawn_sample

from uav_privacy_sc.control.policy import load_policies
from uav_privacy_sc.evaluation.evaluation import Outcome
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.messages import About
from uav_privacy_sc.evaluation.metrics import INFEASIBLE
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.protocols import ablation, convergence, find_protocol, scenarios, tradeoff
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.link.channel import BlockState

TINY = replace(PRESETS["quick"], epsilons=(1.0, 100.0), kappas=(1.12,), draws=2)
SETTING = Setting("drawn", 1, 1, "hardened", TINY, FakeNetworks())
DEEP_FADE = BlockState.from_gain_db(-250.0)


def _by_metric(rows: list[Measurement]) -> dict[str, Measurement]:
    return {row.metric: row for row in rows if row.condition == "precision" and row.mechanism == "bcd"}


def test_an_infeasible_point_is_missing_in_all_that_it_chose(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenarios, "_block", lambda *_: DEEP_FADE)
    found = scenarios.measure(drawn_sample(0), SETTING)
    rows = _by_metric(found)
    assert rows["feasible"].value == 0.0
    for name in (*scenarios.OPERATING, "location_error", "category_accuracy"):
        assert rows[name].value is None and rows[name].reason == INFEASIBLE, name
    table = scenarios.tables(Results(found), SETTING)[0]
    ours = next(row for row in table.rows if row[0] == "precision")
    assert set(ours[1:-1]) == {"–"} and ours[-1] == "0.0% of 1" and any(INFEASIBLE in note for note in table.notes)


def test_the_controllers_utility_without_feasible_point_is_missing_in_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ablation, "_block", lambda *_: DEEP_FADE)
    rows = list(ablation._control(About("ablation", SETTING, drawn_sample(0), 0)))
    assert {row.reason for row in rows if row.metric == "utility" and row.condition == "precision"} == {INFEASIBLE}
    assert {row.value for row in rows if row.metric == "constraints_held" and row.condition == "precision"} == {0.0}


def test_convergence_has_the_same_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(convergence, "draw_fading", lambda *_: DEEP_FADE)
    rows = [row for row in convergence.measure("precision", range(1), SETTING) if row.mechanism == "bcd"]
    assert {row.reason for row in rows if row.metric != "feasible"} == {INFEASIBLE}
    assert "precision" in load_policies()


def test_without_annotations_panels_without_a_point_are_left_out_and_said(tmp_path: Path) -> None:
    rows = []
    for epsilon in TINY.epsilons:
        for mechanism, kappa in (("uniform", None), ("region_aware", 1.12)):
            where = {"epsilon_v": epsilon, "kappa_bg": kappa}
            rows.append(Measurement("t", mechanism, "ssim", "a", 0, 0.5, attacker="inverter", **where))
    outcome = Outcome(find_protocol("tradeoff"), Results(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for figure in tradeoff.figures(outcome.results, SETTING):
            outcome.add(figure)
        for figure in outcome.figures:
            figure.write(tmp_path)
    assert [len(figure.panels) for figure in outcome.figures] == [1]
    assert "Ground, with descriptors" in outcome.notes[0] and "frontier is left out" in outcome.notes[1]


def test_a_panel_with_published_points_alone_is_empty() -> None:
    paper = Panel("", "x", "y", [Series("P1", [1.0], [1.0], published=True)])
    assert Figure("f", "f", [paper]).measured() is None
