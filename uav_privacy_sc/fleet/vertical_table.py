"""A table of records whose columns two parties share: scikit-learn's digits, or an ``.npz`` or ``.csv`` file.

Columns are scaled by a range that is declared, not looked up in the data: a range taken from the records would let one
record move all others' features, and no clip after it would make good for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

DIGITS = "digits"
#: Grey values of scikit-learn's digits.
_DIGITS_RANGE = (0.0, 16.0)


class TableError(ValueError):
    """A table that cannot be used; one line."""


@dataclass(frozen=True)
class VerticalTable:
    """Records for two parties.

    Attributes:
        first, second: ``(n, f)`` and ``(n, g)`` float64 in [-1, 1]: each party's half of the columns.
        labels: ``(n,)`` int64, 0 to ``classes - 1``; the server's.
        name: where it comes from, without folders.
        outside: values beyond the declared range, which were clipped to it.
    """

    first: np.ndarray
    second: np.ndarray
    labels: np.ndarray
    name: str
    outside: int = 0

    @property
    def classes(self) -> int:
        """How many classes there are."""
        return int(self.labels.max()) + 1

    @property
    def chance(self) -> float:
        """Accuracy of always naming the commonest class."""
        return float(np.bincount(self.labels).max() / len(self.labels))


def open_table(data: str = DIGITS, low: float | None = None, high: float | None = None) -> VerticalTable:
    """Return a table by name or path.

    Args:
        data: ``digits``, an ``.npz`` file with ``features`` (n, f) and ``labels`` (n,) and optionally ``low`` and
            ``high`` (numbers, or one for each column), or a ``.csv`` file of numbers whose last column is the label.
        low, high: declared range of all columns; the file's own, or 0 to 1, if left out.

    Raises:
        TableError: it is not there, not readable, not finite, or has fewer than two columns, classes or ten records.
    """
    features, labels, bounds = _digits() if data == DIGITS else _read(Path(data).expanduser())
    low_of = np.asarray(bounds[0] if low is None else low, np.float64)
    high_of = np.asarray(bounds[1] if high is None else high, np.float64)
    return _table(features, labels, low_of, high_of, Path(data).name)


_Read = tuple[np.ndarray, np.ndarray, tuple[np.ndarray | float, np.ndarray | float]]


def _digits() -> _Read:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise TableError(
            "the digits come with scikit-learn, which is not installed; pip install scikit-learn, or give a table by "
            "--data FILE.npz"
        ) from None
    features, labels = load_digits(return_X_y=True)
    return features, labels, _DIGITS_RANGE


def _read(path: Path) -> _Read:
    if not path.is_file():
        raise TableError(f"data {path} is not there; give {DIGITS}, or an .npz or .csv file")
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as held:
                for name in ("features", "labels"):
                    if name not in held:
                        raise TableError(f"data {path} has no array {name}; it needs features and labels")
                return held["features"], held["labels"], (held.get("low", 0.0), held.get("high", 1.0))
        if path.suffix == ".csv":
            rows = np.genfromtxt(path, delimiter=",", dtype=np.float64, ndmin=2)
            rows = rows[1:] if len(rows) and np.isnan(rows[0]).all() else rows  # a line of names
            return rows[:, :-1], rows[:, -1], (0.0, 1.0)
    except TableError:
        raise
    except (OSError, ValueError, BadZipFile) as error:
        raise TableError(f"cannot read data {path}: {' '.join(str(error).split())[:120]}") from None
    raise TableError(f"data {path} is of no kind that is read here; give {DIGITS}, or an .npz or .csv file")


def _table(features: np.ndarray, labels: np.ndarray, low: np.ndarray, high: np.ndarray, name: str) -> VerticalTable:
    features = _numbers("features", features, name)
    labels = _numbers("labels", labels, name)
    if features.ndim != 2 or labels.shape != features.shape[:1]:
        raise TableError(f"data {name}: features {features.shape} and labels {labels.shape} must be (n, f) and (n,)")
    if features.shape[1] < 2 or len(features) < 10:
        raise TableError(f"data {name} has shape {features.shape}; two parties need two columns and ten records")
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (high > low).all()):
        raise TableError(f"low={_short(low)} must lie below high={_short(high)}; declare the range of the columns")
    if low.ndim > 1 or low.size not in (1, features.shape[1]) or high.size not in (1, features.shape[1]):
        raise TableError(
            f"data {name}: low and high must be one number, or one for each of {features.shape[1]} columns"
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise TableError(f"data {name} has one class; there is nothing to tell apart")
    scaled = (features - low) / (high - low) * 2 - 1
    outside = int((np.abs(scaled) > 1).sum())
    scaled = np.clip(scaled, -1, 1)
    half = features.shape[1] // 2
    return VerticalTable(scaled[:, :half], scaled[:, half:], codes.astype(np.int64), name, outside)


def _numbers(what: str, array: np.ndarray, name: str) -> np.ndarray:
    try:
        found = np.asarray(array, np.float64)
    except (TypeError, ValueError):
        raise TableError(f"data {name}: {what} must be numbers") from None
    if not np.isfinite(found).all():
        raise TableError(f"data {name}: {what} hold NaN or infinity; take such records out")
    return found


def _short(value: np.ndarray) -> str:
    return f"{value.flat[0]:g}" if value.size else "nothing"
