"""Train the codec under the very noise it will meet, and the eavesdropper's inverter on what nothing protects.

The taps of the frozen detector are computed once. Each step crops them, protects the code as the aircraft would
(region-aware or uniform, epsilon_v from 0.3 to 1000 or none; places by grid or planar Laplace) and sends it over a link
of -10 to 20 dB. The encoder learns from the decoder's mask and, with a small weight, from the inverter's picture: a
general code, as P1's tensor is, not one that hides appearance by training.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import torch
from torch.nn import functional

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import PICTURE_SCALE, Inverter
from uav_privacy_sc.perception.codec import MASK_SCALE, Codec, mask_shape, prior_planes
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.image import TAP_STRIDE, to_tensor
from uav_privacy_sc.perception.training.checkpoint import Checkpoint
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.perception.weights import save_module
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.location import release_grid, release_planar_laplace
from uav_privacy_sc.privacy.visual import VisualConfig, allocate, sigma_map


@dataclass(frozen=True)
class CodecTraining:
    """How codec and inverter are trained. ``crop`` is in feature cells (rows, columns)."""

    steps: int = 2500
    batch: int = 12
    crop: tuple[int, int] = (14, 24)
    learning_rate: float = 2e-3
    picture_weight: float = 0.5
    object_weight: float = 2.0
    without_noise: float = 0.3
    without_features: float = 0.1
    without_prior: float = 0.2
    checkpoint_every: int = 200
    seed: int = 2

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.checkpoint_every, *self.crop) < 1:
            raise ValueError(f"steps={self.steps}, batch={self.batch} and crop={self.crop} must be at least 1")


@dataclass(frozen=True)
class TapSet:
    """Taps ``(N, 128, H', W')`` float16, pictures ``(N, 8 H', 8 W', 3)`` uint8, masks ``(N, 4 H', 4 W')``, objects."""

    taps: np.ndarray
    pictures: np.ndarray
    masks: np.ndarray
    objects: list[np.ndarray]


def tap_set(samples: Samples, detector: Detector, progress: Callable[[int], None] = lambda done: None) -> TapSet:
    """Run the detector over the samples once and keep what codec and inverter are trained from."""
    if samples.masks is None:
        raise ValueError("the codec is trained on masks; give a folder that has masks/")
    height, width = samples.images.shape[1:3]
    taps = np.empty((len(samples), 128, height // TAP_STRIDE, width // TAP_STRIDE), np.float16)
    scale = TAP_STRIDE // PICTURE_SCALE
    pictures = np.empty((len(samples), height // scale, width // scale, 3), np.uint8)
    for k, image in enumerate(samples.images):
        _, tap = detector.infer(to_tensor(image))
        taps[k] = tap[0].numpy()
        pictures[k] = cv2.resize(image, (width // scale, height // scale), interpolation=cv2.INTER_AREA)
        progress(k + 1)
    return TapSet(taps, pictures, samples.masks, samples.objects)


@dataclass(frozen=True)
class _Protection:
    """One sample's draw: noise deviation a cell (0: none), SNR in dB (None: no link noise), prior, features on."""

    sigma: np.ndarray
    snr_db: float | None
    prior: np.ndarray
    features: bool


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def draw_protection(
    objects: np.ndarray, grid: tuple[int, int], config: CodecTraining, rng: np.random.Generator
) -> _Protection:
    """Draw how one training sample is protected, transmitted and described."""
    seen = objects[rng.random(len(objects)) > rng.uniform(0, 0.4)].copy()
    seen["score"] = rng.uniform(0.3, 1.0, len(seen))
    sigma: np.ndarray = np.zeros(grid)
    if rng.random() > config.without_noise:
        mechanism = str(rng.choice(["region_aware", "uniform"]))
        visual = VisualConfig(mechanism=mechanism)
        background = BudgetMapConfig(kappa_bg=_log_uniform(rng, 1.12, 100))
        epsilon = allocate(seen, grid, _log_uniform(rng, 0.3, 1000), visual, background)
        sigma = sigma_map(epsilon, visual)
    received = seen[:0] if rng.random() < config.without_prior else _displace(seen, rng)
    snr_db = None if rng.random() < 0.15 else rng.uniform(-10, 20)
    return _Protection(sigma, snr_db, prior_planes(received, mask_shape(grid)), rng.random() > config.without_features)


def _displace(objects: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move the objects as one of the location mechanisms would, or not at all."""
    way = rng.choice(["exact", "grid", "planar_laplace"])
    if way == "exact" or not len(objects):
        return objects
    places = scene.centers(objects).clip(0, 1)
    if way == "grid":
        moved, _ = release_grid(places, _log_uniform(rng, 0.5, 10), 16, rng)
    else:
        moved = release_planar_laplace(places, _log_uniform(rng, 0.5, 10), 16.0, rng)
    objects["x"], objects["y"] = moved.T
    return objects


def send(code: torch.Tensor, sigma: torch.Tensor, snr_db: list[float | None], noise: torch.Generator) -> torch.Tensor:
    """Add the mechanism's and the link's noise to codes ``(N, C, H, W)``; ``sigma`` is ``(N, 1, H, W)``."""
    sent = code + sigma * torch.randn(code.shape, generator=noise)
    level = torch.tensor([0.0 if snr is None else 10 ** (-snr / 20) for snr in snr_db])[:, None, None, None]
    power = sent.detach().square().mean(dim=(1, 2, 3), keepdim=True)
    return sent + level * power.sqrt() * torch.randn(code.shape, generator=noise)


def _crop(array: np.ndarray, row: int, column: int, shape: tuple[int, int], scale: int) -> np.ndarray:
    return array[..., row * scale : (row + shape[0]) * scale, column * scale : (column + shape[1]) * scale]


@dataclass(frozen=True)
class _Batch:
    tap: torch.Tensor
    sigma: torch.Tensor
    snr_db: list[float | None]
    prior: torch.Tensor
    features: torch.Tensor
    mask: torch.Tensor
    picture: torch.Tensor


def _batches(data: TapSet, config: CodecTraining, start: int) -> Iterator[_Batch]:
    rows, columns = data.taps.shape[2:]
    shape = (min(config.crop[0], rows), min(config.crop[1], columns))
    for step in range(start, config.steps):
        rng = np.random.default_rng([config.seed, step])
        parts: list[tuple[np.ndarray, ...]] = []
        snrs = []
        for k in rng.integers(0, len(data.objects), config.batch):
            row, column = rng.integers(0, rows - shape[0] + 1), rng.integers(0, columns - shape[1] + 1)
            drawn = draw_protection(data.objects[k], (rows, columns), config, rng)
            picture = data.pictures[k].transpose(2, 0, 1)
            arrays = ((data.taps[k], 1), (drawn.sigma[None], 1), (drawn.prior, MASK_SCALE), (data.masks[k], MASK_SCALE))
            cut = [_crop(a, row, column, shape, scale) for a, scale in (*arrays, (picture, PICTURE_SCALE))]
            parts.append((*cut, np.array(drawn.features, np.float32)))
            snrs.append(drawn.snr_db)
        tap, sigma, prior, mask, image, on = (torch.from_numpy(np.stack(part)) for part in zip(*parts, strict=True))
        yield _Batch(tap.float(), sigma.float(), snrs, prior, on[:, None, None, None], mask.long(), image.float() / 255)


class CodecTrainer:
    """Trains codec and inverter together, keeps the losses, and resumes from its checkpoint."""

    def __init__(self, data: TapSet, out: Path, config: CodecTraining) -> None:
        torch.manual_seed(config.seed)
        self.data, self.out, self.config = data, out, config
        self.codec, self.inverter = Codec(), Inverter()
        parameters = [*self.codec.parameters(), *self.inverter.parameters()]
        self.optimizer = torch.optim.AdamW(parameters, lr=config.learning_rate, weight_decay=1e-3)
        weights = torch.ones(len(scene.MASK_CLASSES))
        weights[: len(scene.OBJECT_CLASSES)] = config.object_weight
        self._class_weights = weights
        parts = {"codec": self.codec, "inverter": self.inverter, "optimizer": self.optimizer}
        self._checkpoint = Checkpoint(out, "codec", parts)
        self.step, self.losses = self._checkpoint.load()

    def save(self) -> None:
        """Write the checkpoint, ``codec.pt``, ``inverter.pt`` and the losses."""
        self._checkpoint.save(self.step, self.losses)
        save_module(self.out / "codec.pt", self.codec, {})
        save_module(self.out / "inverter.pt", self.inverter, {})

    def run(self, progress: Callable[[int, list[float]], None]) -> None:
        """Train to the last step; ``progress`` is told the step and the losses (mask, picture)."""
        for batch in _batches(self.data, self.config, self.step):
            rate = 0.5 * (1 + math.cos(math.pi * self.step / self.config.steps))
            for group in self.optimizer.param_groups:
                group["lr"] = self.config.learning_rate * min(1.0, (self.step + 1) / 50) * max(rate, 0.02)
            noise = torch.Generator().manual_seed(self.config.seed * 1_000_003 + self.step)
            code = self.codec.encoder(batch.tap)
            received = send(code, batch.sigma, batch.snr_db, noise) * batch.features
            mask_loss = functional.cross_entropy(
                self.codec.decoder(received, batch.prior), batch.mask, self._class_weights
            )
            clear = send(code, torch.zeros_like(batch.sigma), batch.snr_db, noise)
            picture_loss = functional.l1_loss(self.inverter(clear), batch.picture)
            self.optimizer.zero_grad()
            (mask_loss + self.config.picture_weight * picture_loss).backward()
            torch.nn.utils.clip_grad_norm_(self.codec.parameters(), 5.0)
            self.optimizer.step()
            self.step += 1
            self.losses.append([round(mask_loss.item(), 4), round(picture_loss.item(), 4)])
            progress(self.step, self.losses[-1])
            if self.step % self.config.checkpoint_every == 0 or self.step == self.config.steps:
                self.save()
