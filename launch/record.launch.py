"""The flight recorder: ``ros2 bag record`` of what was protected and of what was received, of nothing raw.

ros2 launch uav_privacy_sc record.launch.py bag:=/path/to/new/folder party:=ground
"""

from __future__ import annotations

from launch import LaunchDescription

from uav_privacy_sc.nodes.launching import RECORD, describe, recorders


def generate_launch_description() -> LaunchDescription:
    """Declare the arguments; each side of the air gap gets a bag of its own below ``bag``."""
    return describe(RECORD, recorders)
