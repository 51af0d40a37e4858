"""The flight recorder: keeps what passed over the topics in a rosbag2 (MCAP), as the bytes that went over them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rclpy.context import Context
from rclpy.node import Node
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from uav_privacy_sc.graph import TOPICS, Topic
from uav_privacy_sc.nodes.base import message_type, qos_profile

BAG_VERSION = 9
BAG_EXISTS = "{} exists; choose another folder for the bag or remove it"
#: Deeper than any publisher's queue: a recorder must not lose what a burst brings.
DEPTH = 200


class BagWriter:
    """A rosbag2 that several threads may write to; the name of every topic is known from the start.

    Raises:
        FileExistsError: the folder exists.
    """

    def __init__(self, path: Path, namespace: str) -> None:
        if path.exists():
            raise FileExistsError(BAG_EXISTS.format(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._writer = Writer(path, version=BAG_VERSION, storage_plugin=StoragePlugin.MCAP)
        self._writer.open()
        self._path, self._last_ns = path, 0
        self.messages = 0
        self.fault: str | None = None
        add, types, prefix = self._writer.add_connection, get_typestore(Stores.ROS2_JAZZY), namespace.rstrip("/")
        self._connections: dict[str, Any] | None = {
            topic.name: add(f"{prefix}/{topic.name}", topic.type, typestore=types)
            for topic in TOPICS.values()
            if topic.recorded
        }

    def write(self, topic: Topic, message: bytes) -> None:
        """Append one serialized message, stamped with the time of its arrival."""
        with self._lock:
            if self._connections is not None:
                self.messages += 1
                self._last_ns = max(self._last_ns + 1, time.time_ns())
                try:
                    self._writer.write(self._connections[topic.name], self._last_ns, message)
                except OSError as error:  # a full disk ends the recording, not the flight
                    self._give_up(error)

    def close(self) -> None:
        """Write index and metadata; what comes later is not kept."""
        with self._lock:
            if self._connections is not None:
                self._connections = None
                try:
                    self._writer.close()
                except OSError as error:
                    self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._connections = None
        self.fault = f"bag {self._path} is cut off after {self.messages} messages: {error.strerror or error}"


class RecorderNode(Node):
    """Listens, in one DDS domain, to the recorded topics that live there."""

    def __init__(self, domain: str | None, bag: BagWriter, context: Context, namespace: str) -> None:
        super().__init__(
            "recorder",
            context=context,
            namespace=namespace,
            use_global_arguments=False,
            enable_rosout=False,
            start_parameter_services=False,
        )
        for topic in TOPICS.values():
            if topic.recorded and domain in (None, topic.domain):
                profile = qos_profile(topic.qos)
                profile.depth = DEPTH
                self.create_subscription(message_type(topic.type), topic.name, _writing(bag, topic), profile, raw=True)


def _writing(bag: BagWriter, topic: Topic) -> Callable[[Any], None]:
    return lambda message: bag.write(topic, bytes(message))
