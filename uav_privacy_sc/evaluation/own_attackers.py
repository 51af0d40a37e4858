"""Which attackers an evaluation runs: those named, a user's own from modules, and what each is built from.

A name given to an evaluation (``Setting.attackers``) is that of a registered attacker, of a module or of a ``.py``
file. Modules and files add what they register; where attackers are named, only those of the package's are run.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from uav_privacy_sc.attack.interface import Registered, adopt, attackers
from uav_privacy_sc.evaluation.execution import by_value
from uav_privacy_sc.evaluation.metrics import Missing

_PACKAGE = "uav_privacy_sc."


def load_modules(names: Iterable[str]) -> None:
    """Import the modules and ``.py`` files among the names; called in every process that runs attackers.

    Raises:
        ValueError: one cannot be imported and is no attacker's name either; one line.
    """
    names, late = tuple(names), []
    known = {entry.name for entry in attackers()} if names else set()
    for name in names:
        if name.endswith(".py") or (name not in known and _exists(name)):
            _load(name)
        elif name not in known:
            late.append(name)
    for name in late:  # modules may have registered it
        known = {entry.name for entry in attackers()}
        if name not in known:
            raise ValueError(
                f"attackers {name} cannot be imported, and no attacker is called so; give a module, a .py file, or one "
                f"of {', '.join(sorted(known))}"
            )


def _exists(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@cache
def _load(name: str) -> str:
    """Import a module or file and return the name of the module that it is here."""
    module = name
    try:
        if not name.endswith(".py"):
            importlib.import_module(name)
            return module
        # no name that another module may have: a file called json.py must not take the place of json
        module = f"{Path(name).stem}_{hashlib.sha256(name.encode()).hexdigest()[:8]}"
        spec = importlib.util.spec_from_file_location(module, name)
        assert spec is not None and spec.loader is not None
        sys.modules[module] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[module])
        return module
    except (Exception, SystemExit) as error:
        sys.modules.pop(module, None)
        raise ValueError(f"attackers {name} cannot be imported: {_line(error)}") from None


def _line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def source_of(name: str) -> Path | None:
    """Return the file of a module, None where it has none, or the name is that of an attacker."""
    if name.endswith(".py"):
        return Path(name)
    if any(entry.name == name for entry in attackers()) or not _exists(name):
        return None
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin)


def is_own(entry: Registered) -> bool:
    """Return whether an attacker is a user's, not this package's."""
    return not entry.build.__module__.startswith(_PACKAGE)


def selected(names: Sequence[str], target: str) -> tuple[Registered, ...]:
    """Return the attackers of a target to run: all, or those named and a user's own where any is named."""
    named = set(names) & {entry.name for entry in attackers()}
    return tuple(entry for entry in attackers(target) if not named or entry.name in named or is_own(entry))


class Carried:
    """A user's attackers that no named module registers, on their way to another process.

    They are pickled by value where they are defined in a script or notebook, by name where a module holds them.
    """

    def __init__(self, entries: tuple[Registered, ...]) -> None:
        self.entries = entries

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpacked, (by_value(self.entries),)

    def arrive(self) -> None:
        """Make them known in this process."""
        for entry in self.entries:
            adopt(entry)


def _unpacked(data: bytes) -> Carried:
    return Carried(pickle.loads(data))


def carried(names: Iterable[str]) -> Carried:
    """Return the attackers that other processes do not get by importing the modules among the names."""
    modules = {_load(name) for name in names if name.endswith(".py") or source_of(name) is not None}
    return Carried(tuple(entry for entry in attackers() if is_own(entry) and entry.build.__module__ not in modules))


def refuse_unsendable(names: Iterable[str]) -> None:
    """Refuse attackers that cannot go to another process.

    Raises:
        ValueError: one cannot be pickled; one line that says which, why and what helps.
    """
    for entry in carried(names).entries:
        try:
            by_value(entry)
        except Exception as error:
            raise ValueError(
                f"attacker {entry.name} cannot be sent to another process ({_line(error)}); put it into a module or "
                ".py file and give that to --attackers, or use --jobs 1 with --backend loky"
            ) from None


def takes(entry: Any, name: str) -> bool:
    """Return whether a registered attacker has an option of that name."""
    return name in _parameters(entry)


def built(entry: Any, **offered: Callable[[], Any]) -> Any:
    """Return an attacker built with those of the ``offered`` options that it takes; each is made when it is needed.

    A :class:`Missing` names options without a default that nobody offers, or says what it lacks.
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
    options = {name: make() for name, make in offered.items() if name in parameters}
    lacking = next((option for option in options.values() if isinstance(option, Missing)), None)
    return entry.build(**options) if lacking is None else lacking


def _parameters(entry: Any) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(entry.build).parameters)
    except (TypeError, ValueError):
        return {}
