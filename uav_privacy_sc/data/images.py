"""Pictures: decode the bytes of a file or a message to RGB, or say in one line why not."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

#: Pillow's own; ultralytics replaces it with one that tries to install a package when a file is no image.
_open = Image.open
#: EXIF tag of how the camera was held; from 5 on width and height change places.
_ORIENTATION = 0x0112
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
        with _open(io.BytesIO(data)) as picture:
            picture.load()
            return _to_rgb(ImageOps.exif_transpose(picture))
    except (UnidentifiedImageError, ImportError):  # the latter where ultralytics was imported first
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


def read_size(path: Path) -> tuple[int, int]:
    """Return ``(width, height)`` of an image file as :func:`read_image` would give it, from its header alone.

    Raises:
        ImageError: if the file cannot be read or is no image.
    """
    try:
        with _open(path) as picture:
            width, height = picture.size
            told = picture.format != "PNG" or "exif" in picture.info  # else Pillow would decode it all to look for it
            turned = told and picture.getexif().get(_ORIENTATION, 1) in (5, 6, 7, 8)
    except (OSError, SyntaxError, ValueError, ImportError, Image.DecompressionBombError) as error:
        raise ImageError(f"cannot read {path}: {error}") from None
    return (height, width) if turned else (width, height)


def read_mask(path: Path) -> np.ndarray:
    """Return the ``(H, W)`` uint8 class values of a one-channel mask file.

    Raises:
        ImageError: if the file cannot be read or has more than one channel.
    """
    try:
        with _open(path) as picture:
            mask = np.asarray(picture)
    except (OSError, SyntaxError, ValueError, ImportError) as error:
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


_CHANNELS = {"mono8": 1, "8UC1": 1, "rgb8": 3, "bgr8": 3, "8UC3": 3, "rgba8": 4, "bgra8": 4, "8UC4": 4}
_SIXTEEN_BIT = {"mono16": 1, "16UC1": 1, "rgb16": 3, "bgr16": 3, "16UC3": 3, "rgba16": 4, "bgra16": 4, "16UC4": 4}
#: Red and blue change places: ROS and OpenCV name a mosaic by different corners of it.
_PATTERNS = {"rggb": "BayerBG", "bggr": "BayerRG", "gbrg": "BayerGR", "grbg": "BayerGB"}
_BAYER = {f"bayer_{corner}{bits}": name for corner, name in _PATTERNS.items() for bits in (8, 16)}
_SIXTEEN_BIT |= {name: 1 for name in _BAYER if name.endswith("16")}
_YUV = {"yuv422": "YUV2RGB_UYVY", "uyvy": "YUV2RGB_UYVY", "yuv422_yuy2": "YUV2RGB_YUY2", "yuyv": "YUV2RGB_YUY2"}


def decode_raw(
    data: bytes | np.ndarray, shape: tuple[int, int], step: int, encoding: str, big_endian: bool = False
) -> np.ndarray:
    """Return the ``(H, W, 3)`` uint8 RGB picture in the data of a ``sensor_msgs/Image``.

    ``shape`` is ``(height, width)`` in pixels, ``step`` the length of a row in bytes with its padding. Known are mono,
    RGB(A), BGR(A) and Bayer of 8 and 16 bits (16 keep their upper 8, in either byte order), and YUV 4:2:2; ``8UC3`` and
    ``16UC3`` are BGR, as cv_bridge has it.

    Raises:
        ImageError: if the encoding is unknown, or step and length do not hold such a picture.
    """
    sample = np.dtype(">u2" if big_endian else "<u2") if encoding in _SIXTEEN_BIT else np.dtype(np.uint8)
    channels = _CHANNELS.get(encoding) or _SIXTEEN_BIT.get(encoding) or (1 if encoding in _BAYER else None)
    channels = 2 if encoding in _YUV else channels
    if channels is None:
        raise ImageError(f"its encoding {encoding!r} is no picture that is known here")
    rows = _rows(data, shape, step, channels * sample.itemsize)
    pixels: np.ndarray = rows.view(sample).reshape(*shape, channels)
    pixels = (pixels >> 8).astype(np.uint8) if sample.itemsize == 2 else pixels
    if encoding in _BAYER:
        return _convert(pixels, f"{_BAYER[encoding]}2RGB")
    return _convert(pixels, _YUV[encoding]) if encoding in _YUV else _ordered(pixels, encoding)


def _rows(data: bytes | np.ndarray, shape: tuple[int, int], step: int, pixel_bytes: int) -> np.ndarray:
    """Return ``(H, W * pixel_bytes)`` contiguous bytes without padding."""
    height, width = shape
    flat = np.frombuffer(data, np.uint8)
    if height < 1 or width < 1 or step < width * pixel_bytes or len(flat) < height * step:
        raise ImageError(f"{len(flat)} bytes in rows of {step} do not hold {width}x{height} pixels of {pixel_bytes}")
    return np.ascontiguousarray(flat[: height * step].reshape(height, step)[:, : width * pixel_bytes])


def _ordered(pixels: np.ndarray, encoding: str) -> np.ndarray:
    if pixels.shape[2] == 1:
        return np.repeat(pixels, 3, axis=2)
    return np.ascontiguousarray(pixels[:, :, :3] if encoding.startswith("rgb") else pixels[:, :, 2::-1])


def _convert(pixels: np.ndarray, conversion: str) -> np.ndarray:
    import cv2

    try:
        return cv2.cvtColor(pixels, getattr(cv2, f"COLOR_{conversion}"))
    except cv2.error as error:
        raise ImageError(f"OpenCV cannot convert it: {error.err}") from None
