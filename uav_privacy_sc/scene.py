"""What everything speaks of: classes, object records, boxes and grids.

Objects are rows of one structured array (:data:`OBJECT_DTYPE`), the same on the wire (one PointCloud2 point each),
on disk and in memory. Coordinates are normalized to the image: ``x, y`` is the box centre, ``w, h`` its size, all in
[0, 1] with the origin at the top left corner.
"""

from __future__ import annotations

import numpy as np

#: The ten VisDrone object classes; VisDrone's category id is the index plus one.
OBJECT_CLASSES = (
    "pedestrian",
    "people",
    "bicycle",
    "car",
    "van",
    "truck",
    "tricycle",
    "awning-tricycle",
    "bus",
    "motor",
)
#: What the ground is made of; follows the object classes in a semantic mask.
SCENE_CLASSES = ("road", "building", "vegetation", "ground")
#: Names of the values of a semantic mask, objects first.
MASK_CLASSES = OBJECT_CLASSES + SCENE_CLASSES
#: Classes that P1 treats as sensitive (J_sen, section 3.2).
SENSITIVE_CLASSES = ("pedestrian", "people")
SENSITIVE_LABELS = tuple(OBJECT_CLASSES.index(name) for name in SENSITIVE_CLASSES)

#: One detected object: normalized centre and size, confidence, class index, location cell (-1: none).
OBJECT_DTYPE = np.dtype(
    [
        ("x", np.float32),
        ("y", np.float32),
        ("z", np.float32),
        ("w", np.float32),
        ("h", np.float32),
        ("score", np.float32),
        ("label", np.int32),
        ("cell", np.int32),
    ]
)


def make_objects(
    centers: np.ndarray,
    sizes: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray | float = 1.0,
) -> np.ndarray:
    """Return ``(M,)`` object records from ``(M, 2)`` centres and sizes and ``(M,)`` labels and scores."""
    objects = np.zeros(len(centers), OBJECT_DTYPE)
    objects["x"], objects["y"] = np.asarray(centers, np.float32).reshape(-1, 2).T
    objects["w"], objects["h"] = np.asarray(sizes, np.float32).reshape(-1, 2).T
    objects["label"] = labels
    objects["score"] = scores
    objects["cell"] = -1
    return objects


def no_objects() -> np.ndarray:
    """Return an empty array of object records: an empty scene is a valid frame."""
    return np.zeros(0, OBJECT_DTYPE)


def centers(objects: np.ndarray) -> np.ndarray:
    """Return the ``(M, 2)`` float64 normalized centres of the objects."""
    return np.stack([objects["x"], objects["y"]], axis=1).astype(np.float64)


def corners(objects: np.ndarray) -> np.ndarray:
    """Return ``(M, 4)`` float64 boxes ``x1 y1 x2 y2``, normalized and not clamped (P1 Eq. 8)."""
    center = centers(objects)
    half = np.stack([objects["w"], objects["h"]], axis=1).astype(np.float64) / 2
    return np.concatenate([center - half, center + half], axis=1)


def grid_boxes(boxes: np.ndarray, grid_shape: tuple[int, int]) -> np.ndarray:
    """Project normalized boxes onto a grid (P1 Eq. 9 with the scale factors that its units need).

    ``boxes`` is ``(M, 4)`` ``x1 y1 x2 y2`` in [0, 1]; ``grid_shape`` is ``(rows, columns)``. Returns ``(M, 4)`` int64
    half-open cell ranges ``u1 v1 u2 v2`` (columns, rows) clamped to the grid. A box without area covers nothing: its
    range is empty.
    """
    rows, columns = grid_shape
    scale = np.array([columns, rows], np.float64)
    boxes = np.asarray(boxes, np.float64).reshape(-1, 4)
    valid = np.isfinite(boxes).all(axis=1) & (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    safe = np.where(valid[:, None], boxes, 0.0).clip(-1.0, 2.0)
    low = np.floor(safe[:, :2] * scale)
    high = np.ceil(safe[:, 2:] * scale)
    limits = np.concatenate([low.clip(0, scale), high.clip(0, scale)], axis=1).astype(np.int64)
    limits[~valid] = 0
    return limits


def coverage(boxes: np.ndarray, grid_shape: tuple[int, int]) -> np.ndarray:
    """Return ``(M, rows, columns)`` bool: which cells each normalized box covers."""
    rows, columns = grid_shape
    u1, v1, u2, v2 = grid_boxes(boxes, grid_shape).T[:, :, None]
    u, v = np.arange(columns), np.arange(rows)
    return ((v >= v1) & (v < v2))[:, :, None] & ((u >= u1) & (u < u2))[:, None, :]
