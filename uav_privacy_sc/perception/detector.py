"""The object detector: an ultralytics YOLO whose stride-16 layer is tapped for the encoder in the same pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from uav_privacy_sc.perception.image import to_tensor
from uav_privacy_sc.perception.weights import WeightsError
from uav_privacy_sc.scene import OBJECT_CLASSES, make_objects

#: Layer of YOLO11n whose output (128 channels, stride 16) the encoder takes.
TAP_LAYER = 6
#: How far, in cells, the pixels of one cell change the tap: what `reach_cells` of the protection node has to cover.
TAP_REACH = 7


def load_yolo(path: Path) -> torch.nn.Module:
    """Return the detection network in an ultralytics ``.pt`` file, fused and in evaluation mode.

    Raises:
        WeightsError: if the file is unreadable, or its classes are not the ten of VisDrone.
    """
    from ultralytics import YOLO

    try:
        model: Any = YOLO(str(path), task="detect").model
        names = tuple(model.names[k] for k in range(len(model.names)))
    except Exception as error:
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise WeightsError(f"cannot read detector weights {path}: {reason}") from None
    if names != OBJECT_CLASSES:
        raise WeightsError(
            f"detector weights {path} know other classes ({', '.join(names[:4])}, …) than VisDrone's ten"
        )
    return model.float().fuse(verbose=False).eval()


class Detector:
    """Boxes and tapped features of a picture in one forward pass.

    ``confidence`` and ``overlap`` are the thresholds of non-maximum suppression; ``limit`` the most objects returned.
    """

    def __init__(
        self,
        weights: Path,
        device: torch.device | str = "cpu",
        confidence: float = 0.25,
        overlap: float = 0.6,
        limit: int = 300,
    ) -> None:
        for name, value in (("confidence", confidence), ("overlap", overlap)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name}={value} must be between 0 and 1, both excluded")
        self.device = torch.device(device)
        self.confidence, self.overlap, self.limit = confidence, overlap, limit
        self.model: Any = load_yolo(weights).to(self.device)
        self._tap: torch.Tensor | None = None
        self.model.model[TAP_LAYER].register_forward_hook(self._keep)

    def _keep(self, module: torch.nn.Module, inputs: Any, output: torch.Tensor) -> None:
        self._tap = output

    @torch.inference_mode()
    def __call__(self, image: np.ndarray) -> tuple[np.ndarray, torch.Tensor]:
        """Return ``(M,)`` object records and the tapped ``(1, 128, H', W')`` features of an RGB uint8 picture."""
        return self.infer(to_tensor(image, self.device))

    @torch.inference_mode()
    def infer(self, batch: torch.Tensor) -> tuple[np.ndarray, torch.Tensor]:
        """As calling the detector, from a prepared ``(1, 3, h, w)`` tensor.

        Raises:
            FloatingPointError: if the network's output is not finite, so that "no objects" is never a silent failure.
        """
        from ultralytics.utils.nms import non_max_suppression

        output = self.model(batch)
        predictions = output[0] if isinstance(output, (tuple, list)) else output
        if not bool(torch.isfinite(predictions).all()):
            raise FloatingPointError(
                "the detector's output is not finite; run it in full precision or check its weights"
            )
        boxes = non_max_suppression(predictions, self.confidence, self.overlap, max_det=self.limit)[0].cpu().numpy()
        tap, self._tap = self._tap, None
        if tap is None:
            raise RuntimeError(f"layer {TAP_LAYER} of the detector was not run")
        return _records(boxes, batch.shape[3], batch.shape[2]), tap


def _records(boxes: np.ndarray, width: int, height: int) -> np.ndarray:
    """Turn ``(M, 6)`` ``x1 y1 x2 y2 score class`` in pixels into object records."""
    size = np.array([width, height, width, height], np.float64)
    corners = np.clip(boxes[:, :4] / size, 0, 1)
    low, high = corners[:, :2], corners[:, 2:]
    return make_objects((low + high) / 2, high - low, boxes[:, 5].astype(np.int32), boxes[:, 4])
