"""The trained inversion attacker of P1 section 2.5: intercepted features to a picture.

:class:`InversionAttacker` is the network with its weights; :class:`PlainInverter` and :class:`AdaptiveInverter` are
what the attackers' registry knows (``interface``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from torch import nn

from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.perception.codec import CODE_CHANNELS, NoiseGauge, Residual, block, rise
from uav_privacy_sc.perception.device import choose_device
from uav_privacy_sc.perception.weights import WeightsError, load_module, locate_sound

#: Picture pixels for each cell and side where a cell is 16 network pixels wide: 22 x 40 cells give 176 x 320.
PICTURE_SCALE = 8
#: A picture pixel is so many network pixels wide, whatever the cells are.
PICTURE_STRIDE = 2


class Inverter(nn.Module):
    """A light convolutional inverter: ``(N, C, H', W')`` to ``(N, 3, s H', s W')`` in [0, 1]; ``scale`` s is 2^k."""

    def __init__(self, channels: int = CODE_CHANNELS, scale: int = PICTURE_SCALE, width: int = 64) -> None:
        super().__init__()
        steps = scale.bit_length() - 1
        sizes = [width, *([32] * (steps - 2)), 16][:steps]
        rises = [nn.Sequential(rise(a, b), Residual(b)) if b != 16 else rise(a, b) for a, b in pairwise(sizes)]
        entry = (NoiseGauge(), block(channels + 1, width), Residual(width), Residual(width, 2))
        self.body = nn.Sequential(*entry, *rises)
        self.exit = nn.Sequential(nn.Conv2d(sizes[-1], 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.exit(self.body(code)))


class InversionAttacker:
    """What the eavesdropper makes of intercepted features, with weights trained on unprotected ones or, if
    ``adaptive``, on protected ones.

    Raises:
        WeightsError: weights that are not there or cannot be read.
    """

    def __init__(self, weights: Path | str | None = None, device: str = "auto", adaptive: bool = False) -> None:
        self.device = choose_device(device)
        path = locate_sound("inverter-adaptive.pt" if adaptive else "inverter.pt", weights)
        if adaptive and not path.is_file():
            raise WeightsError(f"{path} is missing; make it by: uav-privacy-sc train attacker --noise adaptive")
        self.network = load_module(path, Inverter).to(self.device, memory_format=torch.channels_last)

    @torch.inference_mode()
    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return an RGB uint8 picture ``(8 H', 8 W', 3)`` from features ``(C, H', W')``."""
        code = torch.from_numpy(np.ascontiguousarray(features, np.float32))[None].to(self.device)
        picture = self.network(code)[0].permute(1, 2, 0).mul(255).round().to(torch.uint8)
        return picture.cpu().numpy()


#: ``(C, H', W')`` features to an RGB uint8 picture.
PictureNetwork = Callable[[np.ndarray], np.ndarray]


@register("inverter", target="picture", adaptive=False)
@dataclass
class PlainInverter:
    """The inverter trained on unprotected features, frame by frame.

    Args:
        network: draws a picture from features; made of ``weights`` on ``device`` where none is given.
        weights: folder of weights, None for the shipped ones.
        device: ``auto``, ``cpu`` or ``cuda:N``.

    Raises:
        WeightsError: weights that are not there or cannot be read.
    """

    network: PictureNetwork | None = None
    weights: Path | str | None = None
    device: str = "auto"

    adaptive = False

    def __post_init__(self) -> None:
        if self.network is None:
            self.network = InversionAttacker(self.weights, self.device, self.adaptive)

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return an RGB uint8 picture ``(8 H', 8 W', 3)`` a frame; nothing is drawn from ``rng``."""
        assert self.network is not None
        return tuple(None if frame.features is None else self.network(frame.features) for frame in intercepted)


@register("inverter_adaptive", target="picture", adaptive=True)
@dataclass
class AdaptiveInverter(PlainInverter):
    """The inverter trained on features with the noise of all budgets, which it gauges by itself."""

    adaptive = True
