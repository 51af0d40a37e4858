"""Pictures side by side: what the eavesdropper draws and what the ground decodes (P1 Figures 9 and 10)."""

from __future__ import annotations

from itertools import islice

import cv2
import numpy as np

from uav_privacy_sc.evaluation.figures import Figure
from uav_privacy_sc.evaluation.messages import EPSILON_L, P_TX, protect, transmit
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.profiles import protection_config, varied
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.palette import colour_mask
from uav_privacy_sc.release import Budgets

ROWS = 3
#: At which the baseline's pictures are sent: 20 dB.
GALLERY_SNR = 100.0
#: Budgets of the pictures: P1's of Table 3, and one at which features begin to tell something.
_CASES = (
    ("no protection", "none", None, 1.0),
    ("uniform, ε_v 10", "uniform", None, 10.0),
    ("region-aware, ε_v 10", "region_aware", 1.12, 10.0),
    ("uniform, ε_v 300", "uniform", None, 300.0),
    ("region-aware, ε_v 300", "region_aware", 1.12, 300.0),
)


def tradeoff_gallery(setting: Setting, store: SampleStore) -> list[Figure]:
    """Return the eavesdropper's pictures and the ground's masks for a few samples, those with people first."""
    chosen = list(islice((s for s in store if s.has_people and s.features is not None), ROWS))
    chosen = chosen or list(islice((s for s in store if s.features is not None), ROWS))
    if not chosen:
        return []
    names = tuple(name for name, *_ in _CASES)
    eve = [[_original(sample), *(_attacked(sample, setting, *case[1:]) for case in _CASES)] for sample in chosen]
    ground = [[_original(sample), *(_decoded(sample, setting, *case[1:]) for case in _CASES)] for sample in chosen]
    rows = tuple(sample.name for sample in chosen)
    return [
        Figure(
            "pictures-eavesdropper",
            "What the inverter draws (P1 Figure 10)",
            pictures=eve,
            row_names=rows,
            column_names=("original", *names),
        ),
        Figure(
            "pictures-ground",
            "What the ground decodes, with descriptors (P1 Figure 9)",
            pictures=ground,
            row_names=rows,
            column_names=("original", *names),
        ),
    ]


def _original(sample: Sample) -> np.ndarray:
    assert sample.image is not None
    return cv2.resize(sample.image, (320, 176), interpolation=cv2.INTER_AREA)


def _attacked(sample: Sample, setting: Setting, mechanism: str, kappa: float | None, epsilon: float) -> np.ndarray:
    config = varied(protection_config(setting.profile), mechanism, kappa)
    release = protect(sample, config, Budgets(epsilon, EPSILON_L, P_TX), setting.noise_seed(sample.name, 0))
    return networks_for(setting.networks).inverters["inverter"](release.features)


def _decoded(sample: Sample, setting: Setting, mechanism: str, kappa: float | None, epsilon: float) -> np.ndarray:
    config = varied(protection_config(setting.profile), mechanism, kappa)
    release = protect(sample, config, Budgets(epsilon, EPSILON_L, P_TX), setting.noise_seed(sample.name, 0))
    heard = transmit(release, P_TX, setting, sample, 0).ground
    return colour_mask(networks_for(setting.networks).decoder(heard.heard, heard.prior))


def _as_jpeg(image: np.ndarray, bits: int) -> np.ndarray:
    """Return a picture as its JPEG within ``bits`` shows it, black where none is so small."""
    from uav_privacy_sc.evaluation.protocols.baseline import decoded, jpeg_within

    try:
        data, *_ = jpeg_within(image, bits)
    except ValueError:
        return np.zeros((176, 320, 3), np.uint8)
    return cv2.resize(decoded(data, image.shape), (320, 176), interpolation=cv2.INTER_AREA)


def baseline_gallery(setting: Setting, store: SampleStore) -> list[Figure]:
    """Return what an eavesdropper has of a few samples with people, by each way of sending."""
    from uav_privacy_sc.evaluation.protocols import baseline

    chosen = list(islice((s for s in store if s.has_people and s.features is not None), ROWS))
    rows = []
    for sample in chosen:
        assert sample.image is not None
        pictures = [_original(sample)]
        assert sample.features is not None
        bits = baseline.carried_bits(baseline.channel_uses(sample.features), GALLERY_SNR)
        for how in baseline.METHODS.values():
            pictures.append(_as_jpeg(baseline.hide(sample.image, sample.detected, how), bits))
        pictures.append(_attacked(sample, setting, "region_aware", 300.0, 1.0))
        rows.append(pictures)
    if not rows:
        return []
    columns = ("original", *baseline.METHODS, "features, κ_bg 300")
    names = tuple(sample.name for sample in chosen)
    title = "What an eavesdropper has (JPEG in the features' channel uses at 20 dB)"
    return [Figure("pictures-baseline", title, pictures=rows, row_names=names, column_names=columns)]
