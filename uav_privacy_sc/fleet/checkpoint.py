"""A fleet's state after its last finished round, on disk: a server that is killed goes on as if it had not been."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

FILE = "checkpoint.npz"
#: Settings that may change between interruption and resumption: they change no number up to there.
FREE = frozenset({"rounds", "timeout_s", "join_s", "attempts", "minimum"})


class CheckpointError(ValueError):
    """A checkpoint that the run at hand cannot go on from; one line with what to do."""


@dataclass
class State:
    """Global model and what happened: ``history`` has one entry a round, ``faults`` one line each."""

    weights: np.ndarray
    history: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def round(self) -> int:
        """Number of the next round."""
        return len(self.history)


class Checkpoint:
    """``checkpoint.npz`` below a folder, replaced as a whole. All that is random follows from seed and round number.

    Args:
        folder: where it lies; made when it is first written.
        made_of: what the numbers follow from, plain values; a checkpoint of something else is refused.
    """

    def __init__(self, folder: Path, made_of: Mapping[str, Any]) -> None:
        self.folder, self.path = folder, folder / FILE
        self._made_of: dict[str, Any] = json.loads(json.dumps(made_of))

    def save(self, state: State) -> None:
        """Write the state, whole or not at all, and on the disk before this returns.

        Raises:
            OSError: it cannot be written; what was there before stays.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        about = {"made_of": self._made_of, "history": state.history, "faults": state.faults}
        partial = self.path.with_suffix(".partial")
        with partial.open("wb") as file:
            np.savez(file, weights=state.weights, about=np.array(json.dumps(about, allow_nan=False)))
            file.flush()
            os.fsync(file.fileno())
        partial.replace(self.path)

    def load(self) -> State | None:
        """Return the state, None where nothing was saved.

        Raises:
            CheckpointError: it cannot be read, or is of other settings or data.
        """
        if not self.path.exists():
            return None
        try:
            with np.load(self.path, allow_pickle=False) as found:
                weights, about = found["weights"], json.loads(str(found["about"]))
            state = State(weights, list(about["history"]), list(about["faults"]))
            before = dict(about["made_of"])
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise CheckpointError(
                f"cannot read {self.path} ({reason}); give another folder by --out to begin anew"
            ) from None
        if differences := _differences(before, self._made_of):
            raise CheckpointError(
                f"{self.path} was begun with {'; '.join(differences)}; go on as it was begun, or give another folder "
                "by --out"
            )
        return state


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    found = []
    for name in sorted((before.keys() | now.keys()) - FREE):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new)
        elif old != new:
            found.append(f"{name} {_short(old)} (now {_short(new)})")
    return found


def _short(value: Any) -> str:
    return str(value)[:24]


def rounds_kept(folder: Path) -> int:
    """Return how many rounds a folder's checkpoint has, for a progress bar; 0 where none can be read."""
    try:
        with np.load(folder / FILE, allow_pickle=False) as found:
            return len(json.loads(str(found["about"]))["history"])
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile):
        return 0
