"""VisDrone annotations: DET rows (8 fields), VID and MOT rows (10 fields), read with oddities counted, and written.

A DET row is ``left, top, width, height, score, category, truncation, occlusion`` in pixels; a VID or MOT row puts
``frame, target id`` before these. Category 0 is an ignored region, 1 to 10 are the classes of
:data:`uav_privacy_sc.scene.OBJECT_CLASSES` in their order, 11 is "others"; score 0 means "not to be counted".
Official files contain trailing commas and boxes without area; every such row is counted by name, none stops a reader.
The box may have fractions of pixels; everything else is a whole number (``4.0`` is one, ``4.7`` is none).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from uav_privacy_sc.scene import OBJECT_CLASSES, corners, make_objects, no_objects

IGNORED_REGION = 0
OTHERS = len(OBJECT_CLASSES) + 1
DET_FIELDS = 8
VID_FIELDS = 10
#: Where the box's four numbers begin, counted from the end of a row; the others are whole.
_BOX = slice(-8, -4)
#: Numbers beyond this are no pixels and no classes; the arrays would not hold the largest of them.
_MOST = 2.0**31

#: One annotated row, in pixels. ``frame`` and ``id`` are -1 in DET files, which have neither.
ROW_DTYPE = np.dtype(
    [("frame", np.int64), ("id", np.int64)]
    + [(name, np.float64) for name in ("left", "top", "width", "height")]
    + [(name, np.int64) for name in ("score", "category", "truncation", "occlusion")]
)


class AnnotationError(ValueError):
    """An annotation file that cannot be read at all; the message names it in one line."""


@dataclass(frozen=True)
class FrameAnnotations:
    """What VisDrone says about one picture, with boxes normalized to it.

    ``objects`` is ``(M,)`` of ``OBJECT_DTYPE``; ``ids``, ``truncation`` and ``occlusion`` are ``(M,)`` int64;
    ``ignored`` is ``(K, 4)`` float64 ``x1 y1 x2 y2``: regions where nobody annotated anything (category 0), and boxes
    that are not to be counted (score 0); what is found there is neither right nor wrong.
    """

    objects: np.ndarray = field(default_factory=no_objects)
    ids: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    truncation: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    occlusion: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    ignored: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))


def parse_rows(lines: Iterable[str], fields: int) -> tuple[np.ndarray, Counter[str]]:
    """Return the ``(R,)`` :data:`ROW_DTYPE` rows of a file and how often each oddity occurred.

    ``fields`` is the expected number: 8 for DET, 10 for VID and MOT. Oddities are ``trailing comma`` (kept),
    ``too few fields``, ``too many fields``, ``not a number`` (nor is one beyond 2^31) and ``not a whole number`` (all
    dropped); a DET file that holds VID rows is thus noticed instead of being read with shifted columns.
    """
    oddities: Counter[str] = Counter()
    rows = []
    for line in lines:
        values = _parse_line(line, fields, oddities)
        if values is not None:
            rows.append(values)
    return np.array(rows, ROW_DTYPE), oddities


def _parse_line(line: str, fields: int, oddities: Counter[str]) -> tuple[float, ...] | None:
    text = line.strip().lstrip("\ufeff")
    if not text:
        return None
    if text.endswith(","):
        oddities["trailing comma"] += 1
        text = text.rstrip(", ")
    parts = text.split(",")
    if len(parts) != fields:
        oddities["too few fields" if len(parts) < fields else "too many fields"] += 1
        return None
    try:
        values = [float(part) for part in parts]
    except ValueError:
        values = [float("nan")]
    if not all(abs(value) <= _MOST for value in values):  # NaN is not, either
        oddities["not a number"] += 1
        return None
    if not all(value.is_integer() for value in [*values[: _BOX.start], *values[_BOX.stop :]]):
        oddities["not a whole number"] += 1
        return None
    return tuple(values) if fields == VID_FIELDS else (-1, -1, *values)


def read_rows(path: Path, fields: int) -> tuple[np.ndarray, Counter[str]]:
    """Return :func:`parse_rows` of a file.

    Raises:
        AnnotationError: if the file cannot be read or is not text.
    """
    try:
        return parse_rows(path.read_text(encoding="utf-8").splitlines(), fields)
    except (OSError, UnicodeDecodeError) as error:
        raise AnnotationError(f"cannot read the annotations {path}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    return (error.strerror or str(error)) if isinstance(error, OSError) else "it is not a text file"


def frame_annotations(rows: np.ndarray, width: int, height: int) -> tuple[FrameAnnotations, Counter[str]]:
    """Normalize the rows of one picture of ``width`` x ``height`` pixels, and count what was set aside.

    Set aside: ``zero-size box``, ``box outside the image``, ``category 11 (others)`` and ``unknown category``. Kept:
    ``ignored region (category 0)`` and boxes of ``score 0`` in :attr:`FrameAnnotations.ignored`, and ``box clipped to
    the image`` with the part that is inside.
    """
    if width < 1 or height < 1:
        raise AnnotationError(f"an image of {width}x{height} pixels has no annotations")
    boxes, inside, oddities = _clip(rows, width, height)
    category = rows["category"]
    region = inside & (category == IGNORED_REGION)
    known = inside & (category > IGNORED_REGION) & (category <= OTHERS)
    counted = known & (category < OTHERS) & (rows["score"] != 0)
    ignored = region | (known & (rows["score"] == 0))
    _count(oddities, "ignored region (category 0)", region)
    _count(oddities, "category 11 (others)", category == OTHERS)
    _count(oddities, "unknown category", (category < IGNORED_REGION) | (category > OTHERS))
    _count(oddities, "score 0", (category > IGNORED_REGION) & (category < OTHERS) & (rows["score"] == 0))
    kept = boxes[counted]
    objects = make_objects((kept[:, :2] + kept[:, 2:]) / 2, kept[:, 2:] - kept[:, :2], category[counted] - 1)
    ids, truncation, occlusion = (rows[name][counted] for name in ("id", "truncation", "occlusion"))
    return FrameAnnotations(objects, ids, truncation, occlusion, boxes[ignored]), oddities


def _clip(rows: np.ndarray, width: int, height: int) -> tuple[np.ndarray, np.ndarray, Counter[str]]:
    """Return boxes clipped and normalized, which of them have an area inside the image, and what was counted."""
    oddities: Counter[str] = Counter()
    size = np.array([width, height, width, height], np.float64)
    raw = np.stack([rows["left"], rows["top"], rows["left"] + rows["width"], rows["top"] + rows["height"]], axis=1)
    boxes = np.clip(raw, 0.0, size)
    has_area = (rows["width"] > 0) & (rows["height"] > 0)
    inside = has_area & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    _count(oddities, "zero-size box", ~has_area)
    _count(oddities, "box outside the image", has_area & ~inside)
    _count(oddities, "box clipped to the image", inside & (boxes != raw).any(axis=1))
    return boxes / size, inside, oddities


def _count(oddities: Counter[str], name: str, rows: np.ndarray) -> None:
    if number := int(np.count_nonzero(rows)):
        oddities[name] += number


def det_rows(annotations: FrameAnnotations, width: int, height: int) -> list[str]:
    """Return the DET rows of one picture: whole pixels, as VisDrone writes them, ignored regions last."""
    tail = zip(annotations.objects["label"], annotations.truncation, annotations.occlusion, strict=True)
    pixels = _pixels(corners(annotations.objects), width, height)
    lines = [
        f"{','.join(map(str, box))},1,{label + 1},{cut},{hidden}"
        for box, (label, cut, hidden) in zip(pixels, tail, strict=True)
    ]
    ignored = _pixels(annotations.ignored, width, height)
    return lines + [f"{','.join(map(str, box))},0,{IGNORED_REGION},0,0" for box in ignored]


def _pixels(boxes: np.ndarray, width: int, height: int) -> list[list[int]]:
    """Return ``left top width height`` in pixels; a visible box keeps at least one pixel inside the image."""
    low = np.clip(np.floor(boxes[:, :2] * (width, height) + 0.5), 0, (width - 1, height - 1))
    high = np.clip(np.floor(boxes[:, 2:] * (width, height) + 0.5), low + 1, (width, height))
    return np.concatenate([low, high - low], axis=1).astype(np.int64).tolist()


def vid_rows(annotations: FrameAnnotations, frame: int, width: int, height: int) -> list[str]:
    """Return the VID (or MOT) rows of frame number ``frame`` (1 is the first, as VisDrone counts)."""
    ids = [*annotations.ids.tolist(), *([0] * len(annotations.ignored))]
    rows = det_rows(annotations, width, height)
    return [f"{frame},{target},{row}" for target, row in zip(ids, rows, strict=True)]
