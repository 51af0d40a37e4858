"""A codec that the fleet has trained, as a folder of weights that flies: ``codec.pt``, its neighbours, and the card."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uav_privacy_sc.fleet.codec import CodecTrainee
from uav_privacy_sc.perception.training.card import PARTS, record_training, versions
from uav_privacy_sc.perception.weights import checksum, locate, save_module
from uav_privacy_sc.privacy.domain import whole

NO_MECHANISM, ONESHOT = "none", "one-shot Laplace"
#: What the card says of privacy beside the mechanism.
FIGURES = (
    "sigma_1",
    "sigma_2",
    "bound",
    "epsilon_paper_round",
    "epsilon_worst_case_round",
    "epsilon_paper",
    "epsilon_worst_case",
)
#: Settings of ``train codec`` that a fleet does not go by.
_OF_TRAIN_CODEC = ("steps", "batch", "crop", "learning_rate", "checkpoint_every", "seed")
UNIT = (
    "one record, or all data of one client, over all its rounds, pure epsilon; the paper's is P3's Theorem 1, "
    "which takes a record's influence to be spread evenly over all parameters; the worst case holds for any"
)


def save_codec(
    trainee: CodecTrainee,
    out: Path,
    *,
    rounds: int,
    clients: int,
    privacy: Mapping[str, Any],
    data: Mapping[str, Any] | None = None,
    local: Mapping[str, Any] | None = None,
) -> Path:
    """Write the trained codec with all it flies with into ``out``, and return the path of ``card.json``.

    The detector and the inverters are the base's; the inverters were trained on the base's codec and may see less of
    this one. The card names checksums, rounds, clients and privacy, and nothing about the clients' pictures: their
    counts and classes are no part of what was protected.

    Args:
        trainee: holds the final global model.
        out: folder, not that of the base.
        rounds: rounds that made it.
        clients: how many took part.
        privacy: ``mechanism`` ("one-shot Laplace" with all of :data:`FIGURES`, or "none" alone).
        data: what may be said of public data.
        local: how clients trained.

    Raises:
        ValueError: privacy that does not say all, figures that are not numbers above 0, or the base's own folder.
        OSError: the folder cannot be written.
    """
    said = _privacy(privacy)
    base = locate("codec.pt", trainee.weights).parent
    if out.resolve() == base.resolve():
        raise ValueError(f"out folder {out} is that of the weights it starts from; give another")
    out.mkdir(parents=True, exist_ok=True)
    for name in (*(part for part in PARTS if part != "codec.pt"), "card.json"):
        if (base / name).is_file():
            shutil.copyfile(base / name, out / name)
    save_module(out / "codec.pt", trainee.codec, trainee.codec.settings)
    entry = {
        "data": dict(data or {}),
        "settings": {name: value for name, value in asdict(trainee.training).items() if name not in _OF_TRAIN_CODEC},
        "started_from": {
            "codec_sha256": checksum(base / "codec.pt"),
            "detector_sha256": checksum(base / "detector.pt"),
        },
        "fleet": {
            "rounds": whole("rounds", rounds),
            "clients": whole("clients", clients),
            "parameters": trainee.size,
            "encoder_parameters": trainee.encoder_size,
            "local_training": dict(local or {}),
            "privacy": said,
        },
        "versions": versions(),
        "sha256": checksum(out / "codec.pt"),
    }
    return record_training(out, "codec.pt", entry)


def _privacy(given: Mapping[str, Any]) -> dict[str, Any]:
    mechanism = given.get("mechanism")
    if mechanism == NO_MECHANISM:
        return {"mechanism": NO_MECHANISM, "note": "updates left as they were: nothing protects the clients' data"}
    if mechanism != ONESHOT:
        raise ValueError(f"privacy mechanism is {mechanism!r}; say {ONESHOT!r} or {NO_MECHANISM!r}")
    figures = {}
    for name in FIGURES:
        value = given.get(name)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (math.isfinite(value) and value > 0):
            raise ValueError(f"privacy {name} is {value!r}; it must be a number above 0")
        figures[name] = float(value)
    more = {name: value for name, value in given.items() if name not in (*FIGURES, "mechanism")}
    return {"mechanism": ONESHOT, **figures, "unit": UNIT, **more}
