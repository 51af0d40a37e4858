"""Training: crops keep boxes on their objects, trainers lower the loss, resume, and refuse to resume something else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.attack.inversion import InversionAttacker, Inverter  # noqa: E402
from uav_privacy_sc.perception.backends import load_yolo  # noqa: E402
from uav_privacy_sc.perception.codec import Codec, mask_shape  # noqa: E402
from uav_privacy_sc.perception.tap import Tap  # noqa: E402
from uav_privacy_sc.perception.training.attacker import (  # noqa: E402
    AttackerTrainer,
    AttackerTraining,
    encode,
    picture_loss,
)
from uav_privacy_sc.perception.training.batches import TapSet, batches, draw_protection, send, tap_set  # noqa: E402
from uav_privacy_sc.perception.training.checkpoint import Checkpoint, CheckpointError, forget  # noqa: E402
from uav_privacy_sc.perception.training.codec import CodecTrainer, CodecTraining, mask_loss  # noqa: E402
from uav_privacy_sc.perception.training.curve import plot_losses, smooth  # noqa: E402
from uav_privacy_sc.perception.training.detector import (  # noqa: E402
    CropPlaces,
    DetectorTrainer,
    DetectorTraining,
    crop_sample,
)
from uav_privacy_sc.perception.training.samples import UNKNOWN, DatasetError, Samples  # noqa: E402
from uav_privacy_sc.perception.weights import WeightsError, load_module, save_module  # noqa: E402

TINY = DetectorTraining(steps=2, batch=1, crop=64, checkpoint_every=1)


@pytest.fixture(scope="module")
def samples() -> Samples:
    rng = np.random.default_rng(4)
    objects = [scene.make_objects(rng.random((3, 2)), np.full((3, 2), 0.4), [0, 3, 8]) for _ in range(3)]
    return Samples(rng.integers(0, 255, (3, 64, 64, 3), np.uint8), objects, None)


@pytest.fixture(scope="module")
def trained(samples: Samples, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a detector was trained for two steps."""
    out = tmp_path_factory.mktemp("detector")
    DetectorTrainer(samples, out, TINY).run(lambda step, losses: None)
    return out


def taps(count: int = 4) -> TapSet:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (count, 128, 12, 16)).astype(np.float16)
    masks = (values[:, 0].repeat(2, 1).repeat(2, 2) > 0).astype(np.uint8) * 3 + 10
    objects = [scene.make_objects(rng.random((3, 2)), np.full((3, 2), 0.2), [0, 3, 8]) for _ in range(count)]
    return TapSet(values, rng.integers(0, 255, (count, 48, 64, 3), np.uint8), masks, objects)


def silent(step: int, losses: list[float]) -> None:
    """No progress is shown."""


def test_a_crop_keeps_boxes_on_their_objects() -> None:
    image = np.zeros((352, 640, 3), np.uint8)
    image[100:140, 200:280] = 255
    objects = scene.make_objects([[240 / 640, 120 / 352]], [[80 / 640, 40 / 352]], [4])
    config, rng, seen = DetectorTraining(crop=352, zoom=(1.0, 1.4)), np.random.default_rng(0), 0
    for _ in range(40):
        crop, rows = crop_sample(image, objects, config, rng)
        for label, x, y, w, h in rows:
            x1, y1, x2, y2 = np.array([x - w / 2, y - h / 2, x + w / 2, y + h / 2]) * 352
            bright = np.argwhere(crop[..., 0] > 128)
            assert label == 4
            assert np.allclose([bright[:, 1].min(), bright[:, 0].min()], [x1, y1], atol=2)
            assert np.allclose([bright[:, 1].max() + 1, bright[:, 0].max() + 1], [x2, y2], atol=2)
            seen += 1
    assert seen > 15


def test_balanced_crops_hold_the_rare_class() -> None:
    config, rng = DetectorTraining(crop=64, zoom=(0.7, 1.5), balance=1.0), np.random.default_rng(3)
    image = np.zeros((352, 640, 3), np.uint8)
    corners = [[0.03, 0.04], [0.97, 0.96], [0.97, 0.04]]
    cars = scene.make_objects(corners, np.full((3, 2), 0.05), [3, 3, 3])
    buses = scene.make_objects([*corners, [0.5, 0.4]], np.full((4, 2), 0.05), [3, 3, 3, 8])
    pictures = [cars] * 30 + [buses]
    places = CropPlaces(pictures, config.balance)
    drawn = [places.draw(rng) for _ in range(300)]
    assert 100 < sum(k == 30 for k, _ in drawn) < 200, "one class in two, though one picture in 31"
    held = [len(crop_sample(image, pictures[k], config, rng, around)[1]) > 0 for k, around in drawn]
    anywhere = [len(crop_sample(image, pictures[k], config, rng)[1]) > 0 for k, _ in drawn]
    assert np.mean(held) > 0.8 > 0.4 > np.mean(anywhere), "all but an object whose centre falls on the crop's corner"
    without = CropPlaces(pictures, 0.0)
    assert sum(without.draw(rng)[0] == 30 for _ in range(300)) < 30
    assert all(place is None for _, place in (CropPlaces([cars[:0]], 1.0).draw(rng) for _ in range(5)))


def test_detector_training_resumes_where_it_stopped(samples: Samples, trained: Path, tmp_path: Path) -> None:
    def stop(step: int, losses: list[float]) -> None:
        if step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DetectorTrainer(samples, tmp_path, TINY).run(stop)
    steps: list[int] = []
    again = DetectorTrainer(samples, tmp_path, TINY)
    assert again.step == again.checkpoint.step == 1
    again.run(lambda step, losses: steps.append(step))
    assert steps == [2]
    losses = json.loads((tmp_path / "detector-losses.json").read_text())
    assert losses == json.loads((trained / "detector-losses.json").read_text()), "as if it had never stopped"
    assert (tmp_path / "detector-losses.png").read_bytes().startswith(b"\x89PNG")


def test_what_a_resumed_training_comes_to_is_the_same_to_the_last_bit(samples: Samples, tmp_path: Path) -> None:
    def stop(step: int, losses: list[float]) -> None:
        if step == 3:
            raise KeyboardInterrupt

    config = replace(TINY, steps=4)
    through = DetectorTrainer(samples, tmp_path / "through", config)
    through.run(silent)
    with pytest.raises(KeyboardInterrupt):
        DetectorTrainer(samples, tmp_path / "resumed", config).run(stop)
    resumed = DetectorTrainer(samples, tmp_path / "resumed", config)
    assert resumed.step == 2
    resumed.run(silent)
    for part in ("model", "average"):
        other = getattr(resumed, part).state_dict()
        assert all(torch.equal(value, other[name]) for name, value in getattr(through, part).state_dict().items())


def test_filters_and_vectors_are_trained_at_the_scheduled_rates(samples: Samples, tmp_path: Path) -> None:
    config = replace(TINY, steps=1, warmup_steps=4, learning_rate=0.04, vector_rate=0.25)
    trainer = DetectorTrainer(samples, tmp_path, config)
    before = {name: value.detach().clone() for name, value in trainer.model.named_parameters()}
    trainer.run(silent)
    moved = {name: value.detach() - before[name] for name, value in trainer.model.named_parameters()}
    filters = moved["model.1.conv.weight"].flatten(1)  # 32 outputs of 16 x 3 x 3
    assert torch.linalg.svdvals(filters)[0] == pytest.approx(0.04 / 4, rel=0.25), "a quarter of it in the first step"
    assert float(moved["model.1.bn.weight"].abs().median()) == pytest.approx(0.04 * 0.25 / 4, rel=0.01), "AdamW's first"


def test_a_gradient_that_is_not_finite_leaves_what_was_saved(
    samples: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainer = DetectorTrainer(samples, tmp_path, replace(TINY, steps=3))
    loss = trainer._loss

    def spoiled(batch: dict[str, torch.Tensor]) -> Any:
        values, told = loss(batch)
        return (values * float("nan") if trainer.step == 2 else values), told

    monkeypatch.setattr(trainer, "_loss", spoiled)
    with pytest.raises(FloatingPointError, match="gradient is not finite after 2 steps; what was saved stays.*--fresh"):
        trainer.run(silent)
    again = DetectorTrainer(samples, tmp_path, replace(TINY, steps=3))
    assert again.step == 2 and all(torch.isfinite(value).all() for value in again.model.state_dict().values())


@pytest.mark.parametrize(
    ("settings", "change", "said"),
    [
        ({"seed": 9}, {}, "seed=1 .now 9."),
        ({"steps": 50}, {}, "steps=2 .now 50."),
        ({"zoom": (1.0, 1.1)}, {}, "zoom="),
        ({}, {"objects": [scene.no_objects()] * 3}, "other data"),
    ],
)
def test_a_training_of_other_settings_or_data_is_not_resumed(
    samples: Samples, trained: Path, settings: dict, change: dict, said: str
) -> None:
    with pytest.raises(CheckpointError, match=f"begun with {said}.*--out.*--fresh"):
        DetectorTrainer(replace(samples, **change), trained, replace(TINY, **settings))
    assert DetectorTrainer(samples, trained, replace(TINY, checkpoint_every=7)).step == 2, "that changes no step"


def test_checkpoints_that_do_not_say_what_they_are_of_are_resumed(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 2)
    torch.save({"layer": layer.state_dict(), "step": 3, "losses": [[1.0]] * 3}, tmp_path / "x-checkpoint.pt")
    assert Checkpoint(tmp_path, "x", {"layer": layer}, {"settings": {"seed": 1}}).load() == (3, [[1.0]] * 3)


def test_a_broken_or_foreign_checkpoint_is_named_and_can_be_forgotten(tmp_path: Path) -> None:
    layer = torch.nn.Linear(2, 2)
    Checkpoint(tmp_path, "x", {"layer": layer}).save(1, [[0.5]])
    with pytest.raises(CheckpointError, match="x-checkpoint.pt is of another architecture"):
        Checkpoint(tmp_path, "x", {"layer": torch.nn.Linear(3, 2)}).load()
    with pytest.raises(CheckpointError, match=r"written by another version: it has no state of muon; .*--out.*--fresh"):
        Checkpoint(tmp_path, "x", {"layer": layer, "muon": layer}).load()
    path = tmp_path / "x-checkpoint.pt"
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CheckpointError, match=r"cannot read .*x-checkpoint.pt.*--fresh"):
        Checkpoint(tmp_path, "x", {"layer": layer}).load()
    with pytest.raises(FloatingPointError, match="not finite after 2 steps; .*--learning-rate"):
        Checkpoint(tmp_path, "x", {"layer": layer}).save(2, [[0.5], [float("nan")]])
    forget(tmp_path, "x")
    assert Checkpoint(tmp_path, "x", {"layer": layer}).load() == (0, [])
    assert not list(tmp_path.iterdir())


def test_a_detector_starts_from_given_weights(samples: Samples, trained: Path, tmp_path: Path) -> None:
    fresh = DetectorTrainer(samples, tmp_path, TINY, init=trained / "detector.pt")
    given = DetectorTrainer(samples, trained, TINY).average.state_dict()
    assert fresh.init_share == 100
    for name, value in fresh.model.state_dict().items():
        torch.testing.assert_close(value.float(), given[name].float(), atol=2e-3, rtol=2e-3)
    whole = (trained / "detector.pt").read_bytes()
    (tmp_path / "cut.pt").write_bytes(whole[: len(whole) // 2])
    torch.save({"weights": 1}, tmp_path / "other.pt")
    bad = "cannot read init .*: truncated, or no ultralytics detector weights; give"
    for path, message in (("missing.pt", "is no file"), ("cut.pt", bad), ("other.pt", bad)):
        with pytest.raises(WeightsError, match=message):
            DetectorTrainer(samples, tmp_path, TINY, init=tmp_path / path)


def test_frozen_layers_stay_so_a_codec_on_them_still_fits(samples: Samples, trained: Path, tmp_path: Path) -> None:
    trainer = DetectorTrainer(samples, tmp_path, replace(TINY, freeze=5), init=trained / "detector.pt")
    before = {name: value.clone() for name, value in trainer.model.state_dict().items()}
    trainer.run(silent)
    changed = {
        int(name.split(".")[1])
        for model in (trainer.model, trainer.average)
        for name, value in model.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed and min(changed) >= 5
    picture = torch.rand(1, 3, 64, 64)
    taps = [load_yolo(folder / "detector.pt").model[:5](picture) for folder in (trained, tmp_path)]
    assert torch.equal(*taps)


def test_codec_training_lowers_the_loss_and_resumes(tmp_path: Path) -> None:
    config = CodecTraining(steps=25, batch=4, crop=(6, 8), without_noise=1.0, without_features=0.0)
    trainer = CodecTrainer(taps(), tmp_path, config)
    trainer.run(silent)
    first, last = np.mean(trainer.losses[:5], axis=0), np.mean(trainer.losses[-5:], axis=0)
    assert (last < first).all()
    assert CodecTrainer(taps(), tmp_path, config).step == 25
    assert isinstance(load_module(tmp_path / "codec.pt", Codec), Codec)
    assert not (tmp_path / "inverter.pt").exists(), "the eavesdropper's is trained on the finished codec"
    for change in ("detector", "data"):
        with pytest.raises(CheckpointError, match=f"other {change}"):
            CodecTrainer(replace(taps(), **{change: "another"}), tmp_path, config)


def test_pixels_of_unknown_class_teach_nothing() -> None:
    weights = torch.ones(14)
    scores, mask = torch.randn(1, 14, 4, 4, requires_grad=True), torch.full((1, 4, 4), UNKNOWN)
    assert mask_loss(scores, mask, weights).item() == 0.0
    mask[0, 1, 1] = 3
    mask_loss(scores, mask, weights).backward()
    assert scores.grad is not None
    assert (scores.grad.abs().sum(1)[0] > 0).nonzero().tolist() == [[1, 1]]
    alone = torch.nn.functional.cross_entropy(scores[:, :, 1, 1], mask[:, 1, 1])
    assert mask_loss(scores, mask, weights).item() == pytest.approx(alone.item(), rel=1e-5)


def test_a_codec_is_trained_on_boxes_alone_but_not_on_nothing(tmp_path: Path) -> None:
    data = taps()
    masks = np.full_like(data.masks, UNKNOWN)
    config = CodecTraining(steps=2, batch=2, crop=(6, 8))
    with pytest.raises(DatasetError, match="no pixel of these pictures has a known class"):
        CodecTrainer(replace(data, masks=masks), tmp_path, config)
    masks[:, 4:8, 4:8] = 3
    trainer = CodecTrainer(replace(data, masks=masks), tmp_path, config)
    trainer.run(silent)
    assert np.isfinite(trainer.losses).all()


def test_taps_come_with_pictures_and_masks_of_their_grid(samples: Samples) -> None:
    class Blind:
        device, sha256 = "cpu", "abc"

        def infer(self, batch: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
            return scene.no_objects(), batch[:, :1, ::16, ::16]

    data = tap_set(samples, Blind())  # type: ignore[arg-type]
    assert data.taps.shape == (3, 1, 4, 4) and data.pictures.shape == (3, 32, 32, 3)
    assert data.masks.shape == (3, 16, 16) and (data.masks == UNKNOWN).all()
    assert data.detector == "abc" and data.data == samples.fingerprint()
    np.testing.assert_allclose(data.taps[0, 0], samples.images[0, ::16, ::16, 0] / 255, atol=1e-3)


def test_the_plain_attacker_hears_clear_codes_and_the_adaptive_one_protected_ones(tmp_path: Path) -> None:
    codec, data = Codec().eval(), taps()
    codes = encode(data, codec)
    assert codes.taps.shape == (4, Codec().encoder(torch.zeros(1, 128, 2, 2)).shape[1], 6, 8)
    plain, adaptive = (AttackerTraining(steps=8, batch=8, noise=noise) for noise in ("none", "adaptive"))
    assert not any(batch.sigma.any() for batch in batches(codes, plain, 0))
    quiet = np.mean([(batch.sigma.amax(dim=(1, 2, 3)) == 0).float().mean() for batch in batches(codes, adaptive, 0)])
    assert 0.1 < quiet < 0.55


def test_an_attacker_is_trained_for_what_it_is_judged_by() -> None:
    pictures = torch.rand(2, 3, 32, 48, generator=torch.Generator().manual_seed(1))
    assert picture_loss(pictures, pictures, 0.5).item() == pytest.approx(0.0, abs=1e-5)
    grey = torch.full_like(pictures, 0.5)
    plain = torch.nn.functional.l1_loss(grey, pictures).item()
    assert picture_loss(grey, pictures, 0.0).item() == pytest.approx(plain)
    assert plain + 0.4 < picture_loss(grey, pictures, 0.5).item() < plain + 0.6, "a flat picture has no structure"


def test_a_codec_of_pooled_taps_is_trained_and_its_grid_is_coarser(tmp_path: Path) -> None:
    config = CodecTraining(steps=2, batch=2, crop=(6, 8), channels=4, pool=4)
    trainer = CodecTrainer(taps(), tmp_path, config, Tap(4, 128, 8), 1)
    trainer.run(silent)
    codec = load_module(tmp_path / "codec.pt", Codec)
    assert codec.settings == trainer.codec.settings
    assert codec.settings["pool"] == 4 and codec.settings["tap_layer"] == 4 and codec.settings["reach_cells"] == 1
    codes = encode(taps(), codec)
    assert codes.taps.shape[1:] == (4, 3, 4)
    attacker = AttackerTrainer(taps(), codec, tmp_path, AttackerTraining(steps=1, batch=2))
    attacker.run(silent)
    assert InversionAttacker(tmp_path, "cpu")(codes.taps[0]).shape == (48, 64, 3)


def test_attackers_are_trained_resumed_and_loaded_by_name(tmp_path: Path) -> None:
    codec, data = Codec().eval(), taps()
    for noise, name in (("none", "inverter.pt"), ("adaptive", "inverter-adaptive.pt")):
        config = AttackerTraining(steps=2, batch=2, noise=noise, pictures=3)
        trainer = AttackerTrainer(data, codec, tmp_path, config)
        assert len(trainer.data.objects) == 3
        trainer.run(silent)
        assert AttackerTrainer(data, codec, tmp_path, config).step == 2
        assert isinstance(load_module(tmp_path / name, Inverter), Inverter)
    with pytest.raises(CheckpointError, match="other codec"):
        AttackerTrainer(data, Codec().eval(), tmp_path, config)
    code = encode(data, codec).taps[0]
    pictures = [InversionAttacker(tmp_path, "cpu", adaptive=adaptive)(code) for adaptive in (False, True)]
    assert pictures[0].shape == (48, 64, 3) and (pictures[0] != pictures[1]).any()


def test_a_folder_without_the_adaptive_attacker_fails_only_when_it_is_asked_for(tmp_path: Path) -> None:
    save_module(tmp_path / "inverter.pt", Inverter(), {})
    InversionAttacker(tmp_path, "cpu")
    with pytest.raises(WeightsError, match="inverter-adaptive.pt"):
        InversionAttacker(tmp_path, "cpu", adaptive=True)


def test_weights_that_are_cut_or_others_are_refused_in_words_of_our_own(tmp_path: Path) -> None:
    path = tmp_path / "inverter.pt"
    save_module(path, Inverter(), {})
    with pytest.raises(WeightsError, match="inverter.pt are of the kind Inverter, and Codec is needed here"):
        load_module(path, Codec)
    whole = path.read_bytes()
    for content in (b"", whole[:300], whole[: len(whole) // 2], whole[:-30], b"a text"):
        path.write_bytes(content)
        with pytest.raises(WeightsError, match="inverter.pt: truncated or no weights of this package; copy"):
            load_module(path, Inverter)
    for other in ({"weights": 1}, [1, 2]):
        torch.save(other, path)
        with pytest.raises(WeightsError, match="inverter.pt: truncated or no weights of this package; copy"):
            load_module(path, Inverter)
    with pytest.raises(WeightsError, match="none.pt are not there"):
        load_module(tmp_path / "none.pt", Inverter)


def test_what_is_sent_has_the_noise_that_was_drawn() -> None:
    code = torch.full((2, 16, 40, 40), 0.1)
    sigma = torch.ones(2, 1, 40, 40) * torch.tensor([0.0, 5.0])[:, None, None, None]
    noisy = send(code, sigma, [0.0, None], torch.Generator().manual_seed(1))
    assert (noisy[0] - code[0]).std().item() == pytest.approx(0.1, rel=0.05), "0 dB: noise as strong as the code"
    assert (noisy[1] - code[1]).std().item() == pytest.approx(5.0, rel=0.05)


def test_training_meets_all_kinds_of_protection() -> None:
    rng, objects = np.random.default_rng(2), taps().objects[0]
    drawn = [draw_protection(objects, (6, 8), (24, 32), CodecTraining(), rng) for _ in range(200)]
    silent_share = np.mean([(d.sigma == 0).all() for d in drawn])
    assert 0.2 < silent_share < 0.4
    levels = np.array([d.sigma.max() for d in drawn if d.sigma.any()])
    assert levels.min() < 0.1 and levels.max() > 10
    assert any(d.snr_db is None for d in drawn) and any(not d.features for d in drawn)
    assert any(not d.prior.any() for d in drawn)
    assert drawn[0].prior.shape == (10, *mask_shape((6, 8)))


def test_a_loss_curve_is_smoothed_without_looking_ahead(tmp_path: Path) -> None:
    np.testing.assert_allclose(smooth(np.array([4.0, 2.0, 0.0, 0.0]), 2), [4.0, 3.0, 1.0, 0.0])
    for losses in ([], [[1.0, 2.0]], [[1.0, 2.0], [0.5, 2.0]]):
        plot_losses(tmp_path / "curve.png", losses, ("box", "class"), "detector")
        assert (tmp_path / "curve.png").stat().st_size > 5000


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (DetectorTraining, {"crop": 100}),
        (DetectorTraining, {"steps": 0}),
        (DetectorTraining, {"learning_rate": float("nan")}),
        (DetectorTraining, {"vector_rate": float("nan")}),
        (CodecTraining, {"batch": 0}),
        (CodecTraining, {"learning_rate": float("inf")}),
        (CodecTraining, {"channels": 0}),
        (AttackerTraining, {"noise": "loud"}),
        (AttackerTraining, {"pictures": 0}),
    ],
)
def test_training_parameters_out_of_range_are_refused(kind: type, values: dict) -> None:
    name, value = next(iter(values.items()))
    with pytest.raises(ValueError, match=f"{name}={value!r}"):
        kind(**values)
