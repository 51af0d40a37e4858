"""A training folder as arrays at the network's size: VisDrone DET, VID and MOT, AU-AIR, or flights of our own.

What the annotations declare as not to be counted (ignored regions, score 0) is greyed out in training pictures, but for
the boxes annotated within: an object that nobody annotated there must not be taught as background. For measuring it
stays in the picture, and :attr:`Samples.ignored` says where it is. Category 11 ("others") is background, as the
official evaluation has it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.data.folders import FolderSource, open_every
from uav_privacy_sc.data.images import IMAGE_SUFFIXES, ImageError, read_size
from uav_privacy_sc.data.sources import SourceError, Truth
from uav_privacy_sc.perception.image import LONG_SIDE, network_size, resize

#: Of a VisDrone sequence every so manieth picture is taken: neighbours hardly differ.
STRIDE = 5
#: Pictures in memory may take so much, in 10^9 bytes.
MEMORY_GB = 8.0
#: Pictures with a shorter side than this many pixels are no aerial pictures.
SMALLEST = 16
#: Value of a mask's pixels that nobody has annotated; losses and figures leave them out.
UNKNOWN = 255
#: What fills ignored regions and what lies beside a picture of another shape.
GREY = (114, 114, 114)
#: A picture may be stretched by this factor; one of a more different shape is fitted in, with grey beside it.
STRETCH = 1.2
#: File that ``train flights`` leaves in a folder: how it was rendered.
ORIGIN_FILE = "flights.json"


class DatasetError(ValueError):
    """A training folder that cannot be used; one line."""


@dataclass(frozen=True)
class Origin:
    """Where samples come from, and what was set aside on the way; no path, so that it can be published.

    ``set_aside`` counts oddities of rows and pictures by name; ``taken`` says how pictures were chosen; ``made`` is
    what :data:`ORIGIN_FILE` says; ``files`` is a digest of the pictures' names and lengths.
    """

    name: str = ""
    layout: str = ""
    taken: dict[str, int] = field(default_factory=dict)
    masks: dict[str, int] = field(default_factory=dict)
    set_aside: dict[str, int] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    files: str = ""


@dataclass(frozen=True)
class Samples:
    """Pictures at the network's size with their truth.

    ``images`` is ``(N, h, w, 3)`` uint8 RGB; ``objects`` one record array a picture; ``masks`` ``(N, h / 4, w / 4)``
    uint8 mask values and :data:`UNKNOWN`, or ``None`` where they were not asked for; ``ignored`` one ``(K, 4)`` array
    of normalized regions a picture in which nothing is right or wrong.
    """

    images: np.ndarray
    objects: list[np.ndarray]
    masks: np.ndarray | None
    ignored: list[np.ndarray] = field(default_factory=list)
    origin: Origin = field(default_factory=Origin)

    def __len__(self) -> int:
        return len(self.objects)

    def fingerprint(self) -> str:
        """Return a digest of sizes, objects, masks and picture files (of pixels, where the samples are of no files).

        Pixels would depend on how a version of OpenCV shrinks a picture.
        """
        digest = hashlib.blake2b(repr(self.images.shape).encode(), digest_size=16)
        pixels = b"" if self.origin.files else np.ascontiguousarray(self.images[:, ::8, ::8]).tobytes()
        masks = b"" if self.masks is None else np.ascontiguousarray(self.masks[:, ::4, ::4]).tobytes()
        digest.update(self.origin.files.encode() + pixels + masks)
        for objects in self.objects:
            digest.update(objects.tobytes())
        return digest.hexdigest()

    def classes(self) -> dict[str, int]:
        """Return the number of objects of each class that occurs."""
        labels = np.concatenate([objects["label"] for objects in self.objects]) if self.objects else np.zeros(0, int)
        counts = np.bincount(labels, minlength=len(scene.OBJECT_CLASSES)).tolist()
        return {name: count for name, count in zip(scene.OBJECT_CLASSES, counts, strict=True) if count}

    def describe(self) -> dict[str, Any]:
        """Return what a model card says of the pictures."""
        height, width = self.images.shape[1:3]
        counts = {"pictures": len(self), "objects": sum(map(len, self.objects)), "objects_by_class": self.classes()}
        known = {name: value for name, value in vars(self.origin).items() if value and name != "files"}
        return {**known, **counts, "size": [width, height], "digest": self.fingerprint()}


def load_samples(
    directory: Path,
    limit: int | None = None,
    masks: bool = True,
    stride: int = STRIDE,
    blank: bool = True,
    memory_gb: float = MEMORY_GB,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Samples:
    """Read a folder with pictures and annotations; all pictures take the size that most of them have.

    ``limit`` takes so many pictures at most, evenly over the folder; ``stride`` every so manieth of a sequence.
    ``masks`` asks for masks: drawn ones where the folder has them, else painted from the boxes and :data:`UNKNOWN`
    elsewhere. ``blank`` greys out what is not to be counted. Pictures that cannot be read or have no annotations are
    skipped and counted, as are those of less than :data:`SMALLEST` pixels a side.

    Raises:
        DatasetError: if the folder has no pictures with objects, or they would take more than ``memory_gb``.
        SourceError: if the folder or an annotation file cannot be read.
    """
    sources = _open(directory, masks)
    taken = _thin(sources, limit, stride)
    total = sum(source.length or 0 for source in sources)
    gathering = _Gathering(total, _common_size(sources), masks, blank, memory_gb)
    for done, (image, truth) in enumerate(_frames(sources, gathering), 1):
        progress(done, total)
        if image is not None and truth is not None:
            gathering.add(image, truth)
    set_aside = sum((source.oddities for source in sources), gathering.set_aside)
    name = directory.resolve().name
    origin = Origin(name, sources[0].kind, taken, dict(gathering.painted), dict(sorted(set_aside.items())))
    samples = gathering.samples(replace(origin, made=_made(directory), files=_files(sources)))
    if not sum(map(len, samples.objects)):
        raise DatasetError(f"{directory}: no object in {len(samples)} pictures ({_told(set_aside)}); nothing to learn")
    return samples


def _open(directory: Path, masks: bool) -> list[FolderSource]:
    if not directory.is_dir():
        raise DatasetError(f"{directory} is no folder; give one with pictures and annotations")
    try:
        sources = open_every(directory, masks)
    except SourceError as error:
        place = _annotations_alone(directory)
        advice = "" if place is None else f"; annotations alone can be read by: train check --data {place}"
        raise DatasetError(f"{error}{advice}") from None
    if all(source.read_truth is None for source in sources):
        raise DatasetError(
            f"{directory} has no annotations/; give a VisDrone DET, VID or MOT folder, AU-AIR, or rendered flights"
        )
    return sources


def _annotations_alone(directory: Path) -> Path | None:
    """Return the folder of annotation files that ``train check`` reads without pictures, if there is one."""
    for place in (directory / "annotations", directory):
        files = list(place.iterdir()) if place.is_dir() else []
        if any(path.suffix == ".txt" for path in files) and not any(
            path.suffix.lower() in IMAGE_SUFFIXES for path in files
        ):
            return None if (place / "sequences").is_dir() or (place / "images").is_dir() else place
    return None


def _thin(sources: list[FolderSource], limit: int | None, stride: int) -> dict[str, int]:
    """Choose pictures of the sources and return how, for the model card."""
    for name, value in (("limit", limit), ("stride", stride)):
        if value is not None and value < 1:
            raise DatasetError(f"{name}={value} must be at least 1")
    taken: dict[str, int] = {}
    if sources[0].kind == "visdrone-vid":
        taken = {"sequences": len(sources), "stride": stride}
        for source in sources:
            source.keep(range(0, source.length or 0, stride))
    total = sum(source.length or 0 for source in sources)
    if limit is not None and limit < total:
        taken["limit"] = limit
        chosen, first = np.linspace(0, total, limit, endpoint=False).astype(int), 0
        for source in sources:
            end = first + (source.length or 0)
            source.keep((chosen[(chosen >= first) & (chosen < end)] - first).tolist())
            first = end
    return taken


def _frames(sources: list[FolderSource], gathering: _Gathering) -> Iterator[tuple[np.ndarray | None, Truth | None]]:
    for source in sources:
        for frame in source:
            if frame.image is None:
                gathering.set_aside["unreadable picture"] += 1
            elif min(frame.image.shape[:2]) < SMALLEST:
                gathering.set_aside[f"picture of less than {SMALLEST} pixels a side"] += 1
                continue
            elif source.read_truth is None:
                gathering.set_aside["picture without annotations"] += 1
            yield frame.image, frame.truth


def _common_size(sources: list[FolderSource]) -> tuple[int, int]:
    """Return the network size ``(width, height)`` that most pictures have; of several such, the largest."""
    seen: Counter[tuple[int, int]] = Counter()
    for path in (path for source in sources for path in source.pictures):
        try:
            width, height = read_size(path)
        except ImageError:
            continue  # counted when it is read
        if min(width, height) >= SMALLEST:
            seen[network_size(width, height, LONG_SIDE)] += 1
    return max(seen, key=lambda size: (seen[size], size[0] * size[1], size), default=network_size(1, 1, LONG_SIDE))


class _Gathering:
    """Collects pictures in one array, all of ``size`` ``(width, height)``."""

    def __init__(self, total: int, size: tuple[int, int], masks: bool, blank: bool, memory_gb: float) -> None:
        self._size = size
        self._total, self._masks, self._blank, self._memory_gb = total, masks, blank, memory_gb
        self._images, self._planes = np.empty((0, 0, 0, 3), np.uint8), np.empty((0, 0, 0), np.uint8)
        self._objects: list[np.ndarray] = []
        self._ignored: list[np.ndarray] = []
        self.set_aside: Counter[str] = Counter()
        self.painted: Counter[str] = Counter()

    def _reserve(self) -> None:
        width, height = self._size
        needed = self._total * height * width * 3 / 1e9
        if needed > self._memory_gb:
            most = max(1, int(self._total * self._memory_gb / needed))
            raise DatasetError(
                f"{self._total} pictures of {width}x{height} need {needed:.2g} GB, above the limit of "
                f"{self._memory_gb:g} GB; take fewer by --limit {most} or a larger --stride"
            )
        self._images = np.empty((self._total, height, width, 3), np.uint8)
        self._planes = np.empty((self._total, height // 4, width // 4), np.uint8)

    def add(self, image: np.ndarray, truth: Truth) -> None:
        """Bring one picture and its truth to the common size."""
        if not self._objects:
            self._reserve()
        height, width = self._images.shape[1:3]
        part = _share(image.shape[:2], (height, width))
        if part != (1.0, 1.0):
            self.set_aside["picture of another shape, fitted in with grey"] += 1
        inner = (max(1, round(width * part[0])), max(1, round(height * part[1])))
        here = len(self._objects)
        scale = np.array([inner[0] / width, inner[1] / height])
        objects, ignored = truth.objects.copy(), truth.ignored * np.tile(scale, 2)
        for axis, size, factor in (("x", "w", scale[0]), ("y", "h", scale[1])):
            objects[axis] *= factor
            objects[size] *= factor
        picture = self._images[here]
        picture[:] = GREY
        picture[: inner[1], : inner[0]] = resize(image, inner)
        if self._blank and len(ignored):
            picture[_covered(ignored, (height, width)) & ~_covered(scene.corners(objects), (height, width))] = GREY
        if self._masks:
            self._planes[here] = self._mask(objects, ignored, truth.mask, inner)
        self._objects.append(objects)
        self._ignored.append(ignored)

    def _mask(
        self, objects: np.ndarray, ignored: np.ndarray, drawn: np.ndarray | None, inner: tuple[int, int]
    ) -> np.ndarray:
        self.painted["painted from boxes" if drawn is None else "drawn"] += 1
        shape = self._planes.shape[1:]
        if drawn is None:
            return paint_boxes(objects, shape)
        most = int(drawn[drawn != UNKNOWN].max(initial=0))
        if most >= len(scene.MASK_CLASSES):
            raise DatasetError(f"a mask holds {most}; its values lie below {len(scene.MASK_CLASSES)}, or are {UNKNOWN}")
        mask = np.full(shape, UNKNOWN, np.uint8)
        size = (max(1, round(inner[0] / 4)), max(1, round(inner[1] / 4)))
        mask[: size[1], : size[0]] = cv2.resize(drawn, size, interpolation=cv2.INTER_NEAREST)
        mask[_covered(ignored, shape)] = UNKNOWN
        return mask

    def samples(self, origin: Origin) -> Samples:
        """Return what was collected."""
        count = len(self._objects)
        planes = self._planes[:count] if self._masks else None
        return Samples(self._images[:count], self._objects, planes, self._ignored, origin)


def _share(shape: tuple[int, ...], common: tuple[int, int]) -> tuple[float, float]:
    """Return the share of the common width and height that a picture of ``shape`` takes."""
    relative = (shape[1] / shape[0]) / (common[1] / common[0])
    if 1 / STRETCH <= relative <= STRETCH:
        return 1.0, 1.0
    return min(1.0, relative), min(1.0, 1 / relative)


def _covered(boxes: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a bool map of ``shape``: what any of the normalized boxes covers."""
    covered = np.zeros(shape[:2], bool)
    for u1, v1, u2, v2 in scene.grid_boxes(boxes, (shape[0], shape[1])).tolist():
        covered[v1:v2, u1:u2] = True
    return covered


def paint_boxes(objects: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """Return a mask ``shape`` with each box in its class, small ones over large ones, :data:`UNKNOWN` elsewhere."""
    mask = np.full(shape, UNKNOWN, np.uint8)
    order = np.argsort(-objects["w"] * objects["h"], kind="stable")
    ranges = scene.grid_boxes(scene.corners(objects[order]), (shape[0], shape[1])).tolist()
    for (u1, v1, u2, v2), label in zip(ranges, objects["label"][order].tolist(), strict=True):
        mask[v1:v2, u1:u2] = label
    return mask


def _files(sources: list[FolderSource]) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in (path for source in sources for path in source.pictures):
        digest.update(f"{path.parent.name}/{path.name}:{path.stat().st_size}\n".encode())
    return digest.hexdigest()


def _made(directory: Path) -> dict[str, Any]:
    try:
        content = json.loads((directory / ORIGIN_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _told(counts: Counter[str]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in counts.items()) or "nothing was set aside"
