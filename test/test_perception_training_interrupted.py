"""A training that is interrupted anywhere leaves weights, checkpoint and card that agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

torch = pytest.importorskip("torch")

from test_perception_training import TINY, silent, taps  # noqa: E402

from uav_privacy_sc import scene  # noqa: E402
from uav_privacy_sc.perception.codec import Codec  # noqa: E402
from uav_privacy_sc.perception.tap import Tap  # noqa: E402
from uav_privacy_sc.perception.training import checkpoint as checkpoint_module  # noqa: E402
from uav_privacy_sc.perception.training.attacker import AttackerTrainer, AttackerTraining  # noqa: E402
from uav_privacy_sc.perception.training.batches import TapSet  # noqa: E402
from uav_privacy_sc.perception.training.card import record_training, training_entry  # noqa: E402
from uav_privacy_sc.perception.training.checkpoint import CheckpointError  # noqa: E402
from uav_privacy_sc.perception.training.codec import CodecTrainer, CodecTraining  # noqa: E402
from uav_privacy_sc.perception.training.detector import DetectorTrainer  # noqa: E402
from uav_privacy_sc.perception.training.progress import run  # noqa: E402
from uav_privacy_sc.perception.training.samples import Samples  # noqa: E402
from uav_privacy_sc.perception.weights import checksum  # noqa: E402


@pytest.fixture(scope="module")
def pictures() -> Samples:
    """Two pictures with an object each."""
    objects = [scene.make_objects([[0.5, 0.5]], [[0.4, 0.4]], [label]) for label in (0, 3)]
    return Samples(np.random.default_rng(4).integers(0, 255, (2, 64, 64, 3), np.uint8), objects, None)


class Attacking(AttackerTrainer):
    """An attacker's trainer made as a codec's is."""

    def __init__(self, data: TapSet, out: Path, config: CodecTraining) -> None:
        torch.manual_seed(8)
        super().__init__(data, Codec(), out, AttackerTraining(steps=config.steps, batch=2, checkpoint_every=1))


def interruptible(kind: str, pictures: Samples, out: Path) -> Any:
    """Return a trainer of two steps that saves after each."""
    if kind == "detector":
        return DetectorTrainer(pictures, out, TINY)
    config = CodecTraining(steps=2, batch=2, crop=(6, 8), checkpoint_every=1)
    return (CodecTrainer if kind == "codec" else Attacking)(taps(), out, config)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        ("codec", "save_whole"),
        ("codec", "checksum"),
        ("inverter", "save_whole"),
        ("detector", "save_whole"),
        ("detector", "plot_losses"),
    ],
)
def test_weights_card_and_checkpoint_agree_wherever_ctrl_c_comes(
    kind: str, place: str, pictures: Samples, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{kind}.pt"
    for label in ("whole", "stopped"):
        trainer, calls, usual = interruptible(kind, pictures, tmp_path / label), [0], getattr(checkpoint_module, place)

        def strike(*given: Any, calls: list[int] = calls, usual: Any = usual) -> Any:
            calls[0] += 1
            if calls[0] == 2:
                raise KeyboardInterrupt
            return usual(*given)

        def record(trainer: Any = trainer) -> None:
            record_training(trainer.out, name, training_entry(trainer.out, name, trainer, {}, {}))

        if label == "whole":
            run(trainer, "", record)
            continue
        with monkeypatch.context() as patch, pytest.raises(typer.Exit):
            patch.setattr(checkpoint_module, place, strike)
            run(trainer, "", record)
        entry = json.loads((trainer.out / "card.json").read_text())["training"][kind]
        assert entry["steps"] == (2 if place == "plot_losses" else 1)
        assert entry["sha256"] == checksum(trainer.out / name)
        assert entry["complete"] == same_weights(tmp_path / "whole" / name, trainer.out / name)
        interruptible(kind, pictures, trainer.out).run(silent)
        assert same_weights(tmp_path / "whole" / name, trainer.out / name)
        assert not list(trainer.out.glob("*.part"))


def same_weights(*paths: Path) -> bool:
    """Whether two files of weights hold the same parameters."""
    first, second = (torch.load(path, map_location="cpu", weights_only=False) for path in paths)
    states = [saved["state"] if "state" in saved else saved["model"].state_dict() for saved in (first, second)]
    return all(torch.equal(value, states[1][name]) for name, value in states[0].items())


@pytest.mark.parametrize("kind", ["detector", "codec", "inverter"])
def test_a_finished_training_writes_weights_again_that_are_gone_or_others(
    kind: str, pictures: Samples, tmp_path: Path
) -> None:
    trainer, path = interruptible(kind, pictures, tmp_path), tmp_path / f"{kind}.pt"
    trainer.run(silent)
    path.rename(tmp_path / "kept.pt")
    for text in (None, b"of an earlier step"):
        if text is not None:
            path.write_bytes(text)
        interruptible(kind, pictures, tmp_path).run(silent)
        assert same_weights(tmp_path / "kept.pt", path)
    before = path.stat().st_mtime_ns
    interruptible(kind, pictures, tmp_path).run(silent)
    assert path.stat().st_mtime_ns == before, "what agrees is left alone"


def test_a_codec_of_another_tap_or_reach_is_not_resumed(tmp_path: Path) -> None:
    config = CodecTraining(steps=1, batch=2, crop=(6, 8), channels=4)
    CodecTrainer(taps(), tmp_path, config, Tap(5, 128, 8), 2).run(silent)
    for tap, reach, said in ((Tap(6, 128, 8), 2, "tap_layer=5 .now 6."), (Tap(5, 128, 8), 4, "reach=2 .now 4.")):
        with pytest.raises(CheckpointError, match=f"begun with {said}; .*--out.*--fresh"):
            CodecTrainer(taps(), tmp_path, config, tap, reach)
