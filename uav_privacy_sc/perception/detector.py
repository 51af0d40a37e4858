"""The object detector: an ultralytics YOLO one layer of which is tapped for the encoder in the same pass."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch

from uav_privacy_sc.perception import tiling
from uav_privacy_sc.perception.backends import Backend, TorchBackend, load_yolo, open_backend
from uav_privacy_sc.perception.boxes import candidates, is_end_to_end, records, suppress
from uav_privacy_sc.perception.classes import UnknownClass, blind_to, label_map
from uav_privacy_sc.perception.device import require_half
from uav_privacy_sc.perception.image import LONG_SIDE, MULTIPLE, check_picture, stretch, to_tensor
from uav_privacy_sc.perception.tap import Tap
from uav_privacy_sc.perception.weights import WeightsError, checksum

__all__ = ["Detector", "load_yolo"]

#: Side of the picture by which a network is tried when it is loaded.
_TRIAL = 2 * MULTIPLE
#: From this factor on a picture is out of proportion, and finding nothing in it is no wonder.
_STRETCHED = 1.5


class Detector:
    """Boxes and tapped features of a picture in one forward pass.

    Args:
        weights: ultralytics ``.pt``, or ``.onnx`` or ``.engine`` as ``uav-privacy-sc train export`` writes them.
        device: where the network runs.
        confidence, overlap: thresholds of non-maximum suppression.
        limit: the most objects returned.
        tap: what the encoder takes.
        half: half precision, on CUDA.
        tiles: tiles a side for small objects (:mod:`.tiling`); 1 is the whole picture alone.
        long_side: of the network's input, in pixels.

    ``dropped`` counts boxes of classes that are no objects here, ``stretched`` pictures out of proportion; ``sha256``
    is the file's, ``source_sha256`` that of the ``.pt`` it was exported from; ``blind_to`` names the sensitive classes
    where its class list has none of them.

    Raises:
        WeightsError: weights that cannot be read, know other classes, are no detector or have no such tap.
        ValueError: an argument out of range.
    """

    def __init__(
        self,
        weights: Path,
        device: torch.device | str = "cpu",
        confidence: float = 0.25,
        overlap: float = 0.6,
        limit: int = 300,
        *,
        tap: Tap | None = None,
        half: bool = False,
        tiles: int = 1,
        long_side: int = LONG_SIDE,
    ) -> None:
        for name, value in (("confidence", confidence), ("overlap", overlap)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name}={value} must be between 0 and 1, both excluded")
        tiling.windows(_TRIAL, _TRIAL, tiles)
        self.device = torch.device(device)
        require_half(half, self.device)
        self.confidence, self.overlap, self.limit, self.tiles = confidence, overlap, limit, tiles
        self.tap, self.half, self.long_side = tap or Tap(), half, long_side
        self.backend: Backend = open_backend(Path(weights), self.device, self.tap, half)
        self.sha256, self.source_sha256 = checksum(Path(weights)), self.backend.source_sha256
        self.labels = self._labels(weights)
        self.blind_to = blind_to(self.labels)
        groups = np.where(self.labels >= 0, self.labels, len(self.labels) + np.arange(len(self.labels)))
        self._groups = torch.from_numpy(groups).to(self.device)
        self.dropped: Counter[str] = Counter()
        self.stretched = 0
        self._try(weights)

    @property
    def model(self) -> Any:
        """The torch network of ``.pt`` weights.

        Raises:
            AttributeError: another runtime has it.
        """
        if not isinstance(self.backend, TorchBackend):
            raise AttributeError("only .pt weights have a torch network")
        return self.backend.model

    @torch.inference_mode()
    def __call__(self, image: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
        """Return ``(M,)`` object records and the tapped ``(1, C, H', W')`` features of an RGB uint8 picture.

        Raises:
            ValueError: it is no such picture.
            FloatingPointError: as :meth:`infer`.
        """
        rows, tap = self._forward(self._tensor(check_picture(image)))
        return self._objects(torch.cat([rows, *self._tiled(image)])), tap

    @torch.inference_mode()
    def infer(self, batch: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
        """As calling the detector, from a prepared ``(1, 3, h, w)`` tensor, without tiles.

        Raises:
            FloatingPointError: if the network's output is not finite, so that "no objects" is never a silent failure.
        """
        rows, tap = self._forward(batch)
        return self._objects(rows), tap

    @torch.inference_mode()
    def features(self, image: np.ndarray) -> torch.Tensor:
        """Return the tapped features alone, for boxes that come from elsewhere."""
        _, tap = self.backend(self._tensor(check_picture(image)))
        self._require_finite(tap)
        return tap

    def _tensor(self, image: np.ndarray) -> torch.Tensor:
        self.stretched += stretch(image.shape[1], image.shape[0], self.long_side) > _STRETCHED
        return to_tensor(image, self.device, self.long_side)

    def _forward(self, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        predictions, tap = self.backend(batch)
        self._require_finite(predictions)
        self._require_finite(tap)
        return candidates(predictions, (batch.shape[3], batch.shape[2]), self.confidence), tap

    def _tiled(self, image: np.ndarray) -> list[torch.Tensor]:
        height, width = image.shape[:2]
        found = []
        windows = tiling.windows(height, width, self.tiles)
        for window in windows if len(windows) > 1 else ():
            top, bottom, left, right = window
            rows, _ = self._forward(to_tensor(image[top:bottom, left:right], self.device, self.long_side))
            found.append(tiling.to_frame(rows, window, height, width))
        return found

    def _objects(self, rows: torch.Tensor) -> np.ndarray:
        kept = suppress(rows, self._groups, self.overlap).cpu().numpy()
        classes = kept[:, 5].astype(np.int64)
        ours = self.labels[classes] >= 0
        if not ours.all():
            self.dropped.update(self.backend.names[k] for k in classes[~ours].tolist())
            kept, classes = kept[ours], classes[ours]
        return records(kept[: self.limit], self.labels[classes[: self.limit]])

    def _require_finite(self, values: torch.Tensor) -> None:
        # One NaN or infinity makes the sum so; in float32 nothing else does, and a sum is quicker than a mask.
        if not bool(torch.isfinite(values.sum(dtype=torch.float32))):
            remedy = "set half to false" if self.half else "check its weights"
            raise FloatingPointError(f"the detector's output is not finite; {remedy}")

    def _labels(self, weights: Path) -> np.ndarray:
        try:
            return label_map(self.backend.names)
        except UnknownClass as error:
            raise WeightsError(
                f"detector weights {weights}: {error}; train on VisDrone's ten or COCO's names"
            ) from None

    @torch.inference_mode()
    def _try(self, weights: Path) -> None:
        """Run the network once on a dark picture: what comes out shows whether it is a detector with that tap."""
        batch = torch.zeros(1, 3, _TRIAL, _TRIAL, device=self.device)
        try:
            predictions, tap = self.backend(batch)
        except Exception as error:  # whatever another architecture raises inside its own layers
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise WeightsError(f"detector weights {weights} do not run: {reason}") from None
        self._check_head(weights, predictions)
        wanted, found = (1, self.tap.channels, _TRIAL // self.tap.stride, _TRIAL // self.tap.stride), _shape(tap)
        if found != wanted:
            raise WeightsError(
                f"detector weights {weights} give {found} at layer {self.tap.layer} where the codec needs {wanted}; "
                "train a codec on them with `uav-privacy-sc train codec`, or give the detector it was trained on"
            )

    def _check_head(self, weights: Path, predictions: Any) -> None:
        shape = _shape(predictions)
        fits = len(shape) == 3 and shape[:2] == (1, 4 + len(self.labels))
        if not fits and not (len(shape) == 3 and is_end_to_end(predictions)):
            raise WeightsError(
                f"detector weights {weights} are no detector of {len(self.labels)} classes: their output is {shape}; "
                "give weights of an ultralytics YOLO trained for the task detect"
            )


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, torch.Tensor) else ()
