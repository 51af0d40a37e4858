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

_PRIVACY, _RADIO, _COMPUTER = "Privacy and power", "Radio", "Computer"

Out = Annotated[Path, typer.Option(help="Folder for bag, metrics.json and report.html.")]
Frames = Annotated[int | None, typer.Option(help="Fly at most so many frames.")]
Rate = Annotated[float | None, typer.Option(help="Frames a second, instead of the source's own.")]
Topic = Annotated[str | None, typer.Option(help="Image topic, where a bag has several.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]

Scenario = Annotated[
    str, typer.Option(help="Policy: surveillance, precision or resource-limited.", rich_help_panel=_PRIVACY)
]
ScenariosFile = Annotated[Path | None, typer.Option(help="YAML file with more policies.", rich_help_panel=_PRIVACY)]
Profile = Annotated[str, typer.Option(help="hardened, paper, or a ROS parameter file.", rich_help_panel=_PRIVACY)]
EpsilonV = Annotated[float | None, typer.Option(help="Fix the visual budget.", rich_help_panel=_PRIVACY)]
EpsilonL = Annotated[float | None, typer.Option(help="Fix the location budget.", rich_help_panel=_PRIVACY)]
Mechanism = Annotated[
    str | None, typer.Option(help="Visual mechanism: region_aware, uniform, none …", rich_help_panel=_PRIVACY)
]
MapSource = Annotated[
    str | None, typer.Option(help="Boxes of the budget map: released or detections.", rich_help_panel=_PRIVACY)
]
KappaBg = Annotated[
    float | None, typer.Option(help="Budget of the background, in epsilon_v.", rich_help_panel=_PRIVACY)
]
Ceiling = Annotated[
    float | None, typer.Option(help="Mission epsilon at which releasing stops.", rich_help_panel=_PRIVACY)
]
LocationMode = Annotated[
    str | None,
    typer.Option(
        help="Places drawn for every frame, or kept by tracks: independent, predictive.", rich_help_panel=_PRIVACY
    ),
]
ExpectedFrames = Annotated[
    int | None, typer.Option(help="Frames that the ceiling is to last for: paces it.", rich_help_panel=_PRIVACY)
]
LedgerFile = Annotated[
    Path | None, typer.Option(help="File of the odometer; in memory if left out.", rich_help_panel=_PRIVACY)
]
Seed = Annotated[
    int | None, typer.Option(help="Seed of all noise: repeatable, so not private.", rich_help_panel=_PRIVACY)
]

Distance = Annotated[float | None, typer.Option(help="Metres to the ground station.", rich_help_panel=_RADIO)]
EveDistance = Annotated[
    float | None, typer.Option("--eve-distance", help="Metres to the eavesdropper.", rich_help_panel=_RADIO)
]

TrajectoryFile = Annotated[
    Path | None, typer.Option(help="CSV file of where the aircraft flies (docs/link.md).", rich_help_panel=_RADIO)
]
Coding = Annotated[
    str | None,
    typer.Option(help="Features on the air: analog, or packet for lattice codes.", rich_help_panel=_RADIO),
]

Device = Annotated[str, typer.Option(help="For the networks: auto, cpu or cuda:N.", rich_help_panel=_COMPUTER)]
Weights = Annotated[Path | None, typer.Option(help="Folder with weights of your own.", rich_help_panel=_COMPUTER)]
NoIsolate = Annotated[
    bool, typer.Option("--no-isolate", help="Put all nodes in one DDS domain.", rich_help_panel=_COMPUTER)
]

_PARAMETERS = {
    "mechanism": ("protection", "mechanism"),
    "map_source": ("protection", "map_source"),
    "kappa_bg": ("protection", "kappa_bg"),
    "location_mode": ("protection", "location_mode"),
    "epsilon_ceiling": ("protection", "epsilon_ceiling"),
    "expected_frames": ("protection", "expected_frames"),
    "distance": ("link", "distance_m"),
    "eavesdropper_distance": ("link", "eavesdropper_distance_m"),
    "trajectory": ("link", "trajectory"),
    "coding": ("link", "coding"),
}


app.add_typer(train, name="train")


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


@app.command()
def convert(
    source: Annotated[
        str, typer.Argument(help="Folder of pictures, VisDrone or AU-AIR folder, video, rosbag2 or synthetic:SEED.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the rosbag2; it must not exist.")],
    storage: Annotated[str, typer.Option(help="mcap or sqlite3.")] = "mcap",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Frames a second, instead of the source's own (VisDrone: 30 for videos, 1 for a slide show)."
        ),
    ] = None,
    frames: Annotated[int | None, typer.Option(help="Convert at most so many frames.")] = None,
    compressed: Annotated[
        bool | None,
        typer.Option(
            "--compressed/--raw",
            help="CompressedImage, JPEG and PNG files byte for byte, or Image; compressed for JPEG files if left out.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic of the pictures.")] = "/camera/image_raw",
    source_topic: Annotated[
        str | None, typer.Option(help="Image topic, where the source is a bag with several.")
    ] = None,
    frame_id: Annotated[str, typer.Option(help="frame_id of every header.")] = "camera",
    truth: Annotated[bool, typer.Option("--truth", help="Put annotated objects on truth/objects, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a bag that is there.")] = False,
    json: Json = False,
) -> None:
    """Write pictures, a dataset, a video or a bag to a rosbag2, with stamps and the QoS to play it with."""
    from uav_privacy_sc.commands.convert import ConvertOrder, carry_out
    from uav_privacy_sc.data.convert import ConvertConfig

    config = ConvertConfig(storage, rate, compressed, frames, topic, frame_id, truth)
    raise typer.Exit(carry_out(ConvertOrder(source, out, config, source_topic, force, json)))


@app.command()
def protect(
    bag: Annotated[Path, typer.Argument(help="Recorded rosbag2 with pictures: its folder, .mcap or .db3.")],
    out: Annotated[Path, typer.Argument(help="Folder for the protected bag and, beside it, the odometer's report.")],
    topic: Topic = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Topic to repeat as recorded, unprotected; several times. Pictures are refused."),
    ] = None,
    storage: Annotated[str, typer.Option(help="mcap or sqlite3.")] = "mcap",
    frames: Annotated[int | None, typer.Option(help="Protect at most so many frames.")] = None,
    scenario: Scenario = "surveillance",
    scenarios_file: ScenariosFile = None,
    profile: Profile = "hardened",
    epsilon_v: EpsilonV = None,
    epsilon_l: EpsilonL = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Visual mechanism: region_aware, uniform …", rich_help_panel=_PRIVACY)
    ] = None,
    map_source: MapSource = None,
    kappa_bg: KappaBg = None,
    location_mode: LocationMode = None,
    epsilon_ceiling: Ceiling = None,
    expected_frames: ExpectedFrames = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="File of the odometer; OUT/odometer.ledger if left out.", rich_help_panel=_PRIVACY),
    ] = None,
    device: Device = "auto",
    weights: Weights = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a protected bag that is there.")] = False,
    json: Json = False,
) -> None:
    """Turn a recorded bag with pictures into one of protected topics only, to be shared.

    Runs perception and protection as in flight. No picture, raw feature, true count or frame_id gets into the bag; any
    error removes it. What it cost is reported beside it.
    """
    from uav_privacy_sc.commands.protect import ProtectOrder
    from uav_privacy_sc.commands.protect import carry_out as protect_bag

    order = _flight_order(str(bag), {**locals(), "seed": None, "no_isolate": False, "rate": None})
    raise typer.Exit(protect_bag(ProtectOrder(order, tuple(keep or ()), storage, force)))


@app.command()
def view(
    bag: Annotated[Path, typer.Argument(help="rosbag2 of a flight: recorded by run or demo, or made by protect.")],
    out: Annotated[Path, typer.Option(help="Folder for view.html and view.mp4.")] = Path("out/view"),
    frames: Annotated[int, typer.Option(help="So many frames on the page, evenly spread; the film has all.")] = 60,
    film: Annotated[bool, typer.Option("--film/--no-film", help="Write view.mp4, too.")] = True,
    namespace: Annotated[str | None, typer.Option(help="Aircraft, where a bag has several.")] = None,
    device: Device = "auto",
    weights: Weights = None,
    force: Annotated[bool, typer.Option("--force", help="Replace page and film that are there.")] = False,
    json: Json = False,
) -> None:
    """Show what each party of a recorded flight saw, as a page and a film."""
    from uav_privacy_sc.commands.view import ViewOrder, carry_out

    raise typer.Exit(carry_out(ViewOrder(bag, out, frames, film, namespace, weights, device, force, json)))


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
    ledger: Annotated[Path, typer.Argument(help="File of a privacy odometer.")],
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
    """Say what a ledger records as spent; exit status 1 when that is beyond a ceiling."""
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
        int | None, typer.Option(help="Processes; all cores if left out.", rich_help_panel=_COMPUTER)
    ] = None,
    backend: Annotated[str, typer.Option(help="loky (this machine), dask or ray.", rich_help_panel=_COMPUTER)] = "loky",
    address: Annotated[
        str | None, typer.Option(help="Of an existing dask or ray cluster.", rich_help_panel=_COMPUTER)
    ] = None,
    device: Annotated[
        str, typer.Option(help="For the networks: auto, cpu or cuda:N.", rich_help_panel=_COMPUTER)
    ] = "cpu",
    weights: Weights = None,
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
    order = EvaluationOrder(protocol, out, epsilon, delta, draws, seed, json, **scale, **where)  # type: ignore[arg-type]
    raise typer.Exit(carry_out(order))


def _fly(source: str, given: dict[str, Any]) -> None:
    from uav_privacy_sc.commands.fly import carry_out

    raise typer.Exit(carry_out(_flight_order(source, given)))


def _flight_order(source: str, given: dict[str, Any]) -> Any:
    from uav_privacy_sc.commands.fly import FlightOrder
    from uav_privacy_sc.flight import FlightConfig

    parameters: dict[str, dict[str, Any]] = {}
    for option, (node, name) in _PARAMETERS.items():
        if given.get(option) is not None:
            value = given[option]
            parameters.setdefault(node, {})[name] = str(value) if isinstance(value, Path) else value
    names = ("scenario", "scenarios_file", "profile", "seed", "device", "weights", "ledger")
    config = FlightConfig(
        parameters=parameters, isolate=not given["no_isolate"], **{name: given[name] for name in names}
    )
    recorded = {name: value for name, value in given.items() if name.startswith("epsilon_") and value is not None}
    return FlightOrder(
        source,
        given["out"],
        config,
        rate_hz=given["rate"],
        frames=given["frames"],
        topic=given.get("topic"),
        epsilon_v=given["epsilon_v"],
        epsilon_l=given["epsilon_l"],
        as_json=given["json"],
        options=recorded,
    )


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
