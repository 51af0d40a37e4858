"""Write a rosbag2 without a ROS installation: messages of the common types, with the QoS that a player shall offer."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from rosbags.interfaces import Qos, QosDurability, QosHistory, QosLiveliness, QosReliability, QosTime
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from uav_privacy_sc.data.sources import BAG_SUFFIXES
from uav_privacy_sc.privacy import lattice
from uav_privacy_sc.scene import OBJECT_DTYPE

STORAGES = {"mcap": StoragePlugin.MCAP, "sqlite3": StoragePlugin.SQLITE3}
#: Metadata that Humble reads as well as Jazzy and Kilted do; 9 is for Jazzy and later.
BAG_VERSION = 8

IMAGE, COMPRESSED = "sensor_msgs/msg/Image", "sensor_msgs/msg/CompressedImage"
POINTS, FLOAT, FIX = "sensor_msgs/msg/PointCloud2", "std_msgs/msg/Float32", "sensor_msgs/msg/NavSatFix"

_TYPES = get_typestore(Stores.ROS2_JAZZY)
_INT32, _FLOAT32 = 5, 7
_UNLIMITED = QosTime(0, 0)


class BagExists(ValueError):
    """Something is where the bag shall be; one line."""


def offered(reliable: bool = True, latched: bool = False, depth: int = 10) -> Qos:
    """Return the QoS with which a player shall publish a topic; reliable satisfies every subscriber.

    ``latched`` keeps the last ``depth`` messages for late joiners (transient local).
    """
    return Qos(
        QosHistory.KEEP_LAST,
        depth,
        QosReliability.RELIABLE if reliable else QosReliability.BEST_EFFORT,
        QosDurability.TRANSIENT_LOCAL if latched else QosDurability.VOLATILE,
        _UNLIMITED,
        _UNLIMITED,
        QosLiveliness.AUTOMATIC,
        _UNLIMITED,
        False,
    )


class BagFile:
    """A rosbag2 that is being written: closed whole by :meth:`close`, or gone after :meth:`discard`.

    As a context it is closed at the end, and discarded when an error ends it.

    Args:
        path: folder of the bag; it must not exist.
        storage: ``mcap`` or ``sqlite3``.
        about: what the metadata shall say of the bag beyond its topics, as text.

    Raises:
        BagExists: the folder exists.
        ValueError: no such storage.
    """

    def __init__(self, path: Path, storage: str = "mcap", about: Mapping[str, str] | None = None) -> None:
        if storage not in STORAGES:
            raise ValueError(f"storage is {storage!r}; choose one of {', '.join(STORAGES)}")
        if path.exists():
            raise BagExists(f"{path} exists; give another folder, or --force to replace it")
        self.path = path
        self.counts: dict[str, int] = {}
        self._connections: dict[str, Any] = {}
        self._writer = Writer(path, version=BAG_VERSION, storage_plugin=STORAGES[storage])
        for key, value in (about or {}).items():
            self._writer.set_custom_data(key, value)
        self._writer.open()

    def add(self, topic: str, msgtype: str, qos: Qos, definition: tuple[str, str] | None = None) -> None:
        """Announce a topic; ``definition`` is the text and the hash of a type that is not a common one."""
        text = {"typestore": _TYPES} if definition is None else {"msgdef": definition[0], "rihs01": definition[1]}
        self._connections[topic] = self._writer.add_connection(topic, msgtype, offered_qos_profiles=[qos], **text)
        self.counts[topic] = 0

    def write(self, topic: str, time_ns: int, message: Any) -> None:
        """Append a message, recorded at ``time_ns``: an object of this module, or CDR bytes as they were recorded."""
        connection = self._connections[topic]
        data = message if isinstance(message, bytes) else _TYPES.serialize_cdr(message, connection.msgtype)
        self._writer.write(connection, time_ns, data)
        self.counts[topic] += 1

    def note(self, key: str, value: str) -> None:
        """Add to what the metadata says of the bag."""
        self._writer.set_custom_data(key, value)

    def close(self) -> None:
        """Write index and metadata."""
        self._writer.close()

    def discard(self) -> None:
        """Close and remove what has been written."""
        with suppress(Exception):  # whatever keeps it from being closed, it is removed
            self._writer.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def __enter__(self) -> BagFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()


def make_room(path: Path, force: bool) -> None:
    """See to it that a bag can be written to ``path``: nothing may be there, or a bag that ``force`` replaces.

    Raises:
        BagExists: there is something, and it is not to be replaced or is no bag.
    """
    if not path.exists():
        return
    ours = path.is_dir() and all(
        child.name == "metadata.yaml" or child.suffix in BAG_SUFFIXES for child in path.iterdir()
    )
    if not ours:
        raise BagExists(f"{path} exists and is no rosbag2; give another folder")
    if not force:
        raise BagExists(f"{path} exists; give another folder, or --force to replace it")
    shutil.rmtree(path)


def header(stamp_ns: int, frame_id: str) -> Any:
    """Return a std_msgs/Header."""
    seconds, nanoseconds = divmod(stamp_ns, 1_000_000_000)
    time = _TYPES.types["builtin_interfaces/msg/Time"](sec=seconds, nanosec=nanoseconds)
    return _TYPES.types["std_msgs/msg/Header"](stamp=time, frame_id=frame_id)


def image(pixels: np.ndarray, head: Any) -> Any:
    """Return the ``rgb8`` sensor_msgs/Image of an RGB picture ``(H, W, 3)`` uint8."""
    height, width = pixels.shape[:2]
    return _image(np.ascontiguousarray(pixels, np.uint8), (height, width), "rgb8", 3 * width, head)


def tensor(features: np.ndarray, step: float, head: Any) -> Any:
    """Return features ``(C, H', W')`` float32 as the graph's ``tx/features``: ``16SC<C>`` in steps, else ``32FC<C>``.

    Raises:
        ValueError: the features are not on the lattice of ``step``.
    """
    channels, rows, columns = features.shape
    values = lattice.encode(features, step).astype("<i2") if step else features.astype("<f4")
    encoding = f"{'16S' if step else '32F'}C{channels}"
    pixels = np.ascontiguousarray(np.moveaxis(values, 0, 2))
    return _image(pixels, (rows, columns), encoding, channels * columns * values.itemsize, head)


def _image(values: np.ndarray, shape: tuple[int, int], encoding: str, step: int, head: Any) -> Any:
    return _TYPES.types[IMAGE](
        header=head,
        height=shape[0],
        width=shape[1],
        encoding=encoding,
        is_bigendian=0,
        step=step,
        data=np.frombuffer(values.tobytes(), np.uint8),
    )


def compressed_image(data: bytes, form: str, head: Any) -> Any:
    """Return a sensor_msgs/CompressedImage of a file's bytes; ``form`` is ``jpeg`` or ``png``."""
    return _TYPES.types[COMPRESSED](header=head, format=form, data=np.frombuffer(data, np.uint8))


def points(objects: np.ndarray, head: Any) -> Any:
    """Return ``(M,)`` object records as a sensor_msgs/PointCloud2, one point each, as the graph has them."""
    kinds = {"f": _FLOAT32, "i": _INT32}
    fields: Any = OBJECT_DTYPE.fields
    described = [
        _TYPES.types["sensor_msgs/msg/PointField"](name=name, offset=offset, datatype=kinds[kind.kind], count=1)
        for name, (kind, offset, *_) in fields.items()
    ]
    size = OBJECT_DTYPE.itemsize
    return _TYPES.types[POINTS](
        header=head,
        height=1,
        width=len(objects),
        fields=described,
        is_bigendian=False,
        point_step=size,
        row_step=size * len(objects),
        data=np.frombuffer(objects.astype(OBJECT_DTYPE).tobytes(), np.uint8),
        is_dense=True,
    )


def number(value: float) -> Any:
    """Return a std_msgs/Float32."""
    return _TYPES.types[FLOAT](data=value)


def fix(latitude: float, longitude: float, altitude_m: float, head: Any) -> Any:
    """Return a sensor_msgs/NavSatFix in degrees and metres, of unknown accuracy."""
    status = _TYPES.types["sensor_msgs/msg/NavSatStatus"](status=0, service=1)
    return _TYPES.types[FIX](
        header=head,
        status=status,
        latitude=latitude,
        longitude=longitude,
        altitude=altitude_m,
        position_covariance=np.zeros(9),
        position_covariance_type=0,
    )
