"""What a flight came to: the numbers of metrics.json against the log they come from."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_flight import fake_attacker, fake_decoder, fake_log

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation.headline import terminal_lines
from uav_privacy_sc.evaluation.measures import FlightMeasures, FlightMeter, frames_to_show, location_error, truth_labels
from uav_privacy_sc.evaluation.metrics import UNLABELLED
from uav_privacy_sc.evaluation.summary import SourceFacts, summarize, write_metrics
from uav_privacy_sc.evaluation.tables import _privacy
from uav_privacy_sc.flight import FlightConfig, FlightLog, FrameLog


def _measure(log: FlightLog, attacker=fake_attacker, decoder=fake_decoder, keep=()):
    return FlightMeter(attacker, decoder, np.random.default_rng(0), keep).measure(log)


def _summary(log: FlightLog, **options) -> dict:
    return summarize(log, _measure(log, **options), SourceFacts("images", {"zero-size box": 2}, ("a note",)))


def _numbers(tree: object) -> list[float]:
    if isinstance(tree, dict):
        return [number for value in tree.values() for number in _numbers(value)]
    if isinstance(tree, list):
        return [number for value in tree for number in _numbers(value)]
    return [tree] if isinstance(tree, float) else []


def test_the_summary_says_what_the_log_holds() -> None:
    log = fake_log(12)
    summary = _summary(log)
    assert summary["frames"] == {
        "in": 12, "broken": 1, "perceived": 11, "released": 11, "received": 11, "decoded": 11,
        "dropped": {"broken picture": 1},
    }  # fmt: skip
    assert summary["fps"] == pytest.approx(12 / 4.2)
    assert summary["stage_ms"]["link"]["p50"] == pytest.approx(np.median(log.stage_ms["link"]))
    assert summary["stage_ms"]["link"]["p95"] > summary["stage_ms"]["link"]["p50"]
    flown = [frame for frame in log.frames if frame.record]
    assert summary["link"]["ground_snr_db_mean"] == pytest.approx(np.mean([f.ground_snr_db for f in flown]))
    assert summary["privacy"]["spent"]["mission"]["epsilon"] == flown[-1].record.spent_mission_epsilon
    assert summary["privacy"]["spent"]["mission"]["delta"] == 1e-5
    assert summary["privacy"]["seeded"] is True
    assert summary["source"]["oddities"] == {"zero-size box": 2}
    assert summary["frames_measured"] == 11
    assert set(summary["reasons"]) == {"networks.detector_sha256", "networks.codec_sha256"}, "no real networks flew"


def test_protection_shows_in_the_eavesdroppers_scores_and_no_protection_does_not() -> None:
    eve = _summary(fake_log())["eavesdropper"]
    for score in ("ssim", "psnr_db", "ssim_sensitive", "psnr_sensitive_db"):
        assert eve["without_protection"][score] > eve["with_protection"][score], score
    assert eve["without_protection"]["ssim"] > eve["blind"]["ssim"]
    assert eve["sensitive_boxes_from"] == "truth"


def test_the_ground_knows_more_with_features_than_from_descriptors_alone() -> None:
    ground = _summary(fake_log())["ground"]
    received, prior = (ground[case]["category_accuracy"] for case in ("received", "descriptors_only"))
    assert ground["from_features"] == pytest.approx(received - prior)
    assert ground["without_protection"]["category_accuracy"] > received
    assert ground["accuracy_over"] == "all pixels"
    assert 0.005 < ground["location_error"] < 0.08


def test_unprotected_features_meet_the_snr_that_the_eavesdropper_had() -> None:
    log = fake_log(4, lost=())
    seen: list[np.ndarray] = []

    def attacker(features: np.ndarray) -> np.ndarray:
        seen.append(features)
        return fake_attacker(features)

    for frame in log.frames:
        frame.eve_snr_db = 3.0
    FlightMeter(attacker, None, np.random.default_rng(1)).measure(log)
    sent = [features for features in seen if features.any()]
    errors = [received - frame.raw_features for received, frame in zip(sent, log.frames, strict=True)]
    power = np.mean([np.mean(frame.raw_features**2) for frame in log.frames])
    assert 10 * np.log10(power / np.mean(np.square(errors))) == pytest.approx(3.0, abs=0.1)


def test_without_annotations_what_needs_them_is_null_with_a_reason() -> None:
    summary = _summary(fake_log(truth=False))
    assert summary["ground"]["category_accuracy"] is None
    assert summary["reasons"]["ground.category_accuracy"] == "no annotations"
    assert summary["eavesdropper"]["with_protection"]["ssim"] is not None
    assert summary["eavesdropper"]["sensitive_boxes_from"] == "detections"


def test_with_boxes_only_accuracy_is_inside_them_and_iou_is_null() -> None:
    log = fake_log()
    for frame in log.frames:
        frame.truth_mask = None
    ground = _summary(log)["ground"]
    assert ground["accuracy_over"] == "pixels inside annotated boxes"
    assert ground["category_accuracy"] > 0.2
    assert ground["received"]["mean_iou"] is None


def test_a_flight_without_people_has_no_score_inside_their_boxes() -> None:
    log = fake_log(3, lost=())
    for frame in log.frames:
        frame.truth_objects = frame.truth_objects[:1]
    summary = _summary(log)
    assert summary["eavesdropper"]["with_protection"]["ssim_sensitive"] is None
    assert "no pedestrian" in summary["reasons"]["eavesdropper.with_protection.ssim_sensitive"]


def test_without_networks_the_log_is_still_summarized() -> None:
    summary = _summary(fake_log(), attacker=None, decoder=None)
    assert summary["eavesdropper"]["with_protection"]["ssim"] is not None
    assert summary["eavesdropper"]["without_protection"]["ssim"] is None
    assert summary["ground"]["descriptors_only"]["category_accuracy"] is None
    assert "eavesdropper.without_protection.ssim" in summary["reasons"]


def _no_frames() -> FlightLog:
    return FlightLog(FlightConfig(), "nothing", 10.0)


def _nothing_released() -> FlightLog:
    log = FlightLog(FlightConfig(), "held back", 10.0)
    log.frames = [FrameLog(0, 1, image=np.zeros((40, 60, 3), np.uint8), dropped="no budget")]
    log.counts.update(frames_in=1, perceived=1, wall_s=0.5)
    return log


@pytest.mark.parametrize("log", [_no_frames(), _nothing_released()])
def test_a_flight_that_came_to_nothing_is_valid_json_with_reasons(log: FlightLog, tmp_path: Path) -> None:
    summary = _summary(log)
    write_metrics(tmp_path / "metrics.json", summary)
    read = json.loads((tmp_path / "metrics.json").read_text())
    assert read["eavesdropper"]["with_protection"]["ssim"] is None
    assert read["privacy"]["spent"]["mission"]["epsilon"] is None
    assert read["reasons"]["privacy.spent.mission.epsilon"] == "nothing was released"
    assert all(np.isfinite(_numbers(read)))


def test_an_unbounded_epsilon_is_null_and_said_so() -> None:
    log = fake_log(3, lost=())
    for frame in log.frames:
        frame.record = replace(frame.record, spent_cell_epsilon=float("inf"))
    summary = _summary(log)
    assert summary["privacy"]["spent"]["cell"]["epsilon"] is None
    assert "unbounded" in summary["reasons"]["privacy.spent.cell.epsilon"]


def test_where_places_follow_tracks_a_track_is_a_unit_of_its_own() -> None:
    log = fake_log(3)
    assert list(_summary(log)["privacy"]["spent"]) == ["cell", "object", "frame", "mission"]
    for frame in log.frames:
        if frame.record:
            frame.record = replace(frame.record, location_mode="predictive", spent_track_epsilon=2.5)
    summary = _summary(log)
    assert list(summary["privacy"]["spent"]) == ["cell", "object", "frame", "track", "mission"]
    assert summary["privacy"]["spent"]["track"] == {"epsilon": 2.5, "delta": 1e-5}
    assert ("track: one tracked object in all frames", "2.50", "1e-5") in _privacy(summary).rows
    assert "track 2.50" in dict(terminal_lines(summary))["spent"]


def test_options_are_those_of_the_flight_even_where_its_last_frame_was_empty() -> None:
    log = fake_log(3)
    flown = [frame for frame in log.frames if frame.record]
    for frame, paid in zip(flown, (1.5, 0.0), strict=False):
        frame.record = replace(frame.record, label_epsilon=paid, size_epsilon=2 * paid, count_epsilon=0.5)
    privacy = _summary(log)["privacy"]
    assert (privacy["label_epsilon"], privacy["size_epsilon"], privacy["count_epsilon"]) == (1.5, 3.0, 0.5)


def test_pixels_in_ignored_regions_do_not_count() -> None:
    frame = fake_log(1, lost=()).frames[0]
    frame.truth_ignored = np.array([[0.0, 0.0, 0.5, 1.0]])
    labels, kind = truth_labels(frame)
    assert kind == "masks"
    assert (labels[:, :80] == UNLABELLED).all() and (labels[:, 80:] != UNLABELLED).all()


def test_location_error_pairs_equal_numbers_only() -> None:
    frame = fake_log(1, lost=()).frames[0]
    frame.ground_objects = frame.percept_objects.copy()
    frame.ground_objects["x"] += 0.1
    assert location_error(frame) == pytest.approx(0.1, abs=1e-6)
    frame.ground_objects = frame.ground_objects[:1]
    assert location_error(frame) is None


def test_location_error_of_shuffled_and_padded_objects_pairs_equal_sizes() -> None:
    frame = fake_log(1, lost=()).frames[0]
    rng = np.random.default_rng(5)
    frame.percept_objects = scene.make_objects(rng.random((40, 2)), rng.uniform(0.02, 0.1, (40, 2)), np.zeros(40, int))
    twins = frame.percept_objects[:2]
    twins["w"], twins["h"] = 0.5, 0.5
    dummies = scene.make_objects(rng.random((9, 2)), rng.uniform(0.02, 0.1, (9, 2)), np.zeros(9, int))
    received = np.concatenate([frame.percept_objects[:35], dummies])
    received["x"] += 0.02
    received["x"][:2] = 0.0  # which of the twins is which cannot be told
    frame.ground_objects = rng.permutation(received)
    frame.record = replace(frame.record, order_shuffled=True, count_epsilon=1.0)
    assert location_error(frame) == pytest.approx(0.02, abs=1e-6)
    frame.record = replace(frame.record, size_epsilon=1.0)
    assert location_error(frame) is None


def test_frames_to_show_are_complete_peopled_and_spread_out() -> None:
    log = fake_log(30)
    log.frames[0].truth_objects = scene.no_objects()
    shown = [frame.index for frame in frames_to_show(log, 4)]
    assert len(shown) == 4 and shown[-1] == 29 and 0 not in shown and 5 not in shown
    assert min(np.diff(shown)) > 5
    assert frames_to_show(_no_frames()) == []


def test_measures_do_not_depend_on_the_number_of_threads() -> None:
    log = fake_log()
    one, three = (
        summarize(log, FlightMeter(fake_attacker, fake_decoder, np.random.default_rng(0), workers=workers).measure(log))
        for workers in (1, 3)
    )
    assert one == three


def test_what_was_measured_before_an_interruption_is_kept() -> None:
    log, measures = fake_log(10, lost=()), FlightMeasures()

    def stop_after_three() -> None:
        if len(measures.frames) == 3:
            raise KeyboardInterrupt

    meter = FlightMeter(fake_attacker, fake_decoder, np.random.default_rng(0))
    with pytest.raises(KeyboardInterrupt):
        meter.measure(log, stop_after_three, measures)
    assert [frame.index for frame in measures.frames] == [0, 1, 2]
    assert summarize(log, measures)["frames_measured"] == 3


def test_unprotected_pictures_are_kept_only_where_asked_for() -> None:
    assert set(_measure(fake_log(), keep=(2, 3)).unprotected) == {2, 3}
