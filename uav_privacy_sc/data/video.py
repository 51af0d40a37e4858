"""Video files and cameras through OpenCV."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from pathlib import Path

# FFmpeg writes to the terminal by itself; what it has to say is said by SourceError, once.
os.environ.setdefault("OPENCV_FFMPEG_LOGLEVEL", "-8")
os.environ.setdefault("OPENCV_LOG_LEVEL", "ERROR")

import cv2  # reads the two variables when it is imported

from uav_privacy_sc.data.sources import DEFAULT_RATE_HZ, Source, SourceError, SourceFrame

#: A container's frame count is an estimate: this many missing at the end are not called broken.
_TAIL_TOLERANCE = 2


class VideoSource(Source):
    """Frames of an open capture; a frame that does not decode between two that do is yielded as broken."""

    def __init__(self, capture: cv2.VideoCapture, name: str, kind: str, rate_hz: float, max_frames: int | None) -> None:
        count = capture.get(cv2.CAP_PROP_FRAME_COUNT)
        super().__init__(name, rate_hz, int(count) if math.isfinite(count) and count > 0 else None, max_frames)
        self.kind = kind
        self._capture = capture
        self._count = int(count) if self.length is not None else None

    def _frames(self) -> Iterator[SourceFrame]:
        index = pending = 0
        while self._count is None or index + pending < self._count:
            read, pixels = self._capture.read()
            if not read:
                if self._count is None:
                    return
                pending += 1
                continue
            yield from self._broken(index, pending)
            index += pending
            pending = 0
            image = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
            yield SourceFrame(index, self.stamp_ns(index), image)
            index += 1
        if pending > _TAIL_TOLERANCE:
            error = f"{self.name} ends {pending} frames early"
            yield SourceFrame(index, self.stamp_ns(index), None, error)

    def _broken(self, first: int, number: int) -> Iterator[SourceFrame]:
        for index in range(first, first + number):
            yield SourceFrame(index, self.stamp_ns(index), None, f"{self.name}: frame {index} does not decode")

    def close(self) -> None:
        """Release the file or the camera."""
        self._capture.release()


def open_video(path: Path, rate_hz: float | None, max_frames: int | None) -> Source:
    """Open a video file.

    Raises:
        SourceError: if OpenCV cannot open it or its first frame does not decode.
    """
    capture = cv2.VideoCapture(str(path))
    if not capture.isOpened() or not capture.read()[0]:
        capture.release()
        raise SourceError(f"{path} is no video that can be read")
    capture.release()
    return VideoSource(capture := cv2.VideoCapture(str(path)), path.name, "video", _rate(capture, rate_hz), max_frames)


def open_device(number: int, rate_hz: float | None, max_frames: int | None) -> Source:
    """Open a camera of this computer.

    Raises:
        SourceError: if there is none of that number.
    """
    level = cv2.utils.logging.getLogLevel()
    cv2.utils.logging.setLogLevel(cv2.utils.logging.LOG_LEVEL_SILENT)  # every backend complains of its own accord
    try:
        capture = cv2.VideoCapture(number)
    finally:
        cv2.utils.logging.setLogLevel(level)
    if not capture.isOpened():
        raise SourceError(f"no camera device:{number} can be opened")
    return VideoSource(capture, f"device:{number}", "device", _rate(capture, rate_hz), max_frames)


def _rate(capture: cv2.VideoCapture, wanted: float | None) -> float:
    own = capture.get(cv2.CAP_PROP_FPS)
    return wanted or (own if math.isfinite(own) and 0 < own <= 1000 else DEFAULT_RATE_HZ)
