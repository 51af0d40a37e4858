"""Read a rosbag2 (MCAP or SQLite) without a ROS installation: its pictures as a source, or any of its messages.

A bag that was cut off, has no ``metadata.yaml`` or a damaged part is read as far as it goes, and what is lost is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rosbags.highlevel import AnyReader
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from uav_privacy_sc.data.cut_bags import CutBagError, CutFile, RawMessage, has_log, open_cut_file
from uav_privacy_sc.data.images import ImageError, decode_image, decode_raw
from uav_privacy_sc.data.sources import BAG_SUFFIXES, DEFAULT_RATE_HZ, Source, SourceError, SourceFrame

IMAGE_TYPE = "sensor_msgs/msg/Image"
COMPRESSED_TYPE = "sensor_msgs/msg/CompressedImage"

_PROBED_MESSAGES = 20
_RECORDER_KILLED = "was its recorder killed?"


@dataclass(frozen=True)
class BagTopic:
    """A topic of a bag: ``messages`` can be read, ``recorded`` there were, None if nobody knows."""

    name: str
    type: str
    messages: int
    recorded: int | None = None

    @property
    def lost(self) -> int | None:
        """How many messages are lost, None if nobody knows."""
        return None if self.recorded is None else max(0, self.recorded - self.messages)


class Bag:
    """A rosbag2, whole or not.

    Attributes:
        path: its folder or its one storage file.
        topics: what it holds.
        damage: what is wrong with it, in a few words; empty as long as nothing is.
        duration_ns: from its first to its last message.

    Raises:
        SourceError: nothing of it can be read; one line.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.damage = ""
        self._files = _storage_files(path)
        self._cut: list[CutFile] = []
        self._reader: AnyReader | None = None
        self._definitions: dict[str, str] = {}
        self._types = get_typestore(Stores.ROS2_JAZZY)
        if any(has_log(file) for file in self._files):
            self._open_cut("its recorder was killed")
        else:
            self._open()

    def _open(self) -> None:
        whole = self.path if (self.path / "metadata.yaml").is_file() else None
        reader = AnyReader([whole] if whole else self._files, default_typestore=get_typestore(Stores.ROS2_JAZZY))
        try:
            reader.open()
        except Exception as error:  # rosbags passes on what YAML, SQLite or the MCAP parser raises
            self._open_cut(_one_line(error))
            return
        self._reader = reader
        counts: Counter[tuple[str, str]] = Counter()
        for connection in reader.connections:
            counts[connection.topic, connection.msgtype] += connection.msgcount
        self.topics = tuple(BagTopic(name, kind, count, count) for (name, kind), count in counts.items())
        self.duration_ns = reader.duration if reader.message_count else 0

    def _open_cut(self, reason: str) -> None:
        if not self._files or _is_compressed(self.path):
            raise SourceError(f"the bag {self.path} cannot be read: {reason}")
        for path in self._files:
            with suppress(CutBagError):
                self._cut.append(open_cut_file(path))
        if not self._cut:
            advice = "" if _metadata(self.path) else f" ({_RECORDER_KILLED} try `ros2 bag reindex`)"
            raise SourceError(f"the bag {self.path} cannot be read: {reason}{advice}")
        self.damage = next((file.damage for file in self._cut if file.damage), reason)
        counts: Counter[tuple[str, str]] = Counter()
        for file in self._cut:
            counts.update(dict.fromkeys(file.topics, 0) | file.counts)
            self._definitions |= file.definitions
        recorded = _recorded(self.path)
        self.topics = tuple(
            BagTopic(name, kind, count, recorded.get(name)) for (name, kind), count in sorted(counts.items())
        )
        spans = [file.span_ns for file in self._cut if file.span_ns]
        self.duration_ns = max(span[1] for span in spans) - min(span[0] for span in spans) if spans else 0

    def messages(self, names: Collection[str]) -> Iterator[RawMessage]:
        """Yield the messages of some topics in the order of their recording, leaving out what is damaged.

        :attr:`damage` says so afterwards.
        """
        if self._reader is None:
            yield from self._salvaged(names, None)
            return
        connections = [item for item in self._reader.connections if item.topic in names]
        last_ns = None
        try:
            for connection, time_ns, data in self._reader.messages(connections) if connections else ():
                last_ns = time_ns
                yield RawMessage(connection.topic, connection.msgtype, time_ns, bytes(data))
            return
        except Exception as error:  # a damaged chunk surfaces as whatever the storage raises
            self.damage = _one_line(error)
        if not _is_compressed(self.path):
            yield from self._salvaged(names, last_ns)

    def _salvaged(self, names: Collection[str], after_ns: int | None) -> Iterator[RawMessage]:
        for path in self._files:
            try:
                file = open_cut_file(path)
            except CutBagError:
                continue
            for message in file.messages():
                if message.topic in names and (after_ns is None or message.time_ns > after_ns):
                    yield message

    def read(self, message: RawMessage) -> Any:
        """Return a message's contents.

        Raises:
            SourceError: its bytes are not of its type, or nothing knows the type.
        """
        try:
            if self._reader is not None:
                return self._reader.deserialize(message.data, message.msgtype)
            if message.msgtype not in self._types.fielddefs and message.msgtype in self._definitions:
                self._types.register(get_types_from_msg(self._definitions[message.msgtype], message.msgtype))
            return self._types.deserialize_cdr(message.data, message.msgtype)
        except Exception as error:  # rosbags lets through what a damaged message does to its generated code
            raise SourceError(f"{message.topic}: a message is no {message.msgtype} ({_one_line(error)})") from None

    def definition(self, topic: BagTopic) -> tuple[str, str] | None:
        """Return the ``.msg`` text and the hash of a topic's type as the bag has them, None where it lacks either."""
        for connection in () if self._reader is None else self._reader.connections:
            if connection.topic == topic.name and connection.msgdef.data and connection.digest:
                return connection.msgdef.data, connection.digest
        return None

    @property
    def about(self) -> dict[str, str]:
        """What the metadata says of the bag beyond its topics."""
        custom = _metadata(self.path).get("custom_data")
        return {str(key): str(value) for key, value in custom.items()} if isinstance(custom, dict) else {}

    def close(self) -> None:
        """Close the bag; a second time does nothing."""
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()

    def __enter__(self) -> Bag:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()


class BagSource(Source):
    """The pictures of one ``topic``, with the stamps of their headers (of the recorder, where a header has none)."""

    kind = "bag"

    def __init__(self, bag: Bag, topic: BagTopic, name: str, rate_hz: float | None, max_frames: int | None) -> None:
        super().__init__(name, rate_hz or _rate(bag, topic.messages), topic.messages, max_frames)
        self._bag: Bag | None = bag
        self.topic = topic
        self._own_clock = rate_hz is not None
        if bag.damage:
            self.notes.append(_damage_note(bag, topic))

    def _frames(self) -> Iterator[SourceFrame]:
        if self._bag is None:
            raise SourceError(f"{self.name} is closed")
        index = 0
        for message in self._bag.messages([self.topic.name]):
            yield self._frame(self._bag, index, message)
            index += 1
        if index < self.topic.messages:
            lost = f"{self.topic.messages - index} of {self.topic.messages} messages are lost"
            yield SourceFrame(index, self.stamp_ns(index), None, f"{self.name}: {lost}: {self._bag.damage}")

    def _frame(self, bag: Bag, index: int, raw: RawMessage) -> SourceFrame:
        stamp_ns = self.stamp_ns(index) if self._own_clock else raw.time_ns
        try:
            message = bag.read(raw)
            if not self._own_clock:
                stamp_ns = header_ns(message) or raw.time_ns
            return SourceFrame(index, stamp_ns, picture(message))
        except (ImageError, SourceError) as error:
            return SourceFrame(index, stamp_ns, None, f"{self.topic.name} message {index}: {error}")

    def __enter__(self) -> BagSource:
        return self

    def close(self) -> None:
        """Close the bag; a second time does nothing."""
        if self._bag is not None:
            self._bag.close()
            self._bag = None


def header_ns(message: Any) -> int:
    """Return the stamp of a message's header in nanoseconds; 0 means that it has none."""
    return message.header.stamp.sec * 1_000_000_000 + message.header.stamp.nanosec


def picture(message: Any) -> np.ndarray:
    """Return the ``(H, W, 3)`` uint8 RGB picture of an Image or CompressedImage message.

    Raises:
        ImageError: if its encoding is unknown or its bytes are not a whole picture.
    """
    if hasattr(message, "format"):
        return decode_image(bytes(message.data))
    shape = (message.height, message.width)
    return decode_raw(message.data, shape, message.step, message.encoding, bool(message.is_bigendian))


def open_bag(path: Path, rate_hz: float | None, max_frames: int | None, topic: str | None) -> BagSource:
    """Open a rosbag2 folder or storage file and choose its image topic.

    Raises:
        SourceError: if the bag cannot be read, has no image topic, or has several and ``topic`` names none of them.
    """
    bag = Bag(path)
    try:
        chosen = _choose(bag, path, topic)
        source = BagSource(bag, chosen, f"{path.name} {chosen.name}", rate_hz, max_frames)
        _require_one_readable(path, source)
    except BaseException:
        bag.close()
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


def _storage_files(path: Path) -> list[Path]:
    """Return the storage files of a bag in their order: bag_2 before bag_10."""
    if path.is_file():
        return [path]
    files = [child for child in path.iterdir() if child.suffix in BAG_SUFFIXES]
    return sorted(files, key=lambda file: (len(file.name), file.name))


def _metadata(path: Path) -> dict[str, Any]:
    """Return what metadata.yaml says, nothing where there is none or it says nothing."""
    try:
        document = yaml.safe_load((path / "metadata.yaml").read_text(encoding="utf-8"))
        return dict(document["rosbag2_bagfile_information"])
    except (OSError, ValueError, KeyError, TypeError, yaml.YAMLError):
        return {}


def _recorded(path: Path) -> dict[str, int]:
    """Return how many messages of each topic were recorded, as far as metadata tells."""
    try:
        rows = _metadata(path)["topics_with_message_count"]
        return {str(row["topic_metadata"]["name"]): int(row["message_count"]) for row in rows}
    except (KeyError, TypeError, ValueError):
        return {}


def _is_compressed(path: Path) -> bool:
    """Whether rosbag2 itself compressed messages or files, which only an intact bag can be read through."""
    return str(_metadata(path).get("compression_mode") or "none").lower() != "none"


def _damage_note(bag: Bag, topic: BagTopic) -> str:
    lost = "how many are lost nobody can tell" if topic.lost is None else f"{topic.lost} of {topic.recorded} are lost"
    return f"the bag {bag.path} is not whole ({bag.damage}): {topic.messages} messages of {topic.name} are read, {lost}"


def _choose(bag: Bag, path: Path, topic: str | None) -> BagTopic:
    images = [item for item in bag.topics if item.type in (IMAGE_TYPE, COMPRESSED_TYPE)]
    names = ", ".join(sorted({item.name for item in images}))
    if not bag.topics:
        raise SourceError(f"the bag {path} is empty: it has no topic")
    if not images:
        others = ", ".join(sorted({item.type for item in bag.topics}))
        raise SourceError(f"the bag {path} has no topic of images; it holds {others}")
    if topic is not None:
        chosen = [item for item in images if item.name.strip("/") == topic.strip("/")]
        if not chosen:
            raise SourceError(f"the bag {path} has no image topic {topic}; it has {names}")
        return chosen[0]
    likely = images if len(images) == 1 else [item for item in images if "image" in item.name.rsplit("/", 1)[-1]]
    likely = sorted(likely, key=lambda item: (item.type != IMAGE_TYPE, item.name))
    distinct = {item.name.removesuffix("/compressed") for item in likely}
    if len(distinct) != 1 and len(images) > 1:
        raise SourceError(f"the bag {path} has several image topics; choose one with --topic: {names}")
    return likely[0]


def _rate(bag: Bag, messages: int) -> float:
    rate = (messages - 1) * 1e9 / max(bag.duration_ns, 1)
    return rate if 0 < rate <= 1000 else DEFAULT_RATE_HZ


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [""])[0] or type(error).__name__
