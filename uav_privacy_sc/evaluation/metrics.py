"""How alike two pictures are, and how right a semantic mask is. Pure functions on arrays.

Pictures are ``(H, W, 3)`` uint8 RGB of one size; ``where`` is an optional ``(H, W)`` bool of the pixels that count.
A metric that cannot be computed is a :class:`Missing` with its reason: never 0, never NaN, never infinite.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from skimage.metrics import structural_similarity

from uav_privacy_sc.scene import MASK_CLASSES, OBJECT_CLASSES, SENSITIVE_LABELS, corners, coverage, grid_boxes

#: A pixel of a truth mask about which nothing is known.
UNLABELLED = 255
SSIM_WINDOW = 7
#: Why an operating point that breaks its constraints is in no mean.
INFEASIBLE = "infeasible at this gain"


@dataclass(frozen=True)
class Missing:
    """A metric that cannot be computed, and why."""

    reason: str


Score = float | Missing


@dataclass(frozen=True)
class SimilarityMap:
    """Structural similarity of two pictures at every pixel, ``(H, W)``, computed once for whole picture and boxes."""

    values: np.ndarray

    def mean(self, where: np.ndarray | None = None) -> Score:
        """Return SSIM over the picture, or over the pixels that count."""
        if where is None:
            return _finite(self.values.mean(), "SSIM")
        return _finite(self.values[where].mean(), "SSIM") if where.any() else Missing("no pixel counts")


def similarity(picture: np.ndarray, original: np.ndarray) -> SimilarityMap | Missing:
    """Return the SSIM map (Wang et al. 2004, 7x7 windows, data range 255, mean of the three channels)."""
    _same_shape(picture, original)
    if min(original.shape[:2]) < SSIM_WINDOW:
        return Missing(f"the picture is smaller than the {SSIM_WINDOW}x{SSIM_WINDOW} window of SSIM")
    _, full = structural_similarity(original, picture, win_size=SSIM_WINDOW, data_range=255, channel_axis=2, full=True)
    return SimilarityMap(full.mean(axis=2))


def psnr(picture: np.ndarray, original: np.ndarray, where: np.ndarray | None = None) -> Score:
    """Return the peak signal-to-noise ratio in dB for 8-bit pictures, over the pixels that count."""
    _same_shape(picture, original)
    difference = picture.astype(np.float64) - original
    if where is not None:
        if not where.any():
            return Missing("no pixel counts")
        difference = difference[where]
    error = float(np.mean(difference**2))
    return Missing("the pictures are identical") if error == 0 else 10 * math.log10(255**2 / error)


def _same_shape(picture: np.ndarray, original: np.ndarray) -> None:
    for name, image in (("picture", picture), ("original", original)):
        if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
            raise ValueError(f"{name} is {image.dtype} of shape {image.shape}; give (H, W, 3) uint8 RGB")
    if picture.shape != original.shape:
        raise ValueError(f"picture has shape {picture.shape} and original {original.shape}; resize one first")


def _finite(value: float, name: str) -> Score:
    return float(value) if math.isfinite(value) else Missing(f"{name} is not finite here")


def sensitive_pixels(objects: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return ``(H, W)`` bool: the pixels inside the boxes of sensitive objects (pedestrian and people)."""
    sensitive = objects[np.isin(objects["label"], SENSITIVE_LABELS)]
    covered: np.ndarray = coverage(corners(sensitive), shape).max(axis=0, initial=False)
    return covered


def box_labels(objects: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return ``(H, W)`` uint8 classes known from boxes alone: the smallest box wins, the rest is unlabelled."""
    labels = np.full(shape, UNLABELLED, np.uint8)
    area = objects["w"].astype(np.float64) * objects["h"]
    ordered = objects[np.argsort(-area, kind="stable")]
    for label, (u1, v1, u2, v2) in zip(ordered["label"], grid_boxes(corners(ordered), shape), strict=True):
        labels[v1:v2, u1:u2] = label
    return labels


def resize_labels(mask: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return a mask sampled at the centres of a coarser (or finer) grid."""
    rows, columns = (
        ((np.arange(new) + 0.5) * old / new).astype(np.intp) for new, old in zip(shape, mask.shape, strict=True)
    )
    return mask[np.ix_(rows, columns)]


def confusion(predicted: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Return the ``(K, K)`` int64 counts of (true class, predicted class) over the labelled pixels of a mask.

    Raises:
        ValueError: if the shapes differ or ``predicted`` holds a value that is no class.
    """
    classes = len(MASK_CLASSES)
    if predicted.shape != truth.shape:
        raise ValueError(f"predicted has shape {predicted.shape} and truth {truth.shape}; resize one first")
    if predicted.size and predicted.max() >= classes:
        raise ValueError(f"predicted holds {predicted.max()}; classes end at {classes - 1}")
    labelled = truth < classes
    pairs = truth[labelled].astype(np.int64) * classes + predicted[labelled]
    return np.bincount(pairs, minlength=classes**2).reshape(classes, classes)


def category_accuracy(counts: np.ndarray) -> Score:
    """Return the fraction of labelled pixels whose class is right (our reading of P1's metric, section 5.3)."""
    return float(np.trace(counts) / counts.sum()) if counts.sum() else Missing("no pixel of known class")


def object_accuracy(counts: np.ndarray) -> Score:
    """Return :func:`category_accuracy` over the pixels that truly belong to an object."""
    rows = counts[: len(OBJECT_CLASSES)]
    return float(np.trace(rows) / rows.sum()) if rows.sum() else Missing("no pixel of an object")


def mean_iou(counts: np.ndarray) -> Score:
    """Return intersection over union, averaged over the classes that occur in truth.

    Meaningful where every pixel is labelled; a class that is only predicted lowers the IoU of those it displaced.
    """
    hit = np.diag(counts).astype(np.float64)
    union = counts.sum(axis=0) + counts.sum(axis=1) - hit
    present = counts.sum(axis=1) > 0
    return float((hit[present] / union[present]).mean()) if present.any() else Missing("no pixel of known class")


def mean_of(scores: Iterable[Score | None]) -> Score:
    """Return the mean of the scores that exist, or the commonest reason why none does."""
    known, reasons = [], []
    for score in scores:
        if isinstance(score, Missing):
            reasons.append(score.reason)
        elif score is not None:
            known.append(score)
    if known:
        return float(np.mean(known))
    return Missing(max(set(reasons), key=reasons.count) if reasons else "no frame was measured")
