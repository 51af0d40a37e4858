"""When and where AU-AIR's pictures were taken, for a bag."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from uav_privacy_sc.data.sources import SourceError

#: Frames a second that AU-AIR took from its videos; frame number n has ``ms`` = (n - 1) * 200.
AUAIR_RATE_HZ = 5.0
_CLOCK = ("year", "month", "day", "hour", "min", "sec")


@dataclass(frozen=True)
class AuairPose:
    """Time in nanoseconds since 1970, degrees and metres; ``altitude_m`` is above the ground where it took off."""

    stamp_ns: int
    latitude: float
    longitude: float
    altitude_m: float


def read_poses(annotations: Path) -> tuple[dict[str, AuairPose], int]:
    """Return the pose of each picture by its file name, and how many entries had none that can be read.

    AU-AIR writes ``longtitude``, gives altitudes in millimetres, and in ``ms`` the time since the start of the video
    that the other fields of ``time`` date. Nothing says in which time zone that is; it is taken for UTC.

    Raises:
        SourceError: the file cannot be read or is not AU-AIR's.
    """
    try:
        entries = json.loads(annotations.read_text(encoding="utf-8"))["annotations"]
        named = {str(entry["image_name"]): entry for entry in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            f"cannot read the AU-AIR annotations {annotations}: {type(error).__name__}: {error}"
        ) from None
    poses = {name: pose for name, entry in named.items() if (pose := _pose(entry)) is not None}
    return poses, len(named) - len(poses)


def _pose(entry: dict) -> AuairPose | None:
    try:
        clock = entry["time"]
        year, month, day, hour, minute, second = (int(clock[part]) for part in _CLOCK)
        begin = datetime(year, month, day, hour, minute, second) - datetime(1970, 1, 1)
        moment = begin + timedelta(milliseconds=float(clock["ms"]))
        longitude = float(entry["longtitude"] if "longtitude" in entry else entry["longitude"])
        latitude, altitude_m = float(entry["latitude"]), float(entry["altitude"]) / 1e3
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    sound = abs(latitude) <= 90 and abs(longitude) <= 180 and math.isfinite(altitude_m)
    return AuairPose(moment // timedelta(microseconds=1) * 1000, latitude, longitude, altitude_m) if sound else None
