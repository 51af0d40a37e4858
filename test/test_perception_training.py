"""Training: crops keep boxes on their objects, trainers lower the loss and resume, measures measure."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.data.synthetic.dataset import render_dataset  # noqa: E402
from uav_privacy_sc.perception.codec import Codec, mask_shape  # noqa: E402
from uav_privacy_sc.perception.detector import Detector  # noqa: E402
from uav_privacy_sc.perception.training.card import measure, write_card  # noqa: E402
from uav_privacy_sc.perception.training.codec import (  # noqa: E402
    CodecTrainer,
    CodecTraining,
    TapSet,
    draw_protection,
    send,
)
from uav_privacy_sc.perception.training.detector import (  # noqa: E402
    DetectorTrainer,
    DetectorTraining,
    crop_sample,
)
from uav_privacy_sc.perception.training.measure import codec_figures, detector_figures  # noqa: E402
from uav_privacy_sc.perception.training.samples import DatasetError, Samples, load_samples  # noqa: E402
from uav_privacy_sc.perception.weights import shipped  # noqa: E402


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("training")
    render_dataset(out, 2, 2, seed=77)
    return out


@pytest.fixture(scope="module")
def samples(folder: Path) -> Samples:
    return load_samples(folder)


def _taps(count: int = 4) -> TapSet:
    rng = np.random.default_rng(3)
    taps = rng.normal(0, 1, (count, 128, 6, 8)).astype(np.float16)
    masks = (taps[:, 0].repeat(4, 1).repeat(4, 2) > 0).astype(np.uint8) * 3 + 10
    objects = [scene.make_objects(rng.random((3, 2)), np.full((3, 2), 0.2), [0, 3, 8]) for _ in range(count)]
    return TapSet(taps, rng.integers(0, 255, (count, 48, 64, 3), np.uint8), masks, objects)


def test_samples_have_the_networks_size_and_their_truth(samples: Samples) -> None:
    assert samples.images.shape == (4, 352, 640, 3)
    assert samples.masks is not None and samples.masks.shape == (4, 88, 160)
    assert all(len(objects) > 0 for objects in samples.objects)


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


def test_detector_training_resumes_where_it_stopped(samples: Samples, tmp_path: Path) -> None:
    config = DetectorTraining(steps=2, batch=2, crop=96, checkpoint_every=1)
    DetectorTrainer(samples, tmp_path, config).run(lambda step, losses: None)
    steps: list[int] = []
    again = DetectorTrainer(samples, tmp_path, DetectorTraining(steps=3, batch=2, crop=96))
    again.run(lambda step, losses: steps.append(step))
    assert steps == [3]
    assert len(json.loads((tmp_path / "detector-losses.json").read_text())) == 3
    assert Detector(tmp_path / "detector.pt")(samples.images[0])[1].shape == (1, 128, 22, 40)


def test_codec_training_lowers_the_loss_and_resumes(tmp_path: Path) -> None:
    config = CodecTraining(steps=40, batch=4, crop=(6, 8), without_noise=1.0, without_features=0.0)
    trainer = CodecTrainer(_taps(), tmp_path, config)
    trainer.run(lambda step, losses: None)
    first, last = np.mean(trainer.losses[:5], axis=0), np.mean(trainer.losses[-5:], axis=0)
    assert (last < first).all()
    assert CodecTrainer(_taps(), tmp_path, config).step == 40


def test_what_is_sent_has_the_noise_that_was_drawn() -> None:
    code = torch.full((2, 16, 40, 40), 0.1)
    sigma = torch.ones(2, 1, 40, 40) * torch.tensor([0.0, 5.0])[:, None, None, None]
    noisy = send(code, sigma, [0.0, None], torch.Generator().manual_seed(1))
    assert (noisy[0] - code[0]).std().item() == pytest.approx(0.1, rel=0.05), "0 dB: noise as strong as the code"
    assert (noisy[1] - code[1]).std().item() == pytest.approx(5.0, rel=0.05)


def test_training_meets_all_kinds_of_protection() -> None:
    rng, objects = np.random.default_rng(2), _taps().objects[0]
    drawn = [draw_protection(objects, (6, 8), CodecTraining(), rng) for _ in range(200)]
    silent = np.mean([(d.sigma == 0).all() for d in drawn])
    assert 0.2 < silent < 0.4
    levels = np.array([d.sigma.max() for d in drawn if d.sigma.any()])
    assert levels.min() < 0.1 and levels.max() > 10
    assert any(d.snr_db is None for d in drawn) and any(not d.features for d in drawn)
    assert any(not d.prior.any() for d in drawn)
    assert drawn[0].prior.shape == (10, *mask_shape((6, 8)))


def test_a_perfect_detector_scores_one_and_a_blind_one_zero(samples: Samples) -> None:
    class Oracle:
        def __init__(self, answers: list[np.ndarray]) -> None:
            self.answers = iter(answers)

        def infer(self, batch: torch.Tensor) -> tuple[np.ndarray, None]:
            return next(self.answers), None

    perfect = detector_figures(samples, Oracle(samples.objects))  # type: ignore[arg-type]
    assert perfect["map50"] == pytest.approx(1.0)
    shifted = [objects.copy() for objects in samples.objects]
    for objects in shifted:
        objects["x"] += objects["w"]
    assert detector_figures(samples, Oracle(shifted))["map50"] < 0.2  # type: ignore[arg-type]


def test_codec_figures_cover_features_prior_and_budgets() -> None:
    figures = codec_figures(_taps(2), Codec().eval(), epsilons=(1, 100))
    assert set(figures) == {"both", "features", "prior", "both at epsilon_v 1", "both at epsilon_v 100"}
    assert all(0 <= case["accuracy"] <= 1 for case in figures.values())


def test_a_card_says_what_was_measured_and_of_which_files(samples: Samples, tmp_path: Path) -> None:
    for name in ("detector.pt", "codec.pt", "inverter.pt"):
        (tmp_path / name).write_bytes(shipped(name).read_bytes())
    few = Samples(samples.images[:1], samples.objects[:1], samples.masks[:1] if samples.masks is not None else None)
    card = json.loads(write_card(tmp_path, measure(tmp_path, few), {"data": "one picture"}).read_text())
    assert set(card["figures"]) == {"detector", "codec", "inverter"}
    assert set(card["files"]) == {"detector.pt", "codec.pt", "inverter.pt"}
    assert card["training"] == {"data": "one picture"}


def test_faults_of_a_training_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="no images/"):
        load_samples(tmp_path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.jpg").write_text("not a picture")
    with pytest.raises(DatasetError, match="a.jpg is not a readable picture"):
        load_samples(tmp_path)


@pytest.mark.parametrize(
    ("kind", "values"),
    [(DetectorTraining, {"crop": 100}), (DetectorTraining, {"steps": 0}), (CodecTraining, {"batch": 0})],
)
def test_training_parameters_out_of_range_are_refused(kind: type, values: dict) -> None:
    with pytest.raises(ValueError, match="=0|=100"):
        kind(**values)
