"""Shared by all tests: discovery confined to this computer, domains of one's own, and stages that need no network."""

from __future__ import annotations

import os
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.data.sources import Source, SourceFrame, Truth
from uav_privacy_sc.nodes.domains import reserved_domains

os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
os.environ.setdefault("OMP_NUM_THREADS", "1")

GRID = (22, 40)
CHANNELS = 16


def some_objects(count: int, seed: int = 0) -> np.ndarray:
    """Objects of random classes in random places."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(scene.OBJECT_CLASSES), count)
    return scene.make_objects(rng.uniform(0.1, 0.9, (count, 2)), np.full((count, 2), 0.06), labels, 0.9)


class FakeStages:
    """Stand-ins for perception, decoder and attacker: a pure function of what they are given, in no time."""

    def __init__(self) -> None:
        self.perceived: list[int] = []

    def perceive(self, image: np.ndarray) -> Any:
        value = int(image[0, 0, 0])
        self.perceived.append(value)
        features = np.full((CHANNELS, *GRID), value / 255, np.float32)
        return SimpleNamespace(features=features, objects=some_objects(1 + value % 4, value))

    def decode(self, features: np.ndarray, objects: np.ndarray) -> np.ndarray:
        return np.full((4 * GRID[0], 4 * GRID[1]), len(objects), np.uint8)

    def attack(self, features: np.ndarray) -> np.ndarray:
        return np.zeros((8 * GRID[0], 8 * GRID[1], 3), np.uint8)

    def by_node(self) -> dict[str, Any]:
        return {"perception": self.perceive, "ground": self.decode, "eavesdropper": self.attack}


class FakeSource(Source):
    """Small pictures whose first pixel is the number of the frame; those in ``broken`` cannot be read."""

    kind = "images"

    def __init__(self, frames: int = 6, broken: tuple[int, ...] = (), repeat_stamp: bool = False) -> None:
        super().__init__("fake flight", 10.0, frames)
        self._count, self._broken, self._repeat_stamp = frames, broken, repeat_stamp
        self.closed = False

    def _frames(self) -> Iterator[SourceFrame]:
        for index in range(self._count):
            stamp = self.stamp_ns(0 if self._repeat_stamp else index)
            if index in self._broken:
                yield SourceFrame(index, stamp, None, "it is no image in a known format")
            else:
                image = np.full((54, 96, 3), index, np.uint8)
                yield SourceFrame(index, stamp, image, truth=Truth(some_objects(2)))

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def stages() -> FakeStages:
    return FakeStages()


@pytest.fixture
def domains() -> Iterator[tuple[int, int]]:
    """Two DDS domains that nobody else on this computer is in, for as long as the test runs."""
    with reserved_domains(2) as (onboard, ground):
        yield onboard, ground
