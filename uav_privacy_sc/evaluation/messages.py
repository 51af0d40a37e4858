"""One sample's message through protection and link, and what ground and eavesdropper make of it: shared by protocols.

The stages are those that fly (``pipeline``): the detector's boxes go in, the odometer counts, the block fades. All
mechanisms meet the same fade and draw their noise from the same seed, so that they differ by the mechanism alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation import metrics
from uav_privacy_sc.evaluation.measurement import Measurement, measured
from uav_privacy_sc.evaluation.metrics import Missing, Score
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import Setting
from uav_privacy_sc.link.channel import LinkConfig
from uav_privacy_sc.pipeline import LinkStage, Transmission
from uav_privacy_sc.privacy.accountant import Odometer
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import Budgets, Release

#: P1 section 5.2: the location budget of the sweep and of the fixed-budget comparison.
EPSILON_L = 1.0
#: Power at which messages are sent where no controller chooses it (ours; P1 gives none).
P_TX = 1.0
#: At which pictures are compared.
PIXELS_PER_CELL = 8
NO_PEOPLE = "no pedestrian or people in the picture"
NO_TRUTH = "nobody annotated the picture"


def protect(sample: Sample, config: ProtectionConfig, budgets: Budgets, noise_seed: int) -> Release:
    """Return what protection releases of a sample, with noise from a seed."""
    return protect_again(sample, config, budgets, noise_seed, 1)[0]


def protect_again(
    sample: Sample, config: ProtectionConfig, budgets: Budgets, noise_seed: int, frames: int
) -> list[Release]:
    """Return what protection releases of a sample in each of several frames, with noise drawn anew, from a seed."""
    if sample.features is None:
        raise ValueError(f"sample {sample.name} has no features; this protocol needs pictures")
    config = replace(config, visual=replace(config.visual, channels=len(sample.features)))
    stage = ProtectStage(config, RandomStreams(noise_seed), Odometer(None, config.visual.delta))
    return [stage(sample.features, sample.detected, budgets, stamp_ns=number + 1) for number in range(frames)]


def transmit(release: Release, p_tx: float, setting: Setting, sample: Sample, seed: int) -> Transmission:
    """Send a release over the shipped link; the fade is that of sample and seed, whatever is sent."""
    rngs = (setting.rng("ground", sample.name, seed), setting.rng("eavesdropper", sample.name, seed))
    return LinkStage(LinkConfig(), *rngs)(release.features, release.objects, p_tx)


@dataclass(frozen=True)
class About:
    """The fields that all measurements of one case share."""

    protocol: str
    setting: Setting
    sample: Sample
    seed: int
    mechanism: str = ""
    epsilon_v: float | None = None
    epsilon_l: float | None = None
    kappa_bg: float | None = None
    condition: str = ""
    attacker: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def row(self, metric: str, score: Score) -> Measurement:
        """Return one measurement of the case."""
        return measured(
            score,
            protocol=self.protocol,
            mechanism=self.mechanism,
            metric=metric,
            sample=self.sample.name,
            seed=self.seed,
            profile=self.setting.profile,
            epsilon_v=self.epsilon_v,
            epsilon_l=self.epsilon_l,
            kappa_bg=self.kappa_bg,
            attacker=self.attacker,
            condition=self.condition,
        )

    def but(self, **changes: object) -> About:
        """Return the same with other fields."""
        return replace(self, **changes)  # type: ignore[arg-type]


def score_mask(about: About, mask: np.ndarray) -> Iterator[Measurement]:
    """Yield category accuracy, the same on objects, and mean IoU of a mask against the sample's truth."""
    truth = true_labels(about.sample, mask.shape)
    names = ("category_accuracy", "object_accuracy", "miou")
    if isinstance(truth, Missing):
        yield from (about.row(name, truth) for name in names)
        return
    counts = metrics.confusion(mask, truth)
    scores = (metrics.category_accuracy(counts), metrics.object_accuracy(counts), metrics.mean_iou(counts))
    yield from (about.row(name, score) for name, score in zip(names, scores, strict=True))


def true_labels(sample: Sample, shape: tuple[int, ...]) -> np.ndarray | Missing:
    """Return the true classes on a mask's grid: of the truth mask, else of boxes alone."""
    grid = (shape[0], shape[1])
    if sample.mask is not None:
        labels = metrics.resize_labels(sample.mask, grid).copy()
        labels[scene.coverage(sample.ignored, grid).max(axis=0, initial=False)] = metrics.UNLABELLED
        return labels
    if sample.truth is None:
        return Missing(NO_TRUTH)
    return metrics.box_labels(sample.truth, grid)


def score_picture(about: About, picture: np.ndarray) -> Iterator[Measurement]:
    """Yield SSIM and PSNR of an attacker's picture, whole and in sensitive boxes, with eight pixels a cell and side.

    A larger picture is averaged to that size and a smaller one enlarged, so that attackers are compared at one.
    """
    assert about.sample.image is not None
    if about.sample.features is not None:
        rows, columns = (PIXELS_PER_CELL * cells for cells in about.sample.features.shape[1:])
        if picture.shape[:2] != (rows, columns):
            way = cv2.INTER_AREA if picture.shape[0] > rows else cv2.INTER_LINEAR
            picture = cv2.resize(picture, (columns, rows), interpolation=way)
    height, width = picture.shape[:2]
    original = cv2.resize(about.sample.image, (width, height), interpolation=cv2.INTER_AREA)
    local = metrics.similarity(picture, original)
    yield about.row("ssim", local if isinstance(local, Missing) else local.mean())
    yield about.row("psnr", metrics.psnr(picture, original))
    inside = metrics.sensitive_pixels(about.sample.boxes, (height, width))
    if not inside.any():
        yield from (about.row(name, Missing(NO_PEOPLE)) for name in ("ssim_sensitive", "psnr_sensitive"))
        return
    yield about.row("ssim_sensitive", local if isinstance(local, Missing) else local.mean(inside))
    yield about.row("psnr_sensitive", metrics.psnr(picture, original, inside))


def score_features(about: About, released: np.ndarray) -> Iterator[Measurement]:
    """Yield the mean cosine similarity of released and clean cells, over all cells and over sensitive ones."""
    clean = about.sample.features
    assert clean is not None
    product = np.einsum("chw,chw->hw", clean, released, dtype=np.float64)
    lengths = np.linalg.norm(clean, axis=0).astype(np.float64) * np.linalg.norm(released, axis=0)
    cosine = product / np.maximum(lengths, 1e-12)
    inside = metrics.sensitive_pixels(about.sample.boxes, cosine.shape)
    yield about.row("feature_cosine", float(cosine.mean()))
    score: Score = float(cosine[inside].mean()) if inside.any() else Missing(NO_PEOPLE)
    yield about.row("feature_cosine_sensitive", score)
