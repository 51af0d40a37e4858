"""The model card: what the weights were trained on, what they are worth, and their checksums."""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import uav_privacy_sc
from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.training.codec import tap_set
from uav_privacy_sc.perception.training.measure import codec_figures, detector_figures, inverter_figures
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.perception.weights import checksum, load_module

PARTS = ("detector.pt", "codec.pt", "inverter.pt")


def measure(weights: Path, samples: Samples, progress: Callable[[str], None] = lambda what: None) -> dict[str, Any]:
    """Return the figures of the weights in a folder on samples with masks.

    Raises:
        WeightsError: weights that cannot be read.
    """
    progress("detector")
    detector = Detector(weights / "detector.pt", confidence=0.001, overlap=0.7)
    figures: dict[str, Any] = {"detector": detector_figures(samples, detector)}
    progress("codec")
    data = tap_set(samples, detector)
    codec, inverter = load_module(weights / "codec.pt", Codec), load_module(weights / "inverter.pt", Inverter)
    assert isinstance(codec, Codec) and isinstance(inverter, Inverter)
    figures["codec"] = codec_figures(data, codec)
    progress("inverter")
    figures["inverter"] = inverter_figures(data, codec, inverter)
    return figures


def write_card(weights: Path, figures: dict[str, Any], training: dict[str, Any]) -> Path:
    """Write ``card.json`` beside the weights and return its path."""
    card = {
        "version": uav_privacy_sc.__version__,
        "training": training,
        "figures": figures,
        "files": {
            name: {"bytes": (weights / name).stat().st_size, "sha256": checksum(weights / name)} for name in PARTS
        },
        "made_with": {name: version(name) for name in ("torch", "ultralytics", "numpy")}
        | {"python": platform.python_version()},
    }
    path = weights / "card.json"
    path.write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")
    return path
