"""``odometer``: what a ledger says was spent."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, say
from uav_privacy_sc.evaluation.headline import delta_text
from uav_privacy_sc.fleet.accounting import fleet_spending, holds_uploads, together
from uav_privacy_sc.privacy.accountant import LedgerError, Odometer, Report

#: Clients of a fleet that are shown one by one.
_MOST_CLIENTS = 20
_UNITS = {
    "cell": "one cell of one frame",
    "object": "one object in one frame",
    "frame": "all of one frame",
    "track": "one tracked object in all frames",
    "mission": "one object in all frames",
}


def carry_out(
    ledger: Path,
    delta: float,
    ceiling: float | None,
    as_json: bool,
    plot: Path | None = None,
    expected_frames: int | None = None,
) -> int:
    """Print what was spent, and plot it over the flight; return 1 when it is beyond the ceiling, else 0.

    Raises:
        BadInput: no such ledger, it cannot be read or trusted, or the plot cannot be written.
        ValueError: delta or ceiling out of range.
    """
    _check_pace(ceiling, expected_frames)
    if ledger.is_dir():
        return _print_fleet(ledger, delta, ceiling, as_json, plot)
    _check_file(ledger)
    if holds_uploads(ledger):
        return _print_uploads(ledger, delta, ceiling, as_json, plot)
    try:
        odometer = Odometer(ledger, delta, ceiling)
    except LedgerError as error:
        raise BadInput(f"ledger {ledger}: {error}") from None
    try:
        report = odometer.spent()
        if plot is not None:
            _plot(odometer, plot, expected_frames)
    finally:
        odometer.close()
    if as_json:
        print_json(_finite(asdict(report)))
    else:
        _print(ledger, report)
    return int(ceiling is not None and not report.mission.epsilon <= ceiling)


def _print_uploads(ledger: Path, delta: float, ceiling: float | None, as_json: bool, plot: Path | None) -> int:
    """Print what the uploads of one client of a fleet have cost."""
    if plot is not None:
        raise BadInput(f"ledger {ledger} holds a fleet client's uploads, which have no plot; leave --plot out")
    try:
        spending = fleet_spending([ledger], delta)
    except LedgerError as error:
        raise BadInput(f"ledger {ledger}: {error}") from None
    if as_json:
        print_json(_finite(spending.summary()))
    else:
        for client in spending.clients:
            seeded = f", {client.seeded} of them with seeded noise (not private)" if client.seeded else ""
            print_lines(
                [("ledger", str(ledger)), ("uploads", f"{client.uploads} of fleet client {client.client}{seeded}")]
            )
            rows = [
                ("round", "all of a client's data, costliest round", _figure(client.round_epsilon), "0"),
                ("client", "all of a client's data, all rounds", _figure(client.epsilon), "0"),
                ("client", "all of a client's data, all rounds", _figure(client.epsilon_at_delta), delta_text(delta)),
                ("paper", "P3's Theorem 1 summed; not for all neighbours", _figure(client.paper), "0"),
            ]
            print_table(("unit", "what it bounds", "epsilon", "delta"), rows, words=2)
    return int(ceiling is not None and not spending.worst("epsilon") <= ceiling)


def _check_file(ledger: Path) -> None:
    """Refuse what is no ledger before it is opened, which would make one of an empty file."""
    if not ledger.is_file():
        raise BadInput(f"no such ledger: {ledger}")
    if not ledger.stat().st_size:
        raise BadInput(f"ledger {ledger}: the file is empty, which no ledger is")


def _print_fleet(folder: Path, delta: float, ceiling: float | None, as_json: bool, plot: Path | None) -> int:
    """Print what all clients have cost whose ledgers lie below a folder; a number is the same data in all of them."""
    every = sorted(path for path in folder.rglob("*.ledger"))
    ledgers = [path for path in every if path.name.startswith("client-")]
    if not ledgers:
        raise BadInput(f"folder {folder} holds no ledgers of a fleet's clients; give the file of a flight's ledger")
    for path in ledgers:
        _check_file(path)
    if plot is not None:
        raise BadInput(f"folder {folder} holds a fleet's uploads, which have no plot; leave --plot out")
    try:
        spending = together(sorted({path.parent for path in ledgers}), delta)
    except LedgerError as error:
        raise BadInput(str(error)) from None
    beyond = ceiling is not None and not spending.worst("epsilon") <= ceiling
    if as_json:
        print_json(_finite(spending.summary()))
        return int(beyond)
    seeded = sum(client.seeded for client in spending.clients)
    uploads = f"{spending.uploads}{f', {seeded} of them with seeded noise (not private)' if seeded else ''}"
    print_lines([("ledgers", f"{len(ledgers)} below {folder}"), ("uploads", uploads)])
    lines = [("epsilon", f"of all of a client's data; the fleet's is the costliest client's; δ {delta_text(delta)}")]
    lines += [("", "a client's number is taken for the same data in all folders, every ledger for a run of its own")]
    if len(every) > len(ledgers):
        lines.append(("", f"not counted, as no client's: {len(every) - len(ledgers)} other ledger files"))
    if ceiling is not None:
        lines.append(("ceiling", f"{ceiling:g}, {'passed' if beyond else 'kept'}"))
    print_lines(lines)
    costliest = sorted(spending.clients, key=lambda client: client.epsilon, reverse=True)
    rows = [
        (
            str(client.client),
            str(client.uploads),
            *map(_figure, (client.round_epsilon, client.epsilon, client.epsilon_at_delta, client.paper)),
        )
        for client in costliest[:_MOST_CLIENTS]
    ]
    if not rows:
        return int(beyond)
    print_table(("client", "uploads", "costliest round", "all rounds", "all rounds at δ", "P3's Theorem 1"), rows)
    if len(costliest) > _MOST_CLIENTS:
        print_lines([("", f"and {len(costliest) - _MOST_CLIENTS} clients that cost less; --json gives all")])
    return int(beyond)


def _figure(epsilon: float) -> str:
    """Return it in few enough characters for a terminal: a fleet's may have seven digits."""
    return f"{epsilon:.4f}" if epsilon < 1e4 else f"{epsilon:,.0f}"


def _check_pace(ceiling: float | None, expected_frames: int | None) -> None:
    if expected_frames is None:
        return
    if expected_frames < 1:
        raise BadInput(f"expected-frames is {expected_frames}; give a whole number of at least 1")
    if ceiling is None:
        raise BadInput("expected-frames needs a ceiling to pace; give --epsilon-ceiling, too")


def _plot(odometer: Odometer, plot: Path, expected_frames: int | None) -> None:
    from uav_privacy_sc.evaluation.odometer_plot import SUFFIXES, SpendingHistory, draw_spending

    if plot.suffix.lower() not in SUFFIXES:
        raise BadInput(f"plot {plot} has no known ending; give one of {', '.join(SUFFIXES)}")
    if not odometer.releases:
        raise BadInput("the ledger records no release, so there is nothing to plot")
    history = SpendingHistory.from_ledger(odometer.history(), odometer.delta)
    try:
        draw_spending(history, plot, odometer.ceiling_epsilon, expected_frames)
    except OSError as error:
        raise BadInput(f"plot {plot} cannot be written: {error.strerror or error}") from None
    say(f"plotted {odometer.releases} releases to {plot}")


def _finite(value: Any) -> Any:
    """Turn an unbounded epsilon into null, which JSON knows."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _print(ledger: Path, report: Report) -> None:
    seeded = f", {report.seeded_releases} of them with seeded noise (not private)" if report.seeded_releases else ""
    lines = [("ledger", str(ledger)), ("releases", f"{report.releases}{seeded}")]
    if report.ceiling_epsilon is not None:
        lines.append(("ceiling", f"{report.ceiling_epsilon:g}, {report.remaining:.4g} left"))
    print_lines(lines)
    spent = {unit: getattr(report, unit) for unit in _UNITS}
    rows = [
        (unit, _UNITS[unit], f"{guarantee.epsilon:.4f}", delta_text(guarantee.delta))
        for unit, guarantee in spent.items()
        if guarantee is not None
    ]
    print_table(("unit", "what it bounds", "epsilon", "delta"), rows, words=2)
