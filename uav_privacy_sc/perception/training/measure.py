"""What trained networks are worth on pictures they have not seen: the figures of the model card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.perception.codec import Codec, mask_shape, prior_planes
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.image import to_tensor
from uav_privacy_sc.perception.training.codec import TapSet
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.privacy.visual import VisualConfig, allocate, release


def detector_figures(
    samples: Samples, detector: Detector, progress: Callable[[int], None] = lambda done: None
) -> dict[str, Any]:
    """Return ``map50`` over all classes and for each class (101-point interpolation, at most 300 boxes a picture).

    ``detector`` should have a low confidence threshold (0.001), as is usual for average precision.
    """
    from torchmetrics.detection import MeanAveragePrecision

    metric: Any = MeanAveragePrecision(iou_thresholds=[0.5], max_detection_thresholds=[1, 100, 300], class_metrics=True)
    metric.warn_on_many_detections = False
    for k, (image, truth) in enumerate(zip(samples.images, samples.objects, strict=True)):
        found, _ = detector.infer(to_tensor(image))
        prediction = {**_boxes(found), "scores": torch.from_numpy(found["score"].copy())}
        metric.update([prediction], [_boxes(truth)])
        progress(k + 1)
    result = metric.compute()
    classes = np.atleast_1d(result["classes"].numpy()).tolist()
    per_class = np.atleast_1d(result["map_per_class"].numpy()).tolist()
    return {
        "pictures": len(samples),
        "objects": int(sum(map(len, samples.objects))),
        "map50": round(float(result["map"]), 4),
        "map50_by_class": {scene.OBJECT_CLASSES[c]: round(v, 4) for c, v in zip(classes, per_class, strict=True)},
    }


def _boxes(objects: np.ndarray) -> dict[str, torch.Tensor]:
    corners = scene.corners(objects) * 1000
    return {"boxes": torch.from_numpy(corners).float(), "labels": torch.from_numpy(objects["label"].astype(np.int64))}


class _Confusion:
    """Counts of true against painted class, and what follows from them."""

    def __init__(self) -> None:
        self.table = np.zeros((len(scene.MASK_CLASSES),) * 2, np.int64)

    def add(self, truth: np.ndarray, painted: np.ndarray) -> None:
        size = len(scene.MASK_CLASSES)
        self.table += np.bincount(truth.ravel().astype(np.int64) * size + painted.ravel(), minlength=size**2).reshape(
            size, size
        )

    def figures(self) -> dict[str, float]:
        """Share of pixels right; mean intersection over union of the classes that occur; the same for scene classes."""
        right, union = np.diag(self.table), self.table.sum(0) + self.table.sum(1) - np.diag(self.table)
        present = self.table.sum(1) > 0
        overlap = right[present] / union[present]
        return {
            "accuracy": round(float(right.sum() / self.table.sum()), 4),
            "miou": round(float(overlap.mean()), 4),
            "object_accuracy": round(float(right[:10].sum() / max(self.table[:10].sum(), 1)), 4),
        }


@torch.inference_mode()
def codec_figures(data: TapSet, codec: Codec, epsilons: tuple[float, ...] = (1, 3, 10, 100, 1000)) -> dict[str, Any]:
    """Return mask figures with and without features and prior at no noise, and against uniform epsilon_v.

    The prior is the true objects (what a perfect detector and no location noise would give), the link is perfect: the
    figures isolate what the features carry.
    """
    cases: dict[str, _Confusion] = {}
    rng = np.random.default_rng(5)
    shape = mask_shape(data.taps.shape)
    uniform = VisualConfig(mechanism="uniform")
    for k in range(len(data.objects)):
        code = codec.encoder(torch.from_numpy(data.taps[k : k + 1]).float())
        prior = torch.from_numpy(prior_planes(data.objects[k], shape))[None]
        none, blank = torch.zeros_like(code), torch.zeros_like(prior)
        inputs = {"both": (code, prior), "features": (code, blank), "prior": (none, prior)}
        for epsilon in epsilons:
            spread = allocate(data.objects[k], data.taps.shape[2:], epsilon, uniform)
            noisy = torch.from_numpy(release(code[0].numpy(), spread, uniform, rng))[None]
            inputs[f"both at epsilon_v {epsilon:g}"] = (noisy, prior)
        for name, pair in inputs.items():
            painted = codec.decoder(*pair)[0].argmax(0).numpy()
            cases.setdefault(name, _Confusion()).add(data.masks[k], painted)
    return {name: confusion.figures() for name, confusion in cases.items()}


@torch.inference_mode()
def inverter_figures(data: TapSet, codec: Codec, inverter: Inverter) -> dict[str, float]:
    """Return mean SSIM and PSNR of pictures inverted from unprotected codes, intercepted without link noise."""
    similarity, ratio = [], []
    for k, picture in enumerate(data.pictures):
        code = codec.encoder(torch.from_numpy(data.taps[k : k + 1]).float())
        seen = inverter(code)[0].permute(1, 2, 0).mul(255).round().to(torch.uint8).numpy()
        similarity.append(structural_similarity(picture, seen, channel_axis=2, data_range=255))
        ratio.append(peak_signal_noise_ratio(picture, seen, data_range=255))
    return {"ssim": round(float(np.mean(similarity)), 4), "psnr_db": round(float(np.mean(ratio)), 3)}
