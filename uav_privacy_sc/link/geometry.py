"""Where aircraft, ground station and eavesdropper are: positions east, north, up in metres, and flown trajectories."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS_M = 6_378_137.0
ECCENTRICITY_SQUARED = 6.69437999014e-3
LOCAL_COLUMNS = ("time_s", "x_m", "y_m", "z_m")
GEODETIC_COLUMNS = ("time_s", "latitude", "longitude", "altitude")


@dataclass(frozen=True)
class View:
    """How a receiver sees the aircraft."""

    distance_m: float
    elevation_deg: float


def view(aircraft: ArrayLike, receiver: ArrayLike) -> View:
    """Return slant range and elevation of an aircraft from a receiver, both ``(3,)`` east, north, up in metres.

    Raises:
        ValueError: a position is not three finite numbers.
    """
    offset = _position("aircraft", aircraft) - _position("receiver", receiver)
    distance = float(np.linalg.norm(offset))
    return View(distance, math.degrees(math.atan2(offset[2], math.hypot(offset[0], offset[1]))))


def east_north_up(
    latitude: float, longitude: float, altitude: float, origin: tuple[float, float, float]
) -> NDArray[np.float64]:
    """Return ``(3,)`` metres east, north and up of ``origin`` (latitude, longitude in degrees, altitude in metres).

    Local tangent plane with WGS 84's radii of curvature: good to a few centimetres over ten kilometres. Takes the
    numbers of a ``NavSatFix``.

    Raises:
        ValueError: a coordinate is not finite, or a latitude lies beyond the poles.
    """
    for name, value in (("latitude", latitude), ("longitude", longitude), ("altitude", altitude)):
        if not math.isfinite(value) or (name == "latitude" and abs(value) > 90.0):
            raise ValueError(f"{name} is {value!r}; give degrees (altitude: metres) of a fix")
    sine = math.sin(math.radians(origin[0]))
    curvature = 1.0 - ECCENTRICITY_SQUARED * sine**2
    meridian = EARTH_RADIUS_M * (1.0 - ECCENTRICITY_SQUARED) / curvature**1.5
    parallel = EARTH_RADIUS_M / math.sqrt(curvature) * math.cos(math.radians(origin[0]))
    east = math.remainder(longitude - origin[1], 360.0)
    return np.array(
        [math.radians(east) * parallel, math.radians(latitude - origin[0]) * meridian, altitude - origin[2]]
    )


class Route(Protocol):
    """Where the aircraft is over time, from a file or as it is told."""

    @property
    def known(self) -> bool:
        """Whether there is a position at all."""

    def position(self, time_s: float) -> NDArray[np.float64]:
        """Return the ``(3,)`` position at a time."""

    def way(self, time_s: float) -> float:
        """Return the metres flown until a time."""

    def blockage(self, time_s: float) -> float:
        """Return the scripted blockage in dB at a time."""


class LiveRoute:
    """The aircraft where it was last said to be; nothing is known before the first position."""

    def __init__(self) -> None:
        self._position: NDArray[np.float64] | None = None
        self._way = 0.0

    @property
    def known(self) -> bool:
        """Whether a position has been told."""
        return self._position is not None

    def move(self, position_m: ArrayLike) -> None:
        """Take in a new ``(3,)`` position.

        Raises:
            ValueError: it is not three finite numbers; the one before stays.
        """
        position = _position("position", position_m)
        if self._position is not None:
            self._way += float(np.linalg.norm(position - self._position))
        self._position = position

    def position(self, time_s: float) -> NDArray[np.float64]:
        """Return the ``(3,)`` position, whatever the time.

        Raises:
            ValueError: none is known yet.
        """
        if self._position is None:
            raise ValueError("no position is known yet; move the aircraft first")
        return self._position

    def way(self, time_s: float) -> float:
        """Return the metres flown so far."""
        return self._way

    def blockage(self, time_s: float) -> float:
        """Return 0: nobody scripts a live flight."""
        return 0.0


@dataclass(frozen=True)
class Trajectory:
    """Positions over time, and how much the sight to the ground is blocked: ``(N,)`` s, ``(N, 3)`` m, ``(N,)`` dB.

    Between points it is linear, before the first and after the last it stands still.

    Raises:
        ValueError: shapes differ, a value is not finite, time does not grow, or two points lie more than
            ``longest_gap_s`` apart.
    """

    time_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    blockage_db: NDArray[np.float64]
    longest_gap_s: float = 10.0
    known = True

    def __post_init__(self) -> None:
        count = len(self.time_s)
        if count == 0 or self.position_m.shape != (count, 3) or self.blockage_db.shape != (count,):
            raise ValueError(f"trajectory has {count} times for positions of shape {self.position_m.shape}")
        for name in ("time_s", "position_m", "blockage_db"):
            bad = np.flatnonzero(~np.isfinite(getattr(self, name)).reshape(count, -1).all(axis=1))
            if len(bad):
                raise ValueError(f"trajectory has a {name} that is not finite in row {bad[0] + 1}")
        if (self.blockage_db < 0.0).any():
            raise ValueError(f"trajectory has a negative blockage_db in row {np.argmin(self.blockage_db) + 1}")
        self._check_time()

    def _check_time(self) -> None:
        steps = np.diff(self.time_s)
        if (steps <= 0.0).any():
            row = int(np.argmax(steps <= 0.0)) + 2
            raise ValueError(
                f"trajectory time_s does not grow in row {row} "
                f"({self.time_s[row - 2]:g} s, then {self.time_s[row - 1]:g} s); sort it or remove the row"
            )
        if (steps > self.longest_gap_s).any():
            row = int(np.argmax(steps > self.longest_gap_s)) + 1
            raise ValueError(
                f"trajectory has a gap of {steps[row - 1]:g} s after row {row}, longer than "
                f"{self.longest_gap_s:g} s; fill it or raise longest_gap_s"
            )

    def position(self, time_s: float) -> NDArray[np.float64]:
        """Return the ``(3,)`` position at a time."""
        return np.array([np.interp(time_s, self.time_s, axis) for axis in self.position_m.T])

    def blockage(self, time_s: float) -> float:
        """Return the scripted blockage in dB at a time."""
        return float(np.interp(time_s, self.time_s, self.blockage_db))

    def way(self, time_s: float) -> float:
        """Return the metres flown until a time."""
        legs = np.linalg.norm(np.diff(self.position_m, axis=0), axis=1)
        return float(np.interp(time_s, self.time_s, np.concatenate([[0.0], np.cumsum(legs)])))


def load_trajectory(
    path: str | Path, origin: tuple[float, float, float] | None = None, longest_gap_s: float = 10.0
) -> Trajectory:
    """Read a CSV file with a header: ``time_s, x_m, y_m, z_m`` or ``time_s, latitude, longitude, altitude``.

    A column ``blockage_db`` is optional. Geodetic rows become metres from ``origin``, the first row by default.

    Raises:
        ValueError: the file cannot be read, a column is missing, a cell is no number, or :class:`Trajectory` objects.
    """
    rows = _read_rows(Path(path))
    columns = next((names for names in (LOCAL_COLUMNS, GEODETIC_COLUMNS) if set(names) <= set(rows[0])), None)
    if columns is None:
        raise ValueError(f"{path}: no columns {', '.join(LOCAL_COLUMNS)} or {', '.join(GEODETIC_COLUMNS)}")
    try:
        table = np.array([[_number(path, index, row, name) for name in columns] for index, row in enumerate(rows, 2)])
        blocked = [
            _number(path, i, row, "blockage_db") if "blockage_db" in row else 0.0 for i, row in enumerate(rows, 2)
        ]
        positions = table[:, 1:]
        if columns is GEODETIC_COLUMNS:
            start = origin or (positions[0, 0], positions[0, 1], positions[0, 2])
            positions = np.array([east_north_up(fix[0], fix[1], fix[2], start) for fix in positions])
        return Trajectory(table[:, 0], positions, np.array(blocked), longest_gap_s)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from None


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = [row for row in csv.DictReader(stream, skipinitialspace=True) if any(row.values())]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read as a trajectory ({error})") from None
    if not rows:
        raise ValueError(f"{path}: no rows; give a header and at least one point")
    return rows


def _number(path: str | Path, line: int, row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise ValueError(f"{path}: {column} in line {line} is {row[column]!r}; give a number") from None


def _position(name: str, value: ArrayLike) -> NDArray[np.float64]:
    position = np.asarray(value, np.float64)
    if position.shape != (3,) or not np.isfinite(position).all():
        raise ValueError(f"{name} is {value!r}; give three finite numbers, metres east, north and up")
    return position
