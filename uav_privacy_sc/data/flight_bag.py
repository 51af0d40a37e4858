"""A flight as its bag tells it: frame by frame what was released, what each party received and made of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uav_privacy_sc.data.bags import COMPRESSED_TYPE, IMAGE_TYPE, Bag, BagTopic, header_ns, picture
from uav_privacy_sc.data.images import ImageError
from uav_privacy_sc.data.protected_bag import MARK
from uav_privacy_sc.data.sources import SourceError
from uav_privacy_sc.privacy import lattice
from uav_privacy_sc.release import ReleaseRecord
from uav_privacy_sc.scene import OBJECT_DTYPE, no_objects

#: ``(features, objects) -> mask`` and ``features -> picture``, for a bag in which nobody has decoded anything.
Decode = Callable[[np.ndarray, np.ndarray], np.ndarray]
Attack = Callable[[np.ndarray], np.ndarray]

_MASK, _OBJECTS, _HEARD = "ground/mask", "ground/objects", "ground/rx/features"
_PICTURE, _RECORD, _SENT = "eve/reconstruction", "tx/record", "link/record"
_TX_FEATURES, _TX_OBJECTS, _TX_STEP = "tx/features", "tx/objects", "tx/lattice_step"
_FLOWN = (_RECORD, _SENT, _HEARD, _OBJECTS, _MASK, _PICTURE)
_RELEASED = (_TX_STEP, _TX_OBJECTS, _TX_FEATURES, _RECORD)
#: Frames that may be on their way at once; what comes later than that is taken for lost.
_WINDOW = 16
_TENSOR = re.compile(r"(16S|32F)C([1-9][0-9]{0,3})")


@dataclass
class SeenFrame:
    """One frame: the ground's ``mask`` and ``objects``, the eavesdropper's ``picture``, and what it cost.

    None is what is not in the bag; ``objects_lost`` and ``features_lost`` say that a packet came broken.
    """

    stamp_ns: int
    mask: np.ndarray | None = None
    objects: np.ndarray | None = None
    picture: np.ndarray | None = None
    record: ReleaseRecord | None = None
    sent: dict[str, str] = field(default_factory=dict)
    objects_lost: bool = False
    features_lost: bool = False
    features: np.ndarray | None = None

    def sent_value(self, name: str) -> float | None:
        """Return a number of the link's record."""
        try:
            return float(self.sent[name])
        except (KeyError, ValueError):
            return None


@dataclass(frozen=True)
class Badge:
    """Whether the flight was protected: ``level`` is ``good``, ``alert``, ``bad`` or ``unknown``."""

    text: str
    level: str


class FlightBag:
    """Reads the frames of one aircraft.

    Args:
        bag: the open bag.
        namespace: of the aircraft, where a bag has several.
        decode, attack: what to make of released features where the bag holds nobody's decoding.

    Raises:
        SourceError: the bag holds no flight, or those of several aircraft and ``namespace`` names none of them.
    """

    def __init__(
        self, bag: Bag, namespace: str | None = None, decode: Decode | None = None, attack: Attack | None = None
    ) -> None:
        self._bag, self._decode, self._attack = bag, decode, attack
        self._names = _topics(bag, namespace)
        self.unread: list[str] = []
        self._step = 0.0

    @property
    def decoded(self) -> bool:
        """Whether the bag itself holds what ground or eavesdropper saw."""
        return _MASK in self._names or _PICTURE in self._names

    @property
    def length(self) -> int:
        """How many frames there are, about: a lost message makes one less."""
        counted = (_MASK, _PICTURE) if self.decoded else (_TX_FEATURES,)
        return max((self._names[name].messages for name in counted if name in self._names), default=0)

    def frames(self) -> Iterator[SeenFrame]:
        """Yield the frames in the order in which they were recorded."""
        wanted = _FLOWN if self.decoded else _RELEASED
        relative = {self._names[name].name: name for name in wanted if name in self._names}
        pending: dict[int, SeenFrame] = {}
        for raw in self._bag.messages(relative):
            try:
                self._take(relative[raw.topic], self._bag.read(raw), pending)
            except (SourceError, ImageError, ValueError) as error:
                self.unread.append(f"{raw.topic}: {error}")
            if len(pending) > _WINDOW:
                yield self._finished(pending.pop(next(iter(pending))))
        for frame in list(pending.values()):
            yield self._finished(frame)

    def _take(self, name: str, message: Any, pending: dict[int, SeenFrame]) -> None:
        if name == _TX_STEP:
            self._step = float(message.data)
            return
        frame = pending.setdefault(header_ns(message), SeenFrame(header_ns(message)))
        if name == _RECORD:
            frame.record = ReleaseRecord.from_text(_values(message))
        elif name == _SENT:
            frame.sent = _values(message)
        elif name in (_OBJECTS, _TX_OBJECTS):
            frame.objects = _objects(message)
            frame.objects_lost = frame.objects is None
        elif name == _HEARD:
            frame.features_lost = not message.step and not len(message.data)
        elif name == _TX_FEATURES:
            frame.features = _features(message, self._step)
        elif name == _MASK:
            frame.mask = picture(message)[..., 0]
        else:
            frame.picture = picture(message)

    def _finished(self, frame: SeenFrame) -> SeenFrame:
        if frame.features is not None:
            prior = no_objects() if frame.objects is None else frame.objects
            frame.mask = None if self._decode is None else self._decode(frame.features, prior)
            frame.picture = None if self._attack is None else self._attack(frame.features)
            frame.features = None
        return frame

    def badge(self, records: list[ReleaseRecord]) -> Badge:
        """Say whether the flight was protected, by its records and by what else lies in the bag."""
        raw = [topic.name for topic in self._bag.topics if _is_raw(topic)]
        if raw:
            return Badge(f"NOT PROTECTED: the bag holds {', '.join(sorted(raw))}", "bad")
        if any(record.mechanism == "none" for record in records):
            return Badge("NOT PROTECTED: features left without noise", "bad")
        if any(record.seeded for record in records):
            return Badge("EXPERIMENT: the noise had a seed, so nothing was private", "alert")
        if records:
            return Badge("PROTECTED", "good")
        if MARK in self._bag.about:
            return Badge("PROTECTED topics only, as `protect` writes them", "good")
        return Badge("UNKNOWN: the bag holds no record of protection", "unknown")


def _topics(bag: Bag, namespace: str | None) -> dict[str, BagTopic]:
    """Return the topics of one aircraft by their relative names."""
    found: dict[str, dict[str, BagTopic]] = {}
    for topic in bag.topics:
        for name in {*_FLOWN, *_RELEASED}:
            head, joint, rest = f"/{topic.name.strip('/')}".rpartition(f"/{name}")
            if joint and not rest:
                found.setdefault(head or "/", {})[name] = topic
    known = ", ".join(sorted(found))
    if namespace is not None:
        wanted = f"/{namespace.strip('/')}"
        if wanted not in found:
            raise SourceError(f"the bag {bag.path} has no flight in namespace {wanted}; it has {known or 'none'}")
        return found[wanted]
    if len(found) > 1:
        raise SourceError(f"the bag {bag.path} has several aircraft; choose one with --namespace: {known}")
    names = next(iter(found.values()), {})
    if not {_MASK, _PICTURE, _TX_FEATURES} & set(names):
        held = ", ".join(sorted(topic.name for topic in bag.topics)) or "no topic"
        raise SourceError(
            f"the bag {bag.path} holds no flight (it holds {held}); `uav-privacy-sc run` or `protect` makes one"
        )
    return names


def _is_raw(topic: BagTopic) -> bool:
    """Whether a topic is from before protection: pictures that are not what a party of ours made, or raw perception."""
    name = f"/{topic.name.strip('/')}"
    ours = any(name.endswith(f"/{known}") for known in ("ground/mask", "ground/overlay", "eve/reconstruction"))
    released = any(name.endswith(f"/{part}/features") for part in ("tx", "ground/rx", "eve/rx"))
    images = topic.type in (IMAGE_TYPE, COMPRESSED_TYPE)
    return "/semantic/" in name or (images and not ours and not released)


def _values(message: Any) -> dict[str, str]:
    return {item.key: item.value for status in message.status for item in status.values}


def _objects(message: Any) -> np.ndarray | None:
    """Return object records, None for a packet that was lost.

    Raises:
        ValueError: the points are none.
    """
    if not message.width * message.height:
        return no_objects() if message.is_dense else None
    if tuple(item.name for item in message.fields) != OBJECT_DTYPE.names or message.point_step != OBJECT_DTYPE.itemsize:
        raise ValueError("its points are no object records")
    return np.frombuffer(bytes(message.data), OBJECT_DTYPE, message.width * message.height)


def _features(message: Any, step: float) -> np.ndarray:
    """Return ``(C, H', W')`` float32 features.

    Raises:
        ValueError: it is no tensor.
    """
    match = _TENSOR.fullmatch(message.encoding)
    if match is None or (match.group(1) == "16S" and not step):
        raise ValueError(f"its encoding is {message.encoding!r}, or the length of its steps is not known")
    kind = "<i2" if match.group(1) == "16S" else "<f4"
    pixels = np.frombuffer(bytes(message.data), kind).reshape(message.height, message.width, int(match.group(2)))
    values = np.ascontiguousarray(np.moveaxis(pixels, 2, 0))
    return lattice.decode(values.astype(np.int16), step) if kind == "<i2" else values.astype(np.float32)
