"""Networks made up for tests of the evaluation: small pictures, no torch, in place of those that are loaded."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
from fake_flight import drawn_scene, fake_decoder

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation.networks import Networks
from uav_privacy_sc.evaluation.samples import Sample

GRID = (11, 20)


def small_features(image: np.ndarray) -> np.ndarray:
    """Return ``(16, 11, 20)`` features of vectors shorter than 1, the first three channels the small picture."""
    small = cv2.resize(image, GRID[::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255
    return np.concatenate([small.transpose(2, 0, 1)] * 6)[:16].astype(np.float32) / 4


def small_inverter(features: np.ndarray) -> np.ndarray:
    """Read the picture back out of :func:`small_features`."""
    picture = np.clip(features[:3].transpose(1, 2, 0) * 4, 0, 1)
    return (cv2.resize(picture, (GRID[1] * 8, GRID[0] * 8), interpolation=cv2.INTER_LINEAR) * 255).astype(np.uint8)


def small_decoder(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Decode as the fake flight's ground does, on a mask four times the grid."""
    mask = fake_decoder(features * 4, objects)
    return np.ascontiguousarray(mask[::2, ::2])


def small_perception(image: np.ndarray) -> Any:
    """Find two of the three drawn objects, whatever the picture shows."""
    _, _, objects = drawn_scene(0)
    return SimpleNamespace(features=small_features(image), objects=objects[:2])


@dataclass(frozen=True)
class FakeNetworks(Networks):
    """Networks without files."""

    def checksums(self) -> dict[str, str]:
        """Return made-up checksums."""
        return {"detector.pt": "0" * 64, "codec.pt": "1" * 64, "inverter.pt": "2" * 64}

    @property
    def adaptive_file(self) -> None:  # type: ignore[override]
        """There is no adaptive inverter."""
        return None


def fake_loaded(networks: Networks) -> Any:
    """Stand in for ``networks.networks_for``."""
    return SimpleNamespace(
        perception=small_perception, decoder=small_decoder, inverters={"inverter": small_inverter}, encoder=None
    )


def drawn_sample(number: int, people: bool = True, pictures: bool = True) -> Sample:
    """Return a drawn sample; without people only its car is left."""
    image, mask, objects = drawn_scene(number)
    if not people:
        objects = objects[objects["label"] == scene.OBJECT_CLASSES.index("car")]
    if not pictures:
        return Sample(f"layout {number}", objects, detected=objects)
    return Sample(f"drawn {number}", objects, image, mask, features=small_features(image), detected=objects[:2])
