"""Colours of the semantic classes, the same in overlays, markers and reports."""

from __future__ import annotations

import numpy as np

from uav_privacy_sc import scene

#: RGB of every class of a mask: people warm, two- and three-wheelers violet, cars blue to green, scene muted.
COLOURS = {
    "pedestrian": (230, 57, 70),
    "people": (255, 140, 60),
    "bicycle": (199, 125, 255),
    "car": (67, 130, 240),
    "van": (72, 202, 228),
    "truck": (42, 157, 143),
    "tricycle": (157, 78, 221),
    "awning-tricycle": (123, 44, 191),
    "bus": (255, 209, 102),
    "motor": (240, 110, 190),
    "road": (120, 120, 125),
    "building": (165, 145, 130),
    "vegetation": (96, 140, 90),
    "ground": (200, 190, 165),
}
#: ``(14, 3)`` uint8, indexed by the values of a mask.
PALETTE = np.array([COLOURS[name] for name in scene.MASK_CLASSES], np.uint8)
#: Colour of a mask value that is no class.
UNKNOWN = np.array((20, 20, 20), np.uint8)


def colour_mask(mask: np.ndarray) -> np.ndarray:
    """Return the ``(H, W, 3)`` uint8 RGB picture of a mask of class values."""
    table = np.tile(UNKNOWN, (256, 1))
    table[: len(PALETTE)] = PALETTE
    return table[mask]


def draw_boxes(picture: np.ndarray, objects: np.ndarray) -> np.ndarray:
    """Return a copy of an RGB picture with the outline of every object's box in the colour of its class."""
    drawn = picture.copy()
    height, width = picture.shape[:2]
    boxes = np.nan_to_num(scene.corners(objects), nan=-1.0, posinf=-1.0, neginf=-1.0)
    edges = np.rint(boxes * (width, height, width, height)).clip(0, (width - 1, height - 1) * 2).astype(int)
    for (x1, y1, x2, y2), label in zip(edges.tolist(), objects["label"].tolist(), strict=True):
        colour = PALETTE[label] if 0 <= label < len(PALETTE) else UNKNOWN
        drawn[[y1, y2], x1 : x2 + 1] = colour
        drawn[y1 : y2 + 1, [x1, x2]] = colour
    return drawn


def overlay(mask: np.ndarray, objects: np.ndarray | None, scale: int = 2) -> np.ndarray:
    """Return the picture of a mask, ``scale`` times as large, with the boxes of the objects on it."""
    picture = colour_mask(mask).repeat(scale, axis=0).repeat(scale, axis=1)
    return picture if objects is None else draw_boxes(picture, objects)
