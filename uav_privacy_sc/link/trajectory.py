"""Trajectory files: CSV with a header, refused by line and column where they cannot be flown."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from uav_privacy_sc.link.geometry import FARTHEST_M, GAP_REMEDY, HIGHEST_BLOCKAGE_DB, Trajectory, east_north_up

LOCAL_COLUMNS = ("time_s", "x_m", "y_m", "z_m")
GEODETIC_COLUMNS = ("time_s", "latitude", "longitude", "altitude")
BLOCKAGE = "blockage_db"
#: Range of every column; seconds, metres, degrees, dB.
RANGES = {
    "time_s": (-1e12, 1e12),
    "x_m": (-FARTHEST_M, FARTHEST_M),
    "y_m": (-FARTHEST_M, FARTHEST_M),
    "z_m": (-FARTHEST_M, FARTHEST_M),
    "latitude": (-90.0, 90.0),
    "longitude": (-180.0, 180.0),
    "altitude": (-FARTHEST_M, FARTHEST_M),
    BLOCKAGE: (0.0, HIGHEST_BLOCKAGE_DB),
}


@dataclass(frozen=True)
class _Table:
    """Names of the columns, and the rows that hold anything by the line of the file that they are in."""

    header: tuple[str, ...]
    rows: dict[int, list[str]]

    def check_cells(self) -> None:
        """Refuse a row that has not one cell a column; empty ones behind the last do not matter."""
        count = len(self.header)
        for line, row in self.rows.items():
            if len(row) < count or any(cell.strip() for cell in row[count:]):
                raise ValueError(f"line {line} has {len(row)} cells for a header of {count}; give one each")

    def column(self, name: str) -> NDArray[np.float64]:
        index = self.header.index(name)
        return np.array([_number(line, name, row[index]) for line, row in self.rows.items()])


def load_trajectory(
    path: str | Path,
    origin: tuple[float, float, float] | None = None,
    longest_gap_s: float = 10.0,
    gap_remedy: str = GAP_REMEDY,
) -> Trajectory:
    """Read a CSV file with a header: ``time_s, x_m, y_m, z_m`` or ``time_s, latitude, longitude, altitude``.

    A column ``blockage_db`` is optional, others are not looked at; spaces around names and upper case do not matter.
    Geodetic rows become metres from ``origin``, the first row by default. Errors name the line of the file and the
    column; ``gap_remedy`` is what they advise against a gap.

    Raises:
        ValueError: the file cannot be read, a column is missing or there twice, a row has more or fewer cells than the
            header, a cell is no number within its range, or :class:`Trajectory` objects.
    """
    try:
        table = _read(Path(path))
        columns = next((names for names in (LOCAL_COLUMNS, GEODETIC_COLUMNS) if set(names) <= set(table.header)), None)
        if columns is None:
            wanted = f"{', '.join(LOCAL_COLUMNS)} or {', '.join(GEODETIC_COLUMNS)}"
            raise ValueError(f"no columns {wanted}, separated by commas; the header is {','.join(table.header)!r}")
        table.check_cells()
        time_s, *axes = (table.column(name) for name in columns)
        positions = np.stack(axes, axis=1)
        blocked = table.column(BLOCKAGE) if BLOCKAGE in table.header else np.zeros(len(time_s))
        lines = tuple(table.rows)
        if columns is GEODETIC_COLUMNS:
            positions = _local(positions, lines, origin)
        return Trajectory(time_s, positions, blocked, longest_gap_s, lines, gap_remedy)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def _local(
    fixes: NDArray[np.float64], lines: tuple[int, ...], origin: tuple[float, float, float] | None
) -> NDArray[np.float64]:
    start = origin or (fixes[0, 0], fixes[0, 1], fixes[0, 2])
    positions = np.array(
        [east_north_up(latitude, longitude, altitude, start) for latitude, longitude, altitude in fixes]
    )
    far = np.flatnonzero((np.abs(positions) > FARTHEST_M).any(axis=1))
    if len(far):
        away = float(np.abs(positions[far[0]]).max())
        raise ValueError(f"line {lines[far[0]]} lies {away:g} m from the origin; stay within {FARTHEST_M:g} m of it")
    return positions


def _read(path: Path) -> _Table:
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, skipinitialspace=True)
            numbered = ((reader.line_num, row) for row in reader)
            rows = {line: row for line, row in numbered if any(cell.strip() for cell in row)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"cannot be read as a trajectory ({error})") from None
    if len(rows) < 2:
        raise ValueError("no rows; give a header and at least one point")
    header = tuple(cell.strip().lower() for cell in rows.pop(next(iter(rows))))
    twice = next((name for name in RANGES if header.count(name) > 1), None)
    if twice:
        raise ValueError(f"column {twice} is there {header.count(twice)} times; give it once")
    return _Table(header, rows)


def _number(line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        raise ValueError(f"{column} in line {line} is {cell!r}; give a number") from None
    low, high = RANGES[column]
    if not (math.isfinite(value) and low <= value <= high):
        raise ValueError(f"{column} in line {line} is {cell}; give a number from {low:g} to {high:g}")
    return value
