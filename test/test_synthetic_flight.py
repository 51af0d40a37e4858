"""Synthetic flights: the same from the same seed, and picture, boxes, masks and identities agree."""

from __future__ import annotations

import time

import cv2
import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.data.flights import write_flight
from uav_privacy_sc.data.sources import open_source
from uav_privacy_sc.data.synthetic import FlightStyle, SyntheticFlight
from uav_privacy_sc.data.synthetic.bodies import MAKERS
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.dataset import render_dataset


@pytest.fixture(scope="module")
def flight() -> SyntheticFlight:
    return SyntheticFlight(seed=11, frames=30)


def test_same_seed_same_flight_and_another_seed_another(flight: SyntheticFlight) -> None:
    again = SyntheticFlight(seed=11, frames=30)[12]
    frame = flight[12]
    assert np.array_equal(frame.image, again.image)
    assert np.array_equal(frame.mask, again.mask)
    assert np.array_equal(frame.objects, again.objects)
    assert not np.array_equal(frame.image, SyntheticFlight(seed=12, frames=30)[12].image)


def test_frames_have_the_promised_shapes(flight: SyntheticFlight) -> None:
    frame = flight[0]
    assert frame.image.shape == (540, 960, 3) and frame.image.dtype == np.uint8
    assert frame.mask.shape == (540, 960) and frame.mask.max() < len(scene.MASK_CLASSES)
    assert frame.objects.dtype == scene.OBJECT_DTYPE
    assert len(frame.objects) == len(frame.ids) == len(frame.truncation) == len(frame.occlusion)
    corners = scene.corners(frame.objects)
    assert corners.min() >= -1e-6 and corners.max() <= 1 + 1e-6
    assert set(frame.truncation) <= {0, 1} and set(frame.occlusion) <= {0, 1, 2}


def test_every_box_holds_pixels_of_its_class_and_alone_it_is_tight(flight: SyntheticFlight) -> None:
    frame = flight[5]
    pixels = np.round(scene.corners(frame.objects) * [960, 540, 960, 540]).astype(int)
    alone = 0
    for k, (x1, y1, x2, y2) in enumerate(pixels):
        inside = frame.mask[y1:y2, x1:x2] == frame.objects["label"][k]
        assert inside.any()
        others = np.delete(pixels, k, axis=0)
        apart = (others[:, 0] > x2) | (others[:, 2] < x1) | (others[:, 1] > y2) | (others[:, 3] < y1)
        if frame.occlusion[k] == 0 and apart.all():
            alone += 1
            rows, columns = np.flatnonzero(inside.any(1)), np.flatnonzero(inside.any(0))
            assert rows[0] <= 3 and rows[-1] >= inside.shape[0] - 4
            assert columns[0] <= 3 and columns[-1] >= inside.shape[1] - 4
    assert alone >= 3


def test_identities_stay_and_move_with_the_camera(flight: SyntheticFlight) -> None:
    first, later = flight[4], flight[5]
    shared, here, there = np.intersect1d(first.ids, later.ids, return_indices=True)
    assert len(shared) > 10
    assert len(np.unique(first.ids)) == len(first.ids)
    assert np.array_equal(first.objects["label"][here], later.objects["label"][there])
    step = np.linalg.norm(scene.centers(first.objects[here]) - scene.centers(later.objects[there]), axis=1)
    assert 0 < np.median(step) < 0.05


def test_all_classes_and_all_kinds_of_ground_occur() -> None:
    labels, values = set[int](), set[int]()
    for seed in range(20, 32):
        frame = SyntheticFlight(seed=seed, frames=1, width=480, height=270)[0]
        labels |= set(frame.objects["label"].tolist())
        values |= set(np.unique(frame.mask).tolist())
    assert labels == set(range(len(scene.OBJECT_CLASSES)))
    assert values == set(range(len(scene.MASK_CLASSES)))


def test_some_objects_are_occluded_and_some_are_cut_by_the_edge() -> None:
    frames = [SyntheticFlight(seed=seed, frames=1)[0] for seed in range(40, 48)]
    assert any((frame.occlusion > 0).any() for frame in frames)
    assert any((frame.truncation > 0).any() for frame in frames)


def test_bodies_have_the_sizes_of_their_kind() -> None:
    rng = np.random.default_rng(3)
    lengths = [np.ptp(maker(rng).corners.reshape(-1, 3), axis=0)[0] for maker in MAKERS]
    named = dict(zip(scene.OBJECT_CLASSES, lengths, strict=True))
    assert named["pedestrian"] < 1.2 < named["bicycle"] < 2.2 < named["awning-tricycle"] < named["car"] < named["bus"]


def test_ground_homography_agrees_with_projection() -> None:
    camera = Camera(np.array([3.0, -4.0, 25.0]), 0.4, np.radians(55), 0.03, 700.0, 960, 540)
    point = np.array([12.0, 5.0])
    pixel, depth = camera.project(np.array([*point, 0.0]))
    mapped = camera.ground_homography() @ np.array([*point, 1.0])
    assert depth > 0
    assert np.allclose(mapped[:2] / mapped[2], pixel)


def test_what_lies_ahead_is_drawn_above_and_what_is_right_is_drawn_right() -> None:
    camera = Camera(np.array([0.0, 0.0, 30.0]), np.pi / 2, np.radians(60), 0.0, 700.0, 960, 540)  # looking north
    (middle, north, east), _ = camera.project(np.array([[0.0, 17, 0], [0, 22, 0], [4, 17, 0]]))
    assert north[1] < middle[1] and abs(north[0] - middle[0]) < 1e-6
    assert east[0] > middle[0]


def test_a_flight_renders_ten_frames_a_second_on_one_core() -> None:
    flight = SyntheticFlight(seed=7, frames=12)
    flight[0]
    cv2.setNumThreads(1)
    costs = []
    for index in range(1, 12):
        start = time.process_time()
        flight[index]
        costs.append(time.process_time() - start)
    assert np.median(costs) < 0.1


def test_written_flight_reads_back(tmp_path) -> None:
    flight = SyntheticFlight(seed=5, frames=2, width=320, height=180)
    write_flight(tmp_path, flight, "flight", layout="vid")
    frames = list(open_source(tmp_path))
    assert len(frames) == 2
    truth = frames[1].truth
    assert truth is not None and truth.mask is not None
    assert np.array_equal(truth.mask, flight[1].mask)
    assert truth.objects["label"].tolist() == flight[1].objects["label"].tolist()


def test_a_dataset_resumes_without_rendering_again(tmp_path) -> None:
    style = FlightStyle(density=(0.2, 0.2))
    assert render_dataset(tmp_path, 2, 1, seed=3, style=style) == 2
    pictures = sorted((tmp_path / "images").glob("*.jpg"))
    assert len(pictures) == 2
    stamps = [p.stat().st_mtime_ns for p in pictures]
    (tmp_path / "masks" / "flight000000004_0000001.png").unlink()
    render_dataset(tmp_path, 2, 1, seed=3, style=style)
    again = [p.stat().st_mtime_ns for p in pictures]
    assert again[0] == stamps[0] and again[1] > stamps[1]


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"frames": 0}, "frames"),
        ({"width": 10}, "width"),
        ({"rate_hz": float("nan")}, "rate_hz"),
        ({"seed": -1}, "seed"),
    ],
)
def test_parameters_out_of_range_are_named(options: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SyntheticFlight(**options)


def test_style_out_of_range_is_named() -> None:
    with pytest.raises(ValueError, match="pitch_deg"):
        FlightStyle(pitch_deg=(10.0, 40.0))


def test_a_frame_beyond_the_flight_is_refused(flight: SyntheticFlight) -> None:
    with pytest.raises(IndexError):
        flight[30]
