"""Where pictures come from: one :class:`Source` for folders, datasets, videos, cameras, bags and synthetic flights.

:func:`open_source` looks at what it is given and checks cheaply that something can be read; anything wrong then is a
:class:`SourceError` of one line. A broken picture in the middle of a flight is yielded with :attr:`SourceFrame.error`
set, so that it can be dropped and counted.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

DEFAULT_RATE_HZ = 10.0
#: Stamp of the first frame of a source without a clock of its own; zero would mean "no stamp" to ROS.
START_NS = 1_000_000_000

VIDEO_SUFFIXES = frozenset({".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg", ".ts", ".wmv"})
BAG_SUFFIXES = frozenset({".mcap", ".db3"})


class SourceError(ValueError):
    """A source that cannot be opened; the message names it and the reason in one line."""


@dataclass(frozen=True)
class Truth:
    """What is known to be in a picture: ``objects`` of ``OBJECT_DTYPE``, ``(H, W)`` uint8 ``mask`` where there is one,
    and ``(K, 4)`` normalized ``x1 y1 x2 y2`` regions in which nobody annotated anything."""

    objects: np.ndarray
    mask: np.ndarray | None = None
    ignored: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))


@dataclass(frozen=True)
class SourceFrame:
    """One picture, ``(H, W, 3)`` uint8 RGB with its stamp; or no picture and the reason in ``error``."""

    index: int
    stamp_ns: int
    image: np.ndarray | None
    error: str | None = None
    truth: Truth | None = None


class Source(ABC):
    """A flight to be read once, frame by frame.

    Attributes:
        name: What a report calls it.
        kind: ``images``, ``visdrone-det``, ``visdrone-vid``, ``au-air``, ``video``, ``device``, ``bag``, ``synthetic``.
        rate_hz: Frames a second that the stamps follow.
        length: Number of frames, or None where only the end will tell.
        oddities: What the annotations contained that was set aside, counted by name while iterating.
        notes: What a user should know about the choice that was made, one line each.
    """

    kind: str = ""

    def __init__(self, name: str, rate_hz: float, length: int | None, max_frames: int | None = None) -> None:
        self.name = name
        self.rate_hz = checked_rate(rate_hz)
        self.max_frames = max_frames
        self.length = length if max_frames is None or length is None else min(length, max_frames)
        self.oddities: Counter[str] = Counter()
        self.notes: list[str] = []

    def __iter__(self) -> Iterator[SourceFrame]:
        return islice(self._frames(), self.max_frames)

    @abstractmethod
    def _frames(self) -> Iterator[SourceFrame]:
        """Yield all frames in order."""

    def stamp_ns(self, index: int) -> int:
        """Return the stamp of frame ``index`` at the source's rate."""
        return START_NS + round(index * 1e9 / self.rate_hz)

    def close(self) -> None:  # noqa: B027 - most sources hold nothing open between frames
        """Release what the source holds open."""

    def __enter__(self) -> Source:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


class SyntheticSource(Source):
    """A rendered flight, deterministic from its seed, with complete truth."""

    kind = "synthetic"

    def __init__(self, seed: int, rate_hz: float, max_frames: int | None) -> None:
        from uav_privacy_sc.data.synthetic import SyntheticFlight

        options: dict[str, Any] = {} if max_frames is None else {"frames": max_frames}
        self._flight = SyntheticFlight(seed=seed, rate_hz=rate_hz, **options)
        super().__init__(f"synthetic flight, seed {seed}", rate_hz, len(self._flight), max_frames)

    def _frames(self) -> Iterator[SourceFrame]:
        for index, frame in enumerate(self._flight):
            yield SourceFrame(index, self.stamp_ns(index), frame.image, truth=Truth(frame.objects, frame.mask))


def open_source(
    spec: str | Path, rate_hz: float | None = None, max_frames: int | None = None, topic: str | None = None
) -> Source:
    """Open what ``spec`` names and check that it can be read.

    ``spec`` is a folder of pictures, a VisDrone DET folder (``images`` and ``annotations``), a VisDrone VID or MOT
    folder (``sequences`` and ``annotations``) or one of its sequences, an AU-AIR folder, one picture, a video, a
    rosbag2 (its folder, or an .mcap or .db3 file), ``synthetic``, ``synthetic:SEED`` or ``device:NUMBER``.
    ``rate_hz`` overrides the source's own rate; ``topic`` chooses among several image topics of a bag.

    Raises:
        SourceError: if it does not exist, holds no picture, or an argument is out of range.
    """
    rate = None if rate_hz is None else checked_rate(rate_hz)
    if max_frames is not None and max_frames < 1:
        raise SourceError(f"frames is {max_frames}; it must be at least 1")
    text = str(spec)
    if not text.strip():
        raise SourceError("no such source: the path is empty")
    source = _open(text, rate, max_frames, topic)
    if topic is not None and source.kind != "bag":
        source.close()
        raise SourceError(f"topic is {topic!r}, but {text} is no bag; leave it out")
    return source


def _open(text: str, rate: float | None, max_frames: int | None, topic: str | None) -> Source:
    if text == "synthetic" or text.startswith("synthetic:"):
        seed = 7 if text == "synthetic" else _number(text, "synthetic")
        return SyntheticSource(seed, rate or DEFAULT_RATE_HZ, max_frames)
    if text.startswith("device:"):
        from uav_privacy_sc.data.video import open_device

        return open_device(_number(text, "device"), rate, max_frames)
    return _open_path(Path(text).expanduser(), rate, max_frames, topic)


def _open_path(path: Path, rate_hz: float | None, max_frames: int | None, topic: str | None) -> Source:
    if not path.exists():
        raise SourceError(f"no such source: {path}")
    if path.suffix.lower() == ".bag":
        raise SourceError(f"{path} is a ROS 1 bag; turn it into a rosbag2 with rosbags-convert first")
    if is_bag(path):
        from uav_privacy_sc.data.bags import open_bag

        return open_bag(path, rate_hz, max_frames, topic)
    if path.is_dir():
        from uav_privacy_sc.data.folders import open_folder

        return open_folder(path, rate_hz or DEFAULT_RATE_HZ, max_frames)
    return _open_file(path, rate_hz, max_frames)


def _open_file(path: Path, rate_hz: float | None, max_frames: int | None) -> Source:
    from uav_privacy_sc.data.folders import open_picture
    from uav_privacy_sc.data.images import IMAGE_SUFFIXES
    from uav_privacy_sc.data.video import open_video

    if path.suffix.lower() in IMAGE_SUFFIXES:
        return open_picture(path, rate_hz or DEFAULT_RATE_HZ, max_frames)
    if path.suffix.lower() in VIDEO_SUFFIXES:
        return open_video(path, rate_hz, max_frames)
    raise SourceError(f"{path} is no image, video or rosbag2 that can be read")


def is_bag(path: Path) -> bool:
    """Return whether a path looks like a rosbag2: a storage file, or a folder with metadata or with one inside."""
    if path.is_dir():
        return (path / "metadata.yaml").is_file() or any(child.suffix in BAG_SUFFIXES for child in path.iterdir())
    return path.suffix.lower() in BAG_SUFFIXES


def checked_rate(rate_hz: float) -> float:
    """Return a rate as a float, or refuse it by name.

    Raises:
        SourceError: if it is not a positive finite number.
    """
    if not (math.isfinite(rate_hz) and 0 < rate_hz <= 1000):
        raise SourceError(f"rate is {rate_hz} Hz; it must be above 0 and at most 1000")
    return float(rate_hz)


def _number(text: str, prefix: str) -> int:
    digits = text.removeprefix(f"{prefix}:")
    if not (digits.isascii() and digits.isdigit()):
        raise SourceError(f"source {text!r}: what follows '{prefix}:' must be a whole number of zero or more")
    return int(digits)
