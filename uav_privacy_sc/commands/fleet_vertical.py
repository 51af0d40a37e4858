"""``fleet vertical``: P2's vertical federated learning with protected intermediate features."""

from __future__ import annotations

import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar, say
from uav_privacy_sc.commands.options import Json

if TYPE_CHECKING:
    from uav_privacy_sc.fleet.vertical import Outcome, VerticalSetting
    from uav_privacy_sc.fleet.vertical_table import VerticalTable


def vertical(
    data: Annotated[
        str,
        typer.Option(
            help="digits (scikit-learn's), an .npz with features and labels, or a .csv whose last column is the label."
        ),
    ] = "digits",
    low: Annotated[
        float | None, typer.Option(help="Least value of the columns, declared: never from the data.")
    ] = None,
    high: Annotated[float | None, typer.Option(help="Largest value of the columns, declared.")] = None,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="Budget; several times. 1, 2, 3, 5, 10 if left out.")
    ] = None,
    mechanism: Annotated[
        list[str] | None,
        typer.Option(help="classical, analytic, udn, idn, idn_tight, mvg or mm; several times. All if left out."),
    ] = None,
    reading: Annotated[
        list[str] | None,
        typer.Option(
            help="What epsilon is for: record, entry (P2's figure) or matrix; several times. All if left out."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option(help="Repetitions, with other splits, weights and noise.")] = 5,
    seed: Annotated[int, typer.Option(help="Number from which everything is drawn.")] = 0,
    delta: Annotated[float, typer.Option(help="Failure probability that is claimed.")] = 1e-5,
    features: Annotated[int, typer.Option(help="Intermediate features that a party sends for a record.")] = 16,
    batch: Annotated[int, typer.Option(help="Records in a release of P2's protocol.")] = 64,
    epochs: Annotated[int, typer.Option(help="Passes over the records in P2's protocol.")] = 10,
    out: Annotated[Path, typer.Option(help="Folder for tables, figure and manifest.")] = Path("out/fleet/vertical"),
    json: Json = False,
) -> None:
    """Vertical federated learning (P2): two parties, features protected by Gaussian, MVG, MM, UDN and IDN.

    An experiment: its noise is seeded. docs/vertical.md says what epsilon is for in each panel.
    """
    from uav_privacy_sc.fleet.vertical import VerticalSetting

    chosen = {"epsilons": epsilon, "mechanisms": mechanism, "readings": reading}
    setting = VerticalSetting(
        seeds=seeds,
        seed=seed,
        delta=delta,
        features=features,
        batch=batch,
        epochs=epochs,
        **{name: tuple(value) for name, value in chosen.items() if value},  # type: ignore[arg-type]
    )
    raise typer.Exit(carry_out(setting, data, low, high, out, json))


def carry_out(setting: VerticalSetting, data: str, low: float | None, high: float | None, out: Path, json: bool) -> int:
    """Run the comparison, write everything below ``out``, print the tables and return the exit status.

    Raises:
        ValueError: a table, a parameter or a folder that cannot be used; one line.
    """
    from uav_privacy_sc.fleet.vertical_report import write
    from uav_privacy_sc.fleet.vertical_table import open_table

    start = time.monotonic()
    table = open_table(data, low, high)
    if table.outside:
        say(f"{table.outside} values beyond the declared range were clipped to it; give --low and --high")
    try:
        out.mkdir(parents=True, exist_ok=True)
        outcomes = _compared(table, setting)
        paths = write(out, outcomes, table, setting, time.monotonic() - start)
    except OSError as error:
        raise BadInput(f"out folder {out} cannot be written: {error.strerror or error}") from None
    except KeyboardInterrupt:
        print("uav-privacy-sc: error: interrupted before there was anything to write", file=sys.stderr)
        return 1
    _print(outcomes, table, setting, paths, json)
    return 0


def _compared(table: VerticalTable, setting: VerticalSetting) -> list[Outcome]:
    from threadpoolctl import threadpool_limits

    from uav_privacy_sc.fleet.vertical import compare

    # Its matrices are small: threads that wait for one another took ten times as long.
    with threadpool_limits(1), progress_bar() as bar:
        task = bar.add_task("training", total=None, note="")
        return compare(table, setting, lambda done, total: bar.update(task, completed=done, total=total))


def _print(
    outcomes: list[Outcome], table: VerticalTable, setting: VerticalSetting, paths: list[Path], json: bool
) -> None:
    from uav_privacy_sc.fleet.vertical_report import manifest, overview

    if json:
        content = [{**asdict(found), "epsilon": None if found.given is None else found.epsilon} for found in outcomes]
        print_json({"manifest": manifest(table, setting), "outcomes": content, "files": [str(path) for path in paths]})
        return
    for found in overview(outcomes, table, setting):
        print_lines([("", ""), (found.title, "")])
        rows = [(name, *row[1:]) for name, row in zip(setting.mechanisms, found.rows, strict=True)]
        print_table(found.heads, rows)
        print_lines([("", note) for note in found.notes])
    print_lines([("", ""), ("written", str(paths[0].parent))])
