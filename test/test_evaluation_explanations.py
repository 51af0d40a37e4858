"""Why ours differs: what a sentence says turns with the figures that it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from uav_privacy_sc.evaluation import explanations, published
from uav_privacy_sc.evaluation.explanations import INSIDE, NOT_MEASURED, why
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.published import PUBLISHED, PublishedValue
from uav_privacy_sc.evaluation.statistics import Estimate


class _Found:
    """Results made up for one protocol."""

    def __init__(self, protocol: str, rows: list[tuple[str, str, float, dict[str, Any]]]) -> None:
        self.manifest = {"setting": {"preset": {"gradient_steps": 40, "gradient_pixels": 8}}}
        made = [Measurement(protocol, name, metric, "a", 0, value, **key) for metric, name, value, key in rows]
        self._results = {protocol: Results(made)}

    def results(self, protocol: str) -> Results | None:
        return self._results.get(protocol)


NOTHING = _Found("none", [])


def _item(section: str, metric: str, mechanism: str, **where: object) -> PublishedValue:
    item = published.find(section, metric, mechanism, **where)
    assert item is not None
    return item


def _ours(mean: float, reach: float = 0.001) -> Estimate:
    return Estimate(mean, reach, 9)


def test_every_published_number_has_a_sentence_whatever_was_measured() -> None:
    for item in PUBLISHED:
        text = why(NOTHING, item, _ours(item.value + 1.0))
        assert text.endswith(".") and len(text) > 30, (item, text)
        assert why(NOTHING, item, Missing("not run")) == NOT_MEASURED


def test_a_value_inside_our_interval_does_not_differ() -> None:
    item = PUBLISHED[0]
    assert why(NOTHING, item, _ours(item.value + 0.05, 0.06)) == INSIDE
    assert why(NOTHING, item, _ours(item.value + 0.05, 0.04)) != INSIDE
    assert why(NOTHING, item, Estimate(item.value, None, 1)) != INSIDE  # one sample has no interval


@pytest.mark.parametrize(("gradient", "said"), [(0.1, "the same in both"), (0.7, "the other way round in P1")])
def test_the_stronger_attacker(gradient: float, said: str) -> None:
    key = {"epsilon_v": 20.0}
    rows = [
        ("ssim", "uniform", value, {"attacker": name, **key})
        for name, value in (("inverter", 0.5), ("gradient", gradient))
    ]
    item = _item("Table 3", "ssim", "uniform", epsilon_v=20.0, attacker="inverter")
    assert said in why(_Found("attackers", rows), item, _ours(0.5))


@pytest.mark.parametrize(("ours", "said"), [(0.02, "no evidence"), (0.2, "more than that here")])
def test_what_the_gradient_attacker_learnt_is_held_against_another_picture(ours: float, said: str) -> None:
    found = _Found("attackers", [("ssim", "another picture", 0.03, {"attacker": "gradient"})])
    text = why(found, _item("5.8", "ssim", "uniform"), _ours(ours))
    assert said in text and "40 steps at 8/16" in text and "0.0300" in text


@pytest.mark.parametrize(("ours", "said"), [(0.02, "ours keeps to it"), (0.5, "ours exceeds it")])
def test_the_bound_of_the_cosine(ours: float, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    item = _item("5.8", "feature_cosine_sensitive", "uniform")
    text = why(NOTHING, item, _ours(ours))
    assert said in text and "P1's exceeds" in text
    assert "P1's keeps to" in why(NOTHING, replace(item, value=0.05), _ours(ours))
    monkeypatch.setattr(explanations, "cosine_bound", lambda epsilon: 0.9)
    assert "P1's keeps to" in why(NOTHING, item, _ours(ours))


@pytest.mark.parametrize(("ours", "said"), [(0.13, "no more than"), (0.3, "more than")])
def test_silence_of_the_inverter(ours: float, said: str) -> None:
    found = _Found("tradeoff", [("ssim_sensitive", "silence", 0.14, {"attacker": "inverter"})])
    assert f"is {said} that" in why(found, _item("5.6", "ssim_sensitive", "uniform", epsilon_v=1.0), _ours(ours))


@pytest.mark.parametrize(("sixth", "said"), [(0.75, "gains 0.0500"), (0.69, "gains -0.0100")])
def test_what_iterations_gain(sixth: float, said: str) -> None:
    rows = [
        (f"utility at iteration {number}", "bcd", value, {"condition": "precision"})
        for number, value in ((1, 0.7), (6, sixth))
    ]
    text = why(_Found("convergence", rows), _item("5.9", "utility at iteration 1", "bcd"), _ours(0.7))
    assert said in text and "P1's 0.0168" in text


def test_differences_between_modes_are_ours_and_theirs() -> None:
    found = _Found("attackers", [("psnr_sensitive", "uniform", 18.0, {"attacker": "inverter", "epsilon_v": 20.0})])
    item = _item("Table 3", "psnr_sensitive", "region_aware", epsilon_v=20.0, attacker="inverter")
    text = why(found, item, _ours(18.5))
    assert "against uniform noise it is +0.50 dB (P1 -3.65)" in text
