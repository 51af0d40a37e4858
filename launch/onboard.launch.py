"""The aircraft's computer: camera, perception, protection, budget server and link.

ros2 launch uav_privacy_sc onboard.launch.py source:=device:0 namespace:=uav1 ledger:=/var/lib/uav/flight.ledger
"""

from __future__ import annotations

from launch import LaunchDescription

from uav_privacy_sc.nodes.launching import ABOARD, CAMERA, GENERAL, ON_BOARD, describe, nodes


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments of what flies."""
    switches = (f"with_{name}" for name in ON_BOARD)
    return describe((*CAMERA, *ABOARD, *GENERAL, *switches), lambda given: nodes(given, ON_BOARD))
