"""The flight's codec as the fleet's model: it learns like ``train codec``, and what comes out flies."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from uav_privacy_sc import pipeline, scene
from uav_privacy_sc.attack.inversion import InversionAttacker, Inverter
from uav_privacy_sc.control.policy import select_policy
from uav_privacy_sc.fleet import setting as setting_module
from uav_privacy_sc.fleet.codec import CodecTrainee, open_codec, share_pictures
from uav_privacy_sc.fleet.codec_card import NO_MECHANISM, ONESHOT, save_codec
from uav_privacy_sc.fleet.codec_taps import open_taps
from uav_privacy_sc.fleet.data import DataError, SplitConfig
from uav_privacy_sc.fleet.learning import (
    TrainingConfig,
    aggregate,
    local_update,
    private_features,
    reconstruct_features,
    select_model,
    sparsify,
)
from uav_privacy_sc.fleet.setting import CodecModel
from uav_privacy_sc.fleet.shares import prepare_codec
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.stage import GroundDecoder, Perception
from uav_privacy_sc.perception.tap import YOLO11N
from uav_privacy_sc.perception.training.batches import TapSet
from uav_privacy_sc.perception.training.samples import UNKNOWN
from uav_privacy_sc.perception.weights import WeightsError, card_of, checksum, load_module, save_module, shipped
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.oneshot import OneshotLaplace, release_generator
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.visual import VisualConfig

ROWS, COLUMNS, CHANNELS = 8, 12, 16
PRIVACY = {
    "mechanism": ONESHOT,
    "sigma_1": 1e-3,
    "sigma_2": 1e-3,
    "bound": 10.0,
    "epsilon_paper_round": 9e3,
    "epsilon_worst_case_round": 3e4,
    "epsilon_paper": 4.5e4,
    "epsilon_worst_case": 1.5e5,
}


def _taps(pictures: int = 6, seed: int = 0) -> TapSet:
    """Two halves of ground whose taps tell them apart, and a car in each picture."""
    rng = np.random.default_rng(seed)
    masks = np.full((pictures, 4 * ROWS, 4 * COLUMNS), 10, np.uint8)
    masks[:, :, 2 * COLUMNS :] = 12
    taps = 0.3 * rng.standard_normal((pictures, 128, 2 * ROWS, 2 * COLUMNS))
    taps[:, :64, :, COLUMNS:] += 1.0
    images = rng.integers(0, 60, (pictures, 8 * ROWS, 8 * COLUMNS, 3), np.uint8)
    objects = np.zeros(1, scene.OBJECT_DTYPE)
    for name, value in (("x", 0.3), ("y", 0.5), ("w", 0.2), ("h", 0.2), ("score", 0.9), ("label", 3)):
        objects[name] = value
    masks[:, 13:19, 10:19] = 3
    return TapSet(taps.astype(np.float16), images, masks, [objects.copy() for _ in range(pictures)], "d", "t")


def _trainee(taps: TapSet | None = None, inverter: bool = True, tiles: int = 2) -> CodecTrainee:
    torch.manual_seed(4)
    return CodecTrainee(Codec(CHANNELS), taps or _taps(), Inverter(CHANNELS) if inverter else None, tiles=tiles)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pictures with masks in the layout of VisDrone DET."""
    import cv2

    folder = tmp_path_factory.mktemp("flights")
    rng = np.random.default_rng(2)
    for part in ("images", "annotations", "masks"):
        (folder / part).mkdir()
    for k in range(4):
        picture = cv2.resize(rng.integers(0, 255, (18, 32, 3), np.uint8), (320, 176))
        cv2.imwrite(str(folder / "images" / f"p{k}.png"), picture)
        cv2.imwrite(str(folder / "masks" / f"p{k}.png"), np.full((176, 320), 10 + k % 2, np.uint8))
        (folder / "annotations" / f"p{k}.txt").write_text("40,50,30,20,1,4,0,0\n")
    return folder


def test_records_that_are_no_numbers_of_tiles_are_refused() -> None:
    trainee = _trainee()
    for wrong in (np.zeros((2, 32, 32, 3), np.uint8), np.array([0.5]), np.array([-1]), np.array([24])):
        with pytest.raises(ValueError, match="records"):
            trainee.loss(wrong, _rng())
        with pytest.raises(ValueError, match="records"):
            trainee.encode(wrong)


def test_encoder_comes_first_in_the_flat_vector() -> None:
    trainee = _trainee()
    flat = trainee.parameters()
    assert flat.shape == (trainee.size,) and flat.dtype == np.float32
    before, decoder = trainee.encode(np.arange(4)), [p.clone() for p in trainee.codec.decoder.parameters()]
    moved = flat.copy()
    moved[: trainee.encoder_size] *= 1.1
    trainee.load(moved)
    assert not np.allclose(trainee.encode(np.arange(4)), before)
    assert all(torch.equal(a, b) for a, b in zip(decoder, trainee.codec.decoder.parameters(), strict=True))
    trainee.load(flat)
    np.testing.assert_array_equal(trainee.encode(np.arange(4)), before)


def test_all_that_changes_is_in_the_vector() -> None:
    trainee = _trainee()
    assert trainee.size == sum(value.numel() for value in trainee.codec.state_dict().values())
    frozen = [value.clone() for value in trainee.inverter.state_dict().values()]
    local_update(trainee, trainee.parameters(), np.arange(8), TrainingConfig(rate=0.01, epochs=1), 0, _rng())
    assert all(torch.equal(a, b) for a, b in zip(frozen, trainee.inverter.state_dict().values(), strict=True))
    running = Codec(CHANNELS)
    running.encoder.body.append(torch.nn.BatchNorm2d(CHANNELS))
    with pytest.raises(ValueError, match="running statistics"):
        CodecTrainee(running, _taps(), None)


def test_tiles_cover_a_picture_once_and_code_as_the_whole_does() -> None:
    taps = _taps(2)
    whole, cut = _trainee(taps, tiles=1), _trainee(taps)
    assert cut.records(np.array([1])).tolist() == [4, 5, 6, 7]
    codes = cut.encode(cut.records(np.array([1]))).reshape(2, 2, CHANNELS, ROWS // 2, COLUMNS // 2)
    joined = codes.transpose(2, 0, 3, 1, 4).reshape(CHANNELS, ROWS, COLUMNS)
    np.testing.assert_allclose(joined, whole.encode(np.array([1])).reshape(CHANNELS, ROWS, COLUMNS), atol=1e-5)
    assert np.linalg.norm(joined, axis=0).max() < 1


def test_loss_is_that_of_the_codecs_training() -> None:
    """On one whole picture, by the same draws, :func:`train codec` and the fleet see the same number."""
    from uav_privacy_sc.perception.training.batches import draw_protection, send
    from uav_privacy_sc.perception.training.codec import mask_loss

    trainee = _trainee(_taps(1), tiles=1)
    rng = np.random.default_rng(8)
    drawn = draw_protection(trainee.taps.objects[0], (ROWS, COLUMNS), (4 * ROWS, 4 * COLUMNS), trainee.training, rng)
    noise = torch.Generator().manual_seed(int(rng.integers(2**62)))
    weights = torch.ones(len(scene.MASK_CLASSES))
    weights[: len(scene.OBJECT_CLASSES)] = 2.0
    with torch.no_grad():
        code = trainee.codec.encoder(torch.from_numpy(trainee.taps.taps).float())
        sigma, snr = torch.from_numpy(drawn.sigma[None, None]).float(), [drawn.snr_db]
        scores = trainee.codec.decoder(
            send(code, sigma, snr, noise) * drawn.features, torch.from_numpy(drawn.prior[None])
        )
        painted = mask_loss(scores, torch.from_numpy(trainee.taps.masks).long(), weights)
        picture = torch.from_numpy(trainee.taps.pictures.transpose(0, 3, 1, 2)).float() / 255
        inverted = (trainee.inverter(send(code, 0 * sigma, snr, noise)) - picture).abs().mean()
        assert trainee.loss(np.array([0]), np.random.default_rng(8)).item() == pytest.approx(
            (painted + 0.5 * inverted).item(), rel=1e-5
        )


def _rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_federated_rounds_lower_the_loss_and_noise_takes_it_back() -> None:
    trainee = _trainee()
    data = share_pictures(trainee, SplitConfig(clients=2, test_share=0.3), _rng(1))
    start, config = trainee.parameters(), TrainingConfig(rate=0.02, batch=8, epochs=3)
    before = trainee.describe(np.asarray(data.test))["loss"]
    after = {}
    for name, mechanism in (("clean", None), ("noisy", OneshotLaplace(0.5, 0.5, 1.0))):
        model = start
        for round_ in range(2):
            uploads = []
            for k, client in enumerate(data.clients):
                update = local_update(trainee, model, client.images, config, round_, _rng(10 * round_ + k))
                count = len(update) // 4
                given = mechanism.release(update, count, release_generator(0, round_, k)) if mechanism else None
                uploads.append((given or sparsify(update, count), len(client.images)))
            model = aggregate(model, uploads)
        trainee.load(model)
        after[name] = trainee.describe(np.asarray(data.test))["loss"]
    assert after["clean"] < 0.8 * before
    assert after["noisy"] > after["clean"] + 0.5


def test_features_of_public_tiles_teach_encoder_and_decoder() -> None:
    trainee = _trainee()
    data = share_pictures(trainee, SplitConfig(clients=2), _rng(1))
    start = trainee.parameters()
    update = local_update(trainee, start, data.clients[0].images, TrainingConfig(rate=0.005, batch=4), 0, _rng(3))
    mechanism = OneshotLaplace(1e-5, 1e-5, 1e4)
    features = private_features(
        trainee, start, update, data.clients[0].public, 40 * trainee.feature_size, mechanism, release_generator(0, 1)
    )
    assert features.shape == (4, trainee.feature_size)
    rebuilt, losses = reconstruct_features(
        trainee, start, features, TrainingConfig(rate=0.003, batch=4, epochs=8), 0, _rng(4)
    )
    encoder = trainee.encoder_size
    assert np.mean(losses[-3:]) < losses[0]
    assert (rebuilt[:encoder] != start[:encoder]).any() and (rebuilt[encoder:] != start[encoder:]).any()
    trainee.load(start)
    apart = np.linalg.norm(trainee.encode(np.asarray(data.clients[0].public)) - features)
    trainee.load(rebuilt)
    assert np.linalg.norm(trainee.encode(np.asarray(data.clients[0].public)) - features) < apart
    kept = select_model(trainee, start, rebuilt, data.public, _rng(5))
    assert kept.reconstructed and np.isfinite(kept.psnr_reconstructed)


def test_the_server_takes_the_codecs_features_and_none_that_are_too_long() -> None:
    """Their norm is the root of the number of cells at most, and not 1 as P3's."""
    from uav_privacy_sc.fleet.faults import Expected, _features
    from uav_privacy_sc.fleet.messages import FEATURES
    from uav_privacy_sc.privacy.oneshot import OneshotLaplace

    trainee = _trainee()
    features = trainee.encode(np.arange(3))
    assert not np.allclose(np.linalg.norm(features, axis=1), 1, atol=0.01)
    agreed = OneshotLaplace(0.01, 0.01, 1.0)
    expected = Expected(FEATURES, 9, trainee.encoder_size, agreed, 3, trainee.feature_size, trainee.feature_norms)
    assert not list(_features(SimpleNamespace(features=features), expected))  # type: ignore[arg-type]
    stretched = features * 1.1 * trainee.feature_norms[1] / np.linalg.norm(features, axis=1, keepdims=True)
    faults = list(_features(SimpleNamespace(features=stretched), expected))  # type: ignore[arg-type]
    assert [kind for kind, _ in faults] == ["unclipped"]


def test_features_without_public_tiles_are_refused() -> None:
    trainee = _trainee()
    with pytest.raises(ValueError, match="public holds no records"):
        trainee.feature_loss(np.zeros((1, trainee.feature_size), np.float32), _rng())


def test_a_picture_is_at_one_client_only() -> None:
    trainee = _trainee(_taps(12))
    data = share_pictures(trainee, SplitConfig(clients=3, test_share=0.2), _rng())
    parts = [set((np.asarray(client.images) // 4).tolist()) for client in data.clients]
    parts.append(set((np.asarray(data.test) // 4).tolist()))
    assert sum(map(len, parts)) == len(set().union(*parts)) == 12
    assert all(set(client.public) <= set(client.images) for client in data.clients)
    with pytest.raises(DataError, match="dirichlet"):
        share_pictures(trainee, SplitConfig(clients=2, split="dirichlet"), _rng())
    with pytest.raises(DataError, match="too few for 9"):
        share_pictures(trainee, SplitConfig(clients=9), _rng())


def test_masks_that_say_nothing_and_tiles_that_do_not_fit_are_refused() -> None:
    taps = _taps()
    taps.masks[:] = UNKNOWN
    with pytest.raises(ValueError, match="no pixel"):
        _trainee(taps)
    with pytest.raises(ValueError, match="tiles=9"):
        _trainee(tiles=9)


def test_without_an_inverter_the_mask_alone_is_learned() -> None:
    trainee = _trainee(inverter=False)
    assert np.isfinite(trainee.loss(np.arange(3), _rng()).item())
    assert np.isnan(trainee.psnr(np.arange(3), _rng()))
    with pytest.raises(ValueError, match=r"no inverter\.pt"):
        trainee.reconstruct(trainee.encode(np.arange(2)))


def test_taps_are_computed_once(flights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = open_taps(flights, shipped("detector.pt"), YOLO11N, cache=tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("uav_privacy_sc.fleet.codec_taps.Detector", None)
        again = open_taps(flights, shipped("detector.pt"), YOLO11N, cache=tmp_path)
    np.testing.assert_array_equal(first.taps, again.taps)
    assert [o.tolist() for o in first.objects] == [o.tolist() for o in again.objects]
    assert (again.data, again.detector) == (first.data, first.detector)
    assert isinstance(again.taps, np.memmap)
    kept = next(tmp_path.iterdir())
    (kept / "taps.npy").write_bytes(b"cut short")  # what is not whole is made anew
    np.testing.assert_array_equal(open_taps(flights, shipped("detector.pt"), YOLO11N, cache=tmp_path).taps, first.taps)


def test_changed_pictures_under_the_same_names_are_another_fleets(flights: Path, tmp_path: Path) -> None:
    """A run that is resumed must not go on with other pictures; shares are numbers of tiles, and cannot tell.

    Nor can sizes of files.
    """
    import cv2

    data, split = tmp_path / "data", SplitConfig(clients=1)
    shutil.copytree(flights, data)
    model, digests = CodecModel(str(data)), []
    for _ in range(2):
        setting_module._codec.cache_clear()
        digests.append(prepare_codec(model, split, 1, tmp_path / "shares").digest)
    path = data / "images" / "p0.png"
    size = path.stat().st_size
    cv2.imwrite(str(path), np.zeros((176, 320, 3), np.uint8))
    path.write_bytes(path.read_bytes().ljust(size, b"\0"))
    setting_module._codec.cache_clear()
    digests.append(prepare_codec(model, split, 1, tmp_path / "shares").digest)
    assert digests[0] == digests[1] != digests[2]


def test_a_checkpoint_flies_and_its_card_says_where_it_comes_from(flights: Path, tmp_path: Path) -> None:
    trainee = open_codec(None, flights, cache=tmp_path / "cache")
    update = local_update(
        trainee, trainee.parameters(), trainee.records(np.arange(2)), TrainingConfig(rate=0.001, epochs=1), 0, _rng()
    )
    assert np.abs(update).max() > 0
    out = tmp_path / "out"
    card = save_codec(trainee, out, rounds=5, clients=3, privacy=PRIVACY)
    entry = json.loads(card.read_text())["training"]["codec"]
    assert entry["started_from"]["codec_sha256"] == checksum(shipped("codec.pt"))
    assert entry["fleet"]["rounds"] == 5 and entry["fleet"]["clients"] == 3
    assert {name: entry["fleet"]["privacy"][name] for name in PRIVACY} == PRIVACY
    assert "pictures" not in json.dumps(entry["data"])
    assert card_of(out)["training"].keys() >= {"codec", "detector"}
    assert not card_of(out)["figures"]  # those were measured on other weights

    flown = _fly(out)
    assert flown.dropped is None and flown.features.shape == (CHANNELS, 22, 40)
    assert flown.mask.shape == (88, 160) and flown.reconstruction.shape == (176, 320, 3)
    loaded = load_module(out / "codec.pt", Codec)
    for name, value in trainee.codec.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value, rtol=1e-3, atol=1e-6)
    assert loaded.settings == trainee.codec.settings


def _fly(weights: Path) -> pipeline.FrameResult:
    """Send one frame through the real stages."""
    perceive, ground, eve = Perception(weights, "cpu"), GroundDecoder(weights, "cpu"), InversionAttacker(weights, "cpu")
    assert not perceive.notes
    protect = pipeline.ProtectStage(
        pipeline.ProtectionConfig(VisualConfig()), RandomStreams(5), Odometer(None, 1e-5, None)
    )
    link = pipeline.LinkStage(LinkConfig(), _rng(1), _rng(2))
    fly = pipeline.Pipeline(perceive, protect, link, pipeline.BudgetStage(select_policy("surveillance")), ground, eve)
    return fly(_rng(3).integers(0, 255, (540, 960, 3), np.uint8), 1_000)


def test_a_changed_checkpoint_is_refused_by_its_card(flights: Path, tmp_path: Path) -> None:
    trainee = open_codec(None, flights)
    save_codec(trainee, tmp_path / "out", rounds=1, clients=2, privacy={"mechanism": NO_MECHANISM})
    assert card_of(tmp_path / "out")["training"]["codec"]["fleet"]["privacy"]["mechanism"] == NO_MECHANISM
    save_module(tmp_path / "out" / "codec.pt", Codec(CHANNELS), trainee.codec.settings)
    with pytest.raises(WeightsError, match="checksum"):
        GroundDecoder(tmp_path / "out", "cpu")
    with pytest.raises(WeightsError, match="checksum"):
        open_codec(tmp_path / "out", flights)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mechanism": "gaussian"}, "mechanism is 'gaussian'"),
        ({"sigma_2": None}, "sigma_2"),
        ({"bound": float("nan")}, "bound"),
        ({"epsilon_worst_case": 0.0}, "epsilon_worst_case"),
    ],
)
def test_a_card_without_all_of_its_privacy_is_not_written(change: dict[str, object], said: str, tmp_path: Path) -> None:
    trainee = _trainee()
    with pytest.raises(ValueError, match=said):
        save_codec(trainee, tmp_path / "out", rounds=1, clients=1, privacy={**PRIVACY, **change})
    assert not (tmp_path / "out").exists()
    with pytest.raises(ValueError, match="give another"):
        save_codec(trainee, shipped("codec.pt").parent, rounds=1, clients=1, privacy=PRIVACY)
