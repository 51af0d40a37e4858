"""From a picture to the network's input: one resize, no padding.

Each side becomes a multiple of 32 pixels, so the aspect ratio changes by a few per cent at most for usual pictures.
In exchange every cell of the feature grid covers a known part of the image, and normalized boxes need no undoing:
each axis has one scale, exactly. A picture longer than 20:1 is stretched across; :func:`stretch` says by how much.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import torch

#: Long side of the network's input in pixels, and the multiple both sides are rounded to.
LONG_SIDE = 640
MULTIPLE = 32
#: Stride of the tap: one feature cell covers so many input pixels on each side.
TAP_STRIDE = 16

#: Up to this factor a picture is enlarged smoothly: a pixel then shows at most one network pixel beside its own place,
#: which the codec's stated reach has room for. Farther, every network pixel copies one of the picture's.
_SMOOTH = 2.0

_REMEDY = "grey, 16 bits and alpha become RGB by data.images.read_image or decode_raw"


def network_size(width: int, height: int, long_side: int = LONG_SIDE) -> tuple[int, int]:
    """Return the network's input ``(width, height)`` for a picture: long side as given, both multiples of 32."""
    scale = long_side / max(width, height)
    return tuple(max(MULTIPLE, round(side * scale / MULTIPLE) * MULTIPLE) for side in (width, height))  # type: ignore[return-value]


def stretch(width: int, height: int, long_side: int = LONG_SIDE) -> float:
    """Return by what factor the network sees a picture's proportions changed, at least 1."""
    across, down = (new / old for new, old in zip(network_size(width, height, long_side), (width, height), strict=True))
    return max(across / down, down / across)


def resize(image: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return ``image`` ``(H, W, 3)`` at ``size`` ``(width, height)``; averaging along each axis that shrinks."""
    height, width = image.shape[:2]
    while width % 2 == height % 2 == 0 and width >= 2 * size[0] and height >= 2 * size[1]:
        width, height = width // 2, height // 2  # exact, and several times as fast as one large step
        image = cv2.resize(image, (width, height), interpolation=cv2.INTER_AREA)
    shrunk = (min(width, size[0]), min(height, size[1]))
    if shrunk not in ((width, height), size):  # one axis shrinks, one grows: OpenCV would average neither
        image = cv2.resize(image, shrunk, interpolation=cv2.INTER_AREA)
    shrinks = image.shape[1] * image.shape[0] > size[0] * size[1]
    grown = max(size[0] / image.shape[1], size[1] / image.shape[0])
    enlarged = cv2.INTER_LINEAR if grown <= _SMOOTH else cv2.INTER_NEAREST
    return cv2.resize(image, size, interpolation=cv2.INTER_AREA if shrinks else enlarged)


def check_picture(image: Any) -> np.ndarray:
    """Return ``image`` if it is an RGB picture with pixels, in memory as OpenCV needs it.

    Raises:
        ValueError: anything but a non-empty ``(H, W, 3)`` uint8 array; names what it is and what to do.
    """
    if not isinstance(image, np.ndarray):
        raise ValueError(f"image must be a non-empty (H, W, 3) uint8 array, not {type(image).__name__}; {_REMEDY}")
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8 or image.size == 0:
        found = f"{image.dtype} of shape {image.shape}"
        raise ValueError(f"image must be a non-empty (H, W, 3) uint8 array, not {found}; {_REMEDY}")
    return np.ascontiguousarray(image)


def to_tensor(image: np.ndarray, device: torch.device | str = "cpu", long_side: int = LONG_SIDE) -> torch.Tensor:
    """Return ``(1, 3, h, w)`` float32 in [0, 1] from an RGB uint8 picture of any size, in channels-last layout.

    Raises ``ValueError`` for anything but an ``(H, W, 3)`` uint8 array with pixels.
    """
    image = check_picture(image)
    small = resize(image, network_size(image.shape[1], image.shape[0], long_side))
    # Converted in the order of memory, permuted as a view: the other way round takes several times as long.
    return torch.from_numpy(small).to(device).float().div_(255).permute(2, 0, 1)[None]
