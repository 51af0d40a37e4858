"""P1's gradient attacker (sections 2.5 and 5.8): paint a picture whose features match the intercepted ones.

Plain: a random start, and Adam on the mean absolute difference between the encoder's features of the picture and those
intercepted, with the picture kept within its range. Adaptive: it knows the noise of every cell (public, or read off the
air) and looks for the picture that is most probable a posteriori,

    sum_cells |E(x) - v|^2 / (2 sigma_cell^2)  +  tv_rate sum |grad x|,

the Gaussian's likelihood with a total-variation prior: where noise drowns a cell, the prior fills it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.attack.sensitive_map import infer_sigma
from uav_privacy_sc.privacy.domain import choice, not_negative, positive, whole

#: The encoder as the attacker has it: ``(N, 3, h, w)`` pictures in [0, 1] to ``(N, C, H', W')`` features.
Encoder = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class GradientConfig:
    """How the picture is looked for.

    Attributes:
        steps: of Adam (published 300).
        learning_rate: in parts of the picture's range (ours).
        batch: pictures at once.
        stride: input pixels of the encoder for each cell and side.
        pixels: of the picture for each cell and side; fewer than ``stride`` are enlarged for the encoder.
        tv_rate: adaptive only: how steeply a picture's differences are penalized, in nats for a jump from black to
            white between two pixels (ours).
        least_sigma: adaptive only: deviation below which no cell is trusted, where nothing protects (ours).
    """

    steps: int = 300
    learning_rate: float = 0.02
    batch: int = 4
    stride: int = 16
    pixels: int = 16
    tv_rate: float = 10.0
    least_sigma: float = 0.05

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "stride", "pixels"):
            whole(name, getattr(self, name))
        for name in ("learning_rate", "least_sigma"):
            positive(name, getattr(self, name))
        not_negative("tv_rate", self.tv_rate)


#: ``paper``: 300 steps on every pixel of the encoder's input. ``quick``: for many frames on few cores.
PRESETS = {
    "paper": GradientConfig(),
    "quick": GradientConfig(steps=60, learning_rate=0.06, pixels=8),
}


def preset(name: str, **changes: Any) -> GradientConfig:
    """Return one of :data:`PRESETS` with changes.

    Raises:
        ValueError: an unknown name.
    """
    return replace(PRESETS[choice("preset", name, tuple(PRESETS))], **changes)


def frozen_encoder(perception: Any) -> Encoder:
    """Return the aircraft's encoder, from the detector's input to the code, without a gradient for its weights.

    Args:
        perception: a ``perception.stage.Perception`` with ``.pt`` weights; its networks are frozen.

    Raises:
        ValueError: the layers up to the tap are no plain chain.
    """
    chain = list(perception.detector.model.model)[: perception.detector.tap.layer + 1]
    if any(getattr(layer, "f", -1) != -1 for layer in chain):
        raise ValueError("detector: its layers up to the tap are no plain chain; attack a codec on another detector")
    for module in (*chain, perception.encoder):
        module.requires_grad_(False)

    def encode(pictures: torch.Tensor) -> torch.Tensor:
        for layer in chain:
            pictures = layer.forward(pictures)  # not by calling it: the detector's own hook keeps what passes
        return perception.encoder(pictures)

    return encode


@dataclass(frozen=True)
class Inversion:
    """Pictures ``(N, 3, h, w)`` in [0, 1] and how badly each fits before every step, ``(steps, N)``.

    ``misfits`` are the mean absolute difference of features or, adaptive, minus their log likelihood.
    """

    pictures: torch.Tensor
    misfits: NDArray[np.float32]


def invert(
    encoder: Encoder,
    features: torch.Tensor,
    config: GradientConfig,
    rng: np.random.Generator,
    sigma: torch.Tensor | None = None,
) -> Inversion:
    """Return pictures whose features match ``(N, C, H', W')`` intercepted ones, all at once.

    Args:
        encoder: frozen.
        features: as intercepted, on the device that is to work.
        config: steps and sizes.
        rng: draws the random start.
        sigma: ``(N, 1, H', W')`` total deviation of each cell for the adaptive attack; plain L1 without.

    One forward and one backward pass a step. Pictures do not influence one another.
    """
    rows, columns = features.shape[2:]
    shape = (len(features), 3, rows * config.pixels, columns * config.pixels)
    pictures = torch.from_numpy(rng.random(shape, np.float32)).to(features.device).requires_grad_(True)
    optimizer = torch.optim.Adam([pictures], lr=config.learning_rate, fused=True)
    size = (rows * config.stride, columns * config.stride)
    weight = None if sigma is None else 1 / sigma.clamp_min(config.least_sigma)
    misfits = torch.zeros(config.steps, len(features), device=features.device)
    for step in range(config.steps):
        seen = pictures
        if config.pixels != config.stride:
            seen = functional.interpolate(pictures, size=size, mode="bilinear", align_corners=False)
        difference = encoder(seen) - features
        if weight is None:
            misfit = difference.abs().mean(dim=(1, 2, 3))
        else:
            misfit = (difference * weight).square().sum(dim=(1, 2, 3)) / 2
        pictures.grad = None
        misfit.sum().backward()
        if weight is not None:
            _add_roughness(pictures, config.tv_rate)
        optimizer.step()
        with torch.no_grad():
            pictures.clamp_(0.0, 1.0)
        misfits[step] = misfit.detach()
    return Inversion(pictures.detach(), misfits.cpu().numpy())


@torch.no_grad()
def _add_roughness(pictures: torch.Tensor, rate: float) -> None:
    """Add the gradient of ``rate`` times the total variation to the pictures' own: signs, without a graph of them."""
    assert pictures.grad is not None
    across = (pictures[..., 1:] - pictures[..., :-1]).sign_()
    pictures.grad[..., 1:].add_(across, alpha=rate)
    pictures.grad[..., :-1].sub_(across, alpha=rate)
    down = (pictures[..., 1:, :] - pictures[..., :-1, :]).sign_()
    pictures.grad[..., 1:, :].add_(down, alpha=rate)
    pictures.grad[..., :-1, :].sub_(down, alpha=rate)


@dataclass
class GradientAttacker:
    """The gradient attacker; subclasses say what it knows.

    Args:
        encoder: the frozen encoder; that of the shipped weights where none is given.
        config: one of :data:`PRESETS` by name, or a configuration.
        device: ``auto``, ``cpu`` or ``cuda:N``.
    """

    encoder: Encoder | None = None
    config: GradientConfig | str = "paper"
    device: str = "auto"

    adaptive = False

    def __post_init__(self) -> None:
        from uav_privacy_sc.perception.device import choose_device

        self.settings = preset(self.config) if isinstance(self.config, str) else self.config
        self.torch_device = choose_device(self.device)
        if self.encoder is None:
            from uav_privacy_sc.perception.stage import Perception

            self.encoder = frozen_encoder(Perception(device=self.device))

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return an RGB uint8 picture ``(pixels H', pixels W', 3)`` a frame."""
        found: list[np.ndarray | None] = [None] * len(intercepted)
        for group in self._groups(intercepted):
            for index, picture in zip(group, self._pictures([intercepted[index] for index in group], rng), strict=True):
                found[index] = picture
        return tuple(found)

    def _groups(self, intercepted: Sequence[Interception]) -> list[list[int]]:
        """Return batches of frames with features of one shape."""
        by_shape: dict[tuple[int, ...], list[int]] = {}
        for index, frame in enumerate(intercepted):
            if frame.features is not None:
                by_shape.setdefault(frame.features.shape, []).append(index)
        batch = self.settings.batch
        return [rows[low : low + batch] for rows in by_shape.values() for low in range(0, len(rows), batch)]

    def _pictures(self, frames: Sequence[Interception], rng: np.random.Generator) -> np.ndarray:
        assert self.encoder is not None
        features = self._tensor([np.asarray(frame.features) for frame in frames])
        sigma = self._tensor([infer_sigma(frame)[None] for frame in frames]) if self.adaptive else None
        result = invert(self.encoder, features, self.settings, rng, sigma)
        return result.pictures.permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).cpu().numpy()

    def _tensor(self, arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(arrays).astype(np.float32)).to(self.torch_device)


@register("gradient", target="picture", adaptive=False)
@dataclass
class PlainGradient(GradientAttacker):
    """P1's: L1 between features, whatever the noise."""


@register("gradient_adaptive", target="picture", adaptive=True)
@dataclass
class AdaptiveGradient(GradientAttacker):
    """Knows the noise of every cell and what pictures are like."""

    adaptive = True
