"""What the launch files share: each argument once, with its description, and the processes that arguments mean.

Needs ``launch`` and ``launch_ros``, but neither rclpy nor torch.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, ExecuteProcess, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from uav_privacy_sc import graph
from uav_privacy_sc.flight import FlightConfig

SWITCH = ("true", "false")
STORAGES = ("mcap", "sqlite3")
TRANSPORTS = ("raw", "compressed")
PARTIES = ("both", graph.ONBOARD, graph.GROUND)
#: Domain identifiers that DDS allows.
DOMAINS = 233


@dataclass(frozen=True)
class Argument:
    """One argument of a launch file."""

    name: str
    default: str | None
    description: str
    choices: tuple[str, ...] = ()


def _onboard_domain() -> str:
    return os.environ.get("ROS_DOMAIN_ID") or "0"


def _arguments() -> dict[str, Argument]:
    onboard = _onboard_domain()
    ground = str((int(onboard) + 1) % DOMAINS) if onboard.isdecimal() else "1"
    switches = tuple(
        Argument(f"with_{name}", "true", f"{name} {spec.about}", SWITCH) for name, spec in graph.NODES.items()
    )
    given = (
        Argument("source", "synthetic", "folder, dataset, video, rosbag2, device:NUMBER or synthetic[:SEED]"),
        Argument("rate_hz", "0.0", "frames a second; 0 for the source's own"),
        Argument("loop", "false", "start the source again at its end", SWITCH),
        Argument("transport", "raw", "take raw or compressed images", TRANSPORTS),
        Argument("scenario", "surveillance", "policy: surveillance, precision, resource-limited or one of yours"),
        Argument("scenarios_file", "", "YAML file with policies of yours"),
        Argument("profile", "hardened", "how frames are protected", graph.PROFILES),
        Argument("params_file", "", "further ROS parameter file, over those of the profile"),
        Argument("isolate", "true", "put the ground in a DDS domain of its own (the air gap)", SWITCH),
        Argument("onboard_domain_id", onboard, "DDS domain of the aircraft, 0 to 232"),
        Argument("ground_domain_id", ground, "DDS domain of the ground when isolated, 0 to 232"),
        Argument("namespace", "", "ROS namespace: one for each aircraft"),
        Argument("device", "auto", "torch device: auto, cpu or cuda:N"),
        Argument("weights", "", "folder of the networks' weights; empty for the shipped ones"),
        Argument("ledger", "", "file of the odometer; empty for one a node in ~/.ros/uav_privacy_sc/"),
        Argument("trajectory", "", "CSV file of where the aircraft flies (docs/link.md); empty for none"),
        Argument("seed", "", "seed of all noise, for experiments only; empty for cryptographic randomness"),
        Argument("autostart", "true", "bring every node to active; false leaves that to a lifecycle manager", SWITCH),
        Argument("respawn", "false", "start a node again that has ended", SWITCH),
        Argument("respawn_delay_s", "2.0", "how long to wait before that, in seconds"),
        Argument("use_sim_time", "false", "take time from /clock", SWITCH),
        Argument("log_level", "info", "of every node", ("debug", "info", "warn", "error", "fatal")),
        Argument("bag", None, "rosbag2 to play, or folder of the one to record"),
        Argument("image_topic", "/camera/image_raw", "topic of the pictures in the bag"),
        Argument("play_rate", "1.0", "how much faster than recorded"),
        Argument(
            "play_delay_s",
            "5.0",
            "how long the nodes get to load their networks before the bag begins (each time, with loop)",
        ),
        Argument("storage", "mcap", "format of the bag", STORAGES),
        Argument("party", "both", "whose side of the air gap to record", PARTIES),
        *switches,
    )
    return {argument.name: argument for argument in given}


ARGUMENTS = _arguments()
#: What every launch file that starts nodes takes; no node takes more than it needs of it.
GENERAL = (
    "profile", "params_file", "isolate", "onboard_domain_id", "ground_domain_id", "namespace", "device", "weights",
    "autostart", "respawn", "respawn_delay_s", "use_sim_time", "log_level",
)  # fmt: skip
CAMERA = ("source", "rate_hz", "loop")
ABOARD = ("transport", "scenario", "scenarios_file", "ledger", "trajectory", "seed")
RECORD = ("bag", "storage", "party", "namespace", "isolate", "onboard_domain_id", "ground_domain_id")
REPLAY = ("bag", "image_topic", "play_rate", "play_delay_s", "loop")
ON_BOARD = tuple(name for name, spec in graph.NODES.items() if spec.domain == graph.ONBOARD)
ON_GROUND = tuple(name for name, spec in graph.NODES.items() if spec.domain == graph.GROUND)


class Given:
    """What the arguments of a launch file were given as; those that it does not declare have their default."""

    def __init__(self, context: LaunchContext, declared: Iterable[str]) -> None:
        self._context, self._declared = context, frozenset(declared)

    def text(self, name: str) -> str:
        """Return an argument as text.

        Raises:
            ValueError: it is none of its choices.
        """
        argument = ARGUMENTS[name]
        if name not in self._declared:
            return argument.default or ""
        value = str(LaunchConfiguration(name).perform(self._context))
        if argument.choices and value not in argument.choices:
            raise ValueError(f"argument {name} is {value!r}; choose one of {', '.join(argument.choices)}")
        return value

    def switch(self, name: str) -> bool:
        """Return an argument that is on or off."""
        return self.text(name) == "true"

    def path(self, name: str) -> Path | None:
        """Return the path that an argument names, None where it is empty."""
        return Path(self.text(name)).expanduser() if self.text(name) else None

    def number(self, name: str) -> float:
        """Return an argument as a number.

        Raises:
            ValueError: it is none.
        """
        try:
            value = float(self.text(name))
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"argument {name} is {self.text(name)!r}; give a number")
        return value

    def positive(self, name: str) -> float:
        """Return an argument as a number above 0.

        Raises:
            ValueError: it is none.
        """
        value = self.number(name)
        if value <= 0.0:
            raise ValueError(f"argument {name} is {self.text(name)!r}; give a number above 0")
        return value

    def domain(self, party: str) -> int:
        """Return the DDS domain of a party: that on board for both where the air gap is open.

        Raises:
            ValueError: it is no domain.
        """
        party = party if self.switch("isolate") else graph.ONBOARD
        value = self.text(f"{party}_domain_id")
        if not value.isdecimal() or int(value) >= DOMAINS:
            raise ValueError(f"argument {party}_domain_id is {value!r}; give a whole number from 0 to {DOMAINS - 1}")
        return int(value)


def describe(names: Iterable[str], actions: Callable[[Given], list[Any]]) -> LaunchDescription:
    """Return a launch description: its arguments, and the actions that come of them."""
    declared = tuple(dict.fromkeys(names))

    def act(context: LaunchContext) -> list[Any]:
        return actions(Given(context, declared))

    arguments = [_declared(ARGUMENTS[name]) for name in declared]
    return LaunchDescription([*arguments, OpaqueFunction(function=act)])


def _declared(argument: Argument) -> DeclareLaunchArgument:
    # Humble asks for None where there are no choices.
    choices = list(argument.choices) or None
    return DeclareLaunchArgument(
        argument.name, default_value=argument.default, description=argument.description, choices=choices
    )


def nodes(given: Given, names: Iterable[str]) -> list[Node]:
    """Return the processes of some nodes, each in its domain; those that are switched off are left out."""
    parameters, files = _parameters(given), _files(given)
    return [
        Node(
            package=graph.PACKAGE,
            executable=name,
            name=name,
            namespace=given.text("namespace"),
            parameters=[*files, parameters[name]],
            additional_env={"ROS_DOMAIN_ID": str(given.domain(graph.NODES[name].domain))},
            arguments=["--ros-args", "--log-level", given.text("log_level")],
            respawn=given.switch("respawn"),
            respawn_delay=given.number("respawn_delay_s"),
            output="screen",
            emulate_tty=True,
        )
        for name in names
        if given.switch(f"with_{name}")
    ]


def _files(given: Given) -> list[str]:
    further = given.path("params_file")
    return [str(graph.config_file(given.text("profile"))), *([str(further)] if further else [])]


def _parameters(given: Given) -> dict[str, dict[str, Any]]:
    seed = given.text("seed")
    config = FlightConfig(
        scenario=given.text("scenario"),
        scenarios_file=given.path("scenarios_file"),
        isolate=given.switch("isolate"),
        seed=int(seed) if seed else None,
        device=given.text("device"),
        weights=given.path("weights"),
        ledger=given.path("ledger"),
    )
    parameters = graph.flight_parameters(config, given.domain(graph.GROUND) if config.isolate else None)
    camera = {"source": given.text("source"), "rate_hz": given.number("rate_hz"), "loop": given.switch("loop")}
    parameters["camera"] |= camera
    parameters["perception"]["transport"] = given.text("transport")
    parameters["link"]["trajectory"] = str(given.path("trajectory") or "")
    for values in parameters.values():
        values |= {"autostart": given.switch("autostart"), "use_sim_time": given.switch("use_sim_time")}
    return parameters


def player(given: Given) -> ExecuteProcess:
    """Return ``ros2 bag play`` of a bag's pictures, and of nothing else in it, into the aircraft's own domain."""
    compressed = given.text("transport") == "compressed"
    suffix = "/compressed" if compressed else ""
    recorded = given.text("image_topic").removesuffix("/compressed") + suffix
    played = f"{_prefix(given)}/camera/image_raw{suffix}"
    command = ["ros2", "bag", "play", str(given.path("bag")), "--topics", recorded]
    command += ["--disable-keyboard-controls", "--rate", f"{given.positive('play_rate'):g}"]
    delay_s = given.number("play_delay_s")
    command += ["--delay", f"{delay_s:g}"] if delay_s > 0.0 else []  # ros2 bag refuses none and less
    command += ["--loop"] if given.switch("loop") else []
    command += ["--clock"] if given.switch("use_sim_time") else []
    command += ["--remap", f"{recorded}:={played}"]
    return ExecuteProcess(cmd=command, additional_env=_environment(given, graph.ONBOARD), output="screen")


def recorders(given: Given) -> list[ExecuteProcess]:
    """Return ``ros2 bag record`` for each side of the air gap: what was protected, by name, and nothing raw."""
    folder = given.path("bag")
    parties = (graph.ONBOARD, graph.GROUND) if given.text("party") == "both" else (given.text("party"),)
    prefix = _prefix(given)
    named = [] if os.environ.get("ROS_DISTRO") == "humble" else ["--topics"]  # which Humble does not know
    return [
        ExecuteProcess(
            cmd=["ros2", "bag", "record", "--storage", given.text("storage"), "--output", f"{folder}/{party}"]
            + named
            + [f"{prefix}/{name}" for name in recorded_topics(party)],
            additional_env=_environment(given, party),
            output="screen",
        )
        for party in parties
    ]


def recorded_topics(party: str) -> list[str]:
    """Return the relative names of the topics that may be recorded on one side of the air gap."""
    return [topic.name for topic in graph.TOPICS.values() if topic.recorded and topic.domain == party]


def _prefix(given: Given) -> str:
    namespace = given.text("namespace").strip("/")
    return f"/{namespace}" if namespace else ""


def _environment(given: Given, party: str) -> dict[str, str]:
    environment = {"ROS_DOMAIN_ID": str(given.domain(party))}
    if party == graph.ONBOARD:  # what lives there has not been protected yet
        environment |= {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_STATIC_PEERS": ""}
        environment |= {"ROS_LOCALHOST_ONLY": "1"} if os.environ.get("ROS_DISTRO") == "humble" else {}
    return environment
