"""All seven nodes of the graph, the ground in a DDS domain of its own.

ros2 launch uav_privacy_sc uav_privacy_sc.launch.py source:=/path/to/images scenario:=precision
ros2 launch uav_privacy_sc uav_privacy_sc.launch.py --show-args
"""

from __future__ import annotations

from launch import LaunchDescription

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.launching import ABOARD, CAMERA, GENERAL, describe, nodes


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; what they mean for each node is said in ``uav_privacy_sc.graph``."""
    switches = (f"with_{name}" for name in graph.NODES)
    return describe((*CAMERA, *ABOARD, *GENERAL, *switches), lambda given: nodes(given, graph.NODES))
