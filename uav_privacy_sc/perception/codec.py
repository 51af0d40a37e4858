"""The semantic codec: an encoder that squeezes the detector's features, a decoder that paints the scene from them.

Shapes as shipped: the tap is ``(N, 128, 2 H', 2 W')``, the code ``(N, 16, H', W')`` with every cell's vector shorter
than 1, the decoder's output ``(N, 14, 4 H', 4 W')`` scores of ``scene.MASK_CLASSES``. Features and prior enter the
decoder apart, so that what each is worth can be measured. docs/models.md says why the sizes are what they are.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from uav_privacy_sc import scene

#: Channels of the code.
CODE_CHANNELS = 16
#: Mask pixels for each cell and side where a cell is 16 network pixels wide; a mask pixel is always four.
MASK_SCALE = 4
MASK_STRIDE = 4
#: Channels of the networks' inside, at the cells' own scale.
WIDTH = 48


def block(inputs: int, outputs: int, dilation: int = 1) -> nn.Sequential:
    """Return convolution 3x3, group norm, SiLU."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(8, outputs), nn.SiLU())


class Residual(nn.Module):
    """A block with a way around it."""

    def __init__(self, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.body = block(width, width, dilation)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


def rise(inputs: int, outputs: int) -> nn.Sequential:
    """Return an upsampling by two: a 1x1 convolution whose channels become pixels."""
    return nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 1), nn.PixelShuffle(2))


class Encoder(nn.Module):
    """From the tap to the code, each cell alone (1x1): the encoder adds nothing to how far the tap below it reaches.

    ``pool`` taps a side are taken together into one cell, without overlap.
    """

    def __init__(self, channels: int, tap_channels: int, pool: int = 1, width: int = 64) -> None:
        super().__init__()
        gather = nn.Conv2d(tap_channels, width, pool, stride=pool)
        self.body = nn.Sequential(gather, nn.SiLU(), nn.Conv2d(width, channels, 1))

    def forward(self, tap: torch.Tensor) -> torch.Tensor:
        code = self.body(tap)
        return code / torch.sqrt(1 + code.square().sum(dim=1, keepdim=True))


class NoiseGauge(nn.Module):
    """Scale a received code by its own local strength and append that strength as a plane.

    A clean vector is shorter than 1 and a protected one many times longer, so the receiver reads the noise level off
    the air instead of being told it.
    """

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        power = code.square().sum(dim=1, keepdim=True)
        local = functional.avg_pool2d(power, 5, 1, 2, count_include_pad=False)
        return torch.cat([code / torch.sqrt(1 + local), torch.log1p(local)], dim=1)


class Decoder(nn.Module):
    """From a received code and the prior planes to the scores of the mask's classes (P1 Eq. 5).

    Nearly all of the work is done at the cells' own scale; ``scale`` (a power of two) mask pixels to a cell's side are
    reached by turning channels into pixels, and the prior comes in once more where its edges are sharp.
    """

    def __init__(self, channels: int, scale: int = MASK_SCALE, width: int = WIDTH, fine: int = 8) -> None:
        super().__init__()
        objects, classes = len(scene.OBJECT_CLASSES), len(scene.MASK_CLASSES)
        steps = scale.bit_length() - 1
        self.features = nn.Sequential(NoiseGauge(), block(channels + 1, width), Residual(width, 2), Residual(width, 4))
        unfolded = objects * scale * scale
        self.prior = nn.Sequential(nn.PixelUnshuffle(scale), nn.Conv2d(unfolded, width, 1), nn.SiLU())
        self.join = nn.Sequential(nn.Conv2d(2 * width, width, 1), Residual(width), Residual(width, 2))
        wide = [width, *([24] * (steps - 1)), fine] if steps else [width]
        rises = [nn.Sequential(rise(a, b), Residual(b)) if b != fine else rise(a, b) for a, b in pairwise(wide)]
        self.up = nn.Sequential(*rises)
        self.head = nn.Sequential(block(wide[-1] + objects, fine), nn.Conv2d(fine, classes, 1))

    def forward(self, code: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        middle = self.join(torch.cat([self.features(code), self.prior(prior)], dim=1))
        return self.head(torch.cat([self.up(middle), prior], dim=1))


class Codec(nn.Module):
    """Encoder and decoder of one agreement; the aircraft uses the one, the ground the other.

    Args:
        channels: C, the numbers sent for each cell.
        tap_layer, tap_channels, stride: where the detector is tapped; ``stride`` is network pixels to a tap's side.
        pool: taps a side that make one cell, so a cell is ``stride * pool`` network pixels wide.
        reach_cells: how many cells beyond an object's own its pixels change the code.

    ``settings`` holds them all, and is written beside the weights.

    Raises:
        ValueError: a setting out of range.
    """

    def __init__(
        self,
        channels: int = CODE_CHANNELS,
        tap_layer: int = 4,
        tap_channels: int = 128,
        stride: int = 8,
        pool: int = 2,
        reach_cells: int = 2,
    ) -> None:
        super().__init__()
        self.settings = {
            "channels": channels,
            "tap_layer": tap_layer,
            "tap_channels": tap_channels,
            "stride": stride,
            "pool": pool,
            "reach_cells": reach_cells,
        }
        for name, value in self.settings.items():
            if not (isinstance(value, int) and value >= (0 if name in ("tap_layer", "reach_cells") else 1)):
                raise ValueError(f"{name}={value!r} must be a whole number, and not negative")
        cell = stride * pool
        if cell not in (4, 8, 16, 32):
            raise ValueError(f"stride={stride} times pool={pool} must be a cell of 4, 8, 16 or 32 network pixels")
        self.mask_scale = cell // MASK_STRIDE
        self.encoder = Encoder(channels, tap_channels, pool)
        self.decoder = Decoder(channels, self.mask_scale)


def mask_shape(grid_shape: tuple[int, ...], scale: int = MASK_SCALE) -> tuple[int, int]:
    """Return the ``(rows, columns)`` of the mask for a feature grid with ``scale`` mask pixels to a cell's side."""
    return grid_shape[-2] * scale, grid_shape[-1] * scale


def prior_planes(objects: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return P_det, ``(10, rows, columns)`` float32: for each class, the best score of the boxes over a pixel.

    ``objects`` are received records (their places as noisy as they came); ``shape`` is that of the mask.
    """
    planes = np.zeros((len(scene.OBJECT_CLASSES), *shape), np.float32)
    ranges = scene.grid_boxes(scene.corners(objects), shape).tolist()
    for (u1, v1, u2, v2), label, score in zip(
        ranges, objects["label"].tolist(), objects["score"].tolist(), strict=True
    ):
        area = planes[label, v1:v2, u1:u2]
        np.maximum(area, score, out=area)
    return planes
