"""From a picture to the network's input: one resize, no padding.

Each side becomes a multiple of 32 pixels, so the aspect ratio changes by a few per cent at most for usual pictures.
In exchange every cell of the feature grid covers a known part of the image, and normalized boxes need no undoing.
"""

from __future__ import annotations

import cv2
import numpy as np
import torch

#: Long side of the network's input in pixels, and the multiple both sides are rounded to.
LONG_SIDE = 640
MULTIPLE = 32
#: Stride of the tap: one feature cell covers so many input pixels on each side.
TAP_STRIDE = 16


def network_size(width: int, height: int, long_side: int = LONG_SIDE) -> tuple[int, int]:
    """Return the network's input ``(width, height)`` for a picture: long side as given, both multiples of 32."""
    scale = long_side / max(width, height)
    return tuple(max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in (width, height))  # type: ignore[return-value]


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return ``image`` ``(H, W, 3)`` at ``size`` ``(width, height)``; averaging when it shrinks."""
    shrinks = image.shape[1] * image.shape[0] > size[0] * size[1]
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR)


def to_tensor(image: np.ndarray, device: torch.device | str = "cpu", long_side: int = LONG_SIDE) -> torch.Tensor:
    """Return ``(1, 3, h, w)`` float32 in [0, 1] from an RGB uint8 picture of any size.

    Raises ``ValueError`` for anything but an ``(H, W, 3)`` uint8 array with pixels.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
        raise ValueError(f"image must be a non-empty (H, W, 3) uint8 array, not {image.dtype} of shape {image.shape}")
    small = resize(image, network_size(image.shape[1], image.shape[0], long_side))
    return torch.from_numpy(small).to(device).permute(2, 0, 1)[None].float().div_(255)
