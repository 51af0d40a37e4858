"""What VisDrone annotation files hold when their pictures are not there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.data.images import IMAGE_SUFFIXES
from uav_privacy_sc.data.visdrone import DET_FIELDS, VID_FIELDS, AnnotationError, frame_annotations, read_rows
from uav_privacy_sc.perception.training.progress import listed
from uav_privacy_sc.perception.training.samples import DatasetError
from uav_privacy_sc.scene import OBJECT_CLASSES


def holds_pictures(directory: Path) -> bool:
    """Return whether a folder has pictures, or sequences of them, where a training would look."""
    places = (directory, directory / "images")
    found = any(path.suffix.lower() in IMAGE_SUFFIXES for place in places if place.is_dir() for path in place.iterdir())
    return found or (directory / "sequences").is_dir()


def survey(directory: Path) -> tuple[dict[str, Any], list[str]]:
    """Return counts of what the annotation files of a folder (or of its ``annotations/``) hold, and lines for people.

    Files are read as DET or, where most of their rows have ten fields, as VID and MOT. A picture is taken to be as
    large as its boxes reach, so none is outside it. A file that is no text is counted.

    Raises:
        DatasetError: if there are no annotation files.
    """
    inner = directory / "annotations"
    paths = sorted((inner if inner.is_dir() else directory).glob("*.txt")) if directory.is_dir() else []
    if not paths:
        raise DatasetError(f"{directory} holds neither pictures nor annotation files (.txt)")
    fields = _fields(paths)
    counts: Counter[str] = Counter()
    classes = np.zeros(len(OBJECT_CLASSES), np.int64)
    for path in paths:
        try:
            rows, found = read_rows(path, fields)
        except AnnotationError:
            counts["unreadable annotations"] += 1
            continue
        width, height = _reach(rows)
        annotations, aside = frame_annotations(rows, width, height)
        counts += found + aside
        classes += np.bincount(annotations.objects["label"], minlength=len(classes))
    by_class = {name: int(count) for name, count in zip(OBJECT_CLASSES, classes, strict=True) if count}
    layout = "visdrone-det" if fields == DET_FIELDS else "visdrone-vid"
    result = {
        "name": directory.resolve().name,
        "layout": layout,
        "files": len(paths),
        "objects": sum(by_class.values()),
        "objects_by_class": by_class,
        "set_aside": dict(sorted(counts.items())),
    }
    return result, [
        f"{result['name']}: {layout} annotations without pictures, {len(paths)} files, {result['objects']} objects "
        f"({listed(by_class)})",
        f"  counted in the annotations: {listed(dict(sorted(counts.items()))) or 'nothing odd'}",
    ]


def _fields(paths: list[Path]) -> int:
    """Return how many fields the rows are meant to have: what most of them have."""
    seen: Counter[bool] = Counter()
    for path in paths:
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            if parts := line.strip().rstrip(", "):
                seen[len(parts.split(",")) > DET_FIELDS] += 1
    return VID_FIELDS if seen[True] > seen[False] else DET_FIELDS


def _reach(rows: np.ndarray) -> tuple[int, int]:
    ends = [(rows[low] + rows[size]).max(initial=1) for low, size in (("left", "width"), ("top", "height"))]
    return max(1, int(np.ceil(ends[0]))), max(1, int(np.ceil(ends[1])))
