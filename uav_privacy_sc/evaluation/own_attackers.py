"""Attackers of a user: modules that register them, and how each is built from what the evaluation can offer."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.metrics import Missing


def load_modules(names: Iterable[str]) -> None:
    """Import modules, or ``.py`` files, that register attackers; called in every process that runs them.

    Raises:
        ValueError: one cannot be imported; one line.
    """
    for name in names:
        _load(name)


@cache
def _load(name: str) -> None:
    try:
        if not name.endswith(".py"):
            importlib.import_module(name)
            return
        module = Path(name).stem
        spec = importlib.util.spec_from_file_location(module, name)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
    except Exception as error:
        raise ValueError(f"attackers {name} cannot be imported: {' '.join(str(error).split())}") from None


def source_of(name: str) -> Path | None:
    """Return the file of a module, None where it has none."""
    if name.endswith(".py"):
        return Path(name)
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    return None if spec is None or spec.origin is None else Path(spec.origin)


def takes(entry: Any, name: str) -> bool:
    """Return whether a registered attacker has an option of that name."""
    return name in _parameters(entry)


def built(entry: Any, **offered: Callable[[], Any]) -> Any:
    """Return an attacker built with those of the ``offered`` options that it takes; each is made when it is needed.

    A :class:`Missing` names options without a default that nobody offers.
    """
    parameters = _parameters(entry)
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [
        name
        for name, each in parameters.items()
        if each.default is inspect.Parameter.empty and each.kind not in kinds and name not in offered
    ]
    if needed:
        return Missing(f"attacker {entry.name} needs {', '.join(needed)}; give each a default")
    return entry.build(**{name: make() for name, make in offered.items() if name in parameters})


def _parameters(entry: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(entry.build).parameters)
    except (TypeError, ValueError):
        return {}
