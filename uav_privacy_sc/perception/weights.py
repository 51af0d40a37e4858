"""Weights on disk: where the shipped ones are, how they are written and read, and what can be wrong with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from torch import nn


class WeightsError(ValueError):
    """Weights that cannot be used; the message names the file and what to do, in one line."""


def shipped(name: str) -> Path:
    """Return the path of shipped weights (``detector.pt``, ``codec.pt``, ``inverter.pt``)."""
    return Path(str(resources.files("uav_privacy_sc") / "weights" / name))


def locate(name: str, weights: Path | str | None = None) -> Path:
    """Return the weights file ``name``: the shipped one, or that in the folder ``weights``.

    Raises:
        WeightsError: if the folder or the file is not there.
    """
    if not weights:
        return shipped(name)
    folder = Path(weights)
    if not folder.is_dir():
        raise WeightsError(f"weights {folder} is no folder; give one with detector.pt, codec.pt and inverter.pt")
    if not (folder / name).is_file():
        raise WeightsError(f"weights {folder} has no {name}; give a folder with detector.pt, codec.pt and inverter.pt")
    return folder / name


def checksum(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def card_of(folder: Path) -> dict[str, Any]:
    """Return the model card ``card.json`` in a folder of weights, empty where there is none.

    Raises:
        WeightsError: there is one and it does not read.
    """
    path = folder / "card.json"
    if not path.is_file():
        return {}
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise WeightsError(f"cannot read the model card {path}: {str(error)[:120]}") from None
    if not isinstance(card, dict):
        raise WeightsError(f"cannot read the model card {path}: it is no mapping")
    return card


def card_checksum(path: Path) -> str | None:
    """Return what the card beside a weights file says is the file's SHA-256, None where it says nothing.

    Raises:
        WeightsError: the card does not read.
    """
    files = card_of(path.parent).get("files", {})
    entry = files.get(path.name) if isinstance(files, dict) else None
    found = entry.get("sha256") if isinstance(entry, dict) else None
    return found if isinstance(found, str) else None


def locate_sound(name: str, weights: Path | str | None = None) -> Path:
    """As :func:`locate`, of a file that is the one on the card beside it; without a card it is taken as it is.

    Raises:
        WeightsError: as :func:`locate`, or the checksums differ.
    """
    path = locate(name, weights)
    expected = card_checksum(path)
    if expected is not None and expected != (found := checksum(path)):
        raise WeightsError(
            f"weights {path} have checksum {found[:12]}…, card.json says {expected[:12]}…; restore the file, write the "
            "card again with `uav-privacy-sc train card`, or delete it"
        )
    return path


def save_whole(path: Path, content: Any) -> None:
    """Write what PyTorch can save to ``path`` as a whole: an interruption leaves the file that was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    torch.save(content, part)
    part.replace(path)


def save_module(path: Path, module: nn.Module, settings: Mapping[str, Any]) -> None:
    """Write a module's parameters in half precision, with the settings that rebuild it."""
    state = {k: v.half() if v.is_floating_point() else v for k, v in module.state_dict().items()}
    save_whole(path, {"kind": type(module).__name__, "settings": dict(settings), "state": state})


def load_module(path: Path, kind: type[nn.Module]) -> nn.Module:
    """Rebuild a module of class ``kind`` from :func:`save_module`'s file, in float32 and evaluation mode.

    Raises:
        WeightsError: if the file is unreadable, or of another class or shape.
    """
    content = _content(path)
    if content["kind"] != kind.__name__:
        raise WeightsError(f"weights {path} are of the kind {content['kind']}, and {kind.__name__} is needed here")
    try:
        module = kind(**content["settings"])
        module.load_state_dict(content["state"])
    except Exception as error:  # modules raise many kinds for settings and parameters that are not theirs
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise WeightsError(f"cannot read weights {path}: {reason}") from None
    return module.float().eval()


def _content(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise WeightsError(f"weights {path} are not there")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except PermissionError as error:
        raise WeightsError(f"cannot read weights {path}: {error.strerror}") from None
    except Exception:  # torch raises many kinds for a file that is not what it should be, and advises on its own
        content = None
    if not (isinstance(content, dict) and content.keys() >= {"kind", "settings", "state"}):
        raise WeightsError(
            f"cannot read weights {path}: truncated or no weights of this package; copy the file again, or train it"
        )
    return content
