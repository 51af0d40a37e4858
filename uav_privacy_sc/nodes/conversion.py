"""Between messages and NumPy: pictures, feature tensors, object records, release records, markers.

Whatever comes in is checked before it is looked at; what is not well formed is a :class:`MalformedMessage` of one line.
Pictures are decoded by the same code as those of a bag (``data.images``), so a replay gives the same pixels.
"""

from __future__ import annotations

import array
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from builtin_interfaces.msg import Duration, Time
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from sensor_msgs.msg import CompressedImage, Image, PointCloud2, PointField
from std_msgs.msg import Header
from visualization_msgs.msg import Marker, MarkerArray

from uav_privacy_sc import scene
from uav_privacy_sc.data.images import ImageError, decode_image, decode_raw
from uav_privacy_sc.palette import PALETTE
from uav_privacy_sc.privacy import lattice
from uav_privacy_sc.release import ReleaseRecord

RECORD_NAME = "release"
LINK_RECORD_NAME = "transmission"
#: Side of the picture in metres when markers lay it out on a plane for RViz.
MARKER_PLANE_M = 10.0

_POINT_TYPES = {
    PointField.INT8: "i1",
    PointField.UINT8: "u1",
    PointField.INT16: "i2",
    PointField.UINT16: "u2",
    PointField.INT32: "i4",
    PointField.UINT32: "u4",
    PointField.FLOAT32: "f4",
    PointField.FLOAT64: "f8",
}
_TENSOR = re.compile(r"(32F|16S)C([1-9][0-9]{0,3})")


class MalformedMessage(ValueError):
    """A message that does not hold what its type and topic promise; the message says what is wrong in one line."""


def stamp_ns(header: Header) -> int:
    """Return a header's stamp in nanoseconds."""
    return header.stamp.sec * 1_000_000_000 + header.stamp.nanosec


def make_header(stamp: int, frame_id: str) -> Header:
    """Return a header with a stamp given in nanoseconds."""
    seconds, nanoseconds = divmod(stamp, 1_000_000_000)
    return Header(stamp=Time(sec=seconds, nanosec=nanoseconds), frame_id=frame_id)


def fill(data: array.array, values: np.ndarray) -> None:
    """Add the bytes of an array to the ``data`` of a new message, in place: to set the field would copy them again."""
    data.frombytes(np.ascontiguousarray(values).reshape(-1).view(np.uint8).data)


def picture_from_message(message: Image | CompressedImage) -> np.ndarray:
    """Return the (H, W, 3) uint8 RGB picture of an Image, of any encoding and with padded rows, or CompressedImage.

    Raises:
        MalformedMessage: unknown encoding, a step too small for a row, or too little data.
    """
    try:
        if isinstance(message, CompressedImage):
            return decode_image(bytes(message.data))
        shape = (message.height, message.width)
        return decode_raw(message.data, shape, message.step, message.encoding, bool(message.is_bigendian))
    except ImageError as error:
        raise MalformedMessage(f"image refused: {error}") from None


def picture_to_message(picture: np.ndarray, header: Header) -> Image:
    """Return the Image of an RGB picture (H, W, 3) or of a mask (H, W), both uint8."""
    height, width = picture.shape[:2]
    encoding, channels = ("8UC1", 1) if picture.ndim == 2 else ("rgb8", 3)
    image = Image(header=header, height=height, width=width, encoding=encoding, step=width * channels)
    fill(image.data, np.ascontiguousarray(picture, np.uint8))
    return image


def mask_from_message(message: Image) -> np.ndarray:
    """Return the (H, W) uint8 mask of an ``8UC1`` or ``mono8`` Image.

    Raises:
        MalformedMessage: another encoding, or step and length do not hold the mask.
    """
    if message.encoding not in ("8UC1", "mono8"):
        raise MalformedMessage(f"mask refused: its encoding is {message.encoding!r}, not '8UC1'")
    return _rows(message, message.width).copy()


def tensor_to_message(features: np.ndarray, header: Header, lattice_step: float = 0.0) -> Image:
    """Return features (C, H', W') float32 as an Image whose rows are the rows of the grid.

    Its encoding is ``32FC<C>``, or ``16SC<C>`` in whole steps for features on a lattice of ``lattice_step``.

    Raises:
        ValueError: the features are not on that lattice.
    """
    channels, height, width = features.shape
    kind, size = ("16S", 2) if lattice_step else ("32F", 4)
    values = lattice.encode(features, lattice_step) if lattice_step else features
    pixels = np.ascontiguousarray(np.moveaxis(values, 0, 2), f"<{values.dtype.kind}{size}")
    encoding, step = f"{kind}C{channels}", size * channels * width
    image = Image(header=header, height=height, width=width, encoding=encoding, step=step)
    fill(image.data, pixels)
    return image


def tensor_from_message(message: Image, lattice_step: float = 0.0) -> np.ndarray:
    """Return the (C, H', W') float32 features of an Image of encoding ``32FC<C>``, or ``16SC<C>`` in whole steps.

    NaN passes: whoever uses the features checks them.

    Raises:
        MalformedMessage: another encoding, whole steps of a length that is not known, or step and length do not hold
            the tensor.
    """
    match = _TENSOR.fullmatch(message.encoding)
    if match is None:
        kinds = "'32FC<channels>' or '16SC<channels>'"
        raise MalformedMessage(f"features refused: their encoding is {message.encoding!r}, not {kinds}")
    whole, channels = match.group(1) == "16S", int(match.group(2))
    if whole and not lattice_step:
        raise MalformedMessage("features refused: they are in whole steps, and nobody has told how long one is")
    size = 2 if whole else 4
    rows = np.ascontiguousarray(_rows(message, size * channels * message.width))
    order, kind = ">" if message.is_bigendian else "<", "i2" if whole else "f4"
    pixels = rows.view(order + kind).reshape(message.height, message.width, channels)
    values = np.moveaxis(pixels, 2, 0)
    if whole:
        return lattice.decode(np.ascontiguousarray(values, np.int16), lattice_step)
    return np.ascontiguousarray(values, np.float32)


def lost_tensor_to_message(shape: tuple[int, ...], header: Header, lattice_step: float = 0.0) -> Image:
    """Return what stands for features (C, H', W') whose packet failed its check: their size and encoding, no data."""
    channels, height, width = shape
    encoding = f"{'16S' if lattice_step else '32F'}C{channels}"
    return Image(header=header, height=height, width=width, encoding=encoding, step=0)


def lost_tensor_shape(message: Image) -> tuple[int, int, int] | None:
    """Return the shape (C, H', W') of features whose packet was lost, None for a message that holds its features."""
    match = _TENSOR.fullmatch(message.encoding)
    if message.step or len(message.data) or match is None:
        return None
    return int(match.group(2)), message.height, message.width


def _rows(message: Image, row_bytes: int) -> np.ndarray:
    """Return (H, row_bytes) uint8, a view of the message's rows without their padding."""
    flat = np.frombuffer(message.data, np.uint8)
    height, step = message.height, message.step
    if height < 1 or row_bytes < 1 or step < row_bytes or len(flat) < height * step:
        size = f"{message.height} rows of {row_bytes} bytes"
        raise MalformedMessage(f"image refused: {len(flat)} bytes in steps of {step} do not hold {size}")
    return flat[: height * step].reshape(height, step)[:, :row_bytes]


def objects_to_message(objects: np.ndarray | None, header: Header) -> PointCloud2:
    """Return object records as a PointCloud2, one point each; None is a packet that failed its check.

    A receiver knows that a packet came and was broken, which is not an empty scene: such a message has no point and is
    not dense.
    """
    lost = objects is None
    records = scene.no_objects() if objects is None else objects
    types = {"<f4": PointField.FLOAT32, "<i4": PointField.INT32}
    dtype = scene.OBJECT_DTYPE
    points = [
        PointField(name=name, offset=dtype.fields[name][1], datatype=types[dtype[name].str], count=1)  # type: ignore[index]
        for name in dtype.names or ()
    ]
    size = len(records) * dtype.itemsize
    cloud = PointCloud2(header=header, height=1, width=len(records), fields=points, point_step=dtype.itemsize)
    cloud.row_step, cloud.is_dense = size, not lost
    fill(cloud.data, records)
    return cloud


def objects_from_message(message: PointCloud2) -> np.ndarray | None:
    """Return ``(M,)`` object records; None for a packet that failed its check (see :func:`objects_to_message`).

    Fields may come in any order and with others between them.

    Raises:
        MalformedMessage: a field is missing or has another type, or steps and length do not hold the points.
    """
    count = message.width * message.height
    if not count:
        return scene.no_objects() if message.is_dense else None
    points = np.frombuffer(message.data, _point_dtype(message), count)
    objects = np.empty(count, scene.OBJECT_DTYPE)
    for name in scene.OBJECT_DTYPE.names or ():
        objects[name] = points[name]
    return objects


def _point_dtype(message: PointCloud2) -> np.dtype:
    order = ">" if message.is_bigendian else "<"
    given = {item.name: item for item in message.fields}
    missing = [name for name in scene.OBJECT_DTYPE.names or () if name not in given]
    if missing:
        raise MalformedMessage(f"objects refused: no field {', '.join(missing)}")
    names = list(scene.OBJECT_DTYPE.names or ())
    kinds = [order + _POINT_TYPES.get(given[name].datatype, "V") for name in names]
    for name, kind in zip(names, kinds, strict=True):
        if kind[1:] != scene.OBJECT_DTYPE[name].str[1:] or given[name].count not in (0, 1):
            raise MalformedMessage(f"objects refused: field {name} is not one {scene.OBJECT_DTYPE[name].name}")
    offsets = [given[name].offset for name in names]
    row_bytes, point_step = message.width * message.point_step, message.point_step
    padded = message.height > 1 and message.row_step != row_bytes
    if max(offsets) + 4 > point_step or padded or len(message.data) < row_bytes * message.height:
        raise MalformedMessage(
            f"objects refused: {len(message.data)} bytes in steps of {point_step} do not hold "
            f"{message.width}x{message.height} points"
        )
    return np.dtype({"names": names, "formats": kinds, "offsets": offsets, "itemsize": point_step})


def record_to_message(record: ReleaseRecord, header: Header, hardware_id: str) -> DiagnosticArray:
    """Return the record of a release as a DiagnosticArray with one status."""
    level, text = DiagnosticStatus.OK, "released"
    if record.seeded:
        level, text = DiagnosticStatus.WARN, "experiment: seeded noise"
    values = [KeyValue(key=key, value=value) for key, value in record.as_text().items()]
    status = DiagnosticStatus(level=level, name=RECORD_NAME, message=text, hardware_id=hardware_id, values=values)
    return DiagnosticArray(header=header, status=[status])


def record_from_message(message: DiagnosticArray) -> ReleaseRecord:
    """Return the record in a DiagnosticArray.

    Raises:
        MalformedMessage: there is none in it, or a value is missing.
    """
    for status in message.status:
        if status.name == RECORD_NAME:
            try:
                return ReleaseRecord.from_text({item.key: item.value for item in status.values})
            except ValueError as error:
                raise MalformedMessage(f"record refused: {error}") from None
    raise MalformedMessage("record refused: no release in it")


def link_record_to_message(record: Mapping[str, float | int | str], header: Header) -> DiagnosticArray:
    """Return what one transmission put on the air as a DiagnosticArray with one status."""
    values = [KeyValue(key=key, value=str(value)) for key, value in record.items()]
    status = DiagnosticStatus(level=DiagnosticStatus.OK, name=LINK_RECORD_NAME, message="sent", values=values)
    return DiagnosticArray(header=header, status=[status])


def markers_to_message(objects: np.ndarray | None, header: Header, lifetime_s: float = 1.0) -> MarkerArray:
    """Return one flat box a released object on a plane that stands for the picture (x right, y down, metres)."""
    markers = [Marker(header=header, action=Marker.DELETEALL)]
    lifetime = Duration(sec=int(lifetime_s), nanosec=int(lifetime_s % 1 * 1e9))
    for index, item in enumerate(scene.no_objects() if objects is None else objects):
        markers.append(_marker(index, item, header, lifetime))
    return MarkerArray(markers=markers)


def _marker(index: int, item: Any, header: Header, lifetime: Duration) -> Marker:
    marker = Marker(header=header, ns="objects", id=index, type=Marker.CUBE, action=Marker.ADD, lifetime=lifetime)
    marker.pose.position.x = float(item["x"]) * MARKER_PLANE_M
    marker.pose.position.y = float(item["y"]) * MARKER_PLANE_M
    marker.pose.orientation.w = 1.0
    marker.scale.x = max(float(item["w"]), 1e-3) * MARKER_PLANE_M
    marker.scale.y = max(float(item["h"]), 1e-3) * MARKER_PLANE_M
    marker.scale.z = 0.01
    red, green, blue = (PALETTE[int(item["label"]) % len(PALETTE)] / 255.0).tolist()
    marker.color.r, marker.color.g, marker.color.b, marker.color.a = red, green, blue, 0.8
    return marker
