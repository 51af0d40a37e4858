"""``odometer``: what a ledger says was spent."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table
from uav_privacy_sc.evaluation.headline import delta_text
from uav_privacy_sc.privacy.accountant import LedgerError, Odometer, Report

_UNITS = {
    "cell": "one cell of one frame",
    "object": "one object in one frame",
    "frame": "all of one frame",
    "track": "one tracked object in all frames",
    "mission": "one object in all frames",
}


def carry_out(ledger: Path, delta: float, ceiling: float | None, as_json: bool) -> int:
    """Print what was spent; return 1 when it is beyond the ceiling, else 0.

    Raises:
        BadInput: no such ledger, or it cannot be read or trusted.
        ValueError: delta or ceiling out of range.
    """
    if not ledger.is_file():
        raise BadInput(f"no such ledger: {ledger}")
    try:
        odometer = Odometer(ledger, delta, ceiling)
    except LedgerError as error:
        raise BadInput(f"ledger {ledger}: {error}") from None
    report = odometer.spent()
    odometer.close()
    if as_json:
        print_json(_finite(asdict(report)))
    else:
        _print(ledger, report)
    return int(ceiling is not None and not report.mission.epsilon <= ceiling)


def _finite(value: Any) -> Any:
    """Turn an unbounded epsilon into null, which JSON knows."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(ledger: Path, report: Report) -> None:
    seeded = f", {report.seeded_releases} of them with seeded noise (not private)" if report.seeded_releases else ""
    lines = [("ledger", str(ledger)), ("releases", f"{report.releases}{seeded}")]
    if report.ceiling_epsilon is not None:
        left = max(0.0, report.ceiling_epsilon - report.mission.epsilon)
        lines.append(("ceiling", f"{report.ceiling_epsilon:g}, {left:.4g} left"))
    print_lines(lines)
    spent = {unit: getattr(report, unit) for unit in _UNITS}
    rows = [
        (unit, _UNITS[unit], f"{guarantee.epsilon:.4f}", delta_text(guarantee.delta))
        for unit, guarantee in spent.items()
        if guarantee is not None
    ]
    print_table(("unit", "what it bounds", "epsilon", "delta"), rows, words=2)
