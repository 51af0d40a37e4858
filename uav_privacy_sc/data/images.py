"""Pictures: decode the bytes of a file or a message to RGB, or say in one line why not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

#: File name endings that are taken for pictures.
IMAGE_SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm"})


class ImageError(ValueError):
    """Bytes that are no whole picture; the message says why in one line."""


def decode_image(data: bytes) -> np.ndarray:
    """Return the ``(H, W, 3)`` uint8 RGB picture in the bytes of a JPEG, PNG or other image file.

    A truncated file is refused: half a picture padded with grey would be measured as if it had been seen.
    16-bit grey keeps its upper 8 bits; an EXIF rotation is applied.

    Raises:
        ImageError: if the bytes are no image or not a whole one.
    """
    try:
        with Image.open(io.BytesIO(data)) as picture:
            picture.load()
            return _to_rgb(ImageOps.exif_transpose(picture))
    except UnidentifiedImageError:
        raise ImageError("it is no image in a known format") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise ImageError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None


def read_image(path: Path) -> np.ndarray:
    """Return :func:`decode_image` of a file.

    Raises:
        ImageError: if the file cannot be read or is no whole image.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImageError(error.strerror or str(error)) from None
    return decode_image(data)


def read_mask(path: Path) -> np.ndarray:
    """Return the ``(H, W)`` uint8 class values of a one-channel mask file.

    Raises:
        ImageError: if the file cannot be read or has more than one channel.
    """
    try:
        with Image.open(path) as picture:
            mask = np.asarray(picture)
    except (OSError, SyntaxError, ValueError) as error:
        raise ImageError(f"cannot read the mask {path}: {error}") from None
    if mask.ndim != 2 or mask.dtype != np.uint8:
        raise ImageError(f"the mask {path} has shape {mask.shape} and type {mask.dtype}, not one 8-bit channel")
    return mask


def _to_rgb(picture: Image.Image) -> np.ndarray:
    if picture.mode.startswith(("I", "F")):
        return np.repeat(_upper_byte(np.asarray(picture))[:, :, None], 3, axis=2)
    return np.asarray(picture.convert("RGB"))


def _upper_byte(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind == "f":
        raise ImageError("it holds floating-point values, not a picture")
    return (np.clip(values, 0, 65535).astype(np.uint32) >> 8).astype(np.uint8)
