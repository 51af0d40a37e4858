"""What the command line says, and where: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

results = Console(highlight=False, soft_wrap=True)
messages = Console(stderr=True, highlight=False, soft_wrap=True)


class BadInput(ValueError):
    """A call or an input that the user can put right: one line, exit status 2."""


def say(text: str) -> None:
    """Print one line about what is going on."""
    messages.print(text, markup=False)


def print_json(value: Any) -> None:
    """Print a result for machines, and nothing else."""
    print(json.dumps(value, indent=2, allow_nan=False))


def print_lines(lines: Sequence[tuple[str, str]]) -> None:
    """Print named lines, names in bold in a column of their own."""
    width = max(len(name) for name, _ in lines) + 2
    for name, line in lines:
        results.print(f"[bold]{name:<{width}}[/bold]", end="")
        results.print(line, markup=False)


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> None:
    """Print a table: the first ``words`` columns to the left, the numbers after them to the right.

    It is as wide as it is, for a number cut short is no number; narrow terminals wrap its lines.
    """
    table = Table(header_style="bold", box=None, pad_edge=False)
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place < words else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    width, needed = results.width, sum(max(map(cell_len, column)) + 2 for column in zip(heads, *rows, strict=True))
    results.width = max(width, needed)
    try:
        results.print(table)
    finally:
        results.width = width


@contextmanager
def progress_bar() -> Iterator[Progress]:
    """Show progress to people while something runs; leaves no trace on a terminal, prints nothing into a file."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=messages, transient=True, disable=not messages.is_terminal) as bar:
        yield bar
