"""Scenario policies: the tuple of P1 Eq. 36 with every number that the paper leaves out, as data."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, fields, replace
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

BRANCHES = ("grid", "planar_laplace")
LOCATION_UTILITIES = ("expected_error", "log")
SOURCES = ("published", "ours")
SHIPPED = "scenarios.yaml"
#: What a parameter may be at most, by amount: far beyond any mission, and short of where doubles overflow.
HIGHEST = {
    "lambda1": 1e6,
    "lambda2": 1e6,
    "p_max": 1e6,
    "epsilon_total": 1e3,
    "a_min": 1e6,
    "a_ref": 1e6,
    "e_max": 1e6,
    "scale": 1e9,
    "alpha": 1e3,
    "beta": 1e6,
    "gamma_loc": 1e6,
}
#: Parameters that must be above 0, and the least that they may be.
LEAST = {
    "p_max": 1e-9,
    "epsilon_total": 1e-15,
    "e_max": 1e-9,
    "scale": 1e-9,
    "epsilon_v_min": 1e-18,
    "epsilon_l_min": 1e-18,
    "alpha": 1e-6,
    "beta": 1e-12,
}
#: Share of epsilon_total that each least budget has at least, so that the rest of epsilon_total is told from it.
LEAST_SHARE = 1e-12
#: What lies at least between a_min and a_ref, by which the quality is divided.
LEAST_SPAN = 1e-6


@dataclass(frozen=True)
class ScenarioPolicy:
    """What a mission wants and may spend (P1 Eq. 31 to 42). Powers in W, errors in image sides."""

    name: str
    lambda1: float
    lambda2: float
    p_max: float
    epsilon_total: float
    a_min: float
    a_ref: float
    e_max: float
    location_branch: str
    grid_size: int = 16
    scale: float = 100.0
    p_circuit: float = 0.0
    p_processing: float = 0.0
    epsilon_v_min: float = 0.08
    epsilon_l_min: float = 0.05
    alpha: float = 0.5
    beta: float = 0.8
    gamma_loc: float = 0.8
    location_utility: str = "expected_error"

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_choices()
        self._check_budgets()

    @property
    def p_available(self) -> float:
        """Transmit power left of ``p_max`` after circuit and processing power (P1 section 4.2, subproblem B)."""
        return self.p_max - self.p_circuit - self.p_processing

    @property
    def epsilon_v_max(self) -> float:
        """The largest visual budget that leaves ``epsilon_l_min`` for locations."""
        return self.epsilon_total - self.epsilon_l_min

    def _check_numbers(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ValueError(f"{item.name} is {value!r}; give a finite number")
        for name, least in LEAST.items():
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number above 0")
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number of at least {least:g}")
        for name, highest in HIGHEST.items():
            if abs(getattr(self, name)) > highest:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number of at most {highest:g}")
        for name in ("lambda1", "lambda2", "p_circuit", "p_processing", "gamma_loc"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number of at least 0")

    def _check_choices(self) -> None:
        choices = (("location_branch", BRANCHES), ("location_utility", LOCATION_UTILITIES))
        for name, allowed in choices:
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; choose one of {', '.join(allowed)}")
        if not (isinstance(self.grid_size, int) and 2 <= self.grid_size <= 1024):
            raise ValueError(f"grid_size is {self.grid_size!r}; give a whole number from 2 to 1024")

    def _check_budgets(self) -> None:
        if self.lambda1 + self.lambda2 <= 0:
            raise ValueError("lambda1 and lambda2 are both 0; give at least one a weight")
        if not self.a_ref > self.a_min:
            raise ValueError(f"a_ref is {self.a_ref:g}, not above a_min {self.a_min:g}; raise a_ref")
        if not self.a_ref - self.a_min >= LEAST_SPAN:
            raise ValueError(f"a_ref is {self.a_ref!r}, within {LEAST_SPAN:g} of a_min {self.a_min!r}; raise a_ref")
        if not self.p_available > 0:
            spent = self.p_circuit + self.p_processing
            raise ValueError(f"p_max is {self.p_max:g} W, but circuit and processing take {spent:g} W; raise p_max")
        if not self.p_available >= LEAST["p_max"]:
            raise ValueError(f"p_max is {self.p_max!r} W, of which {self.p_available:g} W are left; raise p_max")
        for name in ("epsilon_v_min", "epsilon_l_min"):
            if getattr(self, name) < LEAST_SHARE * self.epsilon_total:
                share = f"{LEAST_SHARE * self.epsilon_total:g}"
                raise ValueError(f"{name} is {getattr(self, name)!r}; give at least {share} for this epsilon_total")
        if not self.epsilon_v_max >= self.epsilon_v_min:
            need = self.epsilon_v_min + self.epsilon_l_min
            raise ValueError(
                f"epsilon_total is {self.epsilon_total:g}, below epsilon_v_min + epsilon_l_min = {need:g}; raise it"
            )


@dataclass(frozen=True)
class PolicyValue:
    """A value of a policy file with its source (``published`` or ``ours``) and a note.

    ``inherited``: the file leaves it out, and it is the one that the shipped file shares.
    """

    value: Any
    source: str
    note: str = ""
    inherited: bool = False


def load_policies(path: str | Path | None = None) -> dict[str, ScenarioPolicy]:
    """Return the policies of a YAML file by name; the shipped ones when ``path`` is None.

    Raises:
        ValueError: the file cannot be read, or a policy in it is not valid; the message names file and parameter.
    """
    where = SHIPPED if path is None else str(path)
    policies = {}
    for name, values in load_policy_values(path).items():
        try:
            policies[name] = ScenarioPolicy(name=name, **{key: item.value for key, item in values.items()})
        except (TypeError, ValueError) as error:
            raise ValueError(f"{where}, scenario {name}: {error}") from None
    return policies


def load_policy_values(path: str | Path | None = None) -> dict[str, dict[str, PolicyValue]]:
    """Return every value of every scenario in a policy file with its source, shared values merged in.

    What a file does not give, and the shipped file shares, is the shipped value; its ``inherited`` says so.
    """
    shipped = _read(None)
    document = shipped if path is None else _read(path)
    where = SHIPPED if path is None else str(path)
    scenarios = document.get("scenarios")
    if not isinstance(scenarios, dict) or not scenarios:
        raise ValueError(f"{where}: no scenarios; give a mapping `scenarios:` of name to values")
    shared = _section(shipped.get("shared"), SHIPPED, "shared")
    if path is not None:
        shared = {key: replace(item, inherited=True) for key, item in shared.items()}
        shared |= _section(document.get("shared"), where, "shared")
    merged = {str(name): {**shared, **_section(values, where, str(name))} for name, values in scenarios.items()}
    for name, values in merged.items():
        missing = [item.name for item in _policy_fields() if item.default is MISSING and item.name not in values]
        if missing:
            raise ValueError(f"{where}, scenario {name}: {', '.join(missing)} missing")
    return merged


def select_policy(name: str, path: str | Path | None = None) -> ScenarioPolicy:
    """Return one policy by name.

    Raises:
        ValueError: there is no scenario of that name.
    """
    policies = load_policies(path)
    if name not in policies:
        raise ValueError(f"scenario is {name!r}; choose one of {', '.join(policies)}")
    return policies[name]


def inherited_values(name: str, path: str | Path | None) -> str:
    """Return, for people, what a scenario of a policy file leaves to the shipped one; empty when nothing."""
    values = {} if path is None else load_policy_values(path)[name]
    return ", ".join(f"{key} {item.value} ({item.source})" for key, item in values.items() if item.inherited)


def _policy_fields() -> list[Any]:
    return [item for item in fields(ScenarioPolicy) if item.name != "name"]


def _read(path: str | Path | None) -> dict[str, Any]:
    if path is None:
        text = resources.files("uav_privacy_sc.control").joinpath(SHIPPED).read_text(encoding="utf-8")
    else:
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: cannot be read as a policy file ({error})") from None
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: not valid YAML ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: not a policy file; give a mapping with `scenarios:`")
    return document


def _section(values: Any, where: str, name: str) -> dict[str, PolicyValue]:
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ValueError(f"{where}, {name}: not a mapping of parameter to value")
    kinds = {item.name: str(item.type) for item in _policy_fields()}
    unknown = [str(key) for key in values if key not in kinds]
    if unknown:
        raise ValueError(f"{where}, {name}: unknown parameter {', '.join(unknown)}; known are {', '.join(kinds)}")
    return {key: _value(item, kinds[key], f"{where}, {name}: {key}") for key, item in values.items()}


def _value(item: Any, kind: str, label: str) -> PolicyValue:
    given = item if isinstance(item, dict) else {"value": item, "source": "ours"}
    source = given.get("source")
    if source not in SOURCES:
        raise ValueError(f"{label} has source {source!r}; mark it published or ours")
    return PolicyValue(_convert(given.get("value"), kind, label), source, str(given.get("note", "")))


def _convert(value: Any, kind: str, label: str) -> Any:
    """Take ``1`` for ``1.0`` and YAML 1.1's string "1e-4" for a number, and nothing else for what it is not."""
    if kind == "str" and isinstance(value, str):
        return value
    try:
        if kind != "str" and not isinstance(value, bool) and value is not None:
            number = float(value)
            if kind == "float":
                return number
            if number.is_integer():
                return int(number)
    except (TypeError, ValueError):
        pass
    raise ValueError(f"{label} is {value!r}; give a {'text' if kind == 'str' else 'number'} ({kind})")
