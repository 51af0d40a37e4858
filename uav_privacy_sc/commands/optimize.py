"""``optimize``: one solve of the controller, a scenario and a gain in, an operating point and its history out."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from uav_privacy_sc.commands.console import print_json, print_lines, print_table
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import select_policy


def carry_out(scenario: str, gain_db: float, scenarios_file: Path | None, as_json: bool) -> int:
    """Solve and print; return 1 when no point meets every constraint of the scenario, else 0.

    Raises:
        ValueError: no such scenario, or a gain out of range; one line.
    """
    point = optimize_at_db(select_policy(scenario, scenarios_file), gain_db)
    if as_json:
        print_json({"scenario": scenario, "gain_db": gain_db, **asdict(point)})
    else:
        _print(scenario, gain_db, point)
    return 0 if point.feasible else 1


def _print(scenario: str, gain_db: float, point: OperatingPoint) -> None:
    status = point.status if point.feasible else f"infeasible, by {point.violation:.3g}"
    print_lines(
        [
            ("scenario", f"{scenario} at a gain of {gain_db:g} dB"),
            ("budgets", f"epsilon_v {point.epsilon_v:.4g}, epsilon_l {point.epsilon_l:.4g}"),
            ("power", f"p_tx {point.p_tx:.4g} W, SNR {point.snr_db:.1f} dB"),
            ("quality", f"A_sem {point.semantic_quality:.4g}, location error {point.location_error:.4g} image sides"),
            ("utility", f"{point.utility:.6g}"),
            ("solver", f"{status} after {len(point.history)} iterations"),
        ]
    )
    rows = [
        (str(number), *(f"{value:.5g}" for value in (step.epsilon_v, step.epsilon_l, step.p_tx, step.utility)))
        for number, step in enumerate(point.history, start=1)
    ]
    if rows:
        print_table(("iteration", "epsilon_v", "epsilon_l", "p_tx W", "utility"), rows)
