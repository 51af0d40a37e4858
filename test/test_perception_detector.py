"""Detectors of every make: files, classes, taps, runtimes, precision, tiles, checksums; nothing fails in silence."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.data.synthetic import SyntheticFlight  # noqa: E402
from uav_privacy_sc.data.synthetic.flight import FlightStyle  # noqa: E402
from uav_privacy_sc.perception import boxes, tiling  # noqa: E402
from uav_privacy_sc.perception.backends import METADATA, load_yolo, open_backend, split_engine  # noqa: E402
from uav_privacy_sc.perception.classes import COCO_CLASSES, DROPPED, UnknownClass, blind_to, label_map  # noqa: E402
from uav_privacy_sc.perception.codec import Codec  # noqa: E402
from uav_privacy_sc.perception.detector import Detector  # noqa: E402
from uav_privacy_sc.perception.device import require_half  # noqa: E402
from uav_privacy_sc.perception.stage import GroundDecoder, Perception  # noqa: E402
from uav_privacy_sc.perception.tap import Tap, tap_of  # noqa: E402
from uav_privacy_sc.perception.weights import WeightsError, checksum, locate_sound, shipped  # noqa: E402

CPU = torch.device("cpu")
DETECTOR = shipped("detector.pt")


@pytest.fixture(scope="module")
def picture() -> np.ndarray:
    return SyntheticFlight(seed=910, frames=1)[0].image


def save_network(path: Path, names: tuple[str, ...], config: str = "yolo11n.yaml", ending: Any = None) -> Path:
    """Write an untrained ultralytics network that knows ``names``."""
    from ultralytics.cfg import get_cfg
    from ultralytics.nn import tasks

    model = getattr(tasks, ending or "DetectionModel")(config, ch=3, nc=len(names), verbose=False)
    model.names, model.args = dict(enumerate(names)), get_cfg()
    torch.save({"model": model.half().eval(), "train_args": {"task": "detect"}}, path)
    return path


# Class lists


def test_class_lists_of_visdrone_in_any_order_and_of_coco_are_mapped_by_name() -> None:
    assert label_map(scene.OBJECT_CLASSES[::-1]).tolist() == list(range(9, -1, -1))
    labels = label_map(COCO_CLASSES)
    mapped = {COCO_CLASSES[k]: scene.OBJECT_CLASSES[label] for k, label in enumerate(labels) if label != DROPPED}
    assert mapped == {
        "person": "pedestrian",
        "bicycle": "bicycle",
        "car": "car",
        "motorcycle": "motor",
        "bus": "bus",
        "truck": "truck",
    }
    assert len(COCO_CLASSES) == len(set(COCO_CLASSES)) == 80


def test_an_unknown_class_list_is_refused_by_the_names_that_are_unknown(tmp_path: Path) -> None:
    with pytest.raises(UnknownClass, match="2 of 3 .*'human', 'lorry'"):
        label_map(("human", "car", "lorry"))
    with pytest.raises(UnknownClass, match="none of the 2 classes"):
        label_map(("dog", "cat"))
    weights = save_network(tmp_path / "other.pt", ("human", "car"))
    with pytest.raises(WeightsError, match=r"other\.pt: 1 of 2 .*'human'"):
        Detector(weights)


def test_a_detector_that_can_see_nobody_says_so(tmp_path: Path) -> None:
    assert blind_to(label_map(("car", "bus"))) == scene.SENSITIVE_CLASSES
    assert blind_to(label_map(COCO_CLASSES)) == ()
    notes = Perception(device="cpu", detector=save_network(tmp_path / "cars.pt", ("car", "bus"))).notes
    assert any("knows no pedestrian or people" in note for note in notes)
    assert any("codec.pt was trained on another detector" in note for note in notes)
    assert Perception(device="cpu").notes == ()


def test_a_folder_without_a_card_does_not_vouch_for_its_detector(tmp_path: Path) -> None:
    for name in ("codec.pt", "detector.pt"):
        shutil.copy(shipped(name), tmp_path)
    assert any("no card.json beside codec.pt" in note for note in Perception(tmp_path, device="cpu").notes)


def test_coco_weights_give_our_labels_and_other_classes_are_dropped_and_counted(tmp_path: Path) -> None:
    detector = Detector(save_network(tmp_path / "coco.pt", COCO_CLASSES))
    rows = [[0.1, 0.1, 0.2, 0.2, 0.9, 0], [0.3, 0.3, 0.5, 0.5, 0.8, 16], [0.6, 0.6, 0.7, 0.8, 0.7, 3]]
    objects = detector._objects(torch.tensor(rows))
    assert [scene.OBJECT_CLASSES[label] for label in objects["label"]] == ["pedestrian", "motor"]
    assert detector.dropped == {"dog": 1}


# Files


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("none.pt", None, "are not there"),
        ("text.pt", b"no weights", "cannot read .*truncated, or not ultralytics.*; give a detection network"),
        ("cut.pt", DETECTOR.read_bytes()[:100_000], "cannot read"),
        ("weights.bin", b"", "give .pt, .onnx or .engine"),
        ("weights", b"", "give .pt, .onnx or .engine"),
    ],
)
def test_a_file_that_is_no_detector_is_one_line_that_names_it(
    tmp_path: Path, name: str, content: bytes | None, named: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(WeightsError, match=named) as caught:
        Perception(device="cpu", detector=path)
    assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "ending"), [("yolo11n-cls.yaml", "ClassificationModel"), ("yolo11n-seg.yaml", "SegmentationModel")]
)
def test_networks_of_other_tasks_are_refused(tmp_path: Path, config: str, ending: str) -> None:
    with pytest.raises(WeightsError, match=r"other\.pt (are no detector|have \d+ layers|do not run|give)"):
        Detector(save_network(tmp_path / "other.pt", scene.OBJECT_CLASSES, config, ending))


def test_a_tap_that_the_codec_cannot_take_is_refused_with_the_remedy(tmp_path: Path) -> None:
    wide = save_network(tmp_path / "wide.pt", scene.OBJECT_CLASSES, "yolo11s.yaml")
    with pytest.raises(WeightsError, match=r"layer 4 where the codec needs \(1, 128, 8, 8\); train a codec"):
        Perception(device="cpu", detector=wide)
    with pytest.raises(WeightsError, match="27 layers, and the codec taps layer 99"):
        Detector(DETECTOR, tap=Tap(layer=99))
    with pytest.raises(WeightsError, match=r"\(1, 128, 8, 8\) at layer 4 where the codec needs \(1, 64, 8, 8\)"):
        Detector(DETECTOR, tap=Tap(layer=4, channels=64, stride=8))
    assert Detector(wide, tap=Tap(6, 256, 16)).infer(torch.zeros(1, 3, 64, 96))[1].shape == (1, 256, 4, 6)


def test_the_tap_is_that_of_the_codecs_settings_and_yolo11ns_where_they_are_silent() -> None:
    codec = Codec()
    codec.settings = {"tap_layer": 4, "tap_channels": 64, "stride": 8}
    assert tap_of(codec) == Tap(4, 64, 8)
    codec.settings = {"channels": 16}
    assert tap_of(codec) == Tap(4, 128, 8)
    assert tap_of(object()) == Tap()
    with pytest.raises(ValueError, match="tap stride is 0"):
        Tap(stride=0)


def test_a_head_without_suppression_is_understood(tmp_path: Path) -> None:
    finished = torch.tensor([[[64.0, 32, 128, 64, 0.9, 3], [0, 0, 10, 10, 0.1, 0]]])
    rows = boxes.candidates(finished, (640, 320), 0.25)
    assert rows.tolist() == [pytest.approx([0.1, 0.1, 0.2, 0.2, 0.9, 3])]
    detector = Detector(save_network(tmp_path / "v10.pt", scene.OBJECT_CLASSES, "yolov10n.yaml"), tap=Tap(6, 128, 16))
    assert detector.infer(torch.zeros(1, 3, 64, 64))[0].dtype == scene.OBJECT_DTYPE


# Checksums


def weights_folder(folder: Path) -> Path:
    folder.mkdir()
    for name in ("detector.pt", "codec.pt", "inverter.pt", "card.json"):
        shutil.copy(shipped(name), folder / name)
    return folder


def test_a_file_that_is_not_the_cards_is_refused_with_both_checksums(tmp_path: Path) -> None:
    folder = weights_folder(tmp_path / "weights")
    assert locate_sound("codec.pt", folder) == folder / "codec.pt"
    card = json.loads((folder / "card.json").read_text())
    card["files"]["codec.pt"]["sha256"] = "0" * 64
    (folder / "card.json").write_text(json.dumps(card))
    found = checksum(folder / "codec.pt")[:12]
    for stage in (Perception, GroundDecoder):
        with pytest.raises(
            WeightsError, match=f"codec.pt have checksum {found}…, card.json says 000000000000….*train card"
        ):
            stage(folder, "cpu")
    (folder / "card.json").unlink()
    assert Perception(folder, "cpu").networks["codec_sha256"].startswith(found)


@pytest.mark.parametrize("text", ["{", "[1]", '{"files": 3}', '{"files": {"codec.pt": {"sha256": 5}}}'])
def test_a_card_that_does_not_read_is_an_error_and_one_that_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    folder = weights_folder(tmp_path / "weights")
    (folder / "card.json").write_text(text)
    if text.startswith('{"'):
        assert locate_sound("codec.pt", folder).is_file()
    else:
        with pytest.raises(WeightsError, match="model card"):
            locate_sound("codec.pt", folder)


def test_both_parties_know_their_networks_by_checksum() -> None:
    codec = checksum(shipped("codec.pt"))
    assert Perception(device="cpu").networks == {"detector_sha256": checksum(DETECTOR), "codec_sha256": codec}
    assert GroundDecoder(device="cpu").networks == {"codec_sha256": codec}


# Runtimes


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from uav_privacy_sc.perception.export import export_detector

    return export_detector(None, tmp_path_factory.mktemp("export") / "detector.onnx")


def test_an_exported_detector_sees_and_taps_the_same(exported: Path, picture: np.ndarray) -> None:
    torch_one, onnx_one = Perception(device="cpu"), Perception(device="cpu", detector=exported)
    for image in (picture, picture[:300], np.full((40, 30, 3), 90, np.uint8)):
        ours, theirs = torch_one(image), onnx_one(image)
        assert np.abs(ours.features - theirs.features).max() < 1e-4
        assert len(ours.objects) == len(theirs.objects)
        assert np.array_equal(ours.objects["label"], theirs.objects["label"])
        assert np.abs(scene.corners(ours.objects) - scene.corners(theirs.objects)).max(initial=0) < 1e-4
    assert onnx_one.networks["detector_sha256"] == checksum(exported) != checksum(DETECTOR)
    assert onnx_one.detector.source_sha256 == checksum(DETECTOR)
    assert onnx_one.notes == (), "it comes from the detector that the codec was trained on"


def test_an_export_without_our_tap_is_refused_with_the_remedy(exported: Path, tmp_path: Path) -> None:
    import onnx

    model = onnx.load(str(exported))
    del model.metadata_props[:]
    onnx.save(model, str(tmp_path / "foreign.onnx"))
    with pytest.raises(WeightsError, match="foreign.onnx have no tap.*uav-privacy-sc train export"):
        Perception(device="cpu", detector=tmp_path / "foreign.onnx")
    entry = model.metadata_props.add()
    entry.key, entry.value = METADATA, "{"
    onnx.save(model, str(tmp_path / "odd.onnx"))
    with pytest.raises(WeightsError, match="odd.onnx have metadata that do not read"):
        Perception(device="cpu", detector=tmp_path / "odd.onnx")
    with pytest.raises(WeightsError, match="tap layer 4, the codec needs layer 6"):
        open_backend(exported, CPU, Tap(layer=6))
    (tmp_path / "cut.onnx").write_bytes(exported.read_bytes()[:1_000_000])
    with pytest.raises(WeightsError, match="cannot read .*cut.onnx"):
        Perception(device="cpu", detector=tmp_path / "cut.onnx")


def test_a_missing_runtime_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, package in (("a.onnx", "onnxruntime"), ("a.engine", "tensorrt")):
        (tmp_path / name).write_bytes(b"anything")
        monkeypatch.setitem(sys.modules, package, None)
        with pytest.raises(WeightsError, match=f"{name} need the package {package}; install it"):
            Perception(device="cpu", detector=tmp_path / name)


def test_onnx_runtime_without_cuda_is_an_error_not_the_cpu(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ValueError, match="device=cuda:0 cannot run detector.onnx: install onnxruntime-gpu"):
        open_backend(exported, torch.device("cuda:0"), Tap())
    with pytest.raises(ValueError, match="half=True is for .pt weights"):
        open_backend(exported, CPU, Tap(), half=True)


def test_an_engine_is_refused_where_it_cannot_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT itself is not here; what comes before it is."""
    monkeypatch.setitem(sys.modules, "tensorrt", SimpleNamespace())
    path = tmp_path / "detector.engine"
    header = json.dumps({METADATA: "{}"}).encode()
    path.write_bytes(len(header).to_bytes(4, "little") + header + b"plan")
    with pytest.raises(ValueError, match="device=cpu cannot run detector.engine; TensorRT needs cuda:N"):
        open_backend(path, CPU, Tap())
    assert split_engine(path) == ({METADATA: "{}"}, b"plan")
    path.write_bytes(b"ftrt\x00 bare plan")
    with pytest.raises(WeightsError, match=r"detector\.engine have no metadata.*--out detector\.engine"):
        split_engine(path)


def test_the_command_exports_or_says_in_one_line_why_not(tmp_path: Path) -> None:
    import typer
    from typer.testing import CliRunner

    from uav_privacy_sc.perception.export import export

    app = typer.Typer()
    app.command()(export)
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "detector.txt")])
    assert isinstance(result.exception, WeightsError) and ".onnx or .engine" in str(result.exception)
    pytest.importorskip("onnx")
    result = CliRunner().invoke(app, ["--out", str(tmp_path / "new" / "detector.onnx")])
    assert result.exit_code == 0 and (tmp_path / "new" / "detector.onnx").is_file()
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "detector.onnx"], "nothing is left beside it"


# Precision


def test_half_precision_is_for_cuda_and_never_quietly_full(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="half=True needs a CUDA device, not cpu; set half to false"):
        Perception(device="cpu", half=True)
    require_half(True, torch.device("cuda:0"))


@pytest.mark.parametrize("poison", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("where", ["predictions", "tap"])
def test_one_value_that_is_not_finite_is_an_error_with_a_remedy(poison: float, where: str, picture: np.ndarray) -> None:
    detector = Detector(DETECTOR)
    network = detector.backend

    def poisoned(batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        predictions, tap = (value.clone() for value in network(batch))
        (predictions if where == "predictions" else tap)[0, 5, 3] = poison
        return predictions, tap

    detector.backend = poisoned  # type: ignore[assignment]
    with pytest.raises(FloatingPointError, match="not finite; check its weights"):
        detector(picture)
    detector.half = True
    with pytest.raises(FloatingPointError, match="not finite; set half to false"):
        detector(picture)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_half_precision_sees_what_full_does(picture: np.ndarray) -> None:
    full, half = Perception(device="cuda:0"), Perception(device="cuda:0", half=True)
    assert np.abs(full(picture).features - half(picture).features).max() < 0.05
    assert abs(len(full(picture).objects) - len(half(picture).objects)) <= 3


# Boxes and tiles


def test_suppression_is_that_of_ultralytics(picture: np.ndarray) -> None:
    from ultralytics.utils.nms import non_max_suppression

    detector = Detector(DETECTOR, confidence=0.05)
    from uav_privacy_sc.perception.image import to_tensor

    with torch.inference_mode():
        batch = to_tensor(picture)
        expected = non_max_suppression(detector.backend(batch)[0].clone(), 0.05, 0.6, max_det=300)[0].numpy()
        objects, _ = detector.infer(batch)
    assert len(expected) > 20
    assert objects["label"].tolist() == expected[:, 5].astype(int).tolist()
    size = np.tile([batch.shape[3], batch.shape[2]], 2)
    assert np.abs(scene.corners(objects) - (expected[:, :4] / size).clip(0, 1)).max() < 1e-5


def test_a_class_does_not_suppress_another() -> None:
    rows = torch.tensor([[0.1, 0.1, 0.3, 0.3, 0.9, 0], [0.1, 0.1, 0.3, 0.3, 0.8, 3], [0.1, 0.1, 0.3, 0.31, 0.7, 0]])
    kept = boxes.suppress(rows, torch.arange(10), 0.6)
    assert kept[:, 5].tolist() == [0, 3]


@pytest.mark.parametrize("size", [(540, 960), (1080, 1920), (301, 997), (65, 4000), (1, 1)])
@pytest.mark.parametrize("tiles", [1, 2, 3])
def test_tiles_cover_the_picture_and_overlap(size: tuple[int, int], tiles: int) -> None:
    seen = np.zeros(size, int)
    windows = tiling.windows(*size, tiles)
    for top, bottom, left, right in windows:
        assert 0 <= top < bottom <= size[0] and 0 <= left < right <= size[1]
        seen[top:bottom, left:right] += 1
    assert seen.min() == 1
    assert len(windows) <= tiles**2
    if tiles > 1 and min(size) > 200:
        assert len(windows) == tiles**2 and seen.max() == 4


@pytest.mark.parametrize("tiles", [0, 4, 1.5])
def test_a_number_of_tiles_out_of_range_is_refused(tiles: Any) -> None:
    with pytest.raises(ValueError, match=f"tiles is {tiles}; give 1"):
        Detector(DETECTOR, tiles=tiles)


def test_boxes_of_a_tile_come_back_to_their_place_and_cut_ones_are_left_to_the_neighbour() -> None:
    rows = torch.tensor([[0.25, 0.5, 0.5, 1.0, 0.9, 3], [0.9, 0.4, 1.0, 0.5, 0.9, 3], [0.0, 0.4, 0.1, 0.5, 0.9, 3]])
    placed = tiling.to_frame(rows, (100, 200, 0, 400), 200, 800)
    assert placed.tolist() == [
        pytest.approx([0.125, 0.75, 0.25, 1.0, 0.9, 3]),
        pytest.approx([0.0, 0.7, 0.05, 0.75, 0.9, 3]),
    ]


def test_tiles_find_more_small_objects_and_leave_the_features_alone(picture: np.ndarray) -> None:
    found = {1: 0, 2: 0}
    small = 0
    for seed in (910, 911, 912):
        frame = SyntheticFlight(seed=seed, frames=1, style=FlightStyle(altitude_m=(60.0, 60.0)))[0]
        side = np.sqrt(frame.objects["w"] * 960 * frame.objects["h"] * 540)
        truth = scene.corners(frame.objects[(side < 24) & (side > 6)])
        small += len(truth)
        for tiles in found:
            objects, _ = Detector(DETECTOR, tiles=tiles)(frame.image)
            found[tiles] += _matched(truth, scene.corners(objects))
    assert small > 100
    assert small - found[2] < (small - found[1]) / 2, "less than half as many are missed"
    whole, tiled = Detector(DETECTOR)(picture)[1], Detector(DETECTOR, tiles=3)(picture)[1]
    assert torch.equal(whole, tiled)


def _matched(truth: np.ndarray, seen: np.ndarray) -> int:
    low = np.maximum(truth[:, None, :2], seen[None, :, :2])
    high = np.minimum(truth[:, None, 2:], seen[None, :, 2:])
    common = (high - low).clip(0).prod(axis=2)
    area, other = ((box[:, 2:] - box[:, :2]).prod(axis=1) for box in (truth, seen))
    overlap = common / (area[:, None] + other[None] - common)
    return int((overlap.max(axis=1, initial=0) > 0.5).sum())


# Scenes


def test_an_empty_scene_is_a_frame_and_a_stretched_one_is_counted() -> None:
    perception = Perception(device="cpu")
    percept = perception(np.full((540, 960, 3), 90, np.uint8))
    assert len(percept.objects) == 0 and percept.objects.dtype == scene.OBJECT_DTYPE
    assert percept.features.shape == (16, 22, 40)
    assert perception.counts == {}
    assert np.isfinite(perception(np.full((20, 4000, 3), 90, np.uint8)).features).all()
    assert perception.counts == {"pictures stretched": 1}
    assert np.array_equal(perception.features(np.full((540, 960, 3), 90, np.uint8)), percept.features)


def test_networks_of_older_and_newer_make_load(tmp_path: Path) -> None:
    for name, tap in (("yolov8n.yaml", Tap(6, 128, 16)), ("yolov5nu.yaml", Tap(6, 128, 16))):
        path = save_network(tmp_path / f"{Path(name).stem}.pt", scene.OBJECT_CLASSES, name.replace("5nu", "5n"))
        assert Detector(path, tap=tap).infer(torch.zeros(1, 3, 64, 64))[0].dtype == scene.OBJECT_DTYPE
    assert load_yolo(DETECTOR).names[9] == "motor"
