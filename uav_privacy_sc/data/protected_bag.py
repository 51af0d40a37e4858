"""A bag that holds protected topics and nothing else but what its owner kept: written so, and checked to be so."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from uav_privacy_sc.data import bag_file
from uav_privacy_sc.data.bag_file import BagFile, offered
from uav_privacy_sc.data.bags import Bag, BagTopic
from uav_privacy_sc.release import ReleaseRecord
from uav_privacy_sc.scene import OBJECT_DTYPE

FEATURES, OBJECTS, STEP = "tx/features", "tx/objects", "tx/lattice_step"
PROTECTED = {FEATURES: bag_file.IMAGE, OBJECTS: bag_file.POINTS, STEP: bag_file.FLOAT}
#: Whose presence in its metadata says that a bag was written here; its value says by which version.
MARK = "uav_privacy_sc_protected"

#: Types that carry pictures, by name or by what they are made of.
_PICTURES = re.compile(r"Image|Video|Disparity|FFMPEGPacket|theora", re.IGNORECASE)
_SHAPES = re.compile(r"PointCloud|LaserScan|Grid|Detection|Marker")
#: Topics of ours, in whatever namespace, that tell what protection is there to hide.
_REVEALING = ("camera/", "semantic/", "truth/", "tx/record", "link/record", "budget/utility")
_TENSOR = re.compile(r"(16S|32F)C([1-9][0-9]{0,3})")
#: What a release's record says that follows from configuration and channel alone, not from the picture.
_PUBLIC = ("mechanism", "calibration", "map_rule", "map_source", "location_branch", "location_mode", "delta", "c_clip")


class NotProtected(RuntimeError):
    """A bag holds, or would hold, what must not be shared; one line."""


class ProtectedBag:
    """Writes releases as the topics that protection publishes, stamped as the pictures they come from.

    The true number of objects, the odometer's figures and ``frame_id`` stay behind: they are in no topic.
    """

    def __init__(self, path: Path, storage: str, version: str, kept: Iterable[tuple[BagTopic, Bag]] = ()) -> None:
        self._file = BagFile(path, storage, {MARK: version})
        self._step: float | None = None
        self._first: ReleaseRecord | None = None
        self._budgets: list[tuple[float, float]] = []
        self.frames = 0
        self._file.add(f"/{STEP}", PROTECTED[STEP], offered(latched=True, depth=1))
        for name in (OBJECTS, FEATURES):
            self._file.add(f"/{name}", PROTECTED[name], offered(depth=5))
        for topic, bag in kept:
            self._file.add(topic.name, topic.type, offered(), bag.definition(topic))

    def write(self, features: np.ndarray, objects: np.ndarray, step: float, stamp_ns: int, time_ns: int) -> None:
        """Append one release: features ``(C, H', W')`` on a lattice of ``step`` (0: floats), and objects."""
        head = bag_file.header(stamp_ns, "camera")
        messages = {OBJECTS: bag_file.points(objects, head), FEATURES: bag_file.tensor(features, step, head)}
        if step != self._step:
            self._file.write(f"/{STEP}", time_ns, bag_file.number(step))
            self._step = step
        for name, message in messages.items():
            self._file.write(f"/{name}", time_ns, message)
        self.frames += 1

    def keep(self, topic: BagTopic, bag: Bag) -> int:
        """Repeat a topic of the recorded bag as it is, and return how many messages that were."""
        for message in bag.messages([topic.name]):
            self._file.write(topic.name, message.time_ns, message.data)
        return self._file.counts[topic.name]

    def note(self, records: Iterable[ReleaseRecord]) -> None:
        """Say in the metadata how releases were made, as far as that is public."""
        rows = list(records)
        for name in _PUBLIC if rows else ():
            self._file.note(name, str(getattr(rows[0], name)))
        for name in ("epsilon_v", "epsilon_l") if rows else ():
            values = [getattr(row, name) for row in rows]
            self._file.note(name, f"{min(values):.6g} to {max(values):.6g}")

    def close(self) -> None:
        """Finish the bag."""
        self._file.close()

    def discard(self) -> None:
        """Remove it."""
        self._file.discard()


def refusal(topic: BagTopic, bag: Bag) -> str | None:
    """Say why a topic of a recorded bag cannot be repeated in a protected one, or return None."""
    definition = bag.definition(topic)
    made_of = definition[0] if definition else ""
    name = f"{topic.name.strip('/')}/"
    if _PICTURES.search(topic.type) or re.search(r"sensor_msgs/(msg/)?(Compressed)?Image\b", made_of):
        return f"{topic.name} is {topic.type}: pictures are never repeated"
    if any(f"/{name}".find(f"/{part}") >= 0 for part in _REVEALING):
        return f"{topic.name} tells what protection hides"
    if name.rstrip("/") in PROTECTED:
        return f"{topic.name} is a topic of the protected bag itself"
    return None


def warning(topic: BagTopic) -> str:
    """Say what repeating a topic means."""
    if _SHAPES.search(topic.type):
        return f"{topic.name} ({topic.type}) is repeated as recorded: it may show people, and nothing protects them"
    return f"{topic.name} ({topic.type}) is repeated as recorded; nothing protects what is in it"


def verify(path: Path, kept: Iterable[str], frames: int) -> None:
    """Read a protected bag back and hold it against what it may contain.

    Raises:
        NotProtected: a topic or a message that does not belong there, or a frame is missing.
    """
    allowed = {f"/{name}": kind for name, kind in PROTECTED.items()}
    with Bag(path) as bag:
        strangers = [item.name for item in bag.topics if item.name not in allowed and item.name not in set(kept)]
        pictures = [item.name for item in bag.topics if _PICTURES.search(item.type) and item.name != f"/{FEATURES}"]
        if strangers or pictures:
            raise NotProtected(f"the bag holds {', '.join({*strangers, *pictures})}, which must not be in it")
        found = {f"/{FEATURES}": 0, f"/{OBJECTS}": 0}
        for raw in bag.messages(found):
            _check(raw.topic, bag.read(raw))
            found[raw.topic] += 1
        if bag.damage or set(found.values()) != {frames}:
            raise NotProtected(f"the bag holds {found} messages instead of {frames} each {bag.damage}")


def _check(topic: str, message: object) -> None:
    values = vars(message)
    if topic == f"/{OBJECTS}":
        names = tuple(field.name for field in values["fields"])
        if names != OBJECT_DTYPE.names or len(values["data"]) != values["width"] * OBJECT_DTYPE.itemsize:
            raise NotProtected(f"{topic} holds something else than object records")
        return
    match = _TENSOR.fullmatch(values["encoding"])
    if match is None:
        raise NotProtected(f"{topic} holds an image of encoding {values['encoding']!r}")
    size = {"16S": 2, "32F": 4}[match.group(1)] * int(match.group(2)) * values["height"] * values["width"]
    if len(values["data"]) != size:
        raise NotProtected(f"{topic} holds {len(values['data'])} bytes where features of this shape have {size}")
