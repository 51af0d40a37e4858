"""A flight from a bag is the flight from its source: the same features bit for bit, the same decisions with a seed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from conftest import FakeStages
from PIL import Image

from uav_privacy_sc.cli import main
from uav_privacy_sc.data.sources import SyntheticSource, open_source
from uav_privacy_sc.flight import FlightConfig, FlightLog, FrameLog

FRAMES = 3


@pytest.fixture(scope="module")
def pictures() -> list[np.ndarray]:
    return [frame.image[::2, ::2] for frame in SyntheticSource(5, 10.0, FRAMES)]


def _folder(path: Path, suffix: str, pictures: list[np.ndarray]) -> Path:
    path.mkdir()
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(path / f"{number}{suffix}")
    return path


def _bag(folder: Path, bag: Path, *options: str) -> Path:
    assert main(["convert", str(folder), str(bag), *options]) == 0
    return bag


@pytest.fixture(scope="module")
def perceive():
    pytest.importorskip("torch")
    from uav_privacy_sc.perception.stage import Perception

    return Perception(device="cpu", confidence=0.05)


@pytest.mark.parametrize(
    ("suffix", "options"),
    [
        (".png", ("--raw",)),
        (".png", ("--raw", "--storage", "sqlite3")),
        (".png", ("--compressed",)),
        (".jpg", ("--compressed",)),
        (".jpg", ("--raw",)),
    ],
)
def test_features_and_objects_are_the_same_bit_for_bit(
    tmp_path: Path, perceive, pictures, suffix: str, options: tuple
) -> None:
    folder = _folder(tmp_path / "in", suffix, pictures)
    flown, replayed = open_source(folder), open_source(_bag(folder, tmp_path / "bag", *options))
    seen = [(perceive(one.image), perceive(other.image)) for one, other in zip(flown, replayed, strict=True)]
    assert len(seen) == FRAMES and sum(len(one.objects) for one, _ in seen) > 0
    for one, other in seen:
        assert one.features.tobytes() == other.features.tobytes()
        assert one.objects.tobytes() == other.objects.tobytes()


def _fly(source: Path, perceive) -> FlightLog:
    from uav_privacy_sc.graph import fly

    fakes = FakeStages()
    stages = {"perception": perceive, "ground": fakes.decode, "eavesdropper": fakes.attack}
    return fly(open_source(source), FlightConfig(seed=11, device="cpu"), stages=stages)


def _decisions(frame: FrameLog) -> tuple:
    return (frame.stamp_ns, frame.budgets.epsilon_v, frame.budgets.epsilon_l, frame.budgets.p_tx, frame.record)


def test_a_seeded_run_over_real_topics_decides_the_same_from_a_bag(tmp_path: Path, perceive, pictures) -> None:
    pytest.importorskip("rclpy", reason="rclpy is not installed")
    folder = _folder(tmp_path / "in", ".png", pictures)
    first, second = _fly(folder, perceive), _fly(_bag(folder, tmp_path / "bag", "--raw"), perceive)
    assert first.counts["released"] == second.counts["released"] == FRAMES
    for one, other in zip(first.frames, second.frames, strict=True):
        assert _decisions(one) == _decisions(other)
        for name in ("raw_features", "percept_objects", "epsilon_map", "ground_objects", "eve_features"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
