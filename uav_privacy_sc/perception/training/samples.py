"""A training folder in VisDrone-DET layout as arrays at the network's size."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.data.visdrone import DET_FIELDS, frame_annotations, read_rows
from uav_privacy_sc.perception.image import network_size, resize

_SUFFIXES = (".jpg", ".jpeg", ".png")


class DatasetError(ValueError):
    """A training folder that cannot be used; one line."""


@dataclass(frozen=True)
class Samples:
    """Pictures at the network's size with their truth.

    ``images`` is ``(N, h, w, 3)`` uint8 RGB; ``objects`` one record array a picture; ``masks`` ``(N, h / 4, w / 4)``
    uint8 mask values, or ``None`` where the folder has no masks.
    """

    images: np.ndarray
    objects: list[np.ndarray]
    masks: np.ndarray | None

    def __len__(self) -> int:
        return len(self.objects)


def load_samples(directory: Path, limit: int | None = None, masks: bool = True) -> Samples:
    """Read ``images/``, ``annotations/`` and ``masks/`` of a folder; all pictures take the size of the first.

    Raises:
        DatasetError: if the folder has no pictures.
    """
    paths = sorted(p for p in (directory / "images").glob("*") if p.suffix.lower() in _SUFFIXES)[:limit]
    if not paths:
        raise DatasetError(
            f"{directory} has no images/ with .jpg or .png pictures; give a folder in VisDrone-DET layout"
        )
    first = _read(paths[0])
    width, height = network_size(first.shape[1], first.shape[0])
    images = np.empty((len(paths), height, width, 3), np.uint8)
    planes = (
        np.empty((len(paths), height // 4, width // 4), np.uint8) if masks and (directory / "masks").is_dir() else None
    )
    objects = []
    for k, path in enumerate(paths):
        image = _read(path)
        images[k] = resize(image, (width, height))
        rows, _ = read_rows(directory / "annotations" / f"{path.stem}.txt", DET_FIELDS)
        annotations, _ = frame_annotations(rows, image.shape[1], image.shape[0])
        objects.append(annotations.objects)
        if planes is not None:
            planes[k] = _mask(directory / "masks" / f"{path.stem}.png", (width // 4, height // 4))
    return Samples(images, objects, planes)


def _read(path: Path) -> np.ndarray:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise DatasetError(f"{path} is not a readable picture; remove it from the training folder")
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def _mask(path: Path, size: tuple[int, int]) -> np.ndarray:
    mask = cv2.imread(str(path), cv2.IMREAD_GRAYSCALE)
    if mask is None or mask.max(initial=0) >= len(scene.MASK_CLASSES):
        raise DatasetError(f"{path} is not a mask with values below {len(scene.MASK_CLASSES)}")
    return cv2.resize(mask, size, interpolation=cv2.INTER_NEAREST)
