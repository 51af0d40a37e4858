"""A training's whole state on disk, so that it goes on where it was stopped, and only there."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from uav_privacy_sc.perception.training.curve import plot_losses
from uav_privacy_sc.perception.weights import checksum, save_whole

#: Settings that may change between interruption and resumption: they change no step.
FREE = frozenset({"checkpoint_every"})


class CheckpointError(ValueError):
    """A checkpoint that the training at hand cannot go on from; one line with what to do."""


class Checkpoint:
    """Writes and reads the states of ``parts`` (modules, optimizers) with the step and the losses up to it.

    ``NAME-checkpoint.pt`` is replaced as a whole, so an interruption while it is written loses nothing;
    ``NAME-losses.json`` and ``NAME-losses.png`` beside it are for people. ``made_of`` is what the training follows from
    (settings, digest of the data, where it started), of plain values: a checkpoint of something else is refused. One
    that does not say what it was made of is taken as it is. ``earlier`` are settings that one may not name yet, as they
    were before there was a choice.

    ``weights`` is the file that the training is for, and ``write`` writes it from the parts. It is written before the
    checkpoint, which keeps its checksum: whatever an interruption leaves, :meth:`settle` brings them together.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        parts: Mapping[str, Any],
        made_of: Mapping[str, Any] | None = None,
        names: tuple[str, ...] = (),
        weights: Path | None = None,
        write: Callable[[], None] = lambda: None,
        earlier: Mapping[str, Any] | None = None,
    ) -> None:
        self._folder, self._name, self._parts, self._names = folder, name, parts, names
        self._weights, self._write, self._earlier = weights, write, dict(earlier or {})
        self._path = folder / f"{name}-checkpoint.pt"
        # Tuples become lists in JSON; what is compared has been there and back.
        self._made_of: dict[str, Any] = json.loads(json.dumps(made_of or {}))
        self.step = 0

    def save(self, step: int, losses: list[list[float]]) -> None:
        """Write the weights and the state after ``step`` steps, and then the losses.

        Raises:
            FloatingPointError: if the last losses are not finite; what was saved before stays.
        """
        if losses and not all(map(math.isfinite, losses[-1])):
            raise FloatingPointError(
                f"the {self._name} training's loss is not finite after {step} steps; begin anew with --fresh and a "
                "lower --learning-rate"
            )
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write()
        state = {name: part.state_dict() for name, part in self._parts.items()}
        written = "" if self._weights is None else checksum(self._weights)
        made_of = json.dumps(self._made_of)
        save_whole(self._path, {**state, "step": step, "losses": losses, "made_of": made_of, "weights": written})
        self.step = step
        (self._folder / f"{self._name}-losses.json").write_text(json.dumps(losses), encoding="utf-8")
        plot_losses(self._folder / f"{self._name}-losses.png", losses, self._names, f"{self._name} training")

    def load(self) -> tuple[int, list[list[float]]]:
        """Restore the parts, and return the step and the losses; 0 and none where nothing was saved.

        Raises:
            CheckpointError: if it cannot be read, or is of other settings, other data, another architecture or
                another version of this package.
        """
        if not self._path.exists():
            return 0, []
        saved = self._read()
        if lacking := [name for name in self._parts if name not in saved]:
            raise CheckpointError(
                f"{self._path} was written by another version: it has no state of {', '.join(lacking)}; take another "
                "folder by --out, or begin anew with --fresh"
            )
        if differences := list(_differences(saved["made_of"], self._made_of)):
            raise CheckpointError(
                f"{self._path} was begun with {'; '.join(differences)}; go on as it was begun, take another folder by "
                "--out, or begin anew with --fresh"
            )
        try:
            for name, part in self._parts.items():
                part.load_state_dict(saved[name])
        except (RuntimeError, ValueError):
            raise CheckpointError(
                f"{self._path} is of another architecture; take another folder by --out, or begin anew with --fresh"
            ) from None
        self.step = saved["step"]
        return saved["step"], saved["losses"]

    def settle(self, step: int, losses: list[list[float]]) -> tuple[int, list[list[float]]]:
        """Write the weights again from the checkpoint where they are missing, or are not the ones it was saved with.

        Return the step and the losses that the parts are at: the given ones unless the parts had to be restored. A
        checkpoint that does not say what weights it was saved with is content with any.

        Raises:
            CheckpointError: as :meth:`load`.
        """
        if self._weights is None or not self._path.exists():
            return step, losses
        saved = self._read()
        self.step = saved["step"]
        written = saved.get("weights", "")
        if self._weights.is_file() and written in ("", checksum(self._weights)):
            return step, losses
        step, losses = self.load()
        self.save(step, losses)
        return step, losses

    def _read(self) -> dict[str, Any]:
        try:
            saved: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
            made_of, step = json.loads(saved.get("made_of", "{}")), int(saved["step"])
            if "settings" in made_of:
                made_of["settings"] = {**self._earlier, **made_of["settings"]}
            return {**saved, "step": step, "losses": list(saved["losses"]), "made_of": made_of}
        except Exception as error:  # torch raises many kinds for a file that is not what it should be
            reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
            raise CheckpointError(f"cannot read {self._path} ({reason}); begin anew with --fresh") from None


@contextmanager
def alone(folder: Path, name: str, fresh: bool = False) -> Iterator[None]:
    """Hold the training ``name`` in ``folder``: two at once would write over each other's checkpoints.

    ``fresh`` forgets the checkpoint that is there once it is held. On a file system without locks nothing is held.

    Raises:
        CheckpointError: another process holds it, or nothing can be written there.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = (folder / f".{name}.lock").open("a")
    except OSError as error:
        raise CheckpointError(f"cannot write to {folder}: {error.strerror}; take another folder by --out") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise CheckpointError(
                f"another process is training {name} in {folder}; wait for it, stop it, or take another folder by --out"
            ) from None
        except OSError:
            pass
        if fresh:
            forget(folder, name)
        yield


def forget(folder: Path, name: str) -> None:
    """Delete a training's checkpoint and losses, if there are any."""
    for ending in ("checkpoint.pt", "checkpoint.part", "losses.json", "losses.png"):
        (folder / f"{name}-{ending}").unlink(missing_ok=True)


def _differences(before: dict[str, Any], now: dict[str, Any], digests: bool = True) -> Iterator[str]:
    """Say what differs among what both name; what only one of them knows is newer than the other.

    ``digests``: texts tell nothing to people, as those beside the settings.
    """
    for name in sorted(before.keys() & now.keys() - FREE):
        old, new = before[name], now[name]
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _differences(old, new, digests=False)
        elif old != new:
            opaque = digests and isinstance(old, str) and isinstance(new, str)
            yield f"other {name}" if opaque else f"{name}={_short(old)} (now {_short(new)})"


def _short(value: Any) -> str:
    return str(value)[:40]


def digest(module: nn.Module) -> str:
    """Return a digest of a module's parameters and buffers."""
    found = hashlib.blake2b(digest_size=16)
    for name, value in module.state_dict().items():
        found.update(name.encode())
        found.update(value.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
