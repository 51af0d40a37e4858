"""What people see of a training: bars, tables of what was read, and where an interrupted one goes on."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from uav_privacy_sc.perception.training.samples import Samples


#: Seconds between lines where nobody watches a bar: in a log, through a pipe.
_LINE_EVERY_S = 60.0


@contextmanager
def bar(what: str, total: int | None, passing: bool = False) -> Iterator[Any]:
    """Show a bar on standard error, which a ``passing`` one leaves; gives ``update(done, note="", total=None,
    what=None)``. Where standard error is no terminal: a line a minute, and one at the end unless it is ``passing``."""
    if not sys.stderr.isatty():
        lines = _Lines(what, total)
        yield lines
        if not passing:
            lines.say()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=passing) as progress:
        task = progress.add_task(what, total=total, note="")

        def update(done: int, note: str = "", total: int | None = None, what: str | None = None) -> None:
            given = {name: value for name, value in (("total", total), ("description", what)) if value is not None}
            progress.update(task, completed=done, note=note, **given)  # type: ignore[arg-type]

        yield update


class _Lines:
    """Takes what a bar's ``update`` takes, and says where it stands once a minute, nothing twice."""

    def __init__(self, what: str, total: int | None) -> None:
        self._what, self._total, self._done, self._note = what, total, 0, ""
        self._said, self._last = time.monotonic(), ""

    def __call__(self, done: int, note: str = "", total: int | None = None, what: str | None = None) -> None:
        self._done, self._note = done, note
        self._total, self._what = total or self._total, what or self._what
        if time.monotonic() - self._said >= _LINE_EVERY_S:
            self.say()

    def say(self) -> None:
        self._said = time.monotonic()
        line = f"{self._what}: {self._done}{f' of {self._total}' if self._total else ''} {self._note}".rstrip()
        if line != self._last:
            typer.echo(line, err=True)
        self._last = line


def run(trainer: Any, losses: str, record: Callable[[], None]) -> None:
    """Run a trainer with a bar and ``record`` it; Ctrl-C ends it cleanly, to go on from its last checkpoint.

    Raises:
        typer.Exit: interrupted; status 1.
    """
    try:
        with bar(trainer.PART, trainer.config.steps) as update:
            update(trainer.step)
            trainer.run(lambda step, values: update(step, losses.format(*values)))
    except KeyboardInterrupt:
        done = trainer.step
        trainer.settle()  # also where it came between weights and checkpoint
        if trainer.checkpoint.step:
            record()
        typer.echo(
            f"stopped after {done} steps; the same command goes on from step {trainer.checkpoint.step}",
            err=True,
        )
        raise typer.Exit(1) from None
    record()


def tell(samples: Samples) -> None:
    """Say on standard error what was read, and what was set aside."""
    typer.echo("\n".join(lines(samples)), err=True)


def lines(samples: Samples) -> list[str]:
    """Return what was read, what was set aside, and where masks come from, a line each."""
    height, width = samples.images.shape[1:3]
    origin, classes = samples.origin, samples.classes()
    taken = "".join(f", {name} {value}" for name, value in origin.taken.items())
    told = [
        f"{origin.name}: {origin.layout}{taken}, {len(samples)} pictures at {width}x{height}, "
        f"{sum(classes.values())} objects ({listed(classes)})"
    ]
    if origin.set_aside:
        told.append(f"  counted in the annotations: {listed(origin.set_aside)}")
    if painted := origin.masks.get("painted from boxes"):
        told.append(f"  masks of {painted} pictures painted from boxes: nothing is learned of what lies between them")
    return told


def listed(counts: dict[str, int]) -> str:
    """Return ``name count, name count``."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())
