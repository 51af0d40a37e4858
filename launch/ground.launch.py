"""The ground: the decoder and, to see what anybody else could, the eavesdropper.

ros2 launch uav_privacy_sc ground.launch.py namespace:=uav1 with_eavesdropper:=false
"""

from __future__ import annotations

from launch import LaunchDescription

from uav_privacy_sc.nodes.launching import GENERAL, ON_GROUND, describe, nodes


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments of what stays on the ground."""
    return describe((*GENERAL, *(f"with_{name}" for name in ON_GROUND)), lambda given: nodes(given, ON_GROUND))
