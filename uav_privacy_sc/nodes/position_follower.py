"""Follow the aircraft's own position, from an autopilot's fixes or an odometry's poses."""

from __future__ import annotations

import time
from typing import Any

from geometry_msgs.msg import PoseStamped
from rclpy.qos import HistoryPolicy, QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import NavSatFix, NavSatStatus

from uav_privacy_sc.link.geometry import LiveRoute, east_north_up
from uav_privacy_sc.nodes.base import StageNode

#: Sensors publish best effort; only the newest position counts.
QOS = QoSProfile(history=HistoryPolicy.KEEP_LAST, depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
SILENCE_S = 3.0


class PositionFollower:
    """Moves a :class:`LiveRoute`. A message that holds no position is counted, and the last position holds.

    ``origin`` are latitude, longitude and altitude of the point of reference for fixes; empty for the first fix.
    Poses are metres east, north and up already.
    """

    def __init__(
        self, node: StageNode[Any], topic: str, kind: str, origin: tuple[float, ...], route: LiveRoute
    ) -> None:
        self._node, self._topic, self._route = node, topic, route
        self._origin = (origin[0], origin[1], origin[2]) if origin else None
        self._heard: float | None = None
        message, callback = (NavSatFix, self._on_fix) if kind == "NavSatFix" else (PoseStamped, self._on_pose)
        node.take_from(message, topic, lambda given: self._take(callback, given), QOS)

    @property
    def age_s(self) -> float:
        """Seconds since the last good position; infinite before the first."""
        return float("inf") if self._heard is None else time.monotonic() - self._heard

    @property
    def fault(self) -> str | None:
        """What is wrong with the position, in one line; None when it is fresh."""
        if self._heard is None:
            return f"no position on {self._topic} yet; distance_m holds"
        return None if self.age_s <= SILENCE_S else f"no position on {self._topic} for {self.age_s:.0f} s"

    def _take(self, callback: Any, message: Any) -> None:
        try:
            callback(message)
        except ValueError as error:
            self._node.drops["no position"] += 1
            self._node.get_logger().warning(f"position refused: {error}", throttle_duration_sec=5.0)
        else:
            self._heard = time.monotonic()

    def _on_fix(self, message: NavSatFix) -> None:
        if message.status.status < NavSatStatus.STATUS_FIX:
            raise ValueError("the receiver has no fix")
        fix = (message.latitude, message.longitude, message.altitude)
        position = east_north_up(*fix, self._origin or fix)
        self._origin = self._origin or fix
        self._route.move(position)

    def _on_pose(self, message: PoseStamped) -> None:
        point = message.pose.position
        self._route.move((point.x, point.y, point.z))
