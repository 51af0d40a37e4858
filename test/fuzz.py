"""Malformed messages, from a seed: whole ones in which something has been changed that a sender could get wrong."""

from __future__ import annotations

import array
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np
from conftest import CHANNELS, GRID, some_objects
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CompressedImage, Image, PointCloud2
from std_msgs.msg import Float32

from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, picture_to_message, tensor_to_message

HUGE = 2**32 - 1
ENCODINGS = ("rgb8", "mono16", "bayer_rggb16", "yuv422", "32FC16", "16SC16", "32FC9999", "8UC1", "", "\N{SNOWMAN}" * 9)
FLOATS = (float("nan"), float("inf"), float("-inf"), -1.0, 0.0, 1e30)


class Fuzz:
    """Makes malformed messages of a type. The stamp of each differs, unless the stamp is what has been changed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._made = 0
        self._makers: dict[type[Any], Callable[[], Any]] = {
            Image: self.image,
            CompressedImage: self.compressed,
            PointCloud2: self.cloud,
            Float32: lambda: Float32(data=self._one_of(FLOATS)),
            DiagnosticArray: self.diagnostics,
        }

    def message(self, kind: type[Any]) -> Any:
        """Return the next malformed message of a type."""
        return self._makers[kind]()

    def image(self) -> Image:
        """Return a picture or tensor with one to three of its fields changed."""
        if self.rng.random() < 0.5:
            message = picture_to_message(np.zeros((6, 8, 3), np.uint8), self._header())
        else:
            values = self.rng.choice(FLOATS, (CHANNELS, *GRID)).astype(np.float32)
            message = tensor_to_message(values, self._header())
        return self._change(message, self._length, ("height", "width", "step"), self._encoding, self._endian)

    def compressed(self) -> CompressedImage:
        """Return a JPEG or PNG that is cut off, overwritten, empty, or no image at all."""
        kind = self._one_of((".jpg", ".png"))
        data = bytearray(cv2.imencode(kind, np.zeros((8, 8, 3), np.uint8))[1].tobytes())
        for _ in range(int(self.rng.integers(1, 6))):
            data[int(self.rng.integers(len(data)))] = int(self.rng.integers(256))
        data = data[: int(self.rng.integers(len(data)))] if self.rng.random() < 0.7 else data
        return CompressedImage(
            header=self._header(), format=self._one_of(ENCODINGS), data=array.array("B", bytes(data))
        )

    def cloud(self) -> PointCloud2:
        """Return object records with one to three of their fields changed."""
        message = objects_to_message(some_objects(int(self.rng.integers(0, 5)), self._made), self._header())
        return self._change(
            message, self._length, ("height", "width", "point_step", "row_step"), self._fields, self._endian
        )

    def diagnostics(self) -> DiagnosticArray:
        """Return values that nobody asked for under names that somebody might."""
        names = ("detector_sha256", "codec_sha256", "", "release")
        values = [KeyValue(key=self._one_of(names), value=self._one_of(ENCODINGS)) for _ in range(3)]
        return DiagnosticArray(status=[DiagnosticStatus(values=values)])

    def _change(self, message: Any, *changes: Any) -> Any:
        for place in self.rng.integers(0, len(changes), int(self.rng.integers(1, 4))):
            change = changes[place]
            if isinstance(change, tuple):
                setattr(message, self._one_of(change), self._one_of((0, 1, 3, 7, 4096, HUGE)))
            else:
                change(message)
        return message

    def _length(self, message: Any) -> None:
        kept = int(self.rng.integers(0, max(len(message.data), 1)))
        message.data = array.array("B", self.rng.bytes(kept))

    def _encoding(self, message: Image) -> None:
        message.encoding = self._one_of(ENCODINGS)

    def _endian(self, message: Any) -> None:
        flag = self._one_of((0, 1))
        message.is_bigendian = bool(flag) if isinstance(message, PointCloud2) else flag

    def _fields(self, message: PointCloud2) -> None:
        field = message.fields[int(self.rng.integers(len(message.fields)))]
        field.offset, field.datatype = self._one_of((0, 2, 4, 400, HUGE)), self._one_of((0, 1, 7, 8, 99, 255))
        field.count = self._one_of((0, 1, 2, HUGE))

    def _header(self) -> Any:
        self._made += 1
        stamp = self._one_of((self._made, self._made, self._made, 0, -(2**31) * 10**9, (2**31 - 1) * 10**9))
        return make_header(stamp, self._one_of(("camera", "", "\N{SNOWMAN}" * 300)))

    def _one_of(self, values: tuple[Any, ...]) -> Any:
        return values[int(self.rng.integers(len(values)))]
