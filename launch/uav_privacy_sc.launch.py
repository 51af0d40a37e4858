"""All seven nodes of the graph, the ground in a DDS domain of its own.

ros2 launch uav_privacy_sc uav_privacy_sc.launch.py source:=/path/to/images scenario:=precision
ros2 launch uav_privacy_sc uav_privacy_sc.launch.py --show-args
"""

from __future__ import annotations

import os
from pathlib import Path

from launch import LaunchContext, LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from uav_privacy_sc import graph
from uav_privacy_sc.flight import FlightConfig

SWITCH = ["true", "false"]


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; what they mean for each node is said in ``uav_privacy_sc.graph``."""
    onboard = os.environ.get("ROS_DOMAIN_ID") or "0"
    return LaunchDescription(
        [
            _argument("source", "synthetic", "folder, dataset, video, rosbag2, device:NUMBER or synthetic[:SEED]"),
            _argument("rate_hz", "0.0", "frames a second; 0 for the source's own"),
            _argument("loop", "false", "start the source again at its end", SWITCH),
            _argument("scenario", "surveillance", "policy: surveillance, precision, resource-limited or one of yours"),
            _argument("scenarios_file", "", "YAML file with policies of yours"),
            _argument("profile", "hardened", "how frames are protected", list(graph.PROFILES)),
            _argument("params_file", "", "further ROS parameter file, over those of the profile"),
            _argument("isolate", "true", "put the ground in a DDS domain of its own (the air gap)", SWITCH),
            _argument("onboard_domain_id", onboard, "DDS domain of the aircraft, 0 to 232"),
            _argument("ground_domain_id", str((int(onboard) + 1) % 233), "DDS domain of the ground when isolated"),
            _argument("namespace", "", "ROS namespace: one for each aircraft"),
            _argument("device", "auto", "torch device: auto, cpu or cuda:N"),
            _argument("weights", "", "folder of the networks' weights; empty for the shipped ones"),
            _argument("ledger", "", "file of the odometer; empty for one a node in ~/.ros/uav_privacy_sc/"),
            _argument("trajectory", "", "CSV file of where the aircraft flies (docs/link.md); empty for none"),
            _argument("seed", "", "seed of all noise, for experiments only; empty for cryptographic randomness"),
            _argument("log_level", "info", "of every node", ["debug", "info", "warn", "error", "fatal"]),
            *(_argument(f"with_{name}", "true", f"{name} {spec.about}", SWITCH) for name, spec in graph.NODES.items()),
            OpaqueFunction(function=_nodes),
        ]
    )


def _argument(name: str, default: str, description: str, choices: list[str] | None = None) -> DeclareLaunchArgument:
    return DeclareLaunchArgument(name, default_value=default, description=description, choices=choices)


def _nodes(context: LaunchContext) -> list[Node]:
    def value(name: str) -> str:
        return LaunchConfiguration(name).perform(context)

    def path(name: str) -> Path | None:
        return Path(value(name)).expanduser() if value(name) else None

    config = FlightConfig(
        scenario=value("scenario"),
        scenarios_file=path("scenarios_file"),
        isolate=value("isolate") == "true",
        seed=int(value("seed")) if value("seed") else None,
        device=value("device"),
        weights=path("weights"),
        ledger=path("ledger"),
    )
    domains = {graph.ONBOARD: value("onboard_domain_id"), graph.GROUND: value("ground_domain_id")}
    if not config.isolate:
        domains[graph.GROUND] = domains[graph.ONBOARD]
    parameters = graph.flight_parameters(config, int(domains[graph.GROUND]) if config.isolate else None)
    camera = {"source": value("source"), "rate_hz": float(value("rate_hz")), "loop": value("loop") == "true"}
    parameters["camera"] |= camera
    parameters["link"]["trajectory"] = str(path("trajectory") or "")
    files = [str(graph.config_file(value("profile"))), *([str(path("params_file"))] if path("params_file") else [])]
    return [
        Node(
            package=graph.PACKAGE,
            executable=name,
            name=name,
            namespace=value("namespace"),
            parameters=[*files, parameters[name]],
            additional_env={"ROS_DOMAIN_ID": domains[spec.domain]},
            arguments=["--ros-args", "--log-level", value("log_level")],
            output="screen",
            emulate_tty=True,
        )
        for name, spec in graph.NODES.items()
        if value(f"with_{name}") == "true"
    ]
