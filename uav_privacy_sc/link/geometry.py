"""Where aircraft, ground station and eavesdropper are: positions east, north, up in metres, and flown trajectories."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

EARTH_RADIUS_M = 6_378_137.0
ECCENTRICITY_SQUARED = 6.69437999014e-3
#: Coordinates beyond this are no flight, and would make a gain of 0.
FARTHEST_M = 1e6
HIGHEST_BLOCKAGE_DB = 200.0
GAP_REMEDY = "fill it or raise longest_gap_s"


@dataclass(frozen=True)
class View:
    """How a receiver sees the aircraft."""

    distance_m: float
    elevation_deg: float


def view(aircraft: ArrayLike, receiver: ArrayLike) -> View:
    """Return slant range and elevation of an aircraft from a receiver, both ``(3,)`` east, north, up in metres.

    Raises:
        ValueError: a position is not three finite numbers, or beyond ``FARTHEST_M``.
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
        ValueError: a coordinate is not finite, a latitude lies beyond 90 degrees or a longitude beyond 180.
    """
    for name, value, most in (
        ("latitude", latitude, 90.0),
        ("longitude", longitude, 180.0),
        ("altitude", altitude, None),
    ):
        if not math.isfinite(value) or (most is not None and abs(value) > most):
            limit = "metres" if most is None else f"degrees from -{most:g} to {most:g}"
            raise ValueError(f"{name} is {float(value)!r}; give {limit}")
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
            ValueError: it is not three finite numbers, or beyond ``FARTHEST_M``; the one before stays.
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
    that the points come from, by which errors call them; without, they count points as rows from 1. ``gap_remedy`` is
    what an error advises against a gap.

    Raises:
        ValueError: shapes differ, a value is not finite or out of range (``FARTHEST_M``, ``HIGHEST_BLOCKAGE_DB``), time
            does not grow, or two points lie more than ``longest_gap_s`` apart.
    """

    time_s: NDArray[np.float64]
    position_m: NDArray[np.float64]
    blockage_db: NDArray[np.float64]
    longest_gap_s: float = 10.0
    lines: tuple[int, ...] | None = None
    gap_remedy: str = GAP_REMEDY
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
        for name, values, most in (
            ("position_m", np.abs(self.position_m).max(axis=1), FARTHEST_M),
            ("blockage_db", self.blockage_db, HIGHEST_BLOCKAGE_DB),
        ):
            if values.max() > most:
                where = self._where(int(np.argmax(values > most)))
                raise ValueError(f"trajectory has a {name} beyond {most:g} in {where}; give at most that")
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
                f"{self.longest_gap_s:g} s; {self.gap_remedy}"
            )

    def position(self, time_s: float) -> NDArray[np.float64]:
        """Return the ``(3,)`` position at a time."""
        return np.array([np.interp(time_s, self.time_s, axis) for axis in self._axes])

    def blockage(self, time_s: float) -> float:
        """Return the scripted blockage in dB at a time."""
        return float(np.interp(time_s, self.time_s, self.blockage_db))

    def way(self, time_s: float) -> float:
        """Return the metres flown until a time."""
        return float(np.interp(time_s, self.time_s, self._ways))

    @cached_property
    def _axes(self) -> NDArray[np.float64]:
        return np.ascontiguousarray(self.position_m.T)

    @cached_property
    def _ways(self) -> NDArray[np.float64]:
        legs = np.linalg.norm(np.diff(self.position_m, axis=0), axis=1)
        return np.concatenate([[0.0], np.cumsum(legs)])


def _position(name: str, value: ArrayLike) -> NDArray[np.float64]:
    position = np.asarray(value, np.float64)
    if position.shape != (3,) or not np.isfinite(position).all():
        raise ValueError(f"{name} is {value!r}; give three finite numbers, metres east, north and up")
    if np.abs(position).max() > FARTHEST_M:
        raise ValueError(f"{name} is {position.tolist()}; give metres from -{FARTHEST_M:g} to {FARTHEST_M:g}")
    return position
