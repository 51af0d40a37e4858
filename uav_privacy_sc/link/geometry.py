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
    """The aircraft where it was last said to be; nothing is known before the first position.

    The way flown grows once a position lies at least ``least_leg_m`` from where it grew last. Summing the steps from
    position to position would count the noise of a hovering receiver, ten times a second, as flight: at half a metre
    of noise more than a metre a fix. In flight the way lags by less than a leg, which matters to nothing that
    follows it: shadowing decorrelates over tens of metres, and fading over centimetres, which no fix resolves.

    Raises:
        ValueError: ``least_leg_m`` is not finite or below 0.
    """

    def __init__(self, least_leg_m: float = 0.0) -> None:
        if not (math.isfinite(least_leg_m) and least_leg_m >= 0.0):
            raise ValueError(f"least_leg_m is {least_leg_m!r}; give a finite number of metres of at least 0")
        self._least_leg_m = least_leg_m
        self._position: NDArray[np.float64] | None = None
        self._leg_start: NDArray[np.float64] | None = None
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
        start = position if self._leg_start is None else self._leg_start
        leg = float(np.linalg.norm(position - start))
        if self._leg_start is None or leg >= self._least_leg_m:
            self._way += leg
            self._leg_start = position
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

    Between points it is linear, before the first and after the last it stands still. ``lines`` are those of the file
    that the points come from, by which errors call them; without, they count points as rows from 1.

    Raises:
        ValueError: shapes differ, a value is not finite, time does not grow, or two points lie more than
            ``longest_gap_s`` apart.
    """

    time_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    blockage_db: NDArray[np.float64]
    longest_gap_s: float = 10.0
    lines: tuple[int, ...] | None = None
    known = True

    def __post_init__(self) -> None:
        count = len(self.time_s)
        if count == 0 or self.position_m.shape != (count, 3) or self.blockage_db.shape != (count,):
            raise ValueError(f"trajectory has {count} times for positions of shape {self.position_m.shape}")
        for name in ("time_s", "position_m", "blockage_db"):
            bad = np.flatnonzero(~np.isfinite(getattr(self, name)).reshape(count, -1).all(axis=1))
            if len(bad):
                raise ValueError(f"trajectory has a {name} that is not finite in {self._where(bad[0])}")
        negative = np.flatnonzero(self.blockage_db < 0.0)
        if len(negative):
            raise ValueError(f"trajectory has a negative blockage_db in {self._where(negative[0])}; give at least 0")
        self._check_time()

    def _where(self, index: int) -> str:
        return f"row {index + 1}" if self.lines is None else f"line {self.lines[index]}"

    def _check_time(self) -> None:
        steps = np.diff(self.time_s)
        if (steps <= 0.0).any():
            index = int(np.argmax(steps <= 0.0)) + 1
            where = self._where(index)
            raise ValueError(
                f"trajectory time_s does not grow in {where} ({self.time_s[index - 1]:g} s, then "
                f"{self.time_s[index]:g} s); sort it or remove the {where.split()[0]}"
            )
        if (steps > self.longest_gap_s).any():
            index = int(np.argmax(steps > self.longest_gap_s))
            raise ValueError(
                f"trajectory has a gap of {steps[index]:g} s after {self._where(index)}, longer than "
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

    A column ``blockage_db`` is optional. Geodetic rows become metres from ``origin``, the first row by default. Errors
    name the line of the file.

    Raises:
        ValueError: the file cannot be read, a column is missing, a cell is no number, or :class:`Trajectory` objects.
    """
    rows = _read_rows(Path(path))
    given = set(next(iter(rows.values())))
    columns = next((names for names in (LOCAL_COLUMNS, GEODETIC_COLUMNS) if set(names) <= given), None)
    if columns is None:
        raise ValueError(f"{path}: no columns {', '.join(LOCAL_COLUMNS)} or {', '.join(GEODETIC_COLUMNS)}")
    try:
        table = np.array([[_number(line, row, name) for name in columns] for line, row in rows.items()])
        blocked = [_number(line, row, "blockage_db") if "blockage_db" in row else 0.0 for line, row in rows.items()]
        positions = table[:, 1:]
        if columns is GEODETIC_COLUMNS:
            positions = _local(positions, tuple(rows), origin)
        return Trajectory(table[:, 0], positions, np.array(blocked), longest_gap_s, tuple(rows))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _local(
    fixes: NDArray[np.float64], lines: tuple[int, ...], origin: tuple[float, float, float] | None
) -> NDArray[np.float64]:
    start = origin or (fixes[0, 0], fixes[0, 1], fixes[0, 2])
    positions = []
    for line, (latitude, longitude, altitude) in zip(lines, fixes.tolist(), strict=True):
        try:
            positions.append(east_north_up(latitude, longitude, altitude, start))
        except ValueError as error:
            raise ValueError(f"line {line}: {error}") from None
    return np.array(positions)


def _read_rows(path: Path) -> dict[int, dict[str, str]]:
    """Return the rows that hold anything by the line of the file that they are in."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            reader = csv.DictReader(stream, skipinitialspace=True)
            numbered = ((reader.line_num, row) for row in reader)
            rows = {line: row for line, row in numbered if any(row.values())}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read as a trajectory ({error})") from None
    if not rows:
        raise ValueError(f"{path}: no rows; give a header and at least one point")
    return rows


def _number(line: int, row: dict[str, str], column: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise ValueError(f"{column} in line {line} is {row[column]!r}; give a number") from None


def _position(name: str, value: ArrayLike) -> NDArray[np.float64]:
    position = np.asarray(value, np.float64)
    if position.shape != (3,) or not np.isfinite(position).all():
        raise ValueError(f"{name} is {value!r}; give three finite numbers, metres east, north and up")
    return position
