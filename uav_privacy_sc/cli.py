"""The command line ``uav-privacy-sc``. Exit status: 0, 2 for a wrong call or bad input, 1 for a failure.

A verb only reads its options here; what it does lives in :mod:`uav_privacy_sc.commands` and is imported when it is
called. Further verbs join through ``app.command``, groups of them through ``app.add_typer``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from uav_privacy_sc import __version__
from uav_privacy_sc.commands.bag_verbs import convert, protect, view
from uav_privacy_sc.commands.fleet_options import app as fleet
from uav_privacy_sc.commands.options import (
    COMPUTER,
    Ceiling,
    Coding,
    Detector,
    Device,
    Distance,
    EpsilonL,
    EpsilonV,
    EveDistance,
    ExpectedFrames,
    Frames,
    Half,
    Json,
    KappaBg,
    LedgerFile,
    LocationMode,
    MapSource,
    Mechanism,
    NoIsolate,
    Out,
    Profile,
    Rate,
    Scenario,
    ScenariosFile,
    Seed,
    Tiles,
    Topic,
    TrajectoryFile,
    Weights,
    flight_order,
)
from uav_privacy_sc.perception.training.commands import app as train

FAILURE, BAD_CALL = 1, 2
INTERRUPTED = "interrupted before there was anything to write"
#: What typer makes of a KeyboardInterrupt, without a word; none of our verbs ends with it.
TYPER_INTERRUPTED = 130
#: What typer raises for a wrong call: the ancestor of its own exceptions, wherever it keeps them.
CALL_ERROR: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    help="Fly a drone's camera through private semantic communication, and see what each party gets to see.",
)

app.add_typer(train, name="train")
app.add_typer(fleet, name="fleet")


def _version(wanted: bool) -> None:
    if wanted:
        print(f"uav-privacy-sc {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
    traceback: Annotated[bool, typer.Option("--traceback", help="Show where a failure came from.")] = False,
) -> None:
    """Options before the verb; :func:`main` reads ``--traceback`` itself."""


@app.command()
def demo(
    out: Out = Path("out/demo"),
    scenario: Scenario = "surveillance",
    profile: Profile = "hardened",
    frames: Frames = None,
    seed: Seed = None,
    device: Device = "auto",
    weights: Weights = None,
    rate: Rate = None,
    ledger: LedgerFile = None,
    no_isolate: NoIsolate = False,
    epsilon_v: EpsilonV = None,
    epsilon_l: EpsilonL = None,
    mechanism: Mechanism = None,
    map_source: MapSource = None,
    kappa_bg: KappaBg = None,
    location_mode: LocationMode = None,
    epsilon_ceiling: Ceiling = None,
    expected_frames: ExpectedFrames = None,
    distance: Distance = None,
    eavesdropper_distance: EveDistance = None,
    trajectory: TrajectoryFile = None,
    coding: Coding = None,
    scenarios_file: ScenariosFile = None,
    json: Json = False,
) -> None:
    """Fly the shipped synthetic flight through the whole graph and report what everyone saw.

    The aircraft flies away from the ground station and behind something, unless --trajectory or a distance is given.
    """
    given = locals()
    if trajectory is None and distance is None and eavesdropper_distance is None:
        from uav_privacy_sc.graph import shipped_config

        given["trajectory"] = shipped_config("trajectories/demo.csv")
    _fly("synthetic", given)


@app.command()
def run(
    source: Annotated[
        str,
        typer.Option(
            help="Folder of pictures, VisDrone or AU-AIR folder, video, rosbag2, synthetic:SEED or device:NUMBER."
        ),
    ],
    out: Out = Path("out/run"),
    scenario: Scenario = "surveillance",
    profile: Profile = "hardened",
    frames: Frames = None,
    seed: Seed = None,
    device: Device = "auto",
    weights: Weights = None,
    detector: Detector = None,
    half: Half = None,
    tiles: Tiles = None,
    rate: Rate = None,
    topic: Topic = None,
    ledger: LedgerFile = None,
    no_isolate: NoIsolate = False,
    epsilon_v: EpsilonV = None,
    epsilon_l: EpsilonL = None,
    mechanism: Mechanism = None,
    map_source: MapSource = None,
    kappa_bg: KappaBg = None,
    location_mode: LocationMode = None,
    epsilon_ceiling: Ceiling = None,
    expected_frames: ExpectedFrames = None,
    distance: Distance = None,
    eavesdropper_distance: EveDistance = None,
    trajectory: TrajectoryFile = None,
    coding: Coding = None,
    scenarios_file: ScenariosFile = None,
    json: Json = False,
) -> None:
    """Fly a source of your own through the whole graph and report what everyone saw."""
    _fly(source, locals())


for verb in (convert, protect, view):
    app.command()(verb)


@app.command()
def optimize(
    gain: Annotated[
        float | None, typer.Option("--gain", "--gain-db", help="Channel gain in dB: the SNR of one transmitted watt.")
    ] = None,
    trajectory: Annotated[
        Path | None, typer.Option(help="CSV file of a flight to follow instead: budgets and power over it.")
    ] = None,
    scenario: Scenario = "surveillance",
    scenarios_file: ScenariosFile = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of history and utility, or of the flight (.png, .svg or .pdf).")
    ] = None,
    fading: Annotated[str, typer.Option(help="Over the trajectory: rayleigh, rician or none.")] = "rayleigh",
    rate: Annotated[float, typer.Option(help="Blocks a second over the trajectory.")] = 10.0,
    seed: Annotated[int, typer.Option(help="Seed of the fading over the trajectory.")] = 0,
    json: Json = False,
) -> None:
    """Choose privacy budgets and transmit power for one channel gain, or follow a trajectory.

    Over a trajectory the result is held against fixed budgets and power of equal mission epsilon and energy.
    """
    from uav_privacy_sc.commands.optimize import Solving, carry_out

    order = Solving(scenario, scenarios_file, gain, trajectory, plot, fading, rate, seed, json)
    raise typer.Exit(carry_out(order))


@app.command()
def odometer(
    ledger: Annotated[Path, typer.Argument(help="File of an odometer, or folder of a fleet's.")],
    delta: Annotated[float, typer.Option(help="Failure probability at which epsilon is given.")] = 1e-5,
    epsilon_ceiling: Ceiling = None,
    plot: Annotated[
        Path | None, typer.Option(help="Picture of the flight: mission, ceiling and pace (.png, .svg or .pdf).")
    ] = None,
    expected_frames: Annotated[
        int | None, typer.Option(help="Frames that the ceiling is to last for: plots the pace, too.")
    ] = None,
    json: Json = False,
) -> None:
    """Say what a ledger, or all of a fleet's below a folder, record as spent; exit status 1 when beyond a ceiling."""
    from uav_privacy_sc.commands.odometer import carry_out

    raise typer.Exit(carry_out(ledger, delta, epsilon_ceiling, json, plot, expected_frames))


@app.command()
def audit(
    mechanism: Annotated[
        list[str] | None, typer.Option(help="What to audit; may be given several times. All of them if left out.")
    ] = None,
    epsilon: Annotated[float, typer.Option(help="The claim, for one cell or one unit.")] = 1.0,
    delta: Annotated[float, typer.Option(help="Failure probability of the claim, for Gaussian mechanisms.")] = 1e-5,
    samples: Annotated[int, typer.Option(help="Outputs for each of two neighbouring inputs.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="That no sound mechanism of the table is accused.")] = 0.99,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Hold lower bounds of epsilon, from samples (Clopper-Pearson), against what each mechanism claims.

    Exit status 1 when a mechanism gives away more than is said of it. 'classical' at an epsilon of 8.4 or more is known
    to break its claim (at 20 it gives 25.44): that is shown, announced, and no failure unless it gives more than that.
    """
    from uav_privacy_sc.commands.audit import AuditOrder, carry_out

    order = AuditOrder(mechanism or ("all",), epsilon, delta, samples, confidence, seed, json)
    raise typer.Exit(carry_out(order))


@app.command()
def bench(
    only: Annotated[list[str] | None, typer.Option(help="Name of a benchmark; may be given several times.")] = None,
    repeats: Annotated[int, typer.Option(help="Samples of each figure.")] = 200,
    json: Json = False,
) -> None:
    """Measure speed and memory on one core, as ratios in one run; exit status 1 when a figure is beyond its limit."""
    from uav_privacy_sc.commands.bench import carry_out

    raise typer.Exit(carry_out(only or (), repeats, json))


@app.command()
def evaluate(
    protocol: Annotated[
        str,
        typer.Option(
            help="tradeoff, scenarios, ablation, attackers, baseline, convergence, location, runtime, all of these "
            "(all), or matrix: P2's comparison."
        ),
    ],
    dataset: Annotated[
        str, typer.Option(help="synthetic, synthetic:SEED, a folder of pictures or annotations, a video or a bag.")
    ] = "synthetic",
    samples: Annotated[int, typer.Option(help="Pictures at most, evenly spread over a folder.")] = 20,
    seeds: Annotated[int, typer.Option(help="Repetitions on each, with other noise and another fade.")] = 1,
    profile: Profile = "hardened",
    out: Annotated[
        Path, typer.Option(help="Folder for tables, figures, report.html and what an interrupted run goes on from.")
    ] = Path("out/evaluate"),
    preset: Annotated[str, typer.Option(help="How much is done: quick, standard or paper.")] = "quick",
    jobs: Annotated[
        int | None, typer.Option(help="Processes; all cores if left out.", rich_help_panel=COMPUTER)
    ] = None,
    backend: Annotated[str, typer.Option(help="loky (this machine), dask or ray.", rich_help_panel=COMPUTER)] = "loky",
    address: Annotated[
        str | None, typer.Option(help="Of an existing dask or ray cluster.", rich_help_panel=COMPUTER)
    ] = None,
    device: Annotated[
        str, typer.Option(help="For the networks: auto, cpu or cuda:N.", rich_help_panel=COMPUTER)
    ] = "cpu",
    weights: Weights = None,
    attackers: Annotated[
        list[str] | None,
        typer.Option(
            help="attackers: name of one to run (all if none is named), or a module or .py file that registers your "
            "own; several times."
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="matrix: budget that all mechanisms claim.")] = 1.0,
    delta: Annotated[float, typer.Option(help="matrix: failure probability that they claim.")] = 1e-5,
    draws: Annotated[int, typer.Option(help="matrix: draws over which is measured, at least 2.")] = 30,
    seed: Seed = None,
    json: Json = False,
) -> None:
    """Measure a paper's tables and figures, each number with its interval and beside the paper's.

    An interrupted run goes on when the same command is given again.
    """
    from uav_privacy_sc.commands.evaluate import EvaluationOrder, carry_out

    scale = {"dataset": dataset, "samples": samples, "seeds": seeds, "profile": profile, "preset": preset}
    where = {"backend": backend, "address": address, "jobs": jobs, "device": device, "weights": weights}
    scale["attackers"] = tuple(attackers or ())
    order = EvaluationOrder(protocol, out, epsilon, delta, draws, seed, json, **scale, **where)  # type: ignore[arg-type]
    raise typer.Exit(carry_out(order))


def _fly(source: str, given: dict[str, Any]) -> None:
    from uav_privacy_sc.commands.fly import carry_out

    raise typer.Exit(carry_out(flight_order(source, given)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status. Whatever goes wrong is said in one line on standard error."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        status = app(args=words, prog_name="uav-privacy-sc", standalone_mode=False) or 0
        return _fail(INTERRUPTED) if status == TYPER_INTERRUPTED else status
    except CALL_ERROR as error:
        return _refuse(error.format_message())  # type: ignore[attr-defined]
    except (KeyboardInterrupt, typer.Abort):
        return _fail(INTERRUPTED)
    except ValueError as error:
        if "--traceback" in words:
            raise
        return _refuse(str(error))
    except Exception as error:
        if "--traceback" in words:
            raise
        return _fail(f"{type(error).__name__}: {error}")


def _refuse(message: str) -> int:
    if message:  # without any word at all, typer has shown the help instead
        _print_error(message)
    return BAD_CALL


def _fail(message: str) -> int:
    _print_error(message)
    return FAILURE


def _print_error(message: str) -> None:
    print(f"uav-privacy-sc: error: {' '.join(message.split())}", file=sys.stderr)
