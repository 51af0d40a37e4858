"""The trained inversion attacker of P1 section 2.5: intercepted features to a picture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from uav_privacy_sc.perception.codec import CODE_CHANNELS, NoiseGauge, Residual, block
from uav_privacy_sc.perception.device import choose_device
from uav_privacy_sc.perception.weights import WeightsError, load_module, locate

#: Picture pixels for each feature cell and side: 22 x 40 cells give 176 x 320.
PICTURE_SCALE = 8


class Inverter(nn.Module):
    """A light convolutional inverter: ``(N, C, H', W')`` to ``(N, 3, 8 H', 8 W')`` in [0, 1]."""

    def __init__(self, channels: int = CODE_CHANNELS, width: int = 64) -> None:
        super().__init__()
        self.entry = nn.Sequential(NoiseGauge(), block(channels + 1, width), Residual(width), Residual(width, 2))
        self.rise = nn.Sequential(_rise(width, 48), _rise(48, 24))
        self.exit = nn.Sequential(nn.Conv2d(24, 12, 3, padding=1), nn.PixelShuffle(2))

    def forward(self, code: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.exit(self.rise(self.entry(code))))


def _rise(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, 4 * outputs, 1), nn.PixelShuffle(2), Residual(outputs))


class InversionAttacker:
    """What the eavesdropper makes of intercepted features, with weights trained on unprotected ones or, if
    ``adaptive``, on protected ones.

    Raises:
        WeightsError: weights that are not there or cannot be read.
    """

    def __init__(self, weights: Path | str | None = None, device: str = "auto", adaptive: bool = False) -> None:
        self.device = choose_device(device)
        path = locate("inverter-adaptive.pt" if adaptive else "inverter.pt", weights)
        if adaptive and not path.is_file():
            raise WeightsError(f"{path} is missing; make it by: uav-privacy-sc train attacker --noise adaptive")
        self.network = load_module(path, Inverter).to(self.device)

    @torch.inference_mode()
    def __call__(self, features: np.ndarray) -> np.ndarray:
        """Return an RGB uint8 picture ``(8 H', 8 W', 3)`` from features ``(C, H', W')``."""
        code = torch.from_numpy(np.ascontiguousarray(features, np.float32))[None].to(self.device)
        picture = self.network(code)[0].permute(1, 2, 0).mul(255).round().to(torch.uint8)
        return picture.cpu().numpy()
