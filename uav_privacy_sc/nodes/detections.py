"""Between ``vision_msgs/Detection2DArray`` and object records: other people's detectors and viewers.

``vision_msgs`` (of Humble and later) is no requirement: what needs it is off by default, and says by its parameter's
name when it is asked for where the package is not.
"""

from __future__ import annotations

import importlib
import math
from collections import Counter
from typing import Any

import numpy as np
from std_msgs.msg import Header

from uav_privacy_sc import scene
from uav_privacy_sc.nodes.conversion import MalformedMessage
from uav_privacy_sc.perception.classes import COCO_CLASSES, UnknownClass, label_of

#: What numbers in place of class names mean.
NUMBERINGS = ("coco", "visdrone")


def vision_messages(parameter: str) -> Any:
    """Return the module ``vision_msgs.msg``.

    Raises:
        ValueError: it is not installed; names the parameter that asked for it.
    """
    try:
        return importlib.import_module("vision_msgs.msg")
    except ImportError:
        raise ValueError(
            f"parameter {parameter} needs vision_msgs, which is not installed; install ros-$ROS_DISTRO-vision-msgs and "
            f"source it, or leave {parameter} out"
        ) from None


def objects_from_detections(
    message: Any, shape: tuple[int, ...], confidence: float = 0.0, numbering: str = "coco"
) -> tuple[np.ndarray, Counter[str]]:
    """Return ``(M,)`` object records of a Detection2DArray, and why others were left out, counted.

    ``shape`` is ``(height, width, ...)`` of the picture in whose pixels the boxes are. Boxes are clipped to it, turned
    ones enclosed; a class is that of the best hypothesis, by VisDrone's or COCO's name, or a number in ``numbering``.

    Raises:
        MalformedMessage: a detection without hypothesis, of a class that is neither's, or with a box or score that is
            no number. The whole frame is refused: what is not understood might be a person who goes unprotected.
    """
    rows, left_out = [], Counter[str]()
    for detection in message.detections:
        label, score = _hypothesis(detection, numbering)
        box = _corners(detection.bbox, shape)
        if label < 0:
            left_out["of other classes"] += 1
        elif score < confidence:
            left_out["below confidence"] += 1
        elif not (box[2] > box[0] and box[3] > box[1]):
            left_out["outside the picture or without area"] += 1
        else:
            rows.append((*box, label, score))
    if not rows:
        return scene.no_objects(), left_out
    values = np.array(rows, np.float64)
    low, high = values[:, :2], values[:, 2:4]
    return scene.make_objects((low + high) / 2, high - low, values[:, 4].astype(np.int32), values[:, 5]), left_out


def _hypothesis(detection: Any, numbering: str) -> tuple[int, float]:
    if not detection.results:
        raise MalformedMessage("detections refused: one has no hypothesis of its class")
    best = max((result.hypothesis for result in detection.results), key=lambda one: one.score)
    if not 0.0 <= best.score <= 1.0:
        raise MalformedMessage(f"detections refused: a score is {best.score}, not from 0 to 1")
    return _label(str(best.class_id).strip(), numbering), float(best.score)


def _label(name: str, numbering: str) -> int:
    if name.isdecimal():
        names = COCO_CLASSES if numbering == "coco" else scene.OBJECT_CLASSES
        if int(name) >= len(names):
            raise MalformedMessage(f"detections refused: class {name} is beyond the {len(names)} of {numbering}")
        name = names[int(name)]
    try:
        return label_of(name)
    except UnknownClass as error:
        raise MalformedMessage(f"detections refused: {error}") from None


def _corners(box: Any, shape: tuple[int, ...]) -> tuple[float, float, float, float]:
    """Return ``x1 y1 x2 y2`` of the upright box around a turned one, normalized and clipped."""
    center, theta = box.center.position, box.center.theta
    values = (center.x, center.y, theta, box.size_x, box.size_y)
    if not all(math.isfinite(value) for value in values) or box.size_x < 0 or box.size_y < 0:
        raise MalformedMessage("detections refused: a box has a NaN, infinite or negative value")
    cosine, sine = abs(math.cos(theta)), abs(math.sin(theta))
    wide = (box.size_x * cosine + box.size_y * sine) / 2
    high = (box.size_x * sine + box.size_y * cosine) / 2
    height, width = shape[:2]
    across = [min(max((center.x + side * wide) / width, 0.0), 1.0) for side in (-1, 1)]
    down = [min(max((center.y + side * high) / height, 0.0), 1.0) for side in (-1, 1)]
    return across[0], down[0], across[1], down[1]


def detections_to_message(objects: np.ndarray, header: Header, shape: tuple[int, ...], messages: Any) -> Any:
    """Return received object records as a Detection2DArray in pixels of a picture of ``shape`` (height, width)."""
    height, width = shape[:2]
    array = messages.Detection2DArray(header=header)
    for item in objects:
        detection = messages.Detection2D(header=header)
        detection.bbox.center.position.x = float(item["x"]) * width
        detection.bbox.center.position.y = float(item["y"]) * height
        detection.bbox.size_x, detection.bbox.size_y = float(item["w"]) * width, float(item["h"]) * height
        result = messages.ObjectHypothesisWithPose()
        label = int(item["label"])
        known = 0 <= label < len(scene.OBJECT_CLASSES)
        result.hypothesis.class_id = scene.OBJECT_CLASSES[label] if known else str(label)
        result.hypothesis.score = float(item["score"])
        detection.results.append(result)
        array.detections.append(detection)
    return array
