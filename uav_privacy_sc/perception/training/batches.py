"""What codec and attacker are trained from: the detector's taps, protected and sent as an aircraft would.

The taps of the frozen detector are computed once. Each step crops them and draws how the code is protected
(region-aware or uniform, epsilon_v from 0.3 to 1000 or none; places by grid or planar Laplace) and what the link does
(-10 to 20 dB).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import cv2
import numpy as np
import torch

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import PICTURE_STRIDE
from uav_privacy_sc.perception.codec import MASK_STRIDE, prior_planes
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.image import to_tensor
from uav_privacy_sc.perception.training.samples import UNKNOWN, Samples
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.location import release_grid, release_planar_laplace
from uav_privacy_sc.privacy.visual import VisualConfig, allocate, sigma_map


@dataclass(frozen=True)
class ProtectedTraining:
    """What the trainings on protected codes share. ``crop`` is in cells of 16 network pixels (rows, columns).

    ``without_noise``, ``without_features`` and ``without_prior`` are the shares of samples that come unprotected, with
    nothing but the prior, and without a prior.
    """

    steps: int = 2500
    batch: int = 12
    crop: tuple[int, int] = (14, 24)
    learning_rate: float = 2e-3
    without_noise: float = 0.3
    without_features: float = 0.1
    without_prior: float = 0.2
    checkpoint_every: int = 200
    seed: int = 2

    def __post_init__(self) -> None:
        if min(self.steps, self.batch, self.checkpoint_every, *self.crop) < 1:
            raise ValueError(f"steps={self.steps}, batch={self.batch} and crop={self.crop} must be at least 1")
        if not 0 < self.learning_rate < 1:
            raise ValueError(f"learning_rate={self.learning_rate} must be between 0 and 1, both excluded")

    @property
    def unprotected(self) -> float:
        """Share of samples whose code gets no noise of the mechanism."""
        return self.without_noise

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: 50 steps of warming up, then a cosine down to a fiftieth."""
        cosine = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * min(1.0, (step + 1) / 50) * max(cosine, 0.02)


@dataclass(frozen=True)
class TapSet:
    """Taps ``(N, 128, H', W')`` float16, pictures ``(N, h / 2, w / 2, 3)`` uint8, masks ``(N, h / 4, w / 4)``, objects.

    Codes ``(N, C, H', W')`` may stand in place of the taps. ``detector`` is the checksum of the weights that made them,
    ``data`` the fingerprint of the samples.
    """

    taps: np.ndarray
    pictures: np.ndarray
    masks: np.ndarray
    objects: list[np.ndarray]
    detector: str = ""
    data: str = ""

    def first(self, count: int) -> TapSet:
        """Return ``count`` of the pictures, evenly over them all."""
        chosen = np.linspace(0, len(self.objects), min(count, len(self.objects)), endpoint=False).astype(int)
        objects = [self.objects[k] for k in chosen]
        arrays = (self.taps[chosen], self.pictures[chosen], self.masks[chosen])
        return TapSet(*arrays, objects, self.detector, self.data)


def tap_set(samples: Samples, detector: Detector, progress: Callable[[int], None] = lambda done: None) -> TapSet:
    """Run the detector over the samples once and keep what codec and attacker are trained from.

    Without masks every pixel of :attr:`TapSet.masks` is unknown.
    """
    height, width = samples.images.shape[1:3]
    taps, pictures, masks = [], [], []
    for k, image in enumerate(samples.images):
        _, tap = detector.infer(to_tensor(image, detector.device, max(width, height)))
        taps.append(tap[0].cpu().numpy().astype(np.float16))
        size = (width // PICTURE_STRIDE, height // PICTURE_STRIDE)
        pictures.append(cv2.resize(image, size, interpolation=cv2.INTER_AREA))
        shape = (height // MASK_STRIDE, width // MASK_STRIDE)
        masks.append(_fitted(None if samples.masks is None else samples.masks[k], shape))
        progress(k + 1)
    arrays = (np.stack(taps), np.stack(pictures), np.stack(masks))
    return TapSet(*arrays, samples.objects, detector.sha256, samples.fingerprint())


def _fitted(mask: np.ndarray | None, shape: tuple[int, int]) -> np.ndarray:
    if mask is None:
        return np.full(shape, UNKNOWN, np.uint8)
    return mask if mask.shape == shape else cv2.resize(mask, shape[::-1], interpolation=cv2.INTER_NEAREST)


@dataclass(frozen=True)
class Protection:
    """One sample's draw: noise deviation a cell (0: none), SNR in dB (None: no link noise), prior, features on."""

    sigma: np.ndarray
    snr_db: float | None
    prior: np.ndarray
    features: bool


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def draw_protection(
    objects: np.ndarray,
    grid: tuple[int, int],
    mask: tuple[int, int],
    config: ProtectedTraining,
    rng: np.random.Generator,
) -> Protection:
    """Draw how one training sample with a code of ``grid`` cells and a mask of so many pixels is protected and sent."""
    seen = objects[rng.random(len(objects)) > rng.uniform(0, 0.4)].copy()
    seen["score"] = rng.uniform(0.3, 1.0, len(seen))
    sigma: np.ndarray = np.zeros(grid)
    if rng.random() > config.unprotected:
        mechanism = str(rng.choice(["region_aware", "uniform"]))
        visual = VisualConfig(mechanism=mechanism)
        background = BudgetMapConfig(kappa_bg=_log_uniform(rng, 1.12, 100))
        epsilon = allocate(seen, grid, _log_uniform(rng, 0.3, 1000), visual, background)
        sigma = sigma_map(epsilon, visual)
    received = seen[:0] if rng.random() < config.without_prior else _displace(seen, rng)
    snr_db = None if rng.random() < 0.15 else rng.uniform(-10, 20)
    return Protection(sigma, snr_db, prior_planes(received, mask), rng.random() > config.without_features)


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
class Batch:
    """One step's crops: ``tap``, ``sigma``, ``prior`` planes, ``features`` on (1) or off (0), ``mask``, ``picture``."""

    tap: torch.Tensor
    sigma: torch.Tensor
    snr_db: list[float | None]
    prior: torch.Tensor
    features: torch.Tensor
    mask: torch.Tensor
    picture: torch.Tensor


def batches(data: TapSet, config: ProtectedTraining, start: int, pool: int = 1) -> Iterator[Batch]:
    """Yield the batches of the steps from ``start`` on; each step's draw follows from seed and step alone.

    ``pool`` taps a side make one cell of the code.
    """
    rows, columns = (side // pool for side in data.taps.shape[2:])
    masks, pictures = data.masks.shape[1] // rows, data.pictures.shape[1] // rows  # pixels to a cell's side
    share = 16 // MASK_STRIDE / masks
    shape = (min(round(config.crop[0] * share), rows), min(round(config.crop[1] * share), columns))
    for step in range(start, config.steps):
        rng = np.random.default_rng([config.seed, step])
        parts: list[tuple[np.ndarray, ...]] = []
        snrs = []
        for k in rng.integers(0, len(data.objects), config.batch):
            row, column = rng.integers(0, rows - shape[0] + 1), rng.integers(0, columns - shape[1] + 1)
            drawn = draw_protection(data.objects[k], (rows, columns), data.masks.shape[1:], config, rng)
            picture = data.pictures[k].transpose(2, 0, 1)
            arrays = ((data.taps[k], pool), (drawn.sigma[None], 1), (drawn.prior, masks), (data.masks[k], masks))
            cut = [_crop(a, row, column, shape, scale) for a, scale in (*arrays, (picture, pictures))]
            parts.append((*cut, np.array(drawn.features, np.float32)))
            snrs.append(drawn.snr_db)
        tap, sigma, prior, mask, image, on = (torch.from_numpy(np.stack(part)) for part in zip(*parts, strict=True))
        yield Batch(tap.float(), sigma.float(), snrs, prior, on[:, None, None, None], mask.long(), image.float() / 255)


def step_noise(config: ProtectedTraining, step: int) -> torch.Generator:
    """Return the generator of a step's noise."""
    return torch.Generator().manual_seed(config.seed * 1_000_003 + step)
