"""The raster of the town's ground while it is being painted."""

from __future__ import annotations

import cv2
import numpy as np

from uav_privacy_sc.scene import MASK_CLASSES

TOWN_SIZE = 320.0
PIXELS_PER_METRE = 8
ROAD, BUILDING, VEGETATION, GROUND = (MASK_CLASSES.index(n) for n in ("road", "building", "vegetation", "ground"))
_SIDE = int(TOWN_SIZE * PIXELS_PER_METRE)


class Ground:
    """A square raster of colours and classes; what is drawn over an edge goes on at the other side."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.image = np.zeros((_SIDE, _SIDE, 3), np.float32)
        self.classes = np.full((_SIDE, _SIDE), GROUND, np.uint8)

    def fill(
        self, x1: float, y1: float, x2: float, y2: float, color: np.ndarray | tuple, label: int | None = None
    ) -> None:
        """Fill a rectangle in metres, wrapping at the edges."""
        columns = np.arange(
            round(x1 * PIXELS_PER_METRE), max(round(x2 * PIXELS_PER_METRE), round(x1 * PIXELS_PER_METRE) + 1)
        )
        rows = np.arange(
            round(y1 * PIXELS_PER_METRE), max(round(y2 * PIXELS_PER_METRE), round(y1 * PIXELS_PER_METRE) + 1)
        )
        for row_part in np.split(rows, np.where(rows % _SIDE == 0)[0]):
            for column_part in np.split(columns, np.where(columns % _SIDE == 0)[0]):
                if len(row_part) and len(column_part):
                    area = np.s_[
                        row_part[0] % _SIDE : row_part[0] % _SIDE + len(row_part),
                        column_part[0] % _SIDE : column_part[0] % _SIDE + len(column_part),
                    ]
                    self.image[area] = color
                    if label is not None:
                        self.classes[area] = label

    def strip(
        self, axis: int, along: tuple[float, float], across: tuple[float, float], color: tuple, label: int | None = None
    ) -> None:
        """Fill a rectangle given along and across a road's axis."""
        if axis == 0:
            self.fill(along[0], across[0], along[1], across[1], color, label)
        else:
            self.fill(across[0], along[0], across[1], along[1], color, label)

    def texture(self) -> np.ndarray:
        """Return the picture with noise of several scales, stronger on vegetation."""
        noise = np.zeros((_SIDE, _SIDE), np.float32)
        for cells, weight in ((20, 5.0), (160, 4.5), (640, 6.5)):
            coarse = self.rng.normal(size=(cells, cells)).astype(np.float32)
            wrapped = np.pad(coarse, 1, mode="wrap")
            scale = _SIDE // cells
            noise += (
                weight
                * cv2.resize(wrapped, None, fx=scale, fy=scale, interpolation=cv2.INTER_CUBIC)[
                    scale:-scale, scale:-scale
                ]
            )
        noise *= np.where(self.classes == VEGETATION, 1.6, 1.0).astype(np.float32)
        return np.clip(self.image + noise[..., None], 0, 255).astype(np.uint8)
