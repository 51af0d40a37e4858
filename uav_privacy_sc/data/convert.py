"""Any source of pictures to a rosbag2: VisDrone DET as a slide show, VID and MOT as flights, AU-AIR with positions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from uav_privacy_sc.data import bag_file
from uav_privacy_sc.data.auair_bag import AUAIR_RATE_HZ, AuairPose, read_poses
from uav_privacy_sc.data.bag_file import BagFile, offered
from uav_privacy_sc.data.folders import FolderSource
from uav_privacy_sc.data.sources import START_NS, Source, SourceFrame, open_source

#: VisDrone's files do not say at what rate its videos were taken; 30 is what trackers trained on them assume.
VISDRONE_RATE_HZ = 30.0
#: A picture of a slide show stays a second.
SLIDES_RATE_HZ = 1.0
_RATES = {"visdrone-vid": VISDRONE_RATE_HZ, "visdrone-det": SLIDES_RATE_HZ, "au-air": AUAIR_RATE_HZ}
_MAGIC = {"jpeg": b"\xff\xd8\xff", "png": b"\x89PNG\r\n\x1a\n"}
_JPEG_SUFFIXES = (".jpg", ".jpeg")
JPEG_QUALITY = 95


@dataclass(frozen=True)
class ConvertConfig:
    """How a source becomes a bag.

    Attributes:
        storage: ``mcap`` or ``sqlite3``.
        rate_hz: frames a second; None for what the source itself says, or its dataset's convention.
        compressed: CompressedImage, with JPEG and PNG files byte for byte and anything else as JPEG; False for raw
            Image; None for compressed where every picture is a JPEG file.
        max_frames: at most so many; None for all.
        topic: of the raw pictures; ``/compressed`` is added for compressed ones.
        frame_id: of every header.
        truth: put annotated objects on ``truth/objects``.
    """

    storage: str = "mcap"
    rate_hz: float | None = None
    compressed: bool | None = None
    max_frames: int | None = None
    topic: str = "/camera/image_raw"
    frame_id: str = "camera"
    truth: bool = False

    def __post_init__(self) -> None:
        words = self.topic.strip("/").split("/")
        if not all(word.isascii() and word.isidentifier() for word in words):
            raise ValueError(f"topic is {self.topic!r}; give a ROS name such as /camera/image_raw")

    @property
    def base(self) -> str:
        """The topic with one slash before it and none behind."""
        return "/" + self.topic.strip("/")


@dataclass
class Conversion:
    """What a conversion came to: messages by topic, what could not be read, what a user should know."""

    kind: str
    rate_hz: float
    own_clock: bool = False
    counts: dict[str, int] = field(default_factory=dict)
    frames: int = 0
    passed_through: int = 0
    broken: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    first_ns: int = 0
    last_ns: int = 0
    interrupted: bool = False

    @property
    def duration_s(self) -> float:
        """From the first to the last stamp."""
        return (self.last_ns - self.first_ns) / 1e9


def open_for_bag(spec: str, config: ConvertConfig, topic: str | None = None) -> Source:
    """Open a source at the rate of the bag; ``topic`` chooses among the image topics of one that is a bag itself.

    Raises:
        SourceError: see :func:`uav_privacy_sc.data.sources.open_source`.
    """
    source = open_source(spec, config.rate_hz, config.max_frames, topic)
    if config.rate_hz is None:
        source.rate_hz = _RATES.get(source.kind, source.rate_hz)
    return source


def convert(
    source: Source,
    out: Path,
    config: ConvertConfig,
    on_frame: Callable[[int], None] = lambda done: None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Conversion:
    """Write a source to a rosbag2 at ``out``; a broken picture is left out and counted.

    ``should_stop`` is asked after every picture and closes the bag there; an error removes it.

    Raises:
        BagExists: ``out`` exists.
        SourceError: annotations that cannot be read.
        OSError: it cannot be written.
        ValueError: not one picture could be read.
    """
    writing = _Writing(source, config)
    with BagFile(out, config.storage, {"source": f"{source.kind}: {source.name}"}) as bag:
        writing.announce(bag)
        for frame in source:
            writing.write(bag, frame)
            on_frame(frame.index + 1)
            if should_stop():
                writing.result.interrupted = True
                break
        writing.result.counts = dict(bag.counts)
        if not writing.result.frames:
            raise ValueError(f"no picture of {source.name} could be read: {'; '.join(writing.result.broken[:1])}")
    return writing.result


class _Writing:
    """One conversion: which topics, which clock, and what becomes of a frame."""

    def __init__(self, source: Source, config: ConvertConfig) -> None:
        self.source, self.config = source, config
        # The files themselves, so that what is compressed already stays as it is.
        self._files: list[Path] = source._pictures if isinstance(source, FolderSource) else []
        jpeg = bool(self._files) and all(path.suffix.lower() in _JPEG_SUFFIXES for path in self._files)
        self.compressed = jpeg if config.compressed is None else config.compressed
        self.result = Conversion(source.kind, source.rate_hz, notes=list(source.notes))
        self._poses = self._read_poses()
        self._stamps = self._own_stamps()
        self._images = f"{config.base}/compressed" if self.compressed else config.base
        parent = config.base.rsplit("/", 2)[0]
        self._fixes, self._truth = f"{parent}/gps/fix", f"{parent}/truth/objects"

    def announce(self, bag: BagFile) -> None:
        """Add the topics."""
        bag.add(self._images, bag_file.COMPRESSED if self.compressed else bag_file.IMAGE, offered())
        if self._poses:
            bag.add(self._fixes, bag_file.FIX, offered())
        if self.config.truth:
            bag.add(self._truth, bag_file.POINTS, offered())

    def write(self, bag: BagFile, frame: SourceFrame) -> None:
        """Write one frame with its position and, if wanted, its truth."""
        if frame.image is None:
            self.result.broken.append(frame.error or "no picture")
            return
        stamp_ns = frame.stamp_ns if self._stamps is None else self._stamps[frame.index]
        head = bag_file.header(stamp_ns, self.config.frame_id)
        bag.write(self._images, stamp_ns, self._picture(frame, frame.image, head))
        pose = self._poses.get(self._files[frame.index].name) if self._poses else None
        if pose is not None:
            place = bag_file.header(stamp_ns, "gps")
            bag.write(self._fixes, stamp_ns, bag_file.fix(pose.latitude, pose.longitude, pose.altitude_m, place))
        if self.config.truth and frame.truth is not None:
            bag.write(self._truth, stamp_ns, bag_file.points(frame.truth.objects, head))
        self.result.first_ns = stamp_ns if not self.result.frames else min(self.result.first_ns, stamp_ns)
        self.result.last_ns = max(self.result.last_ns, stamp_ns)
        self.result.frames += 1

    def _picture(self, frame: SourceFrame, pixels: np.ndarray, head: Any) -> Any:
        if not self.compressed:
            return bag_file.image(pixels, head)
        stored = self._files[frame.index].read_bytes() if self._files else b""
        for form, magic in _MAGIC.items():
            if stored.startswith(magic):
                self.result.passed_through += 1
                return bag_file.compressed_image(stored, form, head)
        quality = [cv2.IMWRITE_JPEG_QUALITY, JPEG_QUALITY]
        encoded = cv2.imencode(".jpg", cv2.cvtColor(pixels, cv2.COLOR_RGB2BGR), quality)[1]
        return bag_file.compressed_image(encoded.tobytes(), "jpeg", head)

    def _read_poses(self) -> dict[str, AuairPose]:
        if self.source.kind != "au-air":
            return {}
        poses, unread = read_poses(self._files[0].parent.parent / "annotations.json")
        if unread:
            self.result.notes.append(f"{unread} entries of annotations.json have no time or place that can be read")
        return poses

    def _own_stamps(self) -> list[int] | None:
        """Return the stamps that the files themselves give: AU-AIR's clock, or the frame numbers of a video."""
        stamps: list[int] | None = None
        if self._poses and self.config.rate_hz is None:
            stamps = self._clock_stamps()
        elif self.source.kind == "visdrone-vid" and all(path.stem.isdigit() for path in self._files):
            first = int(self._files[0].stem)
            stamps = [START_NS + round((int(path.stem) - first) * 1e9 / self.source.rate_hz) for path in self._files]
        if stamps is None or any(after <= before for before, after in zip(stamps, stamps[1:], strict=False)):
            return None
        self.result.own_clock = self.source.kind == "au-air"
        return stamps

    def _clock_stamps(self) -> list[int] | None:
        if any(path.name not in self._poses for path in self._files):
            self.result.notes.append(f"not every picture has a time, so they follow at {self.source.rate_hz:g} Hz")
            return None
        stamps = [self._poses[path.name].stamp_ns for path in self._files]
        longest = max((after - before for before, after in zip(stamps, stamps[1:], strict=False)), default=0) / 1e9
        if longest > 10.0:
            self.result.notes.append(
                f"the pictures are up to {longest:.0f} s apart by their own clock; --rate lays them out evenly"
            )
        return stamps
