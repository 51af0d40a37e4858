"""VisDrone rows: what breaks parsers is counted, what is written reads back the same."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from uav_privacy_sc.data.flights import write_flight
from uav_privacy_sc.data.visdrone import (
    DET_FIELDS,
    VID_FIELDS,
    AnnotationError,
    FrameAnnotations,
    det_rows,
    frame_annotations,
    parse_rows,
    read_rows,
    vid_rows,
)
from uav_privacy_sc.scene import OBJECT_CLASSES, corners, make_objects

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")


def test_a_plain_det_row_is_read_in_normalized_coordinates() -> None:
    rows, oddities = parse_rows(["100,50,200,100,1,4,1,2"], DET_FIELDS)
    frame, aside = frame_annotations(rows, 1000, 500)
    assert not oddities and not aside
    assert OBJECT_CLASSES[frame.objects["label"][0]] == "car"
    np.testing.assert_allclose(corners(frame.objects)[0], [0.1, 0.1, 0.3, 0.3], atol=1e-6)
    assert (frame.truncation[0], frame.occlusion[0], frame.ids[0]) == (1, 2, -1)


def test_whole_numbers_may_be_written_with_a_point_and_boxes_may_have_fractions() -> None:
    rows, oddities = parse_rows(["3.0,17,0.5,0.25,10,10,1,4.0,0,0", "3.5,17,0,0,10,10,1,4,0,0"], VID_FIELDS)
    assert oddities == Counter({"not a whole number": 1})
    assert (rows["left"][0], rows["frame"][0], rows["category"][0]) == (0.5, 3, 4)


def test_a_vid_row_carries_frame_and_identity() -> None:
    rows, oddities = parse_rows(["3,17,0,0,10,10,1,1,0,0"], VID_FIELDS)
    assert not oddities
    assert (rows["frame"][0], rows["id"][0], rows["category"][0]) == (3, 17, 1)


@pytest.mark.parametrize(
    ("line", "oddity", "kept"),
    [
        ("1,2,3,4,1,4,0,0,", "trailing comma", 1),
        ("1,2,3,4,1,4,0", "too few fields", 0),
        ("1,7,1,2,3,4,1,4,0,0", "too many fields", 0),
        ("1,2,x,4,1,4,0,0", "not a number", 0),
        ("1,2,nan,4,1,4,0,0", "not a number", 0),
        ("1,2,,4,1,4,0,0", "not a number", 0),
        ("10,10,20,20,1,1e30,0,0", "not a number", 0),
        ("10,10,20,20,1e19,1,0,0", "not a number", 0),
        ("-1e308,10,1e308,20,1,4,0,0", "not a number", 0),
        ("10,10,20,20,1,4.7,0,0", "not a whole number", 0),
        ("10,10,20,20,1,-0.5,0,0", "not a whole number", 0),
        ("10,10,20,20,0.9,4,0,0", "not a whole number", 0),
    ],
)
def test_each_odd_line_is_counted_by_name(line: str, oddity: str, kept: int) -> None:
    rows, oddities = parse_rows(["", "5,5,5,5,1,1,0,0", line], DET_FIELDS)
    assert oddities == Counter({oddity: 1})
    assert len(rows) == 1 + kept


@pytest.mark.parametrize(
    ("line", "oddity", "objects"),
    [
        ("1,2,3,0,1,4,0,0", "zero-size box", 0),
        ("1,2,-3,4,1,4,0,0", "zero-size box", 0),
        ("120,2,30,40,1,4,0,0", "box outside the image", 0),
        ("90,2,30,40,1,4,0,0", "box clipped to the image", 1),
        ("-5,2,30,40,1,4,0,0", "box clipped to the image", 1),
        ("1,2,3,4,1,11,0,0", "category 11 (others)", 0),
        ("1,2,3,4,1,12,0,0", "unknown category", 0),
        ("1,2,3,4,0,4,0,0", "score 0", 0),
        ("1,2,3,4,0,0,0,0", "ignored region (category 0)", 0),
    ],
)
def test_each_odd_box_is_counted_by_name(line: str, oddity: str, objects: int) -> None:
    frame, oddities = frame_annotations(parse_rows([line], DET_FIELDS)[0], 100, 100)
    assert oddities == Counter({oddity: 1})
    assert len(frame.objects) == objects
    boxes = corners(frame.objects)
    assert (boxes >= 0).all() and (boxes <= 1).all()


def test_an_ignored_region_is_kept_as_a_region_not_as_an_object() -> None:
    frame, _ = frame_annotations(parse_rows(["10,20,30,40,0,0,0,0"], DET_FIELDS)[0], 100, 100)
    np.testing.assert_allclose(frame.ignored, [[0.1, 0.2, 0.4, 0.6]])


def test_an_unreadable_annotation_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnnotationError, match=r"missing\.txt"):
        read_rows(tmp_path / "missing.txt", DET_FIELDS)
    (tmp_path / "binary.txt").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(AnnotationError, match=r"binary\.txt.*not a text file"):
        read_rows(tmp_path / "binary.txt", DET_FIELDS)


boxes = st.tuples(st.integers(0, 90), st.integers(0, 90), st.integers(1, 10), st.integers(1, 10))
annotated = st.tuples(boxes, st.integers(1, 10), st.integers(0, 1), st.integers(0, 2), st.integers(0, 999))


@settings(max_examples=60, deadline=None)
@given(st.lists(annotated, max_size=8))
def test_what_is_written_is_what_is_read(annotations: list) -> None:
    lines = [f"4,{i},{','.join(map(str, box))},1,{c},{t},{o}" for box, c, t, o, i in annotations]
    rows, _ = parse_rows(lines, VID_FIELDS)
    frame, _ = frame_annotations(rows, 100, 100)
    assert vid_rows(frame, 4, 100, 100) == lines
    assert det_rows(frame, 100, 100) == [line.split(",", 2)[2] for line in lines]


def test_a_box_thinner_than_a_pixel_is_written_with_an_area() -> None:
    objects = make_objects(np.array([[1.0, 0.5]]), np.array([[1e-4, 1e-4]]), np.array([0]))
    frame = FrameAnnotations(objects, *(np.zeros(1, np.int64) for _ in range(3)))
    left, top, width, height = map(int, det_rows(frame, 100, 100)[0].split(",")[:4])
    assert width == height == 1 and left + width <= 100 and top + height <= 100


def _frame(number: int) -> SimpleNamespace:
    objects = make_objects(np.array([[0.25, 0.5]]), np.array([[0.1, 0.2]]), np.array([number]))
    image = np.full((20, 40, 3), 10 * number, np.uint8)
    one = np.ones(1, np.int64)
    mask = np.full((20, 40), number, np.uint8)
    return SimpleNamespace(image=image, objects=objects, mask=mask, ids=one, truncation=0 * one, occlusion=one)


@pytest.mark.parametrize("layout", ["det", "vid"])
def test_a_flight_is_written_in_the_layout_asked_for(tmp_path: Path, layout: str) -> None:
    assert write_flight(tmp_path, [_frame(1), _frame(2)], "street", layout) == 2
    found = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    if layout == "det":
        numbers = ("street_0000001", "street_0000002")
        expected = [f"{folder}/{n}.{end}" for folder, end in _DET for n in numbers]
    else:
        expected = ["annotations/street.txt"]
        expected += [f"{folder}/street/000000{n}.{end}" for folder, end in _VID for n in (1, 2)]
    assert found == sorted(expected)


_DET = (("annotations", "txt"), ("images", "jpg"), ("masks", "png"))
_VID = (("masks", "png"), ("sequences", "jpg"))


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"layout.*coco"):
        write_flight(tmp_path, [], "street", "coco")


@needs_shared
def test_the_official_odd_files_load() -> None:
    total: Counter[str] = Counter()
    objects = 0
    for path in sorted((SHARED / "visdrone_odd").glob("*.txt")):
        rows, found = read_rows(path, DET_FIELDS)
        frame, aside = frame_annotations(rows, 2000, 1500)
        total += found + aside
        objects += len(frame.objects)
    assert total["trailing comma"] == 34
    assert total["zero-size box"] >= 1
    assert total["ignored region (category 0)"] >= 2
    assert not {"too few fields", "too many fields", "not a number"} & set(total)
    assert objects > 200


@needs_shared
def test_the_official_validation_split_holds_the_published_number_of_objects() -> None:
    classes = Counter()
    for path in (SHARED / "visdrone_val" / "annotations").glob("*.txt"):
        rows, found = read_rows(path, DET_FIELDS)
        assert not found - Counter({"trailing comma": 10**9})
        frame, _ = frame_annotations(rows, 10_000, 10_000)
        classes.update(frame.objects["label"].tolist())
    assert sum(classes.values()) == 38_759
    assert classes[OBJECT_CLASSES.index("car")] == 14_064
