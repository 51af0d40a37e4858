"""From a detector's class list to the ten object classes: VisDrone's own names, or COCO's with a map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from uav_privacy_sc.scene import OBJECT_CLASSES, SENSITIVE_CLASSES

#: The 80 classes of COCO by index.
COCO_CLASSES = (
    "person", "bicycle", "car", "motorcycle", "airplane", "bus", "train", "truck", "boat", "traffic light",
    "fire hydrant", "stop sign", "parking meter", "bench", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant",
    "bear", "zebra", "giraffe", "backpack", "umbrella", "handbag", "tie", "suitcase", "frisbee", "skis", "snowboard",
    "sports ball", "kite", "baseball bat", "baseball glove", "skateboard", "surfboard", "tennis racket", "bottle",
    "wine glass", "cup", "fork", "knife", "spoon", "bowl", "banana", "apple", "sandwich", "orange", "broccoli",
    "carrot", "hot dog", "pizza", "donut", "cake", "chair", "couch", "potted plant", "bed", "dining table", "toilet",
    "tv", "laptop", "mouse", "remote", "keyboard", "cell phone", "microwave", "oven", "toaster", "sink",
    "refrigerator", "book", "clock", "vase", "scissors", "teddy bear", "hair drier", "toothbrush",
)  # fmt: skip
#: What COCO's names are here; its other classes are no objects of ours.
FROM_COCO = {
    "person": "pedestrian",
    "bicycle": "bicycle",
    "car": "car",
    "motorcycle": "motor",
    "bus": "bus",
    "truck": "truck",
}
#: Label of a class that is dropped, and counted.
DROPPED = -1


class UnknownClass(ValueError):
    """Class names that are neither VisDrone's nor COCO's; nobody knows whether what they name is sensitive."""


def label_of(name: str) -> int:
    """Return the index in ``scene.OBJECT_CLASSES`` that a class name of VisDrone or COCO stands for, or ``DROPPED``.

    Raises:
        UnknownClass: the name is neither's.
    """
    if name in OBJECT_CLASSES:
        return OBJECT_CLASSES.index(name)
    if name not in COCO_CLASSES:
        raise UnknownClass(f"class {name!r} is neither one of VisDrone's ten nor of COCO's 80")
    return OBJECT_CLASSES.index(FROM_COCO[name]) if name in FROM_COCO else DROPPED


def label_map(names: Sequence[str]) -> np.ndarray:
    """Return ``(K,)`` int64: for each class of a detector the index in ``scene.OBJECT_CLASSES``, or ``DROPPED``.

    Raises:
        UnknownClass: a name is neither VisDrone's nor COCO's, or none of them is an object here.
    """
    unknown = [name for name in names if name not in OBJECT_CLASSES and name not in COCO_CLASSES]
    if unknown:
        shown = ", ".join(repr(name) for name in unknown[:4]) + (", …" if len(unknown) > 4 else "")
        raise UnknownClass(f"{len(unknown)} of {len(names)} classes are neither VisDrone's nor COCO's: {shown}")
    labels = np.array([label_of(name) for name in names], np.int64)
    if not (labels >= 0).any():
        raise UnknownClass(f"none of the {len(names)} classes is one of {', '.join(OBJECT_CLASSES)}")
    return labels


def blind_to(labels: np.ndarray) -> tuple[str, ...]:
    """Return the sensitive classes if a detector with such a :func:`label_map` can see none of them, else nothing."""
    sensitive = {OBJECT_CLASSES.index(name) for name in SENSITIVE_CLASSES}
    return () if sensitive & set(labels.tolist()) else SENSITIVE_CLASSES
