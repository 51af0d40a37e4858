"""Options that several verbs share, and the flight that they order."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

PRIVACY, RADIO, COMPUTER = "Privacy and power", "Radio", "Computer"

Out = Annotated[Path, typer.Option(help="Folder for bag, metrics.json and report.html.")]
Frames = Annotated[int | None, typer.Option(help="Fly at most so many frames.")]
Rate = Annotated[float | None, typer.Option(help="Frames a second, instead of the source's own.")]
Topic = Annotated[str | None, typer.Option(help="Image topic, where a bag has several.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]

Scenario = Annotated[
    str, typer.Option(help="Policy: surveillance, precision or resource-limited.", rich_help_panel=PRIVACY)
]
ScenariosFile = Annotated[Path | None, typer.Option(help="YAML file with more policies.", rich_help_panel=PRIVACY)]
Profile = Annotated[str, typer.Option(help="hardened, paper, or a ROS parameter file.", rich_help_panel=PRIVACY)]
EpsilonV = Annotated[float | None, typer.Option(help="Fix the visual budget.", rich_help_panel=PRIVACY)]
EpsilonL = Annotated[float | None, typer.Option(help="Fix the location budget.", rich_help_panel=PRIVACY)]
Mechanism = Annotated[
    str | None, typer.Option(help="Visual mechanism: region_aware, uniform, none …", rich_help_panel=PRIVACY)
]
MapSource = Annotated[
    str | None, typer.Option(help="Boxes of the budget map: released or detections.", rich_help_panel=PRIVACY)
]
KappaBg = Annotated[float | None, typer.Option(help="Budget of the background, in epsilon_v.", rich_help_panel=PRIVACY)]
Ceiling = Annotated[
    float | None, typer.Option(help="Mission epsilon at which releasing stops.", rich_help_panel=PRIVACY)
]
LocationMode = Annotated[
    str | None,
    typer.Option(
        help="Places drawn for every frame, or kept by tracks: independent, predictive.", rich_help_panel=PRIVACY
    ),
]
ExpectedFrames = Annotated[
    int | None, typer.Option(help="Frames that the ceiling is to last for: paces it.", rich_help_panel=PRIVACY)
]
LedgerFile = Annotated[
    Path | None, typer.Option(help="File of the odometer; in memory if left out.", rich_help_panel=PRIVACY)
]
Seed = Annotated[
    int | None, typer.Option(help="Seed of all noise: repeatable, so not private.", rich_help_panel=PRIVACY)
]

Distance = Annotated[float | None, typer.Option(help="Metres to the ground station.", rich_help_panel=RADIO)]
EveDistance = Annotated[
    float | None, typer.Option("--eve-distance", help="Metres to the eavesdropper.", rich_help_panel=RADIO)
]

TrajectoryFile = Annotated[
    Path | None, typer.Option(help="CSV file of where the aircraft flies (docs/link.md).", rich_help_panel=RADIO)
]
Coding = Annotated[
    str | None,
    typer.Option(help="Features on the air: analog, or packet for lattice codes.", rich_help_panel=RADIO),
]

Device = Annotated[str, typer.Option(help="For the networks: auto, cpu or cuda:N.", rich_help_panel=COMPUTER)]
Weights = Annotated[Path | None, typer.Option(help="Folder with weights of your own.", rich_help_panel=COMPUTER)]
Detector = Annotated[
    Path | None,
    typer.Option(help="Weights of another detector: .pt, .onnx or .engine (docs/models.md).", rich_help_panel=COMPUTER),
]
Half = Annotated[
    bool | None, typer.Option("--half", help="Detector in half precision, on CUDA.", rich_help_panel=COMPUTER)
]
Tiles = Annotated[int | None, typer.Option(help="Tiles a side for small objects, 1 to 3.", rich_help_panel=COMPUTER)]
NoIsolate = Annotated[
    bool, typer.Option("--no-isolate", help="Put all nodes in one DDS domain.", rich_help_panel=COMPUTER)
]

#: Options that are parameters of a node.
PARAMETERS = {
    "mechanism": ("protection", "mechanism"),
    "map_source": ("protection", "map_source"),
    "kappa_bg": ("protection", "kappa_bg"),
    "location_mode": ("protection", "location_mode"),
    "epsilon_ceiling": ("protection", "epsilon_ceiling"),
    "expected_frames": ("protection", "expected_frames"),
    "detector": ("perception", "detector"),
    "half": ("perception", "half"),
    "tiles": ("perception", "tiles"),
    "distance": ("link", "distance_m"),
    "eavesdropper_distance": ("link", "eavesdropper_distance_m"),
    "trajectory": ("link", "trajectory"),
    "coding": ("link", "coding"),
}


def flight_order(source: str, given: dict[str, Any]) -> Any:
    """Return the :class:`commands.fly.FlightOrder` of a verb's options, by their names."""
    from uav_privacy_sc.commands.fly import FlightOrder
    from uav_privacy_sc.flight import FlightConfig

    parameters: dict[str, dict[str, Any]] = {}
    for option, (node, name) in PARAMETERS.items():
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
