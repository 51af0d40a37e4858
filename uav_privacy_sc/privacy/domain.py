"""Checks of privacy parameters: one line that names the parameter, its value and what to do instead.

Every check is written so that NaN fails it: comparisons with NaN are false, so a check states what must hold and
refuses everything else.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]


def positive(name: str, value: ArrayLike) -> FloatArray:
    """Return ``value`` as float64 when every entry is finite and above 0.

    Raises:
        ValueError: naming the parameter and the first offending entry.
    """
    if isinstance(value, float) and 0 < value < math.inf:  # the common case, without arrays
        return np.float64(value)  # type: ignore[return-value]
    array = _as_float(name, value)
    good = np.isfinite(array) & (array > 0)
    if not good.all():
        raise ValueError(f"{name} must be finite and above 0, got {_first(array, good)}; use a value such as 1.0")
    return array


def probability(name: str, value: ArrayLike) -> FloatArray:
    """Return ``value`` as float64 when every entry lies strictly between 0 and 1.

    Raises:
        ValueError: naming the parameter and the first offending entry.
    """
    array = _as_float(name, value)
    good = (array > 0) & (array < 1)
    if not good.all():
        value = _first(array, good)
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {value}; use a value such as 1e-5")
    return array


def not_negative(name: str, value: ArrayLike) -> FloatArray:
    """Return ``value`` as float64 when every entry is finite and not below 0.

    Raises:
        ValueError: naming the parameter and the first offending entry.
    """
    array = _as_float(name, value)
    good = np.isfinite(array) & (array >= 0)
    if not good.all():
        raise ValueError(f"{name} must be finite and at least 0, got {_first(array, good)}; use 0 to switch it off")
    return array


def whole(name: str, value: Any, minimum: int = 1) -> int:
    """Return ``value`` as an int when it is a whole number of at least ``minimum``.

    Raises:
        ValueError: naming the parameter and its value.
    """
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = float("nan")
    if isinstance(value, bool) or not (np.isfinite(number) and number == int(number) and number >= minimum):
        raise ValueError(f"{name} must be a whole number of at least {minimum}, got {value!r}; use {minimum} or more")
    return int(number)


def choice(name: str, value: str, allowed: tuple[str, ...]) -> str:
    """Return ``value`` when it is one of ``allowed``.

    Raises:
        ValueError: naming the parameter, its value and the choices.
    """
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(allowed)}, got {value!r}")
    return value


def _as_float(name: str, value: ArrayLike) -> FloatArray:
    try:
        return np.asarray(value, np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a number, got {value!r}; use a value such as 1.0") from None


def _first(array: FloatArray, good: NDArray[np.bool_]) -> float:
    return float(array[~good].flat[0]) if array.ndim else float(array)
