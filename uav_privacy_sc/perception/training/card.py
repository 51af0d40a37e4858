"""The model card: what the weights were trained on, what they are worth, and their checksums.

``card.json`` lies beside the weights. Every training writes its own part; figures are written by ``train card`` and
taken out again when the weights they were measured on change.
"""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import uav_privacy_sc
from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.data.folders import AUAIR_CLASSES
from uav_privacy_sc.perception.codec import Codec
from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.tap import tap_of
from uav_privacy_sc.perception.training.batches import tap_set
from uav_privacy_sc.perception.training.measure import detector_figures
from uav_privacy_sc.perception.training.measure_codec import codec_figures, inverter_figures
from uav_privacy_sc.perception.training.samples import Samples
from uav_privacy_sc.perception.weights import card_of, checksum, load_module, locate

#: Weights of a folder; the last is the adaptive attacker's and may be missing.
PARTS = ("detector.pt", "codec.pt", "inverter.pt", "inverter-adaptive.pt")
#: Confidence from which on boxes count for average precision, and tiles a side of the second reading.
_LOW, _TILES = 0.001, 2
#: Steps over which the last losses are averaged.
_LAST = 100

SPREAD = (
    "Measured again on the same pictures, these weights give these figures exactly on the same versions (every draw is "
    "seeded); on flights that another machine rendered, figures of codec and inverters differed by 0.0001, PSNR by "
    "0.001 dB. Intervals are over the "
    "test pictures. Weights trained anew: a codec with another seed on the same detector lay within 0.01 "
    "in accuracy and 0.031 in mIoU (epsilon_v 1, 10, 100 and none); codec and inverters on another detector within "
    "0.006 and 0.010. Detectors of the same settings were trained once, so their spread is not measured. "
    "`uav-privacy-sc train agree` holds a card against the shipped one."
)


def present(weights: Path) -> list[str]:
    """Return which of :data:`PARTS` a folder holds."""
    return [name for name in PARTS if (weights / name).is_file()]


def versions() -> dict[str, str]:
    """Return what weights and figures are made with."""
    found = {name: version(name) for name in ("torch", "ultralytics", "numpy")}
    return found | {"python": platform.python_version(), "uav_privacy_sc": uav_privacy_sc.__version__}


def training_entry(
    weights: Path, name: str, trainer: Any, data: dict[str, Any], started_from: dict[str, Any]
) -> dict[str, Any]:
    """Return what the card says of one training: data, settings, steps, last losses, versions and checksum.

    ``data`` is :meth:`Samples.describe`; ``started_from`` names what the training took as given. It is of the last
    checkpoint, which the file ``name`` was written with.
    """
    done = trainer.checkpoint.step
    last = np.array(trainer.losses[max(0, done - _LAST) : done], np.float64).reshape(-1, len(trainer.losses[0]))
    means = np.round(last.mean(axis=0), 4).tolist() if len(last) else []
    return {
        "data": data,
        "seed": trainer.config.seed,
        "settings": trainer.made_of["settings"],
        "steps": done,
        "complete": done >= trainer.config.steps,
        "started_from": started_from,
        "last_losses": dict(zip(trainer.LOSSES, means, strict=False)),
        "versions": versions(),
        "sha256": checksum(weights / name),
    }


def record_training(weights: Path, name: str, entry: dict[str, Any]) -> Path:
    """Write one training into the card of a folder and return the card's path."""
    card = card_of(weights)
    training = _of_these_files(weights, card.get("training", {}))
    return _write(weights, {**card, "training": {**training, Path(name).stem: entry}})


def record_figures(weights: Path, figures: dict[str, Any]) -> Path:
    """Write measured figures into the card of a folder and return the card's path."""
    card = card_of(weights)
    training = _of_these_files(weights, card.get("training", {}))
    measured = {name: checksum(weights / name) for name in present(weights)}
    return _write(weights, {**card, "training": training, "figures": {**figures, "measured_on": measured}})


def _of_these_files(weights: Path, training: Any) -> dict[str, Any]:
    """Return the trainings whose weights are still the ones in the folder."""
    stems = {Path(name).stem: checksum(weights / name) for name in present(weights)}
    entries = training.items() if isinstance(training, dict) else ()
    return {
        stem: entry for stem, entry in entries if isinstance(entry, dict) and entry.get("sha256") == stems.get(stem, "")
    }


def _write(weights: Path, card: dict[str, Any]) -> Path:
    files = {
        name: {"bytes": (weights / name).stat().st_size, "sha256": checksum(weights / name)}
        for name in present(weights)
    }
    figures = card.get("figures", {})
    now = {name: entry["sha256"] for name, entry in files.items()}
    if not isinstance(figures, dict) or figures.get("measured_on") != now:
        figures = {}
    content = {
        "version": uav_privacy_sc.__version__,
        "training": card["training"],
        "figures": figures,
        "spread": SPREAD,
        "files": files,
        "made_with": versions(),
    }
    path = weights / "card.json"
    part = path.with_suffix(".part")
    # Intervals and ranges on one line each, so that a person can read the card.
    text = re.sub(r"\[\s+([-\d.,\s]+?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", json.dumps(content, indent=2))
    part.write_text(f"{text}\n", encoding="utf-8")
    part.replace(path)
    return path


def history(init: Path) -> dict[str, Any]:
    """Return what a training that starts from ``init`` says of it: name, checksum, and its own training where the card
    beside it tells."""
    found: dict[str, Any] = {"detector": init.name, "sha256": checksum(init)}
    entry = card_of(init.parent).get("training", {}).get("detector", {})
    if entry.get("sha256") == found["sha256"]:
        found["entry"] = entry
    return found


def measure(
    weights: Path,
    samples: Samples,
    real: dict[str, Samples] | None = None,
    progress: Callable[[str, int], None] = lambda what, done: None,
) -> dict[str, Any]:
    """Return the figures of the weights in a folder on samples with masks, and of the detector on ``real`` folders.

    Raises:
        WeightsError: weights that are missing or cannot be read.
    """
    codec = load_module(locate("codec.pt", weights), Codec)
    path = locate("detector.pt", weights)
    detector = Detector(path, confidence=_LOW, tap=tap_of(codec))
    inverters = {"plain": load_module(locate("inverter.pt", weights), Inverter)}
    if (weights / PARTS[3]).is_file():
        inverters["adaptive"] = load_module(weights / PARTS[3], Inverter)
    data: dict[str, Any] = samples.describe()
    figures: dict[str, Any] = {"data": data, "detector": detector_figures(samples, detector, _named(progress, "boxes"))}
    tiled = Detector(path, confidence=_LOW, tap=tap_of(codec), tiles=_TILES, long_side=max(samples.images.shape[1:3]))
    figures["detector_with_tiles"] = detector_figures(samples, tiled, _named(progress, "boxes with tiles"))
    taps = tap_set(samples, detector, _named(progress, "features"))
    assert isinstance(codec, Codec)
    figures["codec"] = codec_figures(taps, codec, progress=_named(progress, "codec"))
    figures["inverter"] = inverter_figures(taps, codec, inverters, progress=_named(progress, "inverters"))
    if real:
        figures["out_of_domain"] = {
            name: out_of_domain(pictures, detector, _named(progress, name)) for name, pictures in real.items()
        }
    return figures


def _named(progress: Callable[[str, int], None], what: str) -> Callable[[int], None]:
    return lambda done: progress(what, done)


def out_of_domain(samples: Samples, detector: Detector, progress: Callable[[int], None]) -> dict[str, Any]:
    """Return the detector's figures on pictures of another kind than it was trained on."""
    origin = samples.origin
    figures = {"layout": origin.layout, "set_aside": origin.set_aside, **detector_figures(samples, detector, progress)}
    if origin.layout == "au-air":
        figures["class_map"] = AUAIR_CLASSES
    return figures
