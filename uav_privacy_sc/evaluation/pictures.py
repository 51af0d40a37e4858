"""Arrays as pictures for a page: boxes drawn, budget maps as heat maps, masks in class colours, all as data URIs."""

from __future__ import annotations

import base64
import io

import cv2
import numpy as np
from matplotlib import colormaps
from PIL import Image

from uav_privacy_sc.palette import COLOURS, PALETTE, colour_mask
from uav_privacy_sc.scene import SENSITIVE_LABELS, corners

SENSITIVE_COLOUR = (220, 38, 38)
OTHER_COLOUR = (29, 78, 216)
HEAT_MAP = "viridis"
PANEL_WIDTH = 640
_WHITE = (255, 255, 255)


def data_uri(picture: np.ndarray, lossless: bool = False) -> str:
    """Return an RGB picture as a data URI: PNG where every pixel counts, else JPEG."""
    buffer = io.BytesIO()
    if lossless:
        Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    else:
        Image.fromarray(picture).save(buffer, "JPEG", quality=85)
    kind = "png" if lossless else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode('ascii')}"


def scaled(picture: np.ndarray, width: int = PANEL_WIDTH) -> np.ndarray:
    """Return a picture brought to the width of a panel; enlarged ones keep their pixels visible as such."""
    height = max(1, round(picture.shape[0] * width / picture.shape[1]))
    smaller = width < picture.shape[1]
    return cv2.resize(picture, (width, height), interpolation=cv2.INTER_AREA if smaller else cv2.INTER_NEAREST)


def boxed(picture: np.ndarray, objects: np.ndarray | None, width: int = PANEL_WIDTH) -> np.ndarray:
    """Return a picture at panel width with the boxes of objects: red around people, blue around all else."""
    canvas = scaled(picture, width).copy()
    for label, box in _pixel_boxes(objects, canvas.shape[:2]):
        colour = SENSITIVE_COLOUR if label in SENSITIVE_LABELS else OTHER_COLOUR
        cv2.rectangle(canvas, box[:2], box[2:], colour, 2, cv2.LINE_AA)
    return canvas


def class_picture(mask: np.ndarray, objects: np.ndarray | None = None, width: int = PANEL_WIDTH) -> np.ndarray:
    """Return a semantic mask in class colours at panel width, with objects outlined where they are given."""
    canvas = scaled(colour_mask(mask), width).copy()
    for label, box in _pixel_boxes(objects, canvas.shape[:2]):
        cv2.rectangle(canvas, box[:2], box[2:], _WHITE, 3, cv2.LINE_AA)
        cv2.rectangle(canvas, box[:2], box[2:], PALETTE[label].tolist(), 1, cv2.LINE_AA)
    return canvas


def _pixel_boxes(objects: np.ndarray | None, shape: tuple[int, int]) -> list[tuple[int, tuple[int, int, int, int]]]:
    if objects is None:
        return []
    height, width = shape
    limits = np.array([width, height, width, height])
    pixels = np.clip(np.round(corners(objects) * limits), 0, limits - 1).astype(int)
    return [
        (int(label), (x1, y1, x2, y2))
        for label, (x1, y1, x2, y2) in zip(objects["label"], pixels.tolist(), strict=True)
    ]


def heat_picture(values: np.ndarray, low: float, high: float, width: int = PANEL_WIDTH) -> np.ndarray:
    """Return a map of positive values on a logarithmic colour scale from ``low`` (dark) to ``high`` (bright)."""
    span = np.log(max(high, low * (1 + 1e-9))) - np.log(low)
    place = np.clip((np.log(np.clip(values, low, high)) - np.log(low)) / span, 0, 1)
    return scaled((colormaps[HEAT_MAP](place)[..., :3] * 255).round().astype(np.uint8), width)


def heat_gradient(steps: int = 12) -> str:
    """Return the heat map's colours, dark to bright, as the stops of a CSS gradient."""
    return ", ".join(css(colormaps[HEAT_MAP](place)[:3]) for place in np.linspace(0, 1, steps))


def css(colour: tuple) -> str:
    """Return a colour of three floats in [0, 1] or three whole numbers as ``#rrggbb``."""
    whole = [round(part * 255) if isinstance(part, float) else int(part) for part in colour]
    return "#" + "".join(f"{part:02x}" for part in whole)


def class_legend(used: set[int]) -> list[tuple[str, str]]:
    """Return ``(name, #rrggbb)`` of the classes that occur, in the order of ``scene.MASK_CLASSES``."""
    return [(name, css(colour)) for value, (name, colour) in enumerate(COLOURS.items()) if value in used]
