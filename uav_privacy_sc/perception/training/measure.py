"""What a detector is worth on pictures it has not seen.

Average precision is COCO's (101 points, at most 300 boxes a picture) at an overlap of 0.5. A truth whose side, the
root of its area, is below :data:`LEAST_SIDE` pixels at the network's input is passed on as a crowd region: it is not
asked for, and finding it is no fault; nor is a found box below that size that meets no larger truth, as in COCO's
area ranges. What is found with more than half its area in a region that nobody annotated is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from uav_privacy_sc import scene
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.image import to_tensor
from uav_privacy_sc.perception.training.samples import Samples

#: Side in pixels at the network's input from which on an object is asked for.
LEAST_SIDE = 8.0
#: Sides in pixels between which classes are told apart in the figures by size.
SIZES = ((8.0, 16.0), (16.0, 24.0), (24.0, math.inf))
#: Confidence at which recall is given: the default of the perception node.
CONFIDENCE = 0.25
OVERLAP = 0.5


def detector_figures(
    samples: Samples, detector: Detector, progress: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Return ``map50`` and its classes for objects of 8 pixels and more and for all, and recall at confidence 0.25.

    ``detector`` should have a low confidence threshold (0.001), as is usual for average precision; the threshold of its
    non-maximum suppression is on the card, too, for it moves the figures by a hundredth. A detector with tiles sees the
    same pictures enlarged, piece by piece, as well; sizes stay those at the network's input for the whole picture.
    """
    found = []
    for k, image in enumerate(samples.images):
        records = _found(image, detector)
        ignored = samples.ignored[k] if samples.ignored else np.zeros((0, 4))
        found.append(records[~mostly_inside(records, ignored, image.shape[:2])])
        progress(k + 1)
    size = (samples.images.shape[2], samples.images.shape[1])
    large = [_sides(objects, size) >= LEAST_SIDE for objects in samples.objects]
    every = [np.ones(len(objects), bool) for objects in samples.objects]
    mean, by_class = _within(samples.objects, found, size, LEAST_SIDE, math.inf)
    mean_all, by_class_all = _average_precision(samples.objects, every, found, size)
    return {
        "pictures": len(samples),
        "objects": int(sum(map(np.count_nonzero, large))),
        "objects_of_all_sizes": int(sum(map(len, samples.objects))),
        "map50": mean,
        "map50_by_class": by_class,
        "map50_by_size": {
            f"{low:g} px and more" if high == math.inf else f"{low:g} to {high:g} px": _within(
                samples.objects, found, size, low, high
            )[1]
            for low, high in SIZES
        },
        "map50_all_sizes": mean_all,
        "map50_all_sizes_by_class": by_class_all,
        "recall_at_0.25": _recall(samples.objects, large, found),
        "rule": f"sqrt(w h) >= {LEAST_SIDE:g} px at the network's input; smaller truths neither count nor punish; "
        f"non-maximum suppression at {detector.overlap:g}"
        + (f"; tiles: {detector.tiles}" if detector.tiles > 1 else ""),
    }


def _found(image: np.ndarray, detector: Detector) -> np.ndarray:
    """Return what is found in a picture at its own scale, and in its tiles where the detector has some."""
    if detector.tiles > 1:
        return detector(image)[0]
    return detector.infer(to_tensor(image, detector.device, max(image.shape[:2])))[0]


def _within(
    truths: list[np.ndarray], found: list[np.ndarray], size: tuple[int, int], low: float, high: float
) -> tuple[float, dict[str, float]]:
    """Return the average precision, mean and by class, over truths whose side is from ``low`` to below ``high``."""
    asked = [(_sides(objects, size) >= low) & (_sides(objects, size) < high) for objects in truths]
    counting = [
        records[~_stray(records, truth[chosen], size, low, high)]
        for records, truth, chosen in zip(found, truths, asked, strict=True)
    ]
    return _average_precision(truths, asked, counting, size)


def _sides(objects: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return the ``(M,)`` geometric mean sides in pixels; ``size`` is ``(width, height)``."""
    return np.sqrt(np.maximum(objects["w"] * size[0], 0) * np.maximum(objects["h"] * size[1], 0))


def _stray(found: np.ndarray, asked: np.ndarray, size: tuple[int, int], low: float, high: float) -> np.ndarray:
    """Return ``(M,)`` bool: whether a found box is of another size and on none of the truths asked for."""
    overlaps = overlap(scene.corners(found), scene.corners(asked))
    overlaps[found["label"][:, None] != asked["label"][None]] = 0
    sides = _sides(found, size)
    return ((sides < low) | (sides >= high)) & (overlaps.max(axis=1, initial=0) < OVERLAP)


def mostly_inside(found: np.ndarray, regions: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return ``(M,)`` bool: whether more than half of a box's pixels lie in the union of normalized ``regions``."""
    inside = np.zeros(len(found), bool)
    if not len(regions):
        return inside
    covered = np.zeros(shape, bool)
    for u1, v1, u2, v2 in scene.grid_boxes(regions, shape).tolist():
        covered[v1:v2, u1:u2] = True
    for k, (u1, v1, u2, v2) in enumerate(scene.grid_boxes(scene.corners(found), shape).tolist()):
        inside[k] = v2 > v1 and u2 > u1 and covered[v1:v2, u1:u2].mean() > 0.5
    return inside


def _average_precision(
    truths: list[np.ndarray], counted: list[np.ndarray], found: list[np.ndarray], size: tuple[int, int]
) -> tuple[float, dict[str, float]]:
    """Return the mean over the classes that occur among the counted truths, and each of them."""
    from torchmetrics.detection import MeanAveragePrecision

    metric: Any = MeanAveragePrecision(iou_thresholds=[OVERLAP], max_detection_thresholds=[1, 100, 300])
    metric.class_metrics = True
    metric.warn_on_many_detections = False
    for truth, asked, records in zip(truths, counted, found, strict=True):
        prediction = {**_boxes(records, size), "scores": torch.from_numpy(records["score"].copy())}
        metric.update([prediction], [{**_boxes(truth, size), "iscrowd": torch.from_numpy((~asked).astype(np.int64))}])
    result = metric.compute()
    classes = np.atleast_1d(result["classes"].numpy()).tolist()
    values = np.atleast_1d(result["map_per_class"].numpy()).tolist()
    # -1 stands for a class that was found somewhere but is not there.
    by_class = {scene.OBJECT_CLASSES[c]: round(v, 4) for c, v in zip(classes, values, strict=True) if v >= 0}
    return (round(float(np.mean(list(by_class.values()))), 4) if by_class else 0.0), by_class


def _boxes(objects: np.ndarray, size: tuple[int, int]) -> dict[str, torch.Tensor]:
    corners = scene.corners(objects) * np.tile(size, 2)
    return {"boxes": torch.from_numpy(corners).float(), "labels": torch.from_numpy(objects["label"].astype(np.int64))}


def _recall(truths: list[np.ndarray], counted: list[np.ndarray], found: list[np.ndarray]) -> float:
    """Return the share of counted truths that a box of their class covers by half, at confidence 0.25, one to one."""
    hit = 0
    for truth, asked, records in zip(truths, counted, found, strict=True):
        sure = records[records["score"] >= CONFIDENCE]
        sure = sure[np.argsort(-sure["score"], kind="stable")]
        free = np.ones(len(truth), bool)
        overlaps = overlap(scene.corners(sure), scene.corners(truth))
        overlaps[sure["label"][:, None] != truth["label"][None]] = 0
        for row in overlaps:
            row = row * free
            if len(row) and row.max() >= OVERLAP:
                free[row.argmax()] = False
        hit += int(np.count_nonzero(~free & asked))
    return round(hit / max(1, sum(map(np.count_nonzero, counted))), 4)


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the ``(M, N)`` intersections over unions of ``(M, 4)`` and ``(N, 4)`` boxes ``x1 y1 x2 y2``."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    inner = (high - low).clip(0).prod(axis=2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).clip(0).prod(axis=1) for boxes in (first, second)]
    return inner / np.maximum(areas[0][:, None] + areas[1][None] - inner, 1e-12)
