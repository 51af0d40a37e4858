"""A recorded bag in place of the camera: ``ros2 bag play`` of its pictures, and the rest of the graph.

ros2 launch uav_privacy_sc replay.launch.py bag:=/path/to/bag image_topic:=/drone/image_raw loop:=true
"""

from __future__ import annotations

from launch import LaunchDescription

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.launching import ABOARD, GENERAL, REPLAY, describe, nodes, player

REST = tuple(name for name in graph.NODES if name != "camera")


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; the bag plays in the aircraft's own domain, and only its pictures do."""
    names = (*REPLAY, *ABOARD, *GENERAL, *(f"with_{name}" for name in REST))
    return describe(names, lambda given: [player(given), *nodes(given, REST)])
