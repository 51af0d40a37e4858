"""Training folders: every layout keeps its boxes in place, what is odd is counted, what is unknown is not taught."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.data.flights import write_flight  # noqa: E402
from uav_privacy_sc.data.sources import SourceError  # noqa: E402
from uav_privacy_sc.perception.training import samples as samples_module  # noqa: E402
from uav_privacy_sc.perception.training.progress import lines  # noqa: E402
from uav_privacy_sc.perception.training.samples import (  # noqa: E402
    UNKNOWN,
    DatasetError,
    load_samples,
    paint_boxes,
)
from uav_privacy_sc.perception.training.survey import holds_pictures, survey  # noqa: E402

SHARED = Path(__file__).parents[2] / "shared" / "data"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not beside the project")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "LONG_SIDE", 64)


def frame(number: int, label: int = 3, mask: bool = True) -> SimpleNamespace:
    """A dark picture with one bright object."""
    image, drawn = np.full((64, 64, 3), 20, np.uint8), np.full((64, 64), 13, np.uint8)
    image[16:32, 8:40], drawn[16:32, 8:40] = 230, label
    objects = scene.make_objects([[24 / 64, 24 / 64]], [[32 / 64, 16 / 64]], [label])
    one = np.ones(1, np.int64)
    return SimpleNamespace(
        image=image, objects=objects, mask=drawn, ids=one * number, truncation=0 * one, occlusion=0 * one
    )


def det(folder: Path, annotations: dict[str, str], size: tuple[int, int] = (64, 64)) -> Path:
    """A DET folder of grey pictures with the annotation text given for each; none for an empty name."""
    for name in ("images", "annotations"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, text in annotations.items():
        Image.fromarray(np.full((size[1], size[0], 3), 200, np.uint8)).save(folder / "images" / f"{name}.png")
        if text != "-":
            (folder / "annotations" / f"{name}.txt").write_text(text)
    return folder


def test_rendered_flights_come_with_their_masks(tmp_path: Path) -> None:
    write_flight(tmp_path, [frame(1), frame(2)], "street", "det")
    found = load_samples(tmp_path)
    assert found.images.shape == (2, 64, 64, 3)
    assert found.masks is not None and (found.masks[0, 4:8, 2:10] == 3).all() and (found.masks[0, 9:] == 13).all()
    assert found.origin.layout == "visdrone-det" and found.origin.masks == {"drawn": 2}
    assert load_samples(tmp_path, masks=False).masks is None


def test_sequences_are_taken_every_so_manieth_picture(tmp_path: Path) -> None:
    for name, count in (("first", 7), ("second", 4)):
        write_flight(tmp_path, [frame(k, label=k) for k in range(count)], name, "vid")
    found = load_samples(tmp_path, stride=3)
    assert [int(objects["label"][0]) for objects in found.objects] == [0, 3, 6, 0, 3]
    assert found.origin.taken == {"sequences": 2, "stride": 3}
    assert found.masks is not None and found.masks[1, 5, 5] == 3, "each picture has the mask of its own number"
    fewer = load_samples(tmp_path, stride=1, limit=4)
    assert [int(objects["label"][0]) for objects in fewer.objects] == [0, 2, 5, 1], "evenly over both sequences"


def test_au_air_is_read_with_visdrones_classes() -> None:
    if not SHARED.is_dir():
        pytest.skip("../shared/data is not beside the project")
    found = load_samples(SHARED / "auair", limit=3)
    assert found.origin.layout == "au-air" and len(found) == 3
    assert set(found.classes()) <= set(scene.OBJECT_CLASSES)
    assert found.origin.masks == {"painted from boxes": 3}


def test_every_oddity_is_counted_and_told_and_the_rest_is_kept(tmp_path: Path) -> None:
    rows = [
        "8,8,16,16,1,4,0,0,",
        "1,2,3",
        "1,7,1,2,3,4,1,4,0,0",
        "70,1,9,9,1,4,0,0",
        "1,1,9,9,1,14,0,0",
        "1,1,0,9,1,4,0,0",
    ]
    folder = det(tmp_path, {"a": "\n".join(rows), "b": "8,8,8,8,1,1,0,0", "c": "-"})
    (folder / "images" / "d.jpg").write_text("no picture")
    found = load_samples(folder)
    assert len(found) == 2 and found.classes() == {"pedestrian": 1, "car": 1}
    assert found.origin.set_aside == {
        "box outside the image": 1,
        "picture without annotations": 1,
        "too few fields": 1,
        "too many fields": 1,
        "trailing comma": 1,
        "unknown category": 1,
        "unreadable picture": 1,
        "zero-size box": 1,
    }
    assert "unreadable picture 1" in "\n".join(lines(found))


def test_what_is_not_to_be_counted_is_greyed_out_but_for_what_is_annotated_in_it(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "0,0,32,64,0,0,0,0\n8,8,8,8,1,4,0,0\n48,0,16,16,0,5,0,0"})
    found, whole = load_samples(folder), load_samples(folder, blank=False)
    image = found.images[0]
    assert (image[40, 10] == 114).all() and (image[4, 60] == 114).all(), "region and box of score 0"
    assert (image[12, 12] == 200).all() and (image[40, 40] == 200).all(), "the annotated car, and what lies outside"
    assert (whole.images[0] == 200).all() and len(whole.ignored[0]) == 2
    assert len(found.objects[0]) == 1


def test_pictures_of_differing_sizes_keep_their_boxes(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "16,16,16,16,1,4,0,0"})
    det(folder, {"b": "32,32,32,32,1,4,0,0"}, (128, 128))
    det(folder, {"c": "0,0,100,50,1,4,0,0"}, (200, 50))
    found = load_samples(folder)
    boxes = [scene.corners(objects)[0] for objects in found.objects]
    np.testing.assert_allclose(boxes[0], [0.25, 0.25, 0.5, 0.5], atol=1e-6)
    np.testing.assert_allclose(boxes[1], boxes[0], atol=1e-6)
    np.testing.assert_allclose(boxes[2], [0, 0, 0.5, 0.25], atol=1e-6)
    assert (found.images[2, 16:] == 114).all() and (found.images[2, :16] == 200).all(), "fitted in, not stretched 4:1"
    assert found.origin.set_aside == {"picture of another shape, fitted in with grey": 1}


def test_most_pictures_decide_the_size_and_tiny_ones_are_counted(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "0,0,1,1,1,4,0,0"}, (1, 1))
    det(folder, {"b": "8,8,8,8,1,4,0,0"}, (64, 64))
    det(folder, {"c": "8,8,8,8,1,4,0,0", "d": "8,8,8,8,1,4,0,0"}, (128, 64))
    found = load_samples(folder)
    assert found.images.shape == (3, 32, 64, 3), "neither that of the first nor that of the first that is large enough"
    assert found.origin.set_aside["picture of less than 16 pixels a side"] == 1
    assert found.origin.set_aside["picture of another shape, fitted in with grey"] == 1
    det(folder, {"e": "8,8,8,8,1,4,0,0"}, (64, 64))
    assert load_samples(folder).images.shape == (4, 64, 64, 3), "of two as frequent the larger"
    (folder / "images" / "f.png").write_bytes(b"no picture")
    assert load_samples(folder).origin.set_aside["unreadable picture"] == 1


def test_a_picture_turned_by_its_camera_counts_as_it_is_seen(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "8,8,8,8,1,4,0,0"}, (64, 128))
    turned = Image.Exif()
    turned[0x0112] = 6
    Image.fromarray(np.full((64, 128, 3), 200, np.uint8)).save(folder / "images" / "a.png", exif=turned)
    found = load_samples(folder)
    assert found.images.shape == (1, 64, 32, 3) and not found.origin.set_aside


def test_numbers_that_no_array_holds_are_counted_and_the_folder_is_read(tmp_path: Path) -> None:
    rows = ["8,8,16,16,1,4,0,0", "10,10,20,20,1,1e30,0,0", "10,10,20,20,1e19,1,0,0", "1e308,1,1e308,2,1,4,0,0"]
    folder = det(tmp_path, {"a": "\n".join([*rows, "10,10,20,20,1,4.7,0,0"])})
    found, (alone, _) = load_samples(folder), survey(folder / "annotations")
    assert found.classes() == alone["objects_by_class"] == {"car": 1}
    assert found.origin.set_aside == alone["set_aside"] == {"not a number": 3, "not a whole number": 1}


def test_annotations_beside_damaged_pictures_are_read_by_what_is_advised(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "8,8,8,8,1,4,0,0"})
    (folder / "images" / "a.png").write_bytes(b"damaged")
    with pytest.raises(DatasetError, match=r"can be read \(a.png: .*\); annotations alone .* --data (.*)$") as refused:
        load_samples(folder)
    advised = Path(str(refused.value).rsplit(" --data ", 1)[1])
    assert not holds_pictures(advised) and survey(advised)[0]["objects"] == 1


def test_painted_masks_know_nothing_outside_boxes_and_put_small_over_large() -> None:
    objects = scene.make_objects([[0.5, 0.5], [0.5, 0.5]], [[0.25, 0.25], [0.5, 0.5]], [0, 3])
    mask = paint_boxes(objects, (16, 16))
    assert mask[8, 8] == 0 and mask[5, 5] == 3 and mask[0, 0] == UNKNOWN


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"memory_gb": 2.6e-5}, r"need 3.7e-05 GB, above the limit of 2.6e-05 GB; take fewer by --limit 2"),
        ({"limit": 0}, "limit=0 must be at least 1"),
        ({"stride": -1}, "stride=-1"),
    ],
)
def test_too_much_and_nonsense_is_refused(tmp_path: Path, options: dict, message: str) -> None:
    folder = det(tmp_path, {name: "8,8,8,8,1,1,0,0" for name in "abc"})
    with pytest.raises(DatasetError, match=message):
        load_samples(folder, **options)


def test_folders_that_teach_nothing_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="is no folder"):
        load_samples(tmp_path / "nowhere")
    with pytest.raises(DatasetError, match="is empty"):
        load_samples(tmp_path)
    vid_rows = det(tmp_path / "wrong", {"a": "1,7,1,2,3,4,1,4,0,0"})
    with pytest.raises(DatasetError, match="no object in 1 pictures .*too many fields: 1"):
        load_samples(vid_rows)
    bare = tmp_path / "bare"
    bare.mkdir()
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(bare / "a.png")
    with pytest.raises(DatasetError, match="no annotations/"):
        load_samples(bare)


def test_a_mask_with_unknown_classes_is_refused(tmp_path: Path) -> None:
    folder = det(tmp_path, {"a": "8,8,8,8,1,1,0,0"})
    (folder / "masks").mkdir()
    Image.fromarray(np.full((64, 64), 99, np.uint8)).save(folder / "masks" / "a.png")
    with pytest.raises(DatasetError, match="a mask holds 99"):
        load_samples(folder)


def test_another_picture_or_box_is_another_fingerprint(tmp_path: Path) -> None:
    write_flight(tmp_path / "a", [frame(1), frame(2)], "street", "det")
    write_flight(tmp_path / "b", [frame(1), frame(2, label=5)], "street", "det")
    first, second = load_samples(tmp_path / "a"), load_samples(tmp_path / "b")
    assert first.fingerprint() == load_samples(tmp_path / "a").fingerprint() != second.fingerprint()
    assert first.describe()["name"] == "a" and str(tmp_path) not in str(first.describe())


@needs_shared
def test_the_official_odd_files_are_counted_without_their_pictures() -> None:
    found, told = survey(SHARED / "visdrone_odd")
    assert not holds_pictures(SHARED / "visdrone_odd") and holds_pictures(SHARED / "visdrone_sample")
    assert found["files"] == 4 and found["objects"] == 290
    assert found["set_aside"] == {"ignored region (category 0)": 10, "trailing comma": 34, "zero-size box": 3}
    assert "trailing comma 34" in told[1]
    with pytest.raises(DatasetError, match="train check --data"):
        load_samples(SHARED / "visdrone_odd")


def test_a_survey_tells_vid_rows_from_det_rows(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1,7,1,2,3,4,1,4,0,0\n" * 3 + "1,2,3,4,1,4,0,0\n")
    (tmp_path / "b.txt").write_bytes(b"\xff\xfe\x00\x81")
    found, _ = survey(tmp_path)
    assert found["layout"] == "visdrone-vid" and found["objects"] == 3
    assert found["set_aside"] == {"too few fields": 1, "unreadable annotations": 1}
    (tmp_path / "none").mkdir()
    with pytest.raises(DatasetError, match="neither pictures nor annotation files"):
        survey(tmp_path / "none")


def test_an_annotation_file_that_is_no_text_stops_a_sequence_by_name(tmp_path: Path) -> None:
    write_flight(tmp_path, [frame(1)], "street", "vid")
    (tmp_path / "annotations" / "street.txt").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises((DatasetError, SourceError), match=r"street\.txt.*not a text file"):
        load_samples(tmp_path)
