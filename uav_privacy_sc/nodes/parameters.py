"""Parameters of a node from a frozen dataclass: declared once, with description, range and read-only flag.

Doubles may be given as whole numbers (``1`` for ``1.0``); NaN and infinity are refused by name; a string is never
taken for a boolean. rclpy would stop at the first and let the second pass, so the values are checked here.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from rcl_interfaces.msg import FloatingPointRange, IntegerRange, ParameterDescriptor, SetParametersResult
from rclpy.node import Node
from rclpy.parameter import Parameter

T = TypeVar("T")

#: A place or another row of numbers; its length is that of the default, or three or none where that is empty.
_ROW = "tuple[float, ...]"
_TYPES = {
    "float": Parameter.Type.DOUBLE,
    "int": Parameter.Type.INTEGER,
    "bool": Parameter.Type.BOOL,
    _ROW: Parameter.Type.DOUBLE_ARRAY,
}
_ARTICLES = {"float": "a number", "int": "a whole number", "bool": "true or false", "str": "text"}


@dataclass(frozen=True)
class _About:
    description: str
    low: float | None
    high: float | None
    choices: tuple[str, ...]
    read_only: bool


def parameter(
    default: Any,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    choices: Sequence[str] = (),
    read_only: bool = True,
) -> Any:
    """A dataclass field that is a ROS parameter; ``low`` and ``high`` are allowed values themselves."""
    about = _About(description, low, high, tuple(choices), read_only)
    return field(default=default, metadata={"ros": about})


def declare(node: Node, config: type[T]) -> T:
    """Declare every field of ``config`` as a parameter of ``node`` and return the values.

    Raises:
        ValueError: an override has the wrong type or is out of range; one line that names it.
    """
    described = {item.name: _descriptor(item) for item in fields(config)}  # type: ignore[arg-type]
    # Without ranges first: rclpy would refuse an override with an error of its own before ours can name the remedy.
    loose = ParameterDescriptor(dynamic_typing=True)
    given = [node.declare_parameter(item.name, _raw(item.default), copy(loose)) for item in fields(config)]  # type: ignore[arg-type]
    built = build(config, {item.name: item.value for item in given})
    for name, descriptor in described.items():
        node.set_descriptor(name, descriptor)
    return built


def build(config: type[T], values: Mapping[str, Any]) -> T:
    """Return ``config`` from raw parameter values, checked.

    Raises:
        ValueError: a value has the wrong type or is out of range.
    """
    checked = {item.name: _checked(item, values[item.name]) for item in fields(config)}  # type: ignore[arg-type]
    return config(**checked)


def refusal(config: type[Any], parameters: Sequence[Parameter]) -> SetParametersResult:
    """Judge an attempt to set parameters: what an on-set callback answers."""
    known = {item.name: item for item in fields(config)}
    for given in parameters:
        if given.name in known:
            try:
                _checked(known[given.name], given.value)
            except ValueError as error:
                return SetParametersResult(successful=False, reason=str(error))
    return SetParametersResult(successful=True)


def _raw(default: Any) -> Any:
    return list(default) if isinstance(default, tuple) else default


def _checked_row(item: Any, value: Any) -> tuple[float, ...]:
    lengths = (len(item.default),) if item.default else (0, 3)
    row = isinstance(value, (list, tuple, array)) and len(value) in lengths
    if not row or not all(isinstance(number, (int, float)) and math.isfinite(number) for number in value):
        wanted = " or ".join(str(length) for length in lengths)
        raise ValueError(f"parameter {item.name} is {value!r}; give {wanted} finite numbers")
    return tuple(float(number) for number in value)


def _checked(item: Any, value: Any) -> Any:
    kind, about = str(item.type), item.metadata["ros"]
    if kind == _ROW:
        return _checked_row(item, value)
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    python_type: Any = {"float": float, "int": int, "bool": bool, "str": str}[kind]
    if not isinstance(value, python_type) or (kind == "int" and isinstance(value, bool)):
        raise ValueError(f"parameter {item.name} is {value!r}; give {_ARTICLES[kind]}")
    if kind == "float" and not math.isfinite(value):
        raise ValueError(f"parameter {item.name} is {value!r}; give a finite number{_span(about)}")
    if kind in ("float", "int"):
        low = -math.inf if about.low is None else about.low
        high = math.inf if about.high is None else about.high
        if not low <= value <= high:
            raise ValueError(f"parameter {item.name} is {value!r}; give {_ARTICLES[kind]}{_span(about)}")
    if about.choices and value not in about.choices:
        raise ValueError(f"parameter {item.name} is {value!r}; choose one of {', '.join(about.choices)}")
    return value


def _span(about: _About) -> str:
    if about.low is None:
        return ""
    return f" of at least {about.low:g}" if about.high is None else f" from {about.low:g} to {about.high:g}"


def _descriptor(item: Any) -> ParameterDescriptor:
    kind, about = str(item.type), item.metadata["ros"]
    descriptor = ParameterDescriptor(
        description=about.description,
        type=_TYPES.get(kind, Parameter.Type.STRING).value,
        read_only=about.read_only,
        # rclpy would refuse a whole number for a double; :func:`refusal` checks types instead.
        dynamic_typing=True,
    )
    if about.choices:
        descriptor.additional_constraints = "one of " + ", ".join(about.choices)
    if about.low is not None and about.high is not None:
        low, high = about.low, about.high
        if kind == "float":
            descriptor.floating_point_range = [FloatingPointRange(from_value=float(low), to_value=float(high))]
        elif kind == "int":
            descriptor.integer_range = [IntegerRange(from_value=int(low), to_value=int(high))]
    return descriptor
