"""Protection of frames: what objects pay, places that stay, pacing, and what halts the stage for good."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, some_objects

from uav_privacy_sc import scene
from uav_privacy_sc.object_release import ObjectConfig
from uav_privacy_sc.privacy import visual
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.calibration import gaussian_epsilon
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.pacing import Allowance
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import VisualConfig
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import Budgets, ProtectionError

BUDGETS = Budgets(epsilon_v=1.5, epsilon_l=3.5, p_tx=1.0)
EVERYTHING = DescriptorConfig(label_epsilon=1.0, size_epsilon=2.0, count_epsilon=0.5, hide_score=True, shuffle=True)


def features(value: float = 0.2, channels: int = CHANNELS) -> np.ndarray:
    return np.full((channels, *GRID), value, np.float32)


def make_stage(ceiling: float | None = None, ledger: Path | None = None, **config: Any) -> ProtectStage:
    odometer = Odometer(ledger, 1e-5, ceiling, busy_timeout_s=0.05)
    return ProtectStage(ProtectionConfig(**config), RandomStreams(5), odometer)


def parked(count: int = 3) -> np.ndarray:
    centers = np.linspace(0.2, 0.8, count)
    return scene.make_objects(np.stack([centers, centers], axis=1), np.full((count, 2), 0.05), np.zeros(count, int))


# Descriptors


def test_what_descriptors_cost_is_in_the_record_and_in_the_ledger(tmp_path: Path) -> None:
    stage = make_stage(ledger=tmp_path / "ledger", objects=ObjectConfig(EVERYTHING))
    record = stage(features(), some_objects(6), BUDGETS, 1).record
    assert (record.label_epsilon, record.size_epsilon, record.count_epsilon) == (1.0, 2.0, 0.5)
    assert record.location_epsilon == 3.5 and record.score_hidden and record.order_shuffled
    ((paid, _),) = Odometer(tmp_path / "ledger", 1e-5).history()
    assert paid.pure_epsilon == pytest.approx(7.0)


def test_class_size_score_number_and_order_do_not_go_out_as_they_are() -> None:
    stage, objects = make_stage(objects=ObjectConfig(EVERYTHING)), some_objects(30)
    objects["score"] = np.linspace(0.9, 0.3, 30)
    released = [stage(features(), objects, BUDGETS, stamp).objects for stamp in range(20)]
    assert len({len(one) for one in released}) > 3
    assert all((one["score"] == 1.0).all() for one in released)
    sizes = np.concatenate([one["w"] for one in released])
    assert np.isclose(sizes, 0.06).mean() < 0.3
    labels = np.concatenate([one["label"] for one in released])
    assert (np.bincount(labels, minlength=10) > 0).all()


def test_a_size_that_no_box_can_have_does_not_go_out_as_it_is() -> None:
    objects = parked(3)
    objects["w"], objects["h"] = [1e33, -0.5, 0.25], [0.5, 7.0, 1.0]
    released = make_stage()(features(), objects, BUDGETS, 1).objects
    assert released["w"].tolist() == [1.0, 0.0, 0.25] and released["h"].tolist() == [0.5, 1.0, 1.0]


def test_an_empty_frame_costs_the_count_alone_beside_its_features() -> None:
    record = make_stage(objects=ObjectConfig(EVERYTHING))(features(), scene.no_objects(), BUDGETS, 1).record
    assert (record.location_epsilon, record.label_epsilon, record.count_epsilon) == (0.0, 0.0, 0.5)


def test_in_clear_is_said_by_zeros() -> None:
    record = make_stage()(features(), some_objects(3), BUDGETS, 1).record
    assert (record.label_epsilon, record.size_epsilon, record.count_epsilon) == (0.0, 0.0, 0.0)
    assert not record.score_hidden


@pytest.mark.parametrize("mechanism", ["uniform", "region_aware"])
@pytest.mark.parametrize(
    "box", [{"w": 0.0}, {"h": -0.2}, {"w": 0.0, "h": 0.0, "x": 1.0, "y": 1.0}, {"x": 5.0}, {"y": -3.0}, {"x": 1e30}]
)
def test_a_box_that_covers_nothing_is_charged_for_the_cells_around_it(box: dict[str, float], mechanism: str) -> None:
    stage, objects = make_stage(visual=VisualConfig(mechanism, reach_cells=2)), some_objects(1)
    for name, value in box.items():
        objects[name] = value
    stage(features(), objects, BUDGETS, 1)
    ((paid, _),) = stage.odometer.history()
    assert paid.object_mu >= 2.9 * paid.cell_mu  # a corner of the grid has 3 x 3 cells within reach
    covered = make_stage(visual=VisualConfig(mechanism, reach_cells=2))
    covered(features(), some_objects(1), BUDGETS, 1)
    ((whole, _),) = covered.odometer.history()
    assert whole.object_mu >= paid.object_mu


# Places


def test_a_parked_object_keeps_its_place_and_pays_once_in_predictive_mode() -> None:
    stage = make_stage(objects=ObjectConfig(location_mode="predictive", threshold=60.0))
    releases = [stage(features(), parked(), BUDGETS, stamp) for stamp in range(8)]
    places = np.array([release.objects["x"] for release in releases])
    assert (places == places[0]).all()
    paid = [release.record.location_epsilon for release in releases]
    assert paid == [pytest.approx(3.5 * 1.5)] + [0.0] * 7
    assert releases[-1].record.spent_track_epsilon > 0.0


def test_a_place_is_drawn_and_paid_for_in_every_frame_in_independent_mode() -> None:
    stage = make_stage()
    releases = [stage(features(), parked(), BUDGETS, stamp) for stamp in range(8)]
    assert len({tuple(release.objects["x"]) for release in releases}) > 2
    assert [release.record.location_epsilon for release in releases] == [3.5] * 8
    assert releases[-1].record.spent_track_epsilon == 0.0


def test_predictive_release_spends_less_over_a_flight() -> None:
    spent = {}
    for mode in ("independent", "predictive"):
        stage = make_stage(objects=ObjectConfig(location_mode=mode, threshold=60.0))
        for stamp in range(30):
            record = stage(features(), parked(), BUDGETS, stamp).record
        spent[mode] = record.spent_mission_epsilon
    assert spent["predictive"] < 0.8 * spent["independent"]


def test_a_place_that_a_refused_frame_drew_is_never_published_unpaid(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage(objects=ObjectConfig(location_mode="predictive", threshold=60.0))
    monkeypatch.setattr(stage.odometer, "spend", _raise(OSError("disk full")))
    with pytest.raises(ProtectionError, match="disk full"):
        stage(features(), parked(), BUDGETS, 1)
    monkeypatch.undo()
    assert stage(features(), parked(), BUDGETS, 2).record.location_epsilon == pytest.approx(3.5 * 1.5)


def test_another_location_branch_starts_places_anew() -> None:
    stage = make_stage(objects=ObjectConfig(location_mode="predictive", threshold=60.0))
    stage(features(), parked(), BUDGETS, 1)
    moved = stage(features(), parked(), replace(BUDGETS, location_branch="planar_laplace"), 2)
    assert moved.record.location_epsilon > 0.0 and (moved.objects["cell"] == -1).all()


def test_dummies_and_places_that_stay_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="count_epsilon needs location_mode"):
        ObjectConfig(DescriptorConfig(count_epsilon=1.0), "predictive")
    with pytest.raises(ValueError, match="location_mode"):
        ObjectConfig(location_mode="sometimes")


# Pacing


def test_a_paced_flight_lasts_for_its_frames_and_stays_below_the_ceiling() -> None:
    frames, ceiling = 40, 30.0
    stage = make_stage(ceiling, expected_frames=frames)
    records = [stage(features(), some_objects(3, stamp), BUDGETS, stamp).record for stamp in range(frames)]
    assert all(record.paced and record.allowance_epsilon > 0 for record in records)
    assert [record.frames_left for record in records] == list(range(frames, 0, -1))
    assert 0.5 * ceiling < records[-1].spent_mission_epsilon <= ceiling
    unpaced = make_stage(ceiling)
    with pytest.raises(ProtectionError, match="mission budget spent"):
        for stamp in range(frames):
            unpaced(features(), some_objects(3, stamp), BUDGETS, stamp)


def test_pacing_never_gives_more_than_the_budget() -> None:
    record = make_stage(1e6, expected_frames=2)(features(), some_objects(3), BUDGETS, 1).record
    assert record.location_epsilon == 3.5
    assert record.epsilon_cell_max == pytest.approx(1.12 * 1.5)


def test_pacing_cuts_the_budget_of_uniform_and_matrix_mechanisms_evenly() -> None:
    for mechanism in ("uniform", "matrix_udn"):
        stage = make_stage(2.0, expected_frames=100, visual=VisualConfig(mechanism))
        record = stage(features(), some_objects(3), BUDGETS, 1).record
        assert record.epsilon_cell_min == record.epsilon_cell_max < 1.5


def test_a_pace_that_leaves_nothing_for_places_refuses() -> None:
    stage = make_stage(0.5, expected_frames=1000, objects=ObjectConfig(EVERYTHING))
    with pytest.raises(ProtectionError, match="pace too slow"):
        stage(features(), some_objects(3), BUDGETS, 1)
    assert stage.odometer.releases == 0


@pytest.mark.parametrize("reach", [0, 7])
def test_a_frame_stays_within_its_allowance_whatever_the_encoder_reaches(reach: int) -> None:
    frames = 20
    config = VisualConfig(map_source="released", reach_cells=reach)
    stage = make_stage(60.0, expected_frames=frames, visual=config)
    for stamp in range(frames):
        before = stage.odometer.mission_mu
        record = stage(features(), some_objects(3, stamp), BUDGETS, stamp).record
        spent = math.sqrt(stage.odometer.mission_mu**2 - before**2)
        assert gaussian_epsilon(2.0 / spent, 1e-5, 2.0) <= record.allowance_epsilon * 1.001
    assert record.frames_left == 1


def test_the_strength_of_paced_noise_does_not_tell_whether_a_padded_frame_is_empty() -> None:
    plenty, strengths = replace(BUDGETS, epsilon_v=50.0), []
    for count in (0, 1):
        stage = make_stage(300.0, expected_frames=8, visual=VisualConfig("uniform"), objects=ObjectConfig(EVERYTHING))
        stage._objects = _SameSizes(stage._objects)  # type: ignore[assignment]  # sizes matter, too, and are public
        strengths.append(stage(features(), some_objects(count), plenty, 1).record.epsilon_cell_max)
    assert strengths[0] == strengths[1] < 50.0


class _SameSizes:
    """Releases everything as it would be, but in boxes of one size."""

    def __init__(self, release: Any) -> None:
        self.release = release

    def __call__(self, *arguments: Any) -> Any:
        released = self.release(*arguments)
        released.objects["w"] = released.objects["h"] = 0.1
        return released

    def forget(self) -> None:
        self.release.forget()


def test_a_pace_that_leaves_nothing_for_features_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Allowance, "cell_epsilon", lambda *_: 0.0)
    stage = make_stage(30.0, expected_frames=40)
    with pytest.raises(ProtectionError, match="pace too slow"):
        stage(features(), some_objects(3), BUDGETS, 1)
    assert stage.odometer.releases == 0


def test_pacing_needs_a_ceiling() -> None:
    with pytest.raises(ValueError, match="no ceiling to pace"):
        make_stage(expected_frames=10)
    with pytest.raises(ValueError, match="expected_frames"):
        ProtectionConfig(expected_frames=-1)


# Lattice


def test_features_on_the_lattice_are_whole_steps_and_the_record_says_which() -> None:
    release = make_stage(visual=VisualConfig(lattice_step=2.0**-6))(features(), some_objects(2), BUDGETS, 1)
    steps = release.features * 2**6
    assert (steps == np.rint(steps)).all() and np.abs(steps).max() <= 32767
    assert release.record.lattice_step == 2.0**-6
    assert make_stage()(features(), some_objects(2), BUDGETS, 1).record.lattice_step == 0.0


def test_features_without_a_mechanism_are_no_whole_steps_whatever_is_configured() -> None:
    stage = make_stage(visual=VisualConfig("none", lattice_step=2.0**-6))
    assert stage(features(0.1), some_objects(2), BUDGETS, 1).record.lattice_step == 0.0


# What goes on by itself, and what does not


def _raise(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: Any, **keywords: Any) -> Any:
        raise error

    return fail


@pytest.mark.parametrize("wrong", [features(channels=3), np.zeros((CHANNELS, 4), np.float32), features()[:, :0]])
def test_features_of_a_wrong_shape_are_refused_and_the_next_frame_goes_out(wrong: np.ndarray) -> None:
    stage = make_stage()
    with pytest.raises(ProtectionError, match="features"):
        stage(wrong, some_objects(1), BUDGETS, 1)
    assert stage.odometer.releases == 0
    assert stage(features(), some_objects(1), BUDGETS, 2).record.objects == 1


@pytest.mark.parametrize("mechanism", ["uniform", "region_aware"])
@pytest.mark.parametrize(
    ("field", "value"), [("label", 10), ("label", -1), ("label", 2**31 - 1), ("score", math.nan), ("score", math.inf)]
)
def test_an_object_that_is_none_is_refused_by_every_mechanism(mechanism: str, field: str, value: float) -> None:
    stage, objects = make_stage(visual=VisualConfig(mechanism)), some_objects(2)
    objects[field][1] = value
    with pytest.raises(ProtectionError, match=field):
        stage(features(), objects, BUDGETS, 1)
    assert stage.odometer.releases == 0
    assert stage(features(), some_objects(2), BUDGETS, 2).record.objects == 2


@pytest.mark.parametrize(
    "error", [KeyError("no such thing"), RuntimeError("broken"), ArithmeticError("exceeds c_clip")]
)
def test_an_unforeseen_fault_halts_for_good(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage()
    monkeypatch.setattr(visual, "release", _raise(error))
    with pytest.raises(ProtectionError, match=type(error).__name__):
        stage(features(), some_objects(1), BUDGETS, 1)
    monkeypatch.undo()
    with pytest.raises(ProtectionError, match=f"halted.*{type(error).__name__}"):
        stage(features(), some_objects(1), BUDGETS, 2)
    assert stage.odometer.releases == 0


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_mechanism_that_yields_nan_halts(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = make_stage()
    monkeypatch.setattr(visual, "release", lambda features, *_: features * np.float32(value))
    for stamp, reason in ((1, "NaN or infinite"), (2, "halted")):
        with pytest.raises(ProtectionError, match=reason):
            stage(features(), some_objects(1), BUDGETS, stamp)
    assert stage.odometer.releases == 0


def test_a_full_disk_refuses_and_a_freed_one_goes_on(tmp_path: Path) -> None:
    stage = make_stage(ledger=tmp_path / "ledger")
    stage(features(), some_objects(1), BUDGETS, 1)
    connection = stage.odometer._ledger._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ProtectionError, match="full"):
        for stamp in range(2, 100):
            stage(features(), some_objects(1), BUDGETS, stamp)
    written = stage.odometer.releases
    connection.execute("PRAGMA max_page_count = 100000")
    stage(features(), some_objects(1), BUDGETS, 100)
    assert stage.odometer.releases == written + 1
    assert Odometer(tmp_path / "ledger", 1e-5).releases == written + 1


def test_a_locked_ledger_refuses_and_an_unlocked_one_goes_on(tmp_path: Path) -> None:
    stage = make_stage(ledger=tmp_path / "ledger")
    other = sqlite3.connect(tmp_path / "ledger", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ProtectionError, match="locked"):
        stage(features(), some_objects(1), BUDGETS, 1)
    other.execute("ROLLBACK")
    assert stage(features(), some_objects(1), BUDGETS, 2).record.stamp_ns == 2
    assert stage.odometer.releases == 1


def test_a_ledger_that_someone_else_wrote_stays_refused(tmp_path: Path) -> None:
    stage = make_stage(ledger=tmp_path / "ledger")
    make_stage(ledger=tmp_path / "ledger")(features(), some_objects(1), BUDGETS, 1)
    for stamp in (2, 3):
        with pytest.raises(ProtectionError, match="changed by someone else"):
            stage(features(), some_objects(1), BUDGETS, stamp)
