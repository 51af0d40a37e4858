"""Stages in a row: fail closed, budgets, the block that a frame meets, and that what is measured is what flies."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeStages, some_objects

from uav_privacy_sc import pipeline, scene
from uav_privacy_sc.control.policy import select_policy
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import VisualConfig
from uav_privacy_sc.release import Budgets, ProtectionError, ReleaseRecord

BUDGETS = Budgets(epsilon_v=1.5, epsilon_l=3.5, p_tx=1.0)


def features(value: float = 0.2) -> np.ndarray:
    return np.full((CHANNELS, *GRID), value, np.float32)


def protect_stage(ceiling: float | None = None, ledger: Path | None = None, **visual: str) -> pipeline.ProtectStage:
    config = pipeline.ProtectionConfig(VisualConfig(**visual))
    return pipeline.ProtectStage(config, RandomStreams(5), Odometer(ledger, 1e-5, ceiling))


def make_pipeline(stages: FakeStages, scenario: str = "surveillance") -> pipeline.Pipeline:
    link = pipeline.LinkStage(LinkConfig(), np.random.default_rng(1), np.random.default_rng(2))
    budget = pipeline.BudgetStage(select_policy(scenario))
    return pipeline.Pipeline(stages.perceive, protect_stage(), link, budget, stages.decode, stages.attack)


def test_a_release_spends_on_disk_what_its_record_says(tmp_path: Path) -> None:
    stage = protect_stage(ledger=tmp_path / "ledger")
    release = stage(features(), some_objects(3), BUDGETS, stamp_ns=42)
    reopened = Odometer(tmp_path / "ledger", 1e-5)
    assert reopened.spent().releases == 1
    assert reopened.spent().mission.epsilon == pytest.approx(release.record.spent_mission_epsilon)
    assert release.record.spent_mission_epsilon > BUDGETS.epsilon_l


def test_released_features_and_locations_are_not_the_raw_ones() -> None:
    objects = some_objects(4)
    release = protect_stage()(features(), objects, BUDGETS, 0)
    assert release.features.dtype == np.float32
    assert np.std(release.features - features()) > 1.0
    assert not np.isclose(release.objects["x"], objects["x"]).any()
    assert (release.objects["cell"] >= 0).all()
    assert (release.objects["label"] == objects["label"]).all()


def test_planar_laplace_marks_that_there_is_no_cell() -> None:
    release = protect_stage()(features(), some_objects(4), replace(BUDGETS, location_branch="planar_laplace"), 0)
    assert (release.objects["cell"] == -1).all()


@pytest.mark.parametrize(
    ("budgets", "reason"),
    [
        (None, "none received"),
        (replace(BUDGETS, epsilon_v=0.0), "epsilon_v is 0"),
        (replace(BUDGETS, epsilon_l=-1.0), "epsilon_l is -1"),
        (replace(BUDGETS, epsilon_v=math.nan), "epsilon_v is nan"),
        (replace(BUDGETS, p_tx=math.inf), "p_tx is inf"),
        (replace(BUDGETS, location_branch="none"), "location_branch"),
    ],
)
def test_nothing_is_released_without_a_budget(budgets: Budgets | None, reason: str) -> None:
    stage = protect_stage()
    with pytest.raises(ProtectionError, match=reason):
        stage(features(), some_objects(1), budgets, 0)
    assert stage.odometer.spent().releases == 0


@pytest.mark.parametrize("age_s", [2.1, 1e6, -0.1])
def test_nothing_is_released_under_a_stale_budget_or_one_from_the_future(age_s: float) -> None:
    stage = protect_stage()
    budgets = replace(BUDGETS, stamp_ns=10_000_000_000)
    now_ns = budgets.stamp_ns + round(age_s * 1e9)
    with pytest.raises(ProtectionError, match="stale budget"):
        stage(features(), some_objects(1), budgets, 0, now_ns)
    assert stage(features(), some_objects(1), budgets, 0, budgets.stamp_ns + 1_900_000_000).record.objects == 1


def test_a_budget_that_nobody_confirmed_is_stale_on_a_machine_that_has_just_started() -> None:
    stage = protect_stage()
    with pytest.raises(ProtectionError, match="stale budget.*not confirmed"):
        stage(features(), some_objects(1), replace(BUDGETS, stamp_ns=0), 0, 500_000_000)
    assert stage.odometer.spent().releases == 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nothing_is_released_from_features_that_are_not_finite(value: float) -> None:
    stage, tensor = protect_stage(), features()
    tensor[3, 4, 5] = value
    with pytest.raises(ProtectionError, match="finite"):
        stage(tensor, some_objects(1), BUDGETS, 0)
    assert stage.odometer.spent().releases == 0


@pytest.mark.parametrize("field", ["x", "w"])
def test_nothing_is_released_when_an_object_is_not_finite(field: str) -> None:
    objects = some_objects(2)
    objects[field][1] = math.nan
    with pytest.raises(ProtectionError, match="box"):
        protect_stage()(features(), objects, BUDGETS, 0)


def test_a_fault_in_a_mechanism_releases_nothing() -> None:
    objects = some_objects(2)
    objects["label"][0] = 11
    with pytest.raises(ProtectionError, match="label"):
        protect_stage()(features(), objects, BUDGETS, 0)


def test_a_spent_mission_budget_stays_spent_after_a_restart(tmp_path: Path) -> None:
    stage = protect_stage(ceiling=60.0, ledger=tmp_path / "ledger")
    with pytest.raises(ProtectionError, match="mission budget spent"):
        for stamp in range(100):
            stage(features(), some_objects(3), BUDGETS, stamp)
    stage.odometer.close()
    again = protect_stage(ceiling=60.0, ledger=tmp_path / "ledger")
    with pytest.raises(ProtectionError, match="mission budget spent"):
        again(features(), some_objects(3), BUDGETS, 0)


def test_a_map_from_released_locations_does_not_follow_the_detections() -> None:
    budgets = replace(BUDGETS, epsilon_l=0.2)
    objects = scene.make_objects(np.array([[0.5, 0.5]]), np.array([[0.1, 0.1]]), np.array([0]))
    lowest = {}
    for source in ("detections", "released"):
        release = protect_stage(map_source=source)(features(), objects, budgets, 0)
        lowest[source] = release.epsilon_map.min() == release.epsilon_map[GRID[0] // 2, GRID[1] // 2]
    assert lowest == {"detections": True, "released": False}


def test_a_record_reads_back_from_text() -> None:
    record = protect_stage()(features(), some_objects(3), BUDGETS, 7).record
    assert ReleaseRecord.from_text(record.as_text()) == record
    with pytest.raises(ValueError, match="lacks delta"):
        ReleaseRecord.from_text({key: value for key, value in record.as_text().items() if key != "delta"})


def test_the_announced_gain_is_the_one_that_the_next_frame_meets() -> None:
    link = pipeline.LinkStage(LinkConfig(), np.random.default_rng(1), np.random.default_rng(2))
    gains = []
    for _ in range(5):
        announced = link.gain_db
        sent = link(features(), some_objects(1), 1.0)
        assert sent.ground_gain_db == announced
        assert sent.ground.snr_db == pytest.approx(announced, abs=1e-4)  # gain_db is the SNR of one watt
        gains.append(announced)
    assert len(set(gains)) == 5


def test_a_refused_transmission_keeps_the_block() -> None:
    link = pipeline.LinkStage(LinkConfig(), np.random.default_rng(1), np.random.default_rng(2))
    announced = link.gain_db
    with pytest.raises(ValueError, match="p_tx"):
        link(features(), some_objects(1), 0.0)
    assert link.gain_db == announced


def test_ground_and_eavesdropper_hear_different_noise() -> None:
    link = pipeline.LinkStage(LinkConfig(), np.random.default_rng(1), np.random.default_rng(2))
    sent = link(features(), some_objects(1), 1.0)
    errors = [(party.features - features()).ravel() for party in (sent.ground, sent.eve)]
    assert abs(np.corrcoef(*errors)[0, 1]) < 0.05


def test_the_pipeline_runs_every_stage_and_repeats_with_its_seeds(stages: FakeStages) -> None:
    image = np.full((54, 96, 3), 9, np.uint8)
    first, second = (make_pipeline(stages)(image, 1) for _ in range(2))
    assert first.dropped is None
    assert set(first.stage_ms) == {"perceive", "budget", "protect", "link", "decode", "attack"}
    assert first.transmission is not None and second.transmission is not None
    assert np.array_equal(first.transmission.eve.features, second.transmission.eve.features)
    assert first.mask is not None and first.mask.shape == (88, 160)


def test_the_pipeline_sends_nothing_when_protection_refuses(stages: FakeStages) -> None:
    flight = make_pipeline(stages)
    flight.protect = protect_stage(ceiling=1e-3)
    result = flight(np.zeros((54, 96, 3), np.uint8), 1)
    assert result.dropped is not None and "mission budget" in result.dropped
    assert result.transmission is None and result.release is None


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -1.0])
def test_the_age_limit_of_a_budget_is_checked(value: float) -> None:
    with pytest.raises(ValueError, match="max_budget_age_s"):
        pipeline.ProtectionConfig(max_budget_age_s=value)
