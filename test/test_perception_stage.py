"""Perception and decoder: geometry, wrong weights, empty scenes, and what the shipped weights can do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.attack.inversion import InversionAttacker, Inverter  # noqa: E402
from uav_privacy_sc.data.synthetic import SyntheticFlight  # noqa: E402
from uav_privacy_sc.graph import profile_parameters  # noqa: E402
from uav_privacy_sc.perception.codec import Codec, Encoder, NoiseGauge, mask_shape, prior_planes  # noqa: E402
from uav_privacy_sc.perception.detector import load_yolo  # noqa: E402
from uav_privacy_sc.perception.device import choose_device  # noqa: E402
from uav_privacy_sc.perception.image import network_size, to_tensor  # noqa: E402
from uav_privacy_sc.perception.reach import measure_reach  # noqa: E402
from uav_privacy_sc.perception.stage import GroundDecoder, Perception  # noqa: E402
from uav_privacy_sc.perception.tap import Tap, tap_at  # noqa: E402
from uav_privacy_sc.perception.weights import WeightsError, checksum, load_module, save_module, shipped  # noqa: E402


@pytest.fixture(scope="module")
def perception() -> Perception:
    return Perception(device="cpu")


@pytest.fixture(scope="module")
def decoder() -> GroundDecoder:
    return GroundDecoder(device="cpu")


@pytest.fixture(scope="module")
def frames() -> list:
    return [SyntheticFlight(seed=seed, frames=1)[0] for seed in range(910, 918)]


@pytest.mark.parametrize(
    ("picture", "network"),
    [
        ((960, 540), (640, 352)),
        ((1920, 1080), (640, 352)),
        ((540, 960), (352, 640)),
        ((640, 640), (640, 640)),
        ((1, 1), (640, 640)),
        ((4000, 3), (640, 32)),
    ],
)
def test_network_size_is_a_multiple_of_32_for_any_picture(picture: tuple, network: tuple) -> None:
    assert network_size(*picture) == network


@pytest.mark.parametrize(
    "picture", [np.zeros((4, 4), np.uint8), np.zeros((4, 4, 3), np.float32), np.zeros((0, 4, 3), np.uint8)]
)
def test_what_is_no_rgb_picture_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(ValueError, match="image must be"):
        to_tensor(picture)


def test_code_vectors_are_shorter_than_one() -> None:
    code = Encoder(16, 128)(torch.randn(2, 128, 5, 7) * 100)
    assert code.shape == (2, 16, 5, 7)
    assert code.norm(dim=1).max() <= 1


def test_a_cell_of_the_code_depends_on_that_cell_of_the_tap_alone() -> None:
    encoder, tap = Encoder(16, 128), torch.randn(1, 128, 4, 4)
    changed = tap.clone()
    changed[..., 1, 2] += 1
    difference = (encoder(tap) - encoder(changed)).abs().sum(dim=1)[0]
    assert difference[1, 2] > 0
    difference[1, 2] = 0
    assert difference.max() == 0


def test_pooled_cells_see_their_own_taps_alone() -> None:
    encoder, tap = Encoder(16, 128, pool=2), torch.randn(1, 128, 8, 8)
    changed = tap.clone()
    changed[..., 2:4, 4:6] += 1
    difference = (encoder(tap) - encoder(changed)).abs().sum(dim=1)[0]
    assert difference.shape == (4, 4) and difference[1, 2] > 0
    difference[1, 2] = 0
    assert difference.max() == 0


def test_the_tap_reaches_as_far_as_the_odometer_charges() -> None:
    settings = load_module(shipped("codec.pt"), Codec).settings
    layers = load_yolo(shipped("detector.pt")).model[: settings["tap_layer"] + 1]
    reach = measure_reach(layers, settings["stride"] * settings["pool"], settings["pool"])
    assert reach == settings["reach_cells"]
    for part in ("protection", "perception"):
        assert profile_parameters("hardened", part)["reach_cells"] == reach


def test_reach_is_measured_on_networks_whose_reach_is_known() -> None:
    three = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1, stride=2), torch.nn.Conv2d(4, 4, 3, padding=1))
    assert measure_reach(three, cell=2) == 2
    wide = torch.nn.Sequential(three, torch.nn.Conv2d(4, 4, 5, padding=2))
    assert measure_reach(wide, cell=2) == 4
    assert measure_reach(wide, cell=4, pool=2) == 2

    class Everywhere(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + x.mean()

    with pytest.raises(ValueError, match="tap an earlier layer"):
        measure_reach(torch.nn.Sequential(three, Everywhere()), cell=2)


@pytest.mark.parametrize(("layer", "channels", "stride"), [(4, 128, 8), (6, 128, 16)])
def test_a_tap_is_found_by_its_layer(layer: int, channels: int, stride: int) -> None:
    assert tap_at(load_yolo(shipped("detector.pt")).model, layer) == Tap(layer, channels, stride)


def test_a_tap_that_is_none_is_refused() -> None:
    layers = load_yolo(shipped("detector.pt")).model
    for layer in (-1, 12, 23, 99):  # not there, a join, the head, not there
        with pytest.raises(ValueError, match=f"tap layer {layer}"):
            tap_at(layers, layer)


@pytest.mark.parametrize(("stride", "pool", "scale"), [(8, 1, 2), (8, 2, 4), (16, 1, 4), (16, 2, 8)])
def test_every_grid_gives_the_same_mask_and_picture(stride: int, pool: int, scale: int) -> None:
    codec = Codec(8, stride=stride, pool=pool)
    code = codec.encoder(torch.randn(1, 128, 64 // stride, 128 // stride))
    assert code.shape == (1, 8, 64 // stride // pool, 128 // stride // pool)
    assert codec.mask_scale == scale
    assert codec.decoder(code, torch.zeros(1, 10, 16, 32)).shape == (1, 14, 16, 32)
    assert Inverter(8, stride * pool // 2)(code).shape == (1, 3, 32, 64)


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"channels": 0}, "channels"), ({"pool": 3}, "stride=8 times pool=3"), ({"stride": 64}, "64")],
)
def test_a_codec_out_of_range_is_refused_by_name(settings: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Codec(**settings)


def test_features_of_another_codec_are_refused(decoder: GroundDecoder) -> None:
    with pytest.raises(ValueError, match=r"\(3, 22, 40\)"):
        decoder(np.zeros((3, 22, 40), np.float32), scene.no_objects())


def test_the_gauge_tells_quiet_from_noisy_and_keeps_the_scale() -> None:
    quiet = torch.randn(1, 16, 12, 12) * 0.1
    loud = quiet * 1000
    gauge = NoiseGauge()
    assert gauge(loud)[:, 16].mean() > gauge(quiet)[:, 16].mean() + 5
    assert gauge(loud)[:, :16].square().sum(dim=1).mean() < 2


def test_prior_planes_put_the_best_score_of_a_class_where_its_boxes_are() -> None:
    objects = scene.make_objects(
        [[0.25, 0.5], [0.25, 0.5], [0.9, 0.9]], [[0.5, 1.0], [0.5, 0.5], [0, 0]], [3, 3, 0], [0.4, 0.9, 1.0]
    )
    planes = prior_planes(objects, (4, 8))
    assert planes[3, 0, 0] == pytest.approx(0.4) and planes[3, 1, 0] == pytest.approx(0.9)
    assert planes[3, :, 4:].max() == 0
    assert planes[0].max() == 0, "a box without area covers nothing"


def test_an_empty_scene_is_a_valid_frame(perception: Perception, decoder: GroundDecoder) -> None:
    percept = perception(np.full((540, 960, 3), 90, np.uint8))
    assert percept.features.shape == (16, 22, 40) and percept.features.dtype == np.float32
    assert percept.objects.dtype == scene.OBJECT_DTYPE
    mask = decoder(percept.features, scene.no_objects())
    assert mask.shape == mask_shape((22, 40)) and mask.dtype == np.uint8 and mask.max() < len(scene.MASK_CLASSES)


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 900, 3), (900, 7, 3)])
def test_pictures_of_any_shape_pass(perception: Perception, shape: tuple) -> None:
    percept = perception(np.random.default_rng(0).integers(0, 255, shape, np.uint8))
    assert np.isfinite(percept.features).all()


def test_shipped_detector_finds_cars_of_a_flight_it_has_not_seen(perception: Perception, frames: list) -> None:
    cars = found = 0
    for frame in frames:
        seen = perception(frame.image).objects
        large = frame.objects[(frame.objects["label"] == 3) & (frame.objects["w"] > 0.03) & (frame.objects["h"] > 0.04)]
        cars += len(large)
        found += sum(_best_overlap(box, seen) > 0.5 for box in scene.corners(large))
    assert cars >= 10
    assert found > 0.6 * cars


def _best_overlap(box: np.ndarray, objects: np.ndarray) -> float:
    others = scene.corners(objects)
    low, high = np.maximum(others[:, :2], box[:2]), np.minimum(others[:, 2:], box[2:])
    common = (high - low).clip(0).prod(axis=1)
    area = (others[:, 2:] - others[:, :2]).prod(axis=1) + (box[2:] - box[:2]).prod() - common
    return float((common / area).max(initial=0))


def test_shipped_decoder_is_better_with_features_than_without(
    perception: Perception, decoder: GroundDecoder, frames: list
) -> None:
    with_features = without = total = 0
    for frame in frames:
        percept = perception(frame.image)
        rows, columns = mask_shape(percept.features.shape)
        truth = frame.mask[np.arange(rows) * 540 // rows + 3][:, np.arange(columns) * 6 + 3]
        with_features += (decoder(percept.features, percept.objects) == truth).sum()
        without += (decoder(np.zeros_like(percept.features), percept.objects) == truth).sum()
        total += truth.size
    assert with_features > without + 0.1 * total
    assert with_features > 0.6 * total


def test_shipped_weights_are_those_of_the_card_and_small() -> None:
    card = json.loads(shipped("card.json").read_text())
    files = [shipped(name) for name in ("detector.pt", "codec.pt", "inverter.pt", "inverter-adaptive.pt")]
    assert sum(path.stat().st_size for path in files) < 12e6
    assert {path.name: checksum(path) for path in files} == {
        name: part["sha256"] for name, part in card["files"].items()
    }
    figures = card["figures"]
    assert figures["detector"]["map50"] >= 0.6
    assert figures["detector"]["map50_by_class"]["car"] >= 0.8
    near = figures["detector"]["map50_by_size"]["24 px and more"]
    assert min(near[name] for name in ("car", "van", "truck", "bus")) >= 0.8
    assert figures["measured_on"] == {path.name: checksum(path) for path in files}
    assert set(figures["out_of_domain"]) == {"visdrone_sample", "visdrone_small", "auair"}


def test_inverter_shows_an_unprotected_scene(perception: Perception, frames: list) -> None:
    from skimage.metrics import structural_similarity
    from skimage.transform import resize

    attacker, scores, floor = InversionAttacker(device="cpu"), [], []
    for frame in frames:
        features = perception(frame.image).features
        picture = (resize(frame.image, (176, 320), anti_aliasing=True) * 255).astype(np.uint8)
        noise = np.random.default_rng(1).normal(0, 7.5, features.shape).astype(np.float32)
        for values, into in ((features, scores), (features + noise, floor)):
            into.append(structural_similarity(picture, attacker(values), channel_axis=2, data_range=255))
    assert np.mean(scores) > 0.45
    assert (np.array(scores) > np.array(floor) + 0.08).all()


def test_weights_round_trip_and_their_faults_are_named(tmp_path: Path) -> None:
    path = tmp_path / "codec.pt"
    save_module(path, Codec(channels=8), {"channels": 8})
    codec = load_module(path, Codec)
    assert codec.encoder.body[2].out_channels == 8
    with pytest.raises(WeightsError, match="are of the kind Codec, and Inverter is needed"):
        load_module(path, Inverter)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(WeightsError, match="codec.pt"):
        load_module(path, Codec)
    broken = tmp_path / "detector.pt"
    broken.write_text("not weights")
    for wrong in (broken, shipped("codec.pt")):
        with pytest.raises(WeightsError, match=wrong.name):
            load_yolo(wrong)
    with pytest.raises(WeightsError, match="is no folder"):
        Perception(weights=tmp_path / "none", device="cpu")
    with pytest.raises(WeightsError, match="has no inverter.pt"):
        InversionAttacker(weights=tmp_path, device="cpu")


def test_a_device_that_is_not_there_is_an_error_not_the_cpu() -> None:
    with pytest.raises(ValueError, match="cuda:99"):
        choose_device("cuda:99")
    with pytest.raises(ValueError, match="tpu"):
        choose_device("tpu")
    assert choose_device("cpu").type == "cpu"


def test_a_network_that_gives_nan_is_an_error_not_an_empty_scene() -> None:
    perception = Perception(device="cpu")
    with torch.no_grad():
        next(perception.detector.model.parameters()).fill_(float("nan"))
    with pytest.raises(FloatingPointError, match="not finite"):
        perception(np.zeros((64, 64, 3), np.uint8))
