"""P3's JSCC autoencoder, and what any model must offer to be trained by the fleet (:class:`Trainee`)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from uav_privacy_sc.link.fading import DEEPEST_FADE
from uav_privacy_sc.privacy.domain import choice, whole

FloatVector = NDArray[np.float32]
Images = NDArray[np.uint8]
_CHUNK = 256


class Trainee(Protocol):
    """A model that the fleet can update: a flat vector outside, encoder first, and losses that know their channel.

    Nothing but parameters may change in training: running statistics would travel unprotected. Images are
    ``(n, H, W, 3)`` uint8 RGB. ``rng`` draws what the channel does.
    """

    @property
    def size(self) -> int:
        """N, all parameters."""

    @property
    def encoder_size(self) -> int:
        """How many of them, the first ones of the flat vector, are the encoder's."""

    @property
    def feature_size(self) -> int:
        """d, numbers of one feature vector."""

    @property
    def feature_norms(self) -> tuple[float, float]:
        """Least and largest L2 norm that a feature vector of an honest encoder has."""

    def trainable(self) -> Sequence[nn.Parameter]:
        """Return the parameters in the order of the flat vector."""

    def parameters(self) -> FloatVector:
        """Return a copy of all parameters, ``(N,)`` float32."""

    def load(self, flat: FloatVector) -> None:
        """Set all parameters from ``(N,)`` finite values."""

    def loss(self, images: Images, rng: np.random.Generator) -> torch.Tensor:
        """Return the differentiable task loss of a batch, a scalar."""

    def feature_loss(self, features: FloatVector, rng: np.random.Generator) -> torch.Tensor:
        """Return the differentiable loss of feature reconstruction for ``(n, d)`` features, a scalar."""

    def encode(self, images: Images) -> FloatVector:
        """Return ``(n, d)`` float32 features as they enter the channel."""

    def reconstruct(self, features: FloatVector) -> Images:
        """Return the images decoded from ``(n, d)`` received features."""

    def psnr(self, images: Images, rng: np.random.Generator) -> float:
        """Return the mean PSNR in dB over the images, through the channel."""


@dataclass(frozen=True)
class AutoencoderConfig:
    """Shape and channel of the autoencoder.

    P3 gives five convolutions, five transposed ones, about 0.32 M parameters and d = 256; widths and kernel are ours
    (321,959 parameters, half of them the encoder's), without normalization layers.

    Attributes:
        widths: channels after the first four convolutions; the first two halve the picture.
        latent: channels after the fifth; d = latent (side/4)^2.
        kernel: odd kernel size.
        side: height and width of the images, a multiple of 4.
        snr_db: gamma in dB.
        snr_per: "vector" is P3 as written: noise of variance 1/gamma on every entry of a vector of unit norm, which at
            d = 256 is 24.1 dB less for one symbol (20 dB are -4.1 dB). "symbol": unit power for every entry.

    Raises:
        ValueError: a value out of range.
    """

    widths: tuple[int, int, int, int] = (32, 48, 48, 48)
    latent: int = 4
    kernel: int = 5
    side: int = 32
    snr_db: float = 20.0
    snr_per: str = "vector"

    def __post_init__(self) -> None:
        object.__setattr__(self, "widths", tuple(whole("widths", width) for width in self.widths))
        if len(self.widths) != 4:
            raise ValueError(f"widths must be four numbers, got {self.widths}; use (32, 48, 48, 48)")
        for name in ("latent", "kernel", "side"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.kernel % 2 == 0:
            raise ValueError(f"kernel must be odd, got {self.kernel}; use 3 or 5")
        if self.side % 4:
            raise ValueError(f"side must be a multiple of 4, got {self.side}; use 32")
        if not math.isfinite(self.snr_db):
            raise ValueError(f"snr_db must be finite, got {self.snr_db}; use a value such as 20")
        choice("snr_per", self.snr_per, ("vector", "symbol"))

    @property
    def feature_size(self) -> int:
        """d, numbers of one feature vector."""
        return self.latent * (self.side // 4) ** 2


#: A quick one for smoke runs and tests: 30 thousand parameters, d = 256.
SMALL = AutoencoderConfig(widths=(16, 24, 24, 24), kernel=3)


class Encoder(nn.Module):
    """Five convolutions, then unit power: images ``(n, 3, side, side)`` in [0, 1] to ``(n, d)`` unit vectors."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        channels = (3, *config.widths, config.latent)
        strides, pad = (2, 2, 1, 1, 1), config.kernel // 2
        layers: list[nn.Module] = []
        for (inputs, outputs), stride in zip(pairwise(channels), strides, strict=True):
            layers += [nn.Conv2d(inputs, outputs, config.kernel, stride, pad), nn.LeakyReLU(0.1)]
        self.body = nn.Sequential(*layers[:-1])

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.body(2 * images - 1).flatten(1), dim=1)


class Decoder(nn.Module):
    """Five transposed convolutions: received ``(n, d)`` to images ``(n, 3, side, side)`` in [0, 1]."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.shape = (config.latent, config.side // 4, config.side // 4)
        self.gain = math.sqrt(config.feature_size)
        channels = (3, *config.widths, config.latent)[::-1]
        strides, pad = (1, 1, 1, 2, 2), config.kernel // 2
        layers: list[nn.Module] = []
        for (inputs, outputs), stride in zip(pairwise(channels), strides, strict=True):
            convolution = nn.ConvTranspose2d(inputs, outputs, config.kernel, stride, pad, output_padding=stride - 1)
            layers += [convolution, nn.LeakyReLU(0.1)]
        self.body = nn.Sequential(*layers[:-1], nn.Sigmoid())

    def forward(self, received: torch.Tensor) -> torch.Tensor:
        return self.body(self.gain * received.unflatten(1, self.shape))


class FlatParameters(ABC):
    """What every :class:`Trainee` does alike: its parameters as one flat vector."""

    @abstractmethod
    def trainable(self) -> Sequence[nn.Parameter]:
        """Return the encoder's parameters, then the decoder's."""

    def parameters(self) -> FloatVector:
        """Return a copy of all parameters, ``(N,)`` float32, the encoder's first."""
        values = [p.detach().cpu().numpy().ravel() for p in self.trainable()]
        return np.concatenate(values).astype(np.float32, copy=False)

    def load(self, flat: FloatVector) -> None:
        """Set all parameters.

        Raises:
            ValueError: another number of values, or NaN or infinity among them.
        """
        parameters = self.trainable()
        size = sum(p.numel() for p in parameters)
        flat = np.asarray(flat, np.float32)
        if flat.shape != (size,):
            raise ValueError(f"parameters must be ({size},), got {flat.shape}; the model must be the same everywhere")
        if not np.isfinite(flat).all():
            raise ValueError("parameters hold NaN or infinity; go back to the last good model")
        position = 0
        with torch.no_grad():
            for parameter in parameters:
                end = position + parameter.numel()
                parameter.copy_(torch.from_numpy(flat[position:end].reshape(parameter.shape).copy()))
                position = end


class Autoencoder(FlatParameters):
    """P3's encoder, Rayleigh channel with equalization, and decoder, as a :class:`Trainee`.

    Args:
        config: shape and channel.
        rng: draws the first weights, so that a seed gives the same model everywhere.
        device: a torch device.
    """

    def __init__(self, config: AutoencoderConfig, rng: np.random.Generator, device: torch.device | str = "cpu") -> None:
        self.config, self.device = config, torch.device(device)
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        _initialize([*self.encoder.body, *self.decoder.body], rng)
        for part in (self.encoder, self.decoder):
            part.to(self.device)
        self.encoder_size = sum(p.numel() for p in self.encoder.parameters())
        self.size = sum(p.numel() for p in self.trainable())
        self.feature_size = config.feature_size
        self.feature_norms = (1.0, 1.0)  # P3: P = 1

    def trainable(self) -> list[nn.Parameter]:
        """Return the encoder's parameters, then the decoder's."""
        return [*self.encoder.parameters(), *self.decoder.parameters()]

    def loss(self, images: Images, rng: np.random.Generator) -> torch.Tensor:
        """Return the MSE between images and their reconstructions through the channel (P3 section II)."""
        pixels = self._pixels(images)
        return functional.mse_loss(self.decoder(self._channel(self.encoder(pixels), rng)), pixels)

    def feature_loss(self, features: FloatVector, rng: np.random.Generator) -> torch.Tensor:
        """Return the squared error between features and those of the images decoded from them, times d.

        The server holds features only: y goes through channel and decoder to an image and back through the encoder.
        P3 leaves the formula to its references; this is our reading of it. A unit vector's mean over d entries would
        make the loss 1/d of that of images, hence the factor.
        """
        target = torch.as_tensor(np.asarray(features, np.float32), device=self.device)
        again = self.encoder(self.decoder(self._channel(target, rng)))
        return (again - target).square().sum(dim=1).mean()

    @torch.no_grad()
    def encode(self, images: Images) -> FloatVector:
        """Return ``(n, d)`` float32 unit vectors."""
        parts = [self.encoder(self._pixels(part)).cpu().numpy() for part in _chunks(images)]
        return np.concatenate(parts) if parts else np.zeros((0, self.feature_size), np.float32)

    @torch.no_grad()
    def reconstruct(self, features: FloatVector) -> Images:
        """Return ``(n, side, side, 3)`` uint8 RGB images decoded from ``(n, d)`` received features."""
        received = torch.as_tensor(np.asarray(features, np.float32), device=self.device)
        pixels = self.decoder(received).permute(0, 2, 3, 1).cpu().numpy()
        return np.rint(255 * pixels).astype(np.uint8)

    @torch.no_grad()
    def psnr(self, images: Images, rng: np.random.Generator) -> float:
        """Return the mean over images of 10 log10(1 / MSE), pixels in [0, 1], one fade an image."""
        values = []
        for part in _chunks(images):
            pixels = self._pixels(part)
            again = self.decoder(self._channel(self.encoder(pixels), rng))
            error = (again - pixels).square().flatten(1).mean(dim=1).clamp_min(1e-10)
            values.append((-10 * torch.log10(error)).cpu().numpy())
        return float(np.concatenate(values).mean()) if values else math.nan

    def _channel(self, features: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        noise = channel_noise(features.shape[0], self.config, rng)
        return features + torch.as_tensor(noise, device=self.device)

    def _pixels(self, images: Images) -> torch.Tensor:
        side = self.config.side
        if images.ndim != 4 or images.shape[1:] != (side, side, 3) or images.dtype != np.uint8:
            raise ValueError(
                f"images must be (n, {side}, {side}, 3) uint8, got {images.shape} {images.dtype}; cut them to that size"
            )
        pixels = torch.as_tensor(np.ascontiguousarray(images.transpose(0, 3, 1, 2)), device=self.device)
        return pixels.to(torch.float32) / 255


def channel_noise(count: int, config: AutoencoderConfig, rng: np.random.Generator) -> FloatVector:
    """Return ``(count, d)`` what the equalized channel adds to unit vectors: n / h, one Rayleigh fade a vector.

    h is CN(0, 1), so |h|^2 is Exp(1); the phase is taken out, n is real. n has variance 1/gamma per entry ("vector",
    as P3 writes it) or 1/(gamma d) ("symbol"). Fades deeper than -120 dB count as -120 dB.
    """
    fade = np.sqrt(np.maximum(rng.standard_exponential((count, 1)), DEEPEST_FADE))
    deviation = 10 ** (-config.snr_db / 20)
    if config.snr_per == "symbol":
        deviation /= math.sqrt(config.feature_size)
    return (deviation * rng.standard_normal((count, config.feature_size)) / fade).astype(np.float32)


def _initialize(layers: Sequence[nn.Module], rng: np.random.Generator) -> None:
    """Draw weights of variance 2 / fan-in (He), corrected for the stride of a transposed convolution; biases are 0."""
    with torch.no_grad():
        for layer in layers:
            if not isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d)):
                continue
            inputs = layer.in_channels * math.prod(layer.kernel_size)
            if isinstance(layer, nn.ConvTranspose2d):
                inputs /= math.prod(layer.stride)
            draws = rng.standard_normal(tuple(layer.weight.shape)) * math.sqrt(2 / inputs)
            layer.weight.copy_(torch.from_numpy(draws.astype(np.float32)))
            layer.bias.zero_()


def _chunks(images: Images) -> list[Images]:
    return [images[start : start + _CHUNK] for start in range(0, len(images), _CHUNK)]
