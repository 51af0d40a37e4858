"""The semantic codec: an encoder that squeezes the detector's features, a decoder that paints the scene from them.

Shapes: the tap is ``(N, 128, H', W')``, the code ``(N, C, H', W')`` with every cell's vector shorter than 1, the
decoder's output ``(N, 14, 4 H', 4 W')`` scores of ``scene.MASK_CLASSES``. Features and prior enter the decoder apart,
so that what each is worth can be measured.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from uav_privacy_sc import scene

#: Channels of the tap and of the code.
TAP_CHANNELS = 128
CODE_CHANNELS = 16
#: Mask pixels for each feature cell and side.
MASK_SCALE = 4


def block(inputs: int, outputs: int, dilation: int = 1) -> nn.Sequential:
    """Return convolution 3x3, group norm, SiLU."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=dilation, dilation=dilation, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(8, outputs), nn.SiLU())


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, width: int, dilation: int = 1) -> None:
        super().__init__()
        self.body = nn.Sequential(block(width, width, dilation), block(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x)


class Encoder(nn.Module):
    """From the tap to the code, each cell alone (1x1): the encoder adds nothing to how far the tap below it reaches."""

    def __init__(self, channels: int = CODE_CHANNELS, tap: int = TAP_CHANNELS, width: int = 64) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(tap, width, 1), nn.SiLU(), nn.Conv2d(width, channels, 1))

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
    """From a received code and the prior planes to the scores of the mask's classes (P1 Eq. 5)."""

    def __init__(self, channels: int = CODE_CHANNELS, width: int = 64, fine: int = 16) -> None:
        super().__init__()
        objects, classes = len(scene.OBJECT_CLASSES), len(scene.MASK_CLASSES)
        self.gauge = NoiseGauge()
        self.features = nn.Sequential(block(channels + 1, width), Residual(width, 2), Residual(width, 4))
        self.prior = nn.Sequential(block(objects, fine), block(fine, fine))
        self.join = block(width + fine, width)
        self.up = nn.Sequential(Residual(width, 2), nn.Conv2d(width, 4 * fine, 1), nn.PixelShuffle(2), Residual(fine))
        self.head = nn.Sequential(block(2 * fine, fine), nn.Conv2d(fine, classes, 1))

    def forward(self, code: torch.Tensor, prior: torch.Tensor) -> torch.Tensor:
        planes = self.prior(prior)
        coarse = functional.adaptive_avg_pool2d(planes, code.shape[2:])
        middle = self.up(self.join(torch.cat([self.features(self.gauge(code)), coarse], dim=1)))
        fine = functional.interpolate(middle, size=prior.shape[2:], mode="bilinear", align_corners=False)
        return self.head(torch.cat([fine, planes], dim=1))


class Codec(nn.Module):
    """Encoder and decoder of one agreement; the aircraft uses the one, the ground the other."""

    def __init__(self, channels: int = CODE_CHANNELS) -> None:
        super().__init__()
        self.encoder = Encoder(channels)
        self.decoder = Decoder(channels)


def mask_shape(grid_shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the ``(rows, columns)`` of the mask for a feature grid."""
    return grid_shape[-2] * MASK_SCALE, grid_shape[-1] * MASK_SCALE


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
