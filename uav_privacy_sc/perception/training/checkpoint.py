"""A training's whole state on disk, so that it goes on where it was stopped."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch


class Checkpoint:
    """Writes and reads the states of ``parts`` (modules, optimizers) with the step and the losses up to it.

    ``NAME-checkpoint.pt`` is replaced as a whole, so an interruption while it is written loses nothing;
    ``NAME-losses.json`` beside it is for people.
    """

    def __init__(self, folder: Path, name: str, parts: Mapping[str, Any]) -> None:
        self._path, self._losses, self._parts = folder / f"{name}-checkpoint.pt", folder / f"{name}-losses.json", parts

    def save(self, step: int, losses: list[list[float]]) -> None:
        """Write the state after ``step`` steps."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        state = {name: part.state_dict() for name, part in self._parts.items()}
        part = self._path.with_suffix(".part")
        torch.save({**state, "step": step, "losses": losses}, part)
        part.replace(self._path)
        self._losses.write_text(json.dumps(losses), encoding="utf-8")

    def load(self) -> tuple[int, list[list[float]]]:
        """Restore the parts, and return the step and the losses; 0 and none where nothing was saved."""
        if not self._path.exists():
            return 0, []
        saved = torch.load(self._path, map_location="cpu", weights_only=True)
        for name, part in self._parts.items():
            part.load_state_dict(saved[name])
        return saved["step"], saved["losses"]
