"""What the codec is worth to the ground and to an eavesdropper, against the budget.

The prior is the true objects (what a perfect detector and no location noise would give), the link is perfect: the
figures isolate what the features carry. Intervals are over the pictures: a bootstrap of 1,000 resamples for figures
that are ratios of sums, Student's t for means.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from scipy import stats
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.perception.codec import Codec, mask_shape, prior_planes
from uav_privacy_sc.perception.training.batches import TapSet
from uav_privacy_sc.perception.training.samples import UNKNOWN
from uav_privacy_sc.privacy.visual import VisualConfig, allocate, release

#: Budgets at which the decoder and the inverters are measured; None is no noise.
EPSILONS: tuple[float | None, ...] = (0.3, 1, 3, 10, 30, 100, 1000, None)
ATTACK_EPSILONS: tuple[float | None, ...] = (1, 3, 10, 100, None)
MECHANISMS = ("uniform", "region_aware")
_RESAMPLES, _SEED = 1000, 5
_CLASSES, _OBJECTS = len(scene.MASK_CLASSES), len(scene.OBJECT_CLASSES)

PAY_RULE = (
    "smallest epsilon_v measured at which mIoU (or accuracy) with features and prior is above that with the prior "
    "alone by more than the standard error of the difference over pictures (paired bootstrap)"
)


def confusion(truth: np.ndarray, painted: np.ndarray) -> np.ndarray:
    """Return the ``(14, 14)`` counts of true against painted class over the pixels whose class is known."""
    known = truth != UNKNOWN
    pairs = truth[known].astype(np.int64) * _CLASSES + painted[known]
    return np.bincount(pairs, minlength=_CLASSES**2).reshape(_CLASSES, _CLASSES)


def _scores(tables: np.ndarray) -> dict[str, np.ndarray]:
    """Return, of ``(R, 14, 14)`` counts, the share of pixels right, of object pixels right, and the mean intersection
    over union of the classes that occur."""
    right = np.diagonal(tables, axis1=1, axis2=2)
    true = tables.sum(axis=2)
    union = true + tables.sum(axis=1) - right
    share = np.where(true > 0, right / np.maximum(union, 1), np.nan)
    objects = true[:, :_OBJECTS].sum(axis=1)
    with np.errstate(invalid="ignore"):
        mean = np.nansum(share, axis=1) / np.maximum((true > 0).sum(axis=1), 1)
    return {
        "accuracy": right.sum(axis=1) / np.maximum(true.sum(axis=1), 1),
        "miou": mean,
        "object_accuracy": right[:, :_OBJECTS].sum(axis=1) / np.maximum(objects, 1),
    }


class _Tables:
    """Confusion tables of every picture by case, and what follows from them."""

    def __init__(self, pictures: int) -> None:
        rng = np.random.default_rng(_SEED)
        self._weights = rng.multinomial(pictures, np.full(pictures, 1 / pictures), _RESAMPLES)
        self._cases: dict[str, list[np.ndarray]] = {}
        self._resampled: dict[str, dict[str, np.ndarray]] = {}

    def add(self, case: str, truth: np.ndarray, painted: np.ndarray) -> None:
        self._cases.setdefault(case, []).append(confusion(truth, painted))

    def whole(self, case: str) -> dict[str, float]:
        scores = _scores(np.sum(self._cases[case], axis=0)[None])
        return {name: float(value[0]) for name, value in scores.items()}

    def resampled(self, case: str) -> dict[str, np.ndarray]:
        if case not in self._resampled:
            tables = np.stack(self._cases[case]).reshape(len(self._weights[0]), -1)
            self._resampled[case] = _scores((self._weights @ tables).reshape(-1, _CLASSES, _CLASSES))
        return self._resampled[case]

    def figures(self, case: str) -> dict[str, Any]:
        """Return the scores with their 95 % intervals."""
        drawn = self.resampled(case)
        figures: dict[str, Any] = {name: round(value, 4) for name, value in self.whole(case).items()}
        for name in ("accuracy", "miou"):
            figures[f"{name}_95"] = [round(float(v), 4) for v in np.percentile(drawn[name], (2.5, 97.5))]
        return figures

    def gain(self, case: str, base: str, score: str) -> tuple[float, float]:
        """Return by how much ``case`` is above ``base``, and the standard error of that over pictures."""
        difference = self.resampled(case)[score] - self.resampled(base)[score]
        return self.whole(case)[score] - self.whole(base)[score], float(difference.std())


def budget_name(epsilon: float | None) -> str:
    """Return ``none`` or the number."""
    return "none" if epsilon is None else f"{epsilon:g}"


def _codes(data: TapSet, k: int, codec: Codec) -> torch.Tensor:
    return codec.encoder(torch.from_numpy(data.taps[k : k + 1]).float())


def _protected(
    code: torch.Tensor, objects: np.ndarray, epsilon: float | None, mechanism: str, rng: np.random.Generator
) -> torch.Tensor:
    if epsilon is None:
        return code
    visual = VisualConfig(mechanism=mechanism)
    spread = allocate(objects, (code.shape[2], code.shape[3]), epsilon, visual)
    return torch.from_numpy(release(code[0].numpy(), spread, visual, rng))[None]


@torch.inference_mode()
def codec_figures(
    data: TapSet,
    codec: Codec,
    epsilons: tuple[float | None, ...] = EPSILONS,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Return mask figures of features and prior, of features alone and of the prior alone, against epsilon_v.

    ``prior`` has no epsilon; ``uniform`` and ``region_aware`` hold, for each epsilon_v, ``both`` and ``features`` and
    what the features add to the prior; ``features_pay_from`` follows :data:`PAY_RULE` (None: nowhere in the list).
    """
    tables, rng = _Tables(len(data.objects)), np.random.default_rng(_SEED)
    for k, objects in enumerate(data.objects):
        code = _codes(data, k, codec)
        prior = torch.from_numpy(prior_planes(objects, mask_shape(code.shape, codec.mask_scale)))[None]
        inputs = {"prior": (torch.zeros_like(code), prior)}
        for mechanism in MECHANISMS:
            for epsilon in epsilons:
                heard = _protected(code, objects, epsilon, mechanism, rng)
                inputs[f"{mechanism} {budget_name(epsilon)} both"] = (heard, prior)
                inputs[f"{mechanism} {budget_name(epsilon)} features"] = (heard, torch.zeros_like(prior))
        for case, pair in inputs.items():
            tables.add(case, data.masks[k], codec.decoder(*pair)[0].argmax(0).numpy())
        progress(k + 1)
    figures: dict[str, Any] = {"pictures": len(data.objects), "prior": tables.figures("prior"), "rule": PAY_RULE}
    for mechanism in MECHANISMS:
        figures[mechanism] = {budget_name(e): _against_budget(tables, mechanism, e) for e in epsilons}
    figures["features_pay_from"] = {
        mechanism: {score: _pays_from(figures[mechanism], score) for score in ("miou", "accuracy")}
        for mechanism in MECHANISMS
    }
    return figures


def _against_budget(tables: _Tables, mechanism: str, epsilon: float | None) -> dict[str, Any]:
    case = f"{mechanism} {budget_name(epsilon)}"
    row: dict[str, Any] = {part: tables.figures(f"{case} {part}") for part in ("both", "features")}
    for score in ("miou", "accuracy"):
        gain, error = tables.gain(f"{case} both", "prior", score)
        row[f"gain_{score}"], row[f"gain_{score}_error"] = round(gain, 4), round(error, 4)
    return row


def _pays_from(rows: Mapping[str, dict[str, Any]], score: str) -> str | None:
    return next((name for name, row in rows.items() if row[f"gain_{score}"] > row[f"gain_{score}_error"]), None)


@torch.inference_mode()
def inverter_figures(
    data: TapSet,
    codec: Codec,
    inverters: Mapping[str, Inverter],
    epsilons: tuple[float | None, ...] = ATTACK_EPSILONS,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Return mean SSIM and PSNR of the pictures that each inverter makes of intercepted codes, against uniform budgets.

    All hear the same noise. ``inverters`` are named as their figures are to be.
    """
    scores: dict[tuple[str, str], list[tuple[float, float]]] = {}
    rng = np.random.default_rng(_SEED + 1)
    for k, picture in enumerate(data.pictures):
        code = _codes(data, k, codec)
        for epsilon in epsilons:
            heard = _protected(code, data.objects[k], epsilon, "uniform", rng)
            for name, inverter in inverters.items():
                seen = inverter(heard)[0].permute(1, 2, 0).mul(255).round().to(torch.uint8).numpy()
                scores.setdefault((name, budget_name(epsilon)), []).append(likeness(picture, seen))
        progress(k + 1)
    figures: dict[str, Any] = {}
    for (name, budget), rows in scores.items():
        ssim, psnr = zip(*rows, strict=True)
        row = {"ssim": round(float(np.mean(ssim)), 4), "ssim_95": half_width(ssim, 4)}
        row |= {"psnr_db": round(float(np.mean(psnr)), 3), "psnr_db_95": half_width(psnr, 3)}
        figures.setdefault(name, {})[budget] = row
    return figures


def likeness(picture: np.ndarray, seen: np.ndarray) -> tuple[float, float]:
    """Return SSIM and PSNR (dB, at most 100) of two uint8 pictures."""
    similarity = structural_similarity(picture, seen, channel_axis=2, data_range=255)
    if np.array_equal(picture, seen):
        return float(similarity), 100.0
    return float(similarity), float(peak_signal_noise_ratio(picture, seen, data_range=255))


def half_width(values: tuple[float, ...], digits: int) -> float | None:
    """Return half the width of the mean's 95 % interval (Student's t); None for a single value."""
    count = len(values)
    if count < 2:
        return None
    return round(float(stats.t.ppf(0.975, count - 1) * np.std(values, ddof=1) / np.sqrt(count)), digits)
