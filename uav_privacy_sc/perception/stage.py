"""The learned stages of the pipeline: what runs on the aircraft (:class:`Perception`), what runs on the ground
(:class:`GroundDecoder`)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from uav_privacy_sc.perception.codec import Codec, mask_shape, prior_planes
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.device import choose_device
from uav_privacy_sc.perception.weights import load_module, locate


@dataclass(frozen=True)
class Percept:
    """What was seen in a picture: ``features`` ``(C, H', W')`` float32, ``objects`` ``(M,)`` records."""

    features: np.ndarray
    objects: np.ndarray


def _codec(weights: Path | str | None, device: torch.device) -> Codec:
    codec = load_module(locate("codec.pt", weights), Codec)
    assert isinstance(codec, Codec)
    return codec.to(device)


class Perception:
    """E(.) of P1 Eq. 1: a picture to semantic features and objects, on one device.

    ``weights`` is a folder with ``detector.pt`` and ``codec.pt`` (the shipped ones when left out); ``device`` is
    ``auto``, ``cpu`` or ``cuda:N``; objects below ``confidence`` are dropped.

    Raises:
        WeightsError: weights that are not there or cannot be read.
        ValueError: device or confidence out of range.
    """

    def __init__(self, weights: Path | str | None = None, device: str = "auto", confidence: float = 0.25) -> None:
        self.device = choose_device(device)
        self.detector = Detector(locate("detector.pt", weights), self.device, confidence)
        self.encoder = _codec(weights, self.device).encoder

    @torch.inference_mode()
    def __call__(self, image: np.ndarray) -> Percept:
        """Perceive one RGB uint8 picture ``(H, W, 3)`` of any size."""
        objects, tap = self.detector(image)
        return Percept(self.encoder(tap)[0].float().cpu().numpy(), objects)

    def warm_up(self) -> None:
        """Run once, so that the first frame is not the slow one."""
        self(np.zeros((540, 960, 3), np.uint8))


class GroundDecoder:
    """D_sem(.) of P1 Eq. 5: received features and objects to a semantic mask."""

    def __init__(self, weights: Path | str | None = None, device: str = "auto") -> None:
        self.device = choose_device(device)
        self.decoder = _codec(weights, self.device).decoder

    @torch.inference_mode()
    def __call__(self, features: np.ndarray, objects: np.ndarray) -> np.ndarray:
        """Return the mask ``(4 H', 4 W')`` uint8 of ``scene.MASK_CLASSES`` values.

        ``features`` is ``(C, H', W')``; ``objects`` are records, none for a prior that knows nothing.
        """
        code = torch.from_numpy(np.ascontiguousarray(features, np.float32))[None].to(self.device)
        prior = torch.from_numpy(prior_planes(objects, mask_shape(features.shape)))[None].to(self.device)
        return self.decoder(code, prior)[0].argmax(dim=0).to(torch.uint8).cpu().numpy()
