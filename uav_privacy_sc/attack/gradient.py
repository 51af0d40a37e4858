"""P1's gradient attacker (sections 2.5 and 5.8): paint a picture whose features match the intercepted ones.

Plain: a random start, and Adam on the mean absolute difference between the encoder's features of the picture and those
intercepted, with the picture kept within its range. A full picture has some 48 times as many values as its features, so
that most of what the start holds is never corrected, and features can be matched by fine patterns that resemble
nothing: the plain attack looks for a coarse picture (``pixels`` 2: fewer values than features), from a faint start
(``contrast``), by steps that fade out. Adaptive: it knows the noise of every cell (public, or read off the
air) and looks for the picture that is most probable a posteriori,

    sum_cells |E(x) - v|^2 / (2 sigma_cell^2)  +  tv_rate sum |grad x|  +  anchor_rate sum |x - x0|^2,

the Gaussian's likelihood with a prior: pictures are smooth and, where a trained inverter is there, near what it draws
(x0, where the search starts, too). Where noise drowns a cell, the prior fills it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from uav_privacy_sc.attack.interface import Guesses, Interception, register
from uav_privacy_sc.attack.inversion import PictureNetwork
from uav_privacy_sc.attack.sensitive_map import infer_sigma
from uav_privacy_sc.privacy.domain import choice, not_negative, positive, whole

#: The encoder as the attacker has it: ``(N, 3, h, w)`` pictures in [0, 1] to ``(N, C, H', W')`` features.
Encoder = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True)
class GradientConfig:
    """How the picture is looked for.

    Attributes:
        steps: of Adam (published 300).
        learning_rate: of the first step, in parts of the picture's range; falls to 0 along half a cosine (ours).
        contrast: of the random start around middle grey, 1 for all of the range (ours; P1 gives none).
        batch: pictures at once.
        stride: input pixels of the encoder for each cell and side.
        pixels: of the picture for each cell and side; fewer than ``stride`` are enlarged for the encoder.
        tv_rate: adaptive only: how steeply a picture's differences are penalized, in nats for a jump from black to
            white between two pixels (ours).
        anchor_rate: adaptive, with an inverter: nats for a value that differs from the inverter's by all of the range.
        least_sigma: adaptive only: deviation below which no cell is trusted, where nothing protects (ours).
    """

    steps: int = 300
    learning_rate: float = 0.007
    contrast: float = 0.02
    batch: int = 4
    stride: int = 16
    pixels: int = 2
    tv_rate: float = 3.0
    anchor_rate: float = 75.0
    least_sigma: float = 0.2

    def __post_init__(self) -> None:
        for name in ("steps", "batch", "stride", "pixels"):
            whole(name, getattr(self, name))
        for name in ("learning_rate", "least_sigma"):
            positive(name, getattr(self, name))
        for name in ("tv_rate", "anchor_rate", "contrast"):
            not_negative(name, getattr(self, name))
        if self.contrast > 1.0:
            raise ValueError(f"contrast is {self.contrast}; give a share of the picture's range, at most 1")


#: ``paper``: P1's 300 steps. ``quick``: for many frames on few cores; the encoder's passes are what costs.
STEPS = {"paper": 300, "quick": 60}


def preset(name: str, adaptive: bool = False, **changes: Any) -> GradientConfig:
    """Return a configuration by its name in :data:`STEPS`, with changes.

    The learning rate grows as steps get fewer, by the square root. The adaptive attack, which has a prior, looks for
    every pixel of the encoder's input, by smaller steps.

    Raises:
        ValueError: an unknown name.
    """
    steps = whole("steps", changes.pop("steps", STEPS[choice("preset", name, tuple(STEPS))]))
    rate, pixels = (0.002, 16) if adaptive else (0.007, 2)
    config = GradientConfig(steps, rate * math.sqrt(300 / steps), pixels=pixels)
    return replace(config, **changes)


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
    start: torch.Tensor | None = None,
) -> Inversion:
    """Return pictures whose features match ``(N, C, H', W')`` intercepted ones, all at once.

    Args:
        encoder: frozen.
        features: as intercepted, on the device that is to work.
        config: steps and sizes.
        rng: draws the random start.
        sigma: ``(N, 1, H', W')`` total deviation of each cell for the adaptive attack; plain L1 without.
        start: ``(N, 3, h, w)`` pictures in [0, 1], of any size, to begin at; the adaptive attack holds on to them, too.

    One forward and one backward pass a step. Pictures do not influence one another.
    """
    rows, columns = features.shape[2:]
    shape = (len(features), 3, rows * config.pixels, columns * config.pixels)
    if start is None:
        faint = 0.5 + config.contrast * (rng.random(shape, np.float32) - np.float32(0.5))
        anchor, begin = None, torch.from_numpy(faint).to(features.device)
    else:
        begin = functional.interpolate(start, size=shape[2:], mode="bilinear", align_corners=False)
        anchor = begin.clone()
    pictures = begin.requires_grad_(True)
    optimizer = torch.optim.Adam([pictures], lr=config.learning_rate, fused=True)
    size = (rows * config.stride, columns * config.stride)
    down, across = _enlarging(shape[2], size[0], features), _enlarging(shape[3], size[1], features).T
    weight = None if sigma is None else 1 / sigma.clamp_min(config.least_sigma)
    misfits = torch.zeros(config.steps, len(features), device=features.device)
    for step in range(config.steps):
        optimizer.param_groups[0]["lr"] = config.learning_rate * (1 + math.cos(math.pi * step / config.steps)) / 2
        seen = pictures
        if config.pixels != config.stride:
            seen = down @ pictures @ across
        difference = encoder(seen) - features
        if weight is None:
            misfit = difference.abs().mean(dim=(1, 2, 3))
        else:
            misfit = (difference * weight).square().sum(dim=(1, 2, 3)) / 2
        pictures.grad = None
        misfit.sum().backward()
        if weight is not None:
            _add_roughness(pictures, config.tv_rate)
            if anchor is not None:
                _add_distance(pictures, anchor, config.anchor_rate)
        optimizer.step()
        with torch.no_grad():
            pictures.clamp_(0.0, 1.0)
        misfits[step] = misfit.detach()
    return Inversion(pictures.detach(), misfits.cpu().numpy())


def _enlarging(few: int, many: int, like: torch.Tensor) -> torch.Tensor:
    """Return ``(many, few)``, bilinear enlargement along one axis; as a product it costs half of interpolating."""
    unit = torch.eye(few, dtype=like.dtype, device=like.device)[None]
    return functional.interpolate(unit, size=many, mode="linear", align_corners=False)[0].T.contiguous()


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


@torch.no_grad()
def _add_distance(pictures: torch.Tensor, anchor: torch.Tensor, rate: float) -> None:
    """Add the gradient of ``rate`` times the squared distance from the anchor."""
    assert pictures.grad is not None
    pictures.grad.add_(pictures, alpha=2 * rate).sub_(anchor, alpha=2 * rate)


@dataclass
class GradientAttacker:
    """The gradient attacker; subclasses say what it knows.

    Args:
        encoder: the frozen encoder; that of the shipped weights where none is given.
        config: one of :data:`STEPS` by name, or a configuration.
        device: ``auto``, ``cpu`` or ``cuda:N``.
    """

    encoder: Encoder | None = None
    config: GradientConfig | str = "paper"
    device: str = "auto"

    adaptive = False

    def __post_init__(self) -> None:
        from uav_privacy_sc.perception.device import choose_device

        self.settings = preset(self.config, self.adaptive) if isinstance(self.config, str) else self.config
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
        result = invert(self.encoder, features, self.settings, rng, sigma, self._start(frames))
        return result.pictures.permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).cpu().numpy()

    def _start(self, frames: Sequence[Interception]) -> torch.Tensor | None:
        """Return pictures to begin at, None for a random start."""
        return None

    def _tensor(self, arrays: list[np.ndarray]) -> torch.Tensor:
        return torch.from_numpy(np.stack(arrays).astype(np.float32)).to(self.torch_device)


@register("gradient", target="picture", adaptive=False)
@dataclass
class PlainGradient(GradientAttacker):
    """P1's: L1 between features, whatever the noise."""


@register("gradient_adaptive", target="picture", adaptive=True)
@dataclass
class AdaptiveGradient(GradientAttacker):
    """Knows the noise of every cell and what pictures are like: smooth, and near what a trained inverter draws.

    Args:
        network: an inverter, at whose pictures the search begins and to which it holds on; none for a random start.
    """

    network: PictureNetwork | None = None

    adaptive = True

    def _start(self, frames: Sequence[Interception]) -> torch.Tensor | None:
        if self.network is None:
            return None
        drawn = [self.network(np.asarray(frame.features)).transpose(2, 0, 1) / 255 for frame in frames]
        return self._tensor(drawn)
