"""What can be flown, and what is refused in one line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from uav_privacy_sc.data.sources import START_NS, SourceError, open_source
from uav_privacy_sc.scene import OBJECT_CLASSES

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")


def _picture(value: int = 120, size: tuple[int, int] = (40, 60)) -> Image.Image:
    pixels = np.random.default_rng(value).integers(0, 255, (*size, 3), np.uint8)
    pixels[..., 0] = value
    return Image.fromarray(pixels)


def _folder(path: Path, names: tuple[str, ...]) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names):
        _picture(10 * number).save(path / name)
    return path


def test_pictures_come_in_natural_order_as_rgb_with_stamps(tmp_path: Path) -> None:
    source = open_source(_folder(tmp_path / "flight", ("10.png", "2.png", "1.PNG")), rate_hz=4.0)
    frames = list(source)
    assert (source.name, source.length, source.rate_hz) == ("flight", 3, 4.0)
    assert [int(frame.image[0, 0, 0]) for frame in frames] == [20, 10, 0]
    assert [frame.stamp_ns - START_NS for frame in frames] == [0, 250_000_000, 500_000_000]
    assert all(frame.truth is None and frame.error is None for frame in frames)


def test_a_limit_of_frames_holds_for_length_and_iteration(tmp_path: Path) -> None:
    source = open_source(_folder(tmp_path / "f", ("1.png", "2.png", "3.png")), max_frames=2)
    assert source.length == len(list(source)) == 2


@pytest.mark.parametrize("damage", ["truncated", "text", "empty"])
def test_a_broken_picture_in_the_middle_is_yielded_with_its_reason(tmp_path: Path, damage: str) -> None:
    folder = _folder(tmp_path / "f", ("1.jpg", "2.jpg", "3.jpg"))
    whole = (folder / "2.jpg").read_bytes()
    content = {"truncated": whole[: len(whole) // 2], "text": b"no image at all", "empty": b""}[damage]
    (folder / "2.jpg").write_bytes(content)
    frames = list(open_source(folder))
    assert [frame.image is None for frame in frames] == [False, True, False]
    assert frames[1].error is not None and frames[1].error.startswith("2.jpg: ") and "\n" not in frames[1].error
    assert frames[2].index == 2


def _one_line(spec: object, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        list(open_source(spec, **options))
    message = str(caught.value)
    assert message and "\n" not in message
    return message


@pytest.mark.parametrize("first", ["uav_privacy_sc.data.images", "uav_privacy_sc.perception, ultralytics"])
def test_a_broken_picture_stays_one_whatever_ultralytics_does_to_pillow(first: str) -> None:
    lines = (
        f"import {first}",
        "import uav_privacy_sc.perception, ultralytics",
        "from uav_privacy_sc.data.images import ImageError, decode_image",
        "try: decode_image(b'nonsense')",
        "except ImageError as error: print(error)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("it is no image in a known format\n"), done.stderr
    assert "attempting AutoUpdate" not in done.stdout + done.stderr


def test_bad_sources_are_refused_by_name(tmp_path: Path) -> None:
    assert "nowhere" in _one_line(tmp_path / "nowhere")
    (tmp_path / "void").mkdir()
    assert "void is empty" in _one_line(tmp_path / "void")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("hello")
    assert "holds no picture" in _one_line(tmp_path / "notes")
    assert "a.txt is no image, video or rosbag2" in _one_line(tmp_path / "notes" / "a.txt")
    (tmp_path / "fake.jpg").write_text("hello")
    assert "fake.jpg is no picture" in _one_line(tmp_path / "fake.jpg")
    (tmp_path / "fake.mp4").write_text("hello")
    assert "fake.mp4 is no video" in _one_line(tmp_path / "fake.mp4")
    (tmp_path / "old.bag").write_text("#ROSBAG V2.0")
    assert "rosbags-convert" in _one_line(tmp_path / "old.bag")
    assert "no such source" in _one_line("")


def test_a_camera_that_is_not_there_is_one_line_and_opencv_adds_none(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SourceError, match="device:99"):
        open_source("device:99")
    assert capfd.readouterr().err.strip() == ""


def test_a_topic_is_refused_where_there_is_no_bag() -> None:
    with pytest.raises(SourceError, match="topic is '/image', but synthetic is no bag"):
        open_source("synthetic", topic="/image")


def test_a_folder_without_one_readable_picture_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_text("x")
    (tmp_path / "b.png").write_text("y")
    assert "none of the 2 pictures" in _one_line(tmp_path)


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, rate: float) -> None:
    assert "rate is" in _one_line(_folder(tmp_path, ("1.png",)), rate_hz=rate)


def test_other_arguments_out_of_range_are_refused(tmp_path: Path) -> None:
    folder = _folder(tmp_path, ("1.png",))
    assert "frames is 0" in _one_line(folder, max_frames=0)
    assert "synthetic:x" in _one_line("synthetic:x")
    assert "device:-1" in _one_line("device:-1")


def test_sixteen_bit_grey_keeps_its_upper_byte(tmp_path: Path) -> None:
    grey = np.array([[0x1234, 0xFF00], [0x00FF, 0x8000]], np.uint16)
    cv2.imwrite(str(tmp_path / "grey.png"), grey)
    (frame,) = open_source(tmp_path / "grey.png")
    assert frame.image.tolist() == [[[0x12] * 3, [0xFF] * 3], [[0] * 3, [0x80] * 3]]


def test_a_visdrone_det_folder_gives_objects_masks_and_counts_oddities(tmp_path: Path) -> None:
    _folder(tmp_path / "images", ("a.png", "b.png"))
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.txt").write_text("6,4,12,8,1,4,0,0,\n0,0,5,0,1,1,0,0\n0,0,6,4,0,0,0,0\n")
    (tmp_path / "masks").mkdir()
    Image.fromarray(np.full((40, 60), 3, np.uint8)).save(tmp_path / "masks" / "a.png")
    source = open_source(tmp_path)
    first, second = list(source)
    assert source.kind == "visdrone-det"
    assert first.truth.objects["x"][0] == pytest.approx(0.2)
    assert first.truth.mask.shape == (40, 60) and (first.truth.mask == 3).all()
    np.testing.assert_allclose(first.truth.ignored, [[0, 0, 0.1, 0.1]])
    assert second.truth is None
    assert source.oddities == {
        "trailing comma": 1,
        "zero-size box": 1,
        "ignored region (category 0)": 1,
        "picture without annotations": 1,
    }
    assert open_source(tmp_path / "images").kind == "visdrone-det"


def test_a_visdrone_vid_folder_matches_rows_to_frames_by_number(tmp_path: Path) -> None:
    _folder(tmp_path / "sequences" / "s1", ("0000001.png", "0000002.png"))
    _folder(tmp_path / "sequences" / "s2", ("0000001.png",))
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "s1.txt").write_text("2,5,6,4,12,8,1,1,0,0\n2,6,6,4,12,8,1,9,0,0\n")
    source = open_source(tmp_path)
    assert source.kind == "visdrone-vid" and source.name == "s1"
    assert "2 sequences" in source.notes[0]
    assert [len(frame.truth.objects) for frame in source] == [0, 2]
    other = open_source(tmp_path / "sequences" / "s2")
    assert [frame.truth for frame in other] == [None]


def test_au_air_classes_become_visdrone_classes(tmp_path: Path) -> None:
    _folder(tmp_path / "images", ("a.png",))
    box = {"left": 6, "top": 4, "width": 12, "height": 8}
    entry = {"image_name": "a.png", "image_width": 60.0, "image_height": 40.0}
    entry["bbox"] = [{**box, "class": 0}, {**box, "class": 1}, {**box, "class": 2}]
    content = {"categories": ["Human", "Motorbike", "Trailer"], "annotations": [entry]}
    (tmp_path / "annotations.json").write_text(json.dumps(content))
    source = open_source(tmp_path)
    (frame,) = source
    assert [OBJECT_CLASSES[label] for label in frame.truth.objects["label"]] == ["pedestrian", "motor"]
    assert source.oddities == {"category 11 (others)": 1}
    (tmp_path / "annotations.json").write_text("{")
    assert "AU-AIR" in _one_line(tmp_path)


def test_a_damaged_annotation_costs_the_truth_not_the_frame(tmp_path: Path) -> None:
    _folder(tmp_path / "images", ("a.png",))
    (tmp_path / "annotations").mkdir()
    (tmp_path / "annotations" / "a.txt").write_bytes(b"\xff\xfe\x00\x81")
    source = open_source(tmp_path)
    (frame,) = source
    assert frame.image is not None and frame.truth is None
    assert source.oddities == {"unreadable annotations": 1}


def _video(path: Path, frames: int, rate: float = 12.0) -> Path:
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"MJPG"), rate, (64, 48))
    for number in range(frames):
        writer.write(np.full((48, 64, 3), (0, 0, 20 * number), np.uint8))
    writer.release()
    return path


def test_a_video_gives_rgb_frames_at_its_own_rate(tmp_path: Path) -> None:
    with open_source(_video(tmp_path / "v.avi", 5)) as source:
        frames = list(source)
    assert (source.length, source.rate_hz) == (5, pytest.approx(12.0))
    assert [round(frame.image[..., 0].mean() / 20) for frame in frames] == [0, 1, 2, 3, 4]
    assert frames[4].image[..., 2].mean() < 10
    assert frames[1].stamp_ns - frames[0].stamp_ns == pytest.approx(1e9 / 12, abs=2)


def test_a_video_cut_short_gives_what_it_has_and_says_how_much_is_missing(tmp_path: Path) -> None:
    path = _video(tmp_path / "v.avi", 40)
    data = path.read_bytes()
    index = data.rfind(b"idx1")
    path.write_bytes(data[: data.find(b"movi") + (index - data.find(b"movi")) // 2] + data[index:])
    frames = list(open_source(path))
    assert sum(frame.image is not None for frame in frames) >= 10
    assert frames[-1].error is None or "early" in frames[-1].error


@needs_shared
def test_the_shared_flights_open(tmp_path: Path) -> None:
    for name, kind, number in (("visdrone_sample", "visdrone-det", 4), ("auair/images", "au-air", 27)):
        source = open_source(SHARED / name, max_frames=4)
        frames = list(source)
        assert source.kind == kind and len(frames) == min(number, 4)
        assert all(frame.image is not None and frame.truth is not None for frame in frames)
        assert sum(len(frame.truth.objects) for frame in frames) > 0


@needs_shared
def test_official_pictures_with_odd_annotations_fly(tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    shutil.copytree(SHARED / "visdrone_odd", tmp_path / "annotations")
    for path in (SHARED / "visdrone_odd").glob("*.txt"):
        _picture(size=(1080, 1920)).save(tmp_path / "images" / f"{path.stem}.jpg")
    source = open_source(tmp_path)
    assert all(frame.error is None and len(frame.truth.objects) for frame in source)
    assert source.oddities["trailing comma"] == 34
