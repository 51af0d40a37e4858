"""``uav-privacy-sc train``: flights, detector, codec and card in a row; interruptions and wrong folders."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from uav_privacy_sc.cli import main  # noqa: E402
from uav_privacy_sc.perception.training.detector import DetectorTrainer  # noqa: E402


def test_the_shipped_weights_can_be_made_again_step_by_step(tmp_path: Path) -> None:
    data, out = str(tmp_path / "data"), str(tmp_path / "weights")
    assert main(["train", "flights", "--out", data, "--train", "1", "--test", "1", "--jobs", "1"]) == 0
    assert len(list((tmp_path / "data" / "train" / "images").glob("*.jpg"))) == 8
    assert main(["train", "detector", "--data", f"{data}/train", "--out", out, "--steps", "1"]) == 0
    assert main(["train", "codec", "--data", f"{data}/train", "--out", out, "--steps", "1"]) == 0
    assert main(["train", "card", "--data", f"{data}/test", "--out", out, "--detector-steps", "1"]) == 0
    card = json.loads((tmp_path / "weights" / "card.json").read_text())
    assert card["training"]["detector"]["steps"] == 1
    assert card["figures"]["detector"]["pictures"] == 4


def test_an_interrupted_training_says_where_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: DetectorTrainer, progress: object) -> None:
        self.step = 250
        raise KeyboardInterrupt

    monkeypatch.setattr(DetectorTrainer, "run", interrupted)
    data = str(tmp_path / "data")
    main(["train", "flights", "--out", data, "--train", "1", "--test", "1", "--jobs", "1"])
    assert main(["train", "detector", "--data", f"{data}/test", "--out", str(tmp_path / "out")]) == 1
    assert "stopped after 250 steps; the same command goes on from step 200" in capsys.readouterr().err


def test_wrong_folders_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "detector", "--data", str(tmp_path)]) == 2
    assert f"{tmp_path} has no images/" in capsys.readouterr().err
    assert main(["train", "detector", "--data", str(tmp_path), "--steps", "0"]) == 2
