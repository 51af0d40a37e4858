"""Read the pictures of a rosbag2 (MCAP or SQLite) without a ROS installation."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.highlevel import AnyReader
from rosbags.interfaces import Connection
from rosbags.typesys import Stores, get_typestore

from uav_privacy_sc.data.images import ImageError, decode_image, decode_raw
from uav_privacy_sc.data.sources import BAG_SUFFIXES, DEFAULT_RATE_HZ, Source, SourceError, SourceFrame

IMAGE_TYPE = "sensor_msgs/msg/Image"
COMPRESSED_TYPE = "sensor_msgs/msg/CompressedImage"

_PROBED_MESSAGES = 20


class BagSource(Source):
    """The pictures of one topic, with the stamps of their headers (of the recorder, where a header has none)."""

    kind = "bag"

    def __init__(
        self, reader: AnyReader, topic: Connection, name: str, rate_hz: float | None, max_frames: int | None
    ) -> None:
        super().__init__(name, rate_hz or _rate(reader, topic.msgcount), topic.msgcount, max_frames)
        self._reader: AnyReader | None = reader
        self._topic = topic
        self._own_clock = rate_hz is not None

    def _frames(self) -> Iterator[SourceFrame]:
        reader = self._reader
        if reader is None:
            raise SourceError(f"{self.name} is closed")
        messages = reader.messages([self._topic])
        index = 0
        while True:
            try:
                connection, recorded_ns, data = next(messages)
                message: Any = reader.deserialize(data, connection.msgtype)
            except StopIteration:
                return
            except Exception as error:  # a damaged chunk surfaces as whatever the storage raises
                yield SourceFrame(index, self.stamp_ns(index), None, f"{self.name}: {_one_line(error)}")
                return
            yield self._frame(index, recorded_ns, message)
            index += 1

    def _frame(self, index: int, recorded_ns: int, message: Any) -> SourceFrame:
        stamp = message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec
        stamp_ns = self.stamp_ns(index) if self._own_clock else stamp or recorded_ns
        try:
            return SourceFrame(index, stamp_ns, picture(message))
        except ImageError as error:
            return SourceFrame(index, stamp_ns, None, f"{self._topic.topic} message {index}: {error}")

    def close(self) -> None:
        """Close the bag; a second time does nothing."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def picture(message: Any) -> np.ndarray:
    """Return the ``(H, W, 3)`` uint8 RGB picture of an Image or CompressedImage message.

    Raises:
        ImageError: if its encoding is unknown or its bytes are not a whole picture.
    """
    if hasattr(message, "format"):
        return decode_image(bytes(message.data))
    shape = (message.height, message.width)
    return decode_raw(message.data, shape, message.step, message.encoding, bool(message.is_bigendian))


def open_bag(path: Path, rate_hz: float | None, max_frames: int | None, topic: str | None) -> Source:
    """Open a rosbag2 folder or storage file and choose its image topic.

    Raises:
        SourceError: if the bag cannot be read, has no image topic, or has several and ``topic`` names none of them.
    """
    reader = _open_reader(path)
    try:
        connection = _choose(reader, path, topic)
        source = BagSource(reader, connection, f"{path.name} {connection.topic}", rate_hz, max_frames)
        _require_one_readable(path, source)
    except BaseException:
        reader.close()
        raise
    return source


def _require_one_readable(path: Path, source: Source) -> None:
    """Refuse a bag of which none of the first messages is a picture: feature tensors travel as Image, too."""
    first = "the topic holds no message"
    for frame in islice(source, _PROBED_MESSAGES):
        if frame.image is not None:
            return
        first = frame.error if frame.index == 0 and frame.error else first
    raise SourceError(f"{path} holds no picture that can be read: {first}")


def _open_reader(path: Path) -> AnyReader:
    storage = _storage(path)
    reader = AnyReader([storage], default_typestore=get_typestore(Stores.ROS2_JAZZY))
    try:
        reader.open()
    except Exception as error:  # rosbags passes on what YAML, SQLite or the MCAP parser raises
        raise SourceError(f"the bag {path} cannot be read: {_one_line(error)}{_advice(storage)}") from None
    return reader


def _storage(path: Path) -> Path:
    """Return what to open: a folder with metadata, or the one storage file that a killed recorder left without."""
    if path.is_file() or (path / "metadata.yaml").is_file():
        return path
    files = sorted(child for child in path.iterdir() if child.suffix in BAG_SUFFIXES)
    if len(files) == 1:
        return files[0]
    raise SourceError(
        f"the bag {path} has no metadata.yaml (was its recorder killed?) and {len(files)} storage files; "
        "run `ros2 bag reindex` on it, or give one of the files"
    )


def _advice(storage: Path) -> str:
    return "" if storage.is_dir() else " (was its recorder killed? try `ros2 bag reindex`)"


def _choose(reader: AnyReader, path: Path, topic: str | None) -> Connection:
    images = [c for c in reader.connections if c.msgtype in (IMAGE_TYPE, COMPRESSED_TYPE)]
    names = ", ".join(sorted({connection.topic for connection in images}))
    if not images:
        raise SourceError(f"the bag {path} has no topic of images")
    if topic is not None:
        chosen = [c for c in images if c.topic.strip("/") == topic.strip("/")]
        if not chosen:
            raise SourceError(f"the bag {path} has no image topic {topic}; it has {names}")
        return chosen[0]
    likely = images if len(images) == 1 else [c for c in images if "image" in c.topic.rsplit("/", 1)[-1]]
    likely = sorted(likely, key=lambda connection: (connection.msgtype != IMAGE_TYPE, connection.topic))
    distinct = {connection.topic.removesuffix("/compressed") for connection in likely}
    if len(distinct) != 1 and len(images) > 1:
        raise SourceError(f"the bag {path} has several image topics; choose one with --topic: {names}")
    return likely[0]


def _rate(reader: AnyReader, messages: int) -> float:
    rate = (messages - 1) * 1e9 / max(reader.duration, 1)
    return rate if 0 < rate <= 1000 else DEFAULT_RATE_HZ


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__
