"""Figures of the model card: what they count, what they leave out, and that the card is of the files beside it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.attack.inversion import Inverter  # noqa: E402
from uav_privacy_sc.perception.codec import Codec, mask_shape  # noqa: E402
from uav_privacy_sc.perception.training.batches import TapSet  # noqa: E402
from uav_privacy_sc.perception.training.card import (  # noqa: E402
    record_figures,
    record_training,
    training_entry,
)
from uav_privacy_sc.perception.training.measure import detector_figures, mostly_inside, overlap  # noqa: E402
from uav_privacy_sc.perception.training.measure_codec import (  # noqa: E402
    PAY_RULE,
    codec_figures,
    confusion,
    half_width,
    inverter_figures,
    likeness,
)
from uav_privacy_sc.perception.training.samples import UNKNOWN, Origin, Samples  # noqa: E402
from uav_privacy_sc.perception.weights import WeightsError, card_of, checksum  # noqa: E402

CAR, BUS, WALKER = 3, 8, 0


class Oracle:
    """Answers as it was told, picture by picture."""

    device, overlap = "cpu", 0.6

    def __init__(self, answers: list[np.ndarray], tiles: int = 1) -> None:
        self.answers, self.tiles = iter(answers), tiles

    def __call__(self, image: np.ndarray) -> tuple[np.ndarray, None]:
        assert self.tiles > 1, "without tiles, pictures are taken at their own scale"
        return next(self.answers), None

    def infer(self, batch: torch.Tensor) -> tuple[np.ndarray, None]:
        assert self.tiles == 1
        return next(self.answers), None


def pictures(objects: list[np.ndarray], ignored: list[np.ndarray] | None = None) -> Samples:
    return Samples(np.zeros((len(objects), 64, 64, 3), np.uint8), objects, None, ignored or [])


def figures(truth: np.ndarray, found: np.ndarray, ignored: Any = None) -> dict[str, Any]:
    regions = None if ignored is None else [np.asarray(ignored, np.float64)]
    return detector_figures(pictures([truth], regions), Oracle([found]))  # type: ignore[arg-type]


def boxes(*rows: tuple[float, float, float, int], score: float = 0.9) -> np.ndarray:
    """Square objects ``x, y, side, label``."""
    table = np.array(rows).reshape(-1, 4)
    return scene.make_objects(table[:, :2], table[:, [2, 2]], table[:, 3].astype(int), score)


def test_a_perfect_detector_scores_one_and_a_blind_one_zero() -> None:
    truth = boxes((0.3, 0.3, 0.25, CAR), (0.7, 0.7, 0.25, BUS))
    perfect, shifted = figures(truth, truth), truth.copy()
    assert perfect["map50"] == perfect["map50_all_sizes"] == perfect["recall_at_0.25"] == pytest.approx(1.0)
    assert perfect["map50_by_class"] == {"car": 1.0, "bus": 1.0}
    shifted["x"] += 0.25
    blind = figures(truth, shifted)
    assert blind["map50"] == blind["recall_at_0.25"] == 0.0


def test_a_detector_with_tiles_is_asked_for_what_it_finds_in_them() -> None:
    truth = boxes((0.3, 0.3, 0.25, CAR))
    result = detector_figures(pictures([truth]), Oracle([truth], tiles=2))  # type: ignore[arg-type]
    assert result["map50"] == pytest.approx(1.0) and result["rule"].endswith("; tiles: 2")
    assert "tiles" not in figures(truth, truth)["rule"]


def test_sizes_are_told_apart_without_punishing_one_for_another() -> None:
    near, far = (0.3, 0.3, 30 / 64, CAR), (0.8, 0.8, 12 / 64, CAR)
    by_size = figures(boxes(near, far), boxes(near))["map50_by_size"]
    assert by_size == {"8 to 16 px": {"car": 0.0}, "16 to 24 px": {}, "24 px and more": {"car": 1.0}}
    ghost = np.concatenate([boxes((0.8, 0.8, 12 / 64, CAR), score=0.99), boxes(near, score=0.5)])
    by_size = figures(boxes(near), ghost)["map50_by_size"]
    assert by_size["24 px and more"] == {"car": 1.0}, "a false box of another size is no fault here"


def test_small_truths_neither_count_nor_punish() -> None:
    large, small = (0.3, 0.3, 0.25, CAR), (0.8, 0.8, 5 / 64, CAR)
    missed = figures(boxes(large, small), boxes(large))
    assert missed["map50"] == missed["recall_at_0.25"] == pytest.approx(1.0)
    assert missed["map50_all_sizes"] < 0.6
    assert (missed["objects"], missed["objects_of_all_sizes"]) == (1, 2)
    found = boxes(large, score=0.5)
    surest = np.concatenate([boxes(small, score=0.99), found])
    assert figures(boxes(large, small), surest)["map50"] == pytest.approx(1.0), "finding it is no fault"
    assert figures(boxes(large), surest)["map50"] == pytest.approx(1.0), "nor is finding what would be too small"
    larger = np.concatenate([boxes((0.8, 0.8, 0.2, CAR), score=0.99), found])
    assert figures(boxes(large), larger)["map50"] == pytest.approx(0.5), "finding what is not there is one"
    inside = np.concatenate([boxes((0.3, 0.3, 6 / 64, CAR), score=0.99), found])
    assert figures(boxes(large), inside)["map50"] == pytest.approx(1.0), "too small to be meant"
    assert figures(boxes(large), surest)["map50_all_sizes"] == pytest.approx(0.5)


def test_a_class_that_only_small_truths_have_is_not_averaged() -> None:
    result = figures(boxes((0.3, 0.3, 0.25, CAR), (0.8, 0.8, 5 / 64, WALKER)), boxes((0.3, 0.3, 0.25, CAR)))
    assert result["map50_by_class"] == {"car": 1.0}
    assert result["map50_all_sizes_by_class"] == {"pedestrian": 0.0, "car": 1.0}


def test_what_is_found_in_an_ignored_region_is_no_fault() -> None:
    truth, more = boxes((0.3, 0.3, 0.25, CAR), score=0.5), boxes((0.8, 0.8, 0.25, CAR), score=0.99)
    found = np.concatenate([more, boxes((0.3, 0.3, 0.25, CAR), score=0.5)])
    assert figures(truth, found)["map50"] == pytest.approx(0.5)
    assert figures(truth, found, [[0.6, 0.6, 1.0, 1.0]])["map50"] == pytest.approx(1.0)
    halves = [[0.68, 0.6, 0.78, 1.0], [0.7, 0.6, 0.85, 1.0]]
    assert mostly_inside(more, np.array(halves), (64, 64)).all(), "two regions together"
    assert not mostly_inside(more, np.array([[0.68, 0.6, 0.78, 1.0]]), (64, 64)).any()


def test_recall_counts_each_truth_once_and_only_sure_boxes() -> None:
    truth = boxes((0.3, 0.3, 0.25, CAR), (0.7, 0.7, 0.25, CAR))
    twice = boxes((0.3, 0.3, 0.25, CAR), (0.31, 0.3, 0.25, CAR))
    assert figures(truth, twice)["recall_at_0.25"] == 0.5
    unsure = figures(truth, boxes((0.3, 0.3, 0.25, CAR), score=0.2))
    assert unsure["recall_at_0.25"] == 0.0 < unsure["map50"]
    assert overlap(np.array([[0, 0, 2, 1.0]]), np.array([[1, 0, 3, 1.0]]))[0, 0] == pytest.approx(1 / 3)


def test_nothing_anywhere_is_measured_too() -> None:
    empty = figures(scene.no_objects(), scene.no_objects())
    assert empty["map50"] == 0.0 and empty["map50_by_class"] == {} and empty["objects"] == 0


def taps(count: int = 3) -> TapSet:
    rng = np.random.default_rng(3)
    values = rng.normal(0, 1, (count, 128, 8, 8)).astype(np.float16)
    masks = np.full((count, 16, 16), 13, np.uint8)
    masks[:, 2:8, 2:8] = CAR
    masks[:, 12:] = UNKNOWN
    objects = [scene.make_objects([[5 / 16, 5 / 16]], [[6 / 16, 6 / 16]], [CAR]) for _ in range(count)]
    return TapSet(values, rng.integers(0, 255, (count, 32, 32, 3), np.uint8), masks, objects)


def test_unknown_pixels_are_not_counted() -> None:
    table = confusion(np.array([[0, UNKNOWN], [13, 13]]), np.array([[0, 5], [13, 2]]))
    assert table.sum() == 3 and table[0, 0] == table[13, 13] == table[13, 2] == 1


class Painter(torch.nn.Module):
    """Paints the truth where the code is heard loudly enough; a car everywhere the prior says so, and nothing else."""

    def __init__(self, data: TapSet) -> None:
        super().__init__()
        self.mask = torch.from_numpy(np.where(data.masks[0] == UNKNOWN, 13, data.masks[0])).long()

    mask_scale = 4

    def encoder(self, tap: torch.Tensor) -> torch.Tensor:
        return torch.full((1, 2, 4, 4), 0.5)

    def decoder(self, code: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        clear = (code - 0.5).abs().mean() < 1.0
        painted = self.mask if clear and bool(code.any()) else torch.where(prior[0, CAR] > 0, CAR, 12)
        return torch.nn.functional.one_hot(painted, 14).permute(2, 0, 1)[None].float()


def test_the_level_from_which_features_pay_is_where_they_beat_the_prior() -> None:
    data = taps()
    result = codec_figures(data, Painter(data), epsilons=(1, 1000, None))  # type: ignore[arg-type]
    assert set(result) == {"pictures", "prior", "uniform", "region_aware", "features_pay_from", "rule"}
    assert result["rule"] == PAY_RULE
    assert result["uniform"]["none"]["both"]["miou"] == 1.0
    assert result["uniform"]["1"]["gain_miou"] == 0.0
    assert result["prior"]["object_accuracy"] == 1.0 > result["prior"]["accuracy"]
    assert result["features_pay_from"]["uniform"] == {"miou": "1000", "accuracy": "1000"}
    nowhere = codec_figures(data, Painter(data), epsilons=(1,))  # type: ignore[arg-type]
    assert nowhere["features_pay_from"]["uniform"] == {"miou": None, "accuracy": None}


def test_codec_figures_are_the_same_again_and_have_intervals() -> None:
    torch.manual_seed(0)
    codec = Codec().eval()
    data = taps()
    assert mask_shape(data.taps.shape, codec.mask_scale // 2) == data.masks.shape[1:]
    first = codec_figures(data, codec, epsilons=(1, None))
    assert first == codec_figures(data, codec, epsilons=(1, None))
    both = first["region_aware"]["1"]["both"]
    assert both["accuracy_95"][0] <= both["accuracy"] <= both["accuracy_95"][1]


def test_each_inverter_is_measured_at_each_budget() -> None:
    torch.manual_seed(0)
    inverters = {"plain": Inverter().eval(), "adaptive": Inverter().eval()}
    result = inverter_figures(taps(), Codec().eval(), inverters, epsilons=(1, None))
    assert set(result) == set(inverters) and set(result["plain"]) == {"1", "none"}
    assert -1 <= result["plain"]["1"]["ssim"] <= 1 and result["plain"]["1"]["psnr_db"] > 0


def test_likeness_of_equal_pictures_is_finite_and_an_interval_is_students() -> None:
    picture = np.random.default_rng(0).integers(0, 255, (16, 16, 3), np.uint8)
    assert likeness(picture, picture) == (1.0, 100.0)
    assert half_width((1.0, 2.0, 3.0), 3) == pytest.approx(4.303 / np.sqrt(3), abs=2e-3)
    assert half_width((1.0,), 3) is None


def trainer(seed: int = 1) -> SimpleNamespace:
    return SimpleNamespace(
        checkpoint=SimpleNamespace(step=3),
        losses=[[1.0], [0.5], [0.5], [9.0]],
        config=SimpleNamespace(seed=seed, steps=3),
        made_of={"settings": {"steps": 3}},
        LOSSES=("mask",),
    )


def test_a_training_is_recorded_with_what_it_was_made_of(tmp_path: Path) -> None:
    (tmp_path / "codec.pt").write_bytes(b"weights")
    entry = training_entry(tmp_path, "codec.pt", trainer(), {"name": "train"}, {"detector_sha256": "abc"})
    card = json.loads(record_training(tmp_path, "codec.pt", entry).read_text())
    recorded = card["training"]["codec"]
    assert recorded["steps"] == 3 and recorded["complete"] and recorded["seed"] == 1
    assert recorded["last_losses"] == {"mask": pytest.approx(0.6667, abs=1e-4)}, "of the checkpoint, not after it"
    assert recorded["sha256"] == card["files"]["codec.pt"]["sha256"] == checksum(tmp_path / "codec.pt")
    assert recorded["versions"]["torch"] and card["figures"] == {} and "not measured" in card["spread"]


def test_figures_go_when_the_weights_they_are_of_change(tmp_path: Path) -> None:
    for name in ("detector.pt", "codec.pt"):
        (tmp_path / name).write_bytes(b"old")
        entry = training_entry(tmp_path, name, trainer(), {}, {})
        record_training(tmp_path, name, entry)
    record_figures(tmp_path, {"detector": {"map50": 0.5}})
    assert card_of(tmp_path)["figures"]["detector"] == {"map50": 0.5}
    assert set(card_of(tmp_path)["training"]) == {"detector", "codec"}
    (tmp_path / "codec.pt").write_bytes(b"new")
    record_training(tmp_path, "codec.pt", training_entry(tmp_path, "codec.pt", trainer(2), {}, {}))
    card = card_of(tmp_path)
    assert card["figures"] == {} and card["training"]["codec"]["seed"] == 2 and "detector" in card["training"]
    (tmp_path / "detector.pt").write_bytes(b"of someone else")
    assert "detector" not in json.loads(record_figures(tmp_path, {}).read_text())["training"]


def test_a_card_that_is_none_is_named(tmp_path: Path) -> None:
    for text in ("{", "[]"):
        (tmp_path / "card.json").write_text(text)
        with pytest.raises(WeightsError, match=r"card\.json"):
            card_of(tmp_path)


def test_a_card_names_the_folder_but_not_where_it_is() -> None:
    described = pictures([boxes((0.3, 0.3, 0.25, CAR))]).describe()
    assert described["objects_by_class"] == {"car": 1} and described["pictures"] == 1
    assert Samples(np.zeros((0, 8, 8, 3), np.uint8), [], None, origin=Origin(name="test")).describe()["name"] == "test"
