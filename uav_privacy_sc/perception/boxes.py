"""From the raw output of a detection network to boxes: best class, threshold, non-maximum suppression by class.

Rows are ``(K, 6)`` float32 ``x1 y1 x2 y2 score class``, normalized to the picture.
"""

from __future__ import annotations

import numpy as np
import torch
from torchvision.ops import nms

from uav_privacy_sc.scene import make_objects

#: Between the boxes of two classes, so that one suppression serves all: more than any normalized box reaches.
_APART = 4.0


def candidates(predictions: torch.Tensor, size: tuple[int, int], confidence: float) -> torch.Tensor:
    """Return the rows above ``confidence``.

    ``predictions`` is what an ultralytics detection head gives: ``(1, 4 + classes, anchors)`` with centre and size in
    pixels, or ``(1, K, 6)`` rows of a head that needs no suppression; ``size`` is ``(width, height)`` of its input.
    """
    scale = predictions.new_tensor([*size, *size], dtype=torch.float32)
    if is_end_to_end(predictions):
        rows = predictions[0]
        rows = rows[rows[:, 4] > confidence].float()
        return torch.cat([rows[:, :4] / scale, rows[:, 4:]], dim=1)
    scores, classes = predictions[0, 4:].max(dim=0)
    kept = (scores > confidence).nonzero()[:, 0]
    center, extent = predictions[0, :4, kept].float().T.div(scale).split(2, dim=1)
    corners = torch.cat([center - extent / 2, center + extent / 2], dim=1)
    return torch.cat([corners, scores[kept, None].float(), classes[kept, None].float()], dim=1)


def is_end_to_end(predictions: torch.Tensor) -> bool:
    """Whether a head gives finished rows (YOLOv10, YOLO26) instead of scores of all anchors."""
    return predictions.ndim == 3 and predictions.shape[2] == 6


def suppress(rows: torch.Tensor, groups: torch.Tensor, overlap: float) -> torch.Tensor:
    """Return the rows that no better one of the same group overlaps by more than ``overlap`` (IoU), best first.

    ``groups`` gives each class its group. IoU does not change when an axis is scaled, so normalized boxes serve.
    """
    apart = groups[rows[:, 5].long()].to(rows.dtype)[:, None] * _APART
    return rows[nms(rows[:, :4] + apart, rows[:, 4], overlap)]


def records(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return ``(K,)`` object records of rows, clipped to the picture, with the ``labels`` given."""
    corners = rows[:, :4].clip(0, 1).astype(np.float64)
    low, high = corners[:, :2], corners[:, 2:]
    return make_objects((low + high) / 2, (high - low).clip(0), labels, rows[:, 4])
