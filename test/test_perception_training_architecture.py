"""Detectors with one more level: what YOLO11n knew is kept, frozen layers fit, and bfloat16 trains the same network."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from test_perception_training import TINY, silent  # noqa: E402

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.perception.backends import load_yolo  # noqa: E402
from uav_privacy_sc.perception.detector import Detector  # noqa: E402
from uav_privacy_sc.perception.training.architecture import ARCHITECTURES, matched_to, new_network  # noqa: E402
from uav_privacy_sc.perception.training.checkpoint import CheckpointError  # noqa: E402
from uav_privacy_sc.perception.training.detector import (  # noqa: E402
    DetectorTrainer,
    DetectorTraining,
    PictureByPicture,
    save_yolo,
    start_from,
)
from uav_privacy_sc.perception.training.samples import Samples  # noqa: E402
from uav_privacy_sc.perception.weights import WeightsError  # noqa: E402


@pytest.fixture(scope="module")
def samples() -> Samples:
    rng = np.random.default_rng(5)
    objects = [scene.make_objects(rng.random((3, 2)), np.full((3, 2), 0.4), [0, 3, 8]) for _ in range(2)]
    return Samples(rng.integers(0, 255, (2, 64, 64, 3), np.uint8), objects, None)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights of a YOLO11n."""
    torch.manual_seed(7)
    path = tmp_path_factory.mktemp("yolo11n") / "detector.pt"
    save_yolo(new_network("yolo11n"), path, {})
    return path


def coarse_predictions(model: torch.nn.Module, picture: torch.Tensor) -> torch.Tensor:
    """What cells of 8 pixels and more say, ``(1, 14, 84)`` of a picture of 64 x 64."""
    with torch.inference_mode():
        return model(picture)[0][..., -84:]


def test_a_level_more_is_cells_of_4_pixels(tmp_path: Path) -> None:
    assert {name: new_network(name).stride.tolist() for name in ARCHITECTURES} == {
        "yolo11n": [8, 16, 32],
        "yolo11n-p2": [4, 8, 16, 32],
    }
    save_yolo(new_network("yolo11n-p2"), tmp_path / "p2.pt", {"architecture": "yolo11n-p2"})
    seer = Detector(tmp_path / "p2.pt")
    records, tap = seer.infer(torch.zeros(1, 3, 64, 96))
    assert tap.shape == (1, 128, 8, 12) and records.dtype == scene.make_objects([], [], []).dtype


def test_from_yolo11n_all_but_the_new_level_is_taken_and_says_the_same(plain: Path, tmp_path: Path) -> None:
    network = new_network("yolo11n-p2")
    assert 90 <= start_from(network, plain) < 100
    save_yolo(network, tmp_path / "p2.pt", {})
    before, after = load_yolo(plain), load_yolo(tmp_path / "p2.pt")
    picture = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(coarse_predictions(after, picture), coarse_predictions(before, picture))
    assert after(picture)[0].shape[-1] == 84 + 16 * 16


def test_back_to_yolo11n_the_finest_level_is_left_out(plain: Path, tmp_path: Path) -> None:
    fine, back = new_network("yolo11n-p2"), new_network("yolo11n")
    start_from(fine, plain)
    save_yolo(fine, tmp_path / "p2.pt", {})
    assert start_from(back, tmp_path / "p2.pt") == 100
    given = load_yolo(plain).state_dict()
    save_yolo(back, tmp_path / "back.pt", {})
    assert all(torch.equal(value, given[name]) for name, value in load_yolo(tmp_path / "back.pt").state_dict().items())


def test_a_head_without_levels_of_the_same_cells_lends_none(plain: Path) -> None:
    given, own = load_yolo(plain), new_network("yolo11n")
    given.model[-1].stride = torch.tensor([64.0, 128.0, 256.0])
    assert not [name for name in matched_to(own, given) if name.startswith(("model.23.cv2", "model.23.cv3"))]


def test_frozen_layers_of_yolo11n_stay_under_the_new_level(plain: Path, samples: Samples, tmp_path: Path) -> None:
    DetectorTrainer(samples, tmp_path, replace(TINY, freeze=5), init=plain).run(silent)
    before, after = (load_yolo(path).model[:5].state_dict() for path in (plain, tmp_path / "detector.pt"))
    assert before and all(torch.equal(value, after[name]) for name, value in before.items())


def test_what_is_frozen_has_to_come_from_the_given_weights(plain: Path, samples: Samples, tmp_path: Path) -> None:
    with pytest.raises(WeightsError, match="has not all of layer 25: freeze=26 must be 25 at most"):
        DetectorTrainer(samples, tmp_path, replace(TINY, freeze=26), init=plain)


def test_a_checkpoint_from_before_there_was_a_choice_goes_on_as_what_it_is(
    plain: Path, samples: Samples, tmp_path: Path
) -> None:
    config = replace(TINY, architecture="yolo11n")
    DetectorTrainer(samples, tmp_path, config, init=plain).run(silent)
    path = tmp_path / "detector-checkpoint.pt"
    saved = torch.load(path, weights_only=True)
    made_of = json.loads(saved["made_of"])
    for name in ("architecture", "bfloat16"):
        made_of["settings"].pop(name)
    torch.save({**saved, "made_of": json.dumps(made_of)}, path)
    assert DetectorTrainer(samples, tmp_path, config, init=plain).step == 2
    with pytest.raises(CheckpointError, match=r"begun with bfloat16=False \(now True\)"):
        DetectorTrainer(samples, tmp_path, replace(config, bfloat16=True), init=plain)
    with pytest.raises(CheckpointError, match=r"begun with architecture=yolo11n \(now yolo11n-p2\)"):
        DetectorTrainer(samples, tmp_path, TINY, init=plain)


@pytest.mark.parametrize("counts", [[0, 0], [3, 0], [0, 1, 7, 0], [1, 40]])
def test_objects_are_assigned_picture_by_picture_as_all_at_once(counts: list[int]) -> None:
    generator = torch.Generator().manual_seed(3)
    network = new_network("yolo11n-p2")
    network.criterion = network.init_criterion()
    together = network.criterion.assigner
    boxes = torch.rand(sum(counts), 4, generator=generator) * 0.3 + 0.2
    batch = {
        "img": torch.rand(len(counts), 3, 64, 64, generator=generator),
        "batch_idx": torch.repeat_interleave(torch.arange(len(counts)), torch.tensor(counts)).float(),
        "cls": torch.randint(0, 10, (sum(counts), 1), generator=generator).float(),
        "bboxes": boxes,
    }
    found = []
    for assigner in (together, PictureByPicture(together)):
        network.criterion.assigner = assigner
        network.zero_grad()
        loss, _ = network.loss(batch, network.train()(batch["img"]))
        loss.sum().backward()
        found.append((loss.detach(), network.model[-1].cv2[0][2].weight.grad.clone()))
    torch.testing.assert_close(found[0], found[1])
    assert float(found[0][0][0]) == 0 if not sum(counts) else float(found[0][0][0]) > 0


def test_bfloat16_gives_the_loss_that_float32_gives(plain: Path, samples: Samples, tmp_path: Path) -> None:
    config = replace(TINY, steps=1, batch=2, crop=64)
    found = []
    for bfloat16 in (False, True):
        trainer = DetectorTrainer(samples, tmp_path / str(bfloat16), replace(config, bfloat16=bfloat16), init=plain)
        trainer.run(silent)
        assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
        found.append(trainer.losses[0])
    assert found[0] != found[1], "half of the bits are not none"
    np.testing.assert_allclose(found[1], found[0], rtol=0.03)


def test_unknown_networks_and_too_many_frozen_layers_are_refused(samples: Samples, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="architecture='yolo12' is not known; give one of yolo11n, yolo11n-p2"):
        DetectorTraining(architecture="yolo12")
    with pytest.raises(ValueError, match="freeze=-1 must be from 0 on"):
        DetectorTraining(freeze=-1)
    with pytest.raises(ValueError, match="freeze=27 must be from 0 to 26: layer 26 is the head"):
        DetectorTrainer(samples, tmp_path, replace(TINY, freeze=27))
    with pytest.raises(ValueError, match="freeze=5 needs init"):
        DetectorTrainer(samples, tmp_path, replace(TINY, freeze=5))
    classifier = tmp_path / "other.pt"
    from ultralytics.nn.tasks import ClassificationModel

    torch.save({"model": ClassificationModel("yolo11n-cls.yaml", verbose=False), "train_args": {}}, classifier)
    with pytest.raises(WeightsError, match="init .*other.pt is of another architecture"):
        start_from(new_network("yolo11n"), classifier)
