"""Write a flight to disk in VisDrone layout: pictures, annotations and class masks.

DET: ``images/NAME_0000001.jpg``, ``annotations/NAME_0000001.txt``, ``masks/NAME_0000001.png``.
VID: ``sequences/NAME/0000001.jpg``, ``annotations/NAME.txt``, ``masks/NAME/0000001.png``.
Masks are ours (VisDrone has none): one 8-bit channel, values as in :data:`uav_privacy_sc.scene.MASK_CLASSES`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image

from uav_privacy_sc.data.visdrone import FrameAnnotations, det_rows, vid_rows

JPEG_QUALITY = 92


class AnnotatedFrame(Protocol):
    """One frame to be written, as the synthetic flight gives it."""

    @property
    def image(self) -> np.ndarray:
        """``(H, W, 3)`` uint8 RGB."""

    @property
    def objects(self) -> np.ndarray:
        """``(M,)`` records of ``OBJECT_DTYPE``."""

    @property
    def mask(self) -> np.ndarray:
        """``(H, W)`` uint8 in ``MASK_CLASSES`` values."""

    @property
    def ids(self) -> np.ndarray:
        """``(M,)`` identities of the objects over the flight."""

    @property
    def truncation(self) -> np.ndarray:
        """``(M,)`` degree of truncation, 0 or 1."""

    @property
    def occlusion(self) -> np.ndarray:
        """``(M,)`` degree of occlusion, 0 to 2."""


def write_flight(directory: Path, frames: Iterable[AnnotatedFrame], name: str, layout: str = "vid") -> int:
    """Write ``frames`` under ``directory`` as flight ``name`` and return how many there were.

    Raises:
        ValueError: if ``layout`` is neither ``"det"`` nor ``"vid"``.
        OSError: if the folder cannot be written.
    """
    if layout not in ("det", "vid"):
        raise ValueError(f"layout is {layout!r}; it must be 'det' or 'vid'")
    rows: list[str] = []
    number = 0
    for number, frame in enumerate(frames, start=1):
        picture, mask, annotation = _paths(directory, name, layout, number)
        _save(frame.image, picture, quality=JPEG_QUALITY, subsampling=0)
        _save(frame.mask, mask)
        height, width = frame.image.shape[:2]
        if layout == "vid":
            rows += vid_rows(_annotations(frame), number, width, height)
        else:
            _write_rows(annotation, det_rows(_annotations(frame), width, height))
    if layout == "vid" and number:
        _write_rows(_paths(directory, name, layout, 1)[2], rows)
    return number


def _paths(directory: Path, name: str, layout: str, number: int) -> tuple[Path, Path, Path]:
    if layout == "det":
        stem = f"{name}_{number:07d}"
        pictures, annotation = directory / "images", directory / "annotations" / f"{stem}.txt"
        return pictures / f"{stem}.jpg", directory / "masks" / f"{stem}.png", annotation
    pictures, annotation = directory / "sequences" / name, directory / "annotations" / f"{name}.txt"
    return pictures / f"{number:07d}.jpg", directory / "masks" / name / f"{number:07d}.png", annotation


def _annotations(frame: AnnotatedFrame) -> FrameAnnotations:
    columns = [np.asarray(values, np.int64) for values in (frame.ids, frame.truncation, frame.occlusion)]
    return FrameAnnotations(frame.objects, *columns)


def _save(pixels: np.ndarray, path: Path, **options: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path, **options)


def _write_rows(path: Path, rows: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
