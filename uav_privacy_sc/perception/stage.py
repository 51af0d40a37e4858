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
from uav_privacy_sc.perception.tap import tap_of
from uav_privacy_sc.perception.weights import card_checksum, checksum, load_module, locate_sound


@dataclass(frozen=True)
class Percept:
    """What was seen in a picture: ``features`` ``(C, H', W')`` float32, ``objects`` ``(M,)`` records."""

    features: np.ndarray
    objects: np.ndarray


def _codec(path: Path, device: torch.device) -> Codec:
    codec = load_module(path, Codec)
    assert isinstance(codec, Codec)
    return codec.to(device)


class Perception:
    """E(.) of P1 Eq. 1: a picture to semantic features and objects, on one device.

    Args:
        weights: folder with ``detector.pt`` and ``codec.pt``; the shipped ones when left out.
        device: ``auto``, ``cpu`` or ``cuda:N``.
        confidence: objects below it are dropped.
        detector: weights of another detector (``.pt``, ``.onnx``, ``.engine``) than the folder's.
        half: the detector in half precision, on CUDA.
        tiles: tiles a side for small objects, 1 for none; features never come from them.

    ``reach_cells`` is how far, in cells, an object's pixels change the features; ``networks`` has the SHA-256 of both
    files; ``notes`` says in a line each what is to be known of a detector that is not the codec's own.

    Raises:
        WeightsError: weights that are not there, cannot be read, do not fit one another, or are not those of the card.
        ValueError: device, confidence, half or tiles out of range.
    """

    def __init__(
        self,
        weights: Path | str | None = None,
        device: str = "auto",
        confidence: float = 0.25,
        *,
        detector: Path | str | None = None,
        half: bool = False,
        tiles: int = 1,
    ) -> None:
        self.device = choose_device(device)
        codec_path = locate_sound("codec.pt", weights)
        codec = _codec(codec_path, self.device)
        path = Path(detector).expanduser() if detector else locate_sound("detector.pt", weights)
        self.detector = Detector(path, self.device, confidence, tap=tap_of(codec), half=half, tiles=tiles)
        self.encoder, self.channels = codec.encoder, codec.settings["channels"]
        cell, pool = codec.settings["stride"] * codec.settings["pool"], codec.settings["pool"]
        self.reach_cells = max(codec.settings["reach_cells"], self.detector.backend.reach(cell, pool))
        self.networks = {"detector_sha256": self.detector.sha256, "codec_sha256": checksum(codec_path)}
        self.notes = self._notes(card_checksum(codec_path.with_name("detector.pt")))

    @torch.inference_mode()
    def __call__(self, image: np.ndarray) -> Percept:
        """Perceive one RGB uint8 picture ``(H, W, 3)`` of any size.

        Raises:
            ValueError: it is no such picture.
            FloatingPointError: a network gave NaN or infinity.
        """
        objects, tap = self.detector(image)
        return Percept(self._encode(tap), objects)

    @torch.inference_mode()
    def features(self, image: np.ndarray) -> np.ndarray:
        """Return the features ``(C, H', W')`` alone, for objects that an external detector sees."""
        return self._encode(self.detector.features(image))

    def warm_up(self) -> None:
        """Run once, so that the first frame is not the slow one."""
        self(np.zeros((540, 960, 3), np.uint8))

    @property
    def counts(self) -> dict[str, int]:
        """What was seen and cannot be used: boxes of other classes, and pictures out of proportion."""
        counts = {
            "boxes of other classes": self.detector.dropped.total(),
            "pictures stretched": self.detector.stretched,
        }
        return {name: count for name, count in counts.items() if count}

    def _encode(self, tap: torch.Tensor) -> np.ndarray:
        features = self.encoder(tap.float())[0].float().cpu().numpy()
        if not np.isfinite(features).all():
            raise FloatingPointError("the encoder's output is not finite; set half to false, or check codec.pt")
        return features

    def _notes(self, trained_on: str | None) -> tuple[str, ...]:
        notes = []
        if trained_on is None:
            notes.append("no card.json beside codec.pt says which detector it was trained on; make sure it is this one")
        elif self.detector.source_sha256 != trained_on:
            notes.append(
                "codec.pt was trained on another detector; train one on this with `uav-privacy-sc train codec`"
            )
        if self.detector.blind_to:
            notes.append(
                f"the detector knows no {' or '.join(self.detector.blind_to)}: nothing protects them as objects"
            )
        return tuple(notes)


class GroundDecoder:
    """D_sem(.) of P1 Eq. 5: received features and objects to a semantic mask. ``networks`` has the codec's SHA-256."""

    def __init__(self, weights: Path | str | None = None, device: str = "auto") -> None:
        self.device = choose_device(device)
        path = locate_sound("codec.pt", weights)
        codec = _codec(path, self.device)
        self.decoder = codec.decoder.to(memory_format=torch.channels_last)
        self.channels, self.mask_scale = codec.settings["channels"], codec.mask_scale
        self.networks = {"codec_sha256": checksum(path)}

    @torch.inference_mode()
    def __call__(self, features: np.ndarray, objects: np.ndarray) -> np.ndarray:
        """Return the mask uint8 of ``scene.MASK_CLASSES`` values, ``(4 H', 4 W')`` as shipped.

        ``features`` is ``(C, H', W')``; ``objects`` are records, none for a prior that knows nothing.

        Raises:
            ValueError: features of another number of channels than the codec's.
        """
        if features.ndim != 3 or features.shape[0] != self.channels:
            raise ValueError(f"features have shape {features.shape}; this codec's are ({self.channels}, rows, columns)")
        code = torch.from_numpy(np.ascontiguousarray(features, np.float32))[None].to(self.device)
        prior = torch.from_numpy(prior_planes(objects, mask_shape(features.shape, self.mask_scale)))[None].to(
            self.device
        )
        scores = self.decoder(code, prior)[0].permute(1, 2, 0)
        return scores.cpu().numpy().argmax(axis=2).astype(np.uint8)
