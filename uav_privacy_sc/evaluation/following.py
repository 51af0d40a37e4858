"""What following the channel gained over a flight as it was flown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from uav_privacy_sc.control.adaptation import Comparison, FlightSeries, against_fixed, mission_epsilon
from uav_privacy_sc.control.policy import select_policy
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.flight import FlightLog, FrameLog

DELTA = 1e-5


def following(log: FlightLog, options: Mapping[str, Any] | None = None) -> Comparison | Missing:
    """Hold the frames that were sent against the best fixed budgets and power of equal cost.

    ``options`` are those that the command line knows and the flight does not; with ``epsilon_v`` or ``epsilon_l`` among
    them the budgets did not follow anything.
    """
    if options and ("epsilon_v" in options or "epsilon_l" in options):
        return Missing("the budgets were fixed")
    sent = sent_frames(log)
    if len(sent) < 2:
        return Missing("fewer than two frames were sent")
    try:
        policy = select_policy(log.config.scenario, log.config.scenarios_file)
    except ValueError as error:
        return Missing(str(error))
    gains = np.array([frame.gain_db for frame in sent], np.float64)
    return against_fixed(policy, gains, _flown(sent), DELTA)


def sent_frames(log: FlightLog) -> list[FrameLog]:
    """Return the frames that :func:`following` compares, in its order."""
    return [frame for frame in log.frames if _is_complete(frame)]


def as_metrics(found: Comparison | Missing) -> dict[str, Any]:
    """Return a comparison as metrics: mean utility of both, what was gained, and what the fixed flight had."""
    names = ("utility", "constraints_held", "epsilon_v", "epsilon_l", "p_tx")
    if isinstance(found, Missing):
        nothing = dict.fromkeys(names, found)
        return {"flown": nothing, "fixed": nothing, "utility_gain": found, "mission_epsilon_of_a_cell": found}
    return {
        "flown": _means(found.adaptive),
        "fixed": _means(found.fixed),
        "utility_gain": found.utility_gain,
        "mission_epsilon_of_a_cell": mission_epsilon(found.adaptive, DELTA),
    }


def _is_complete(frame: FrameLog) -> bool:
    return None not in (frame.gain_db, frame.budgets, frame.utility)


def _flown(frames: list[FrameLog]) -> FlightSeries:
    budgets = [frame.budgets for frame in frames if frame.budgets is not None]
    epsilon_v, epsilon_l, p_tx = np.array([(item.epsilon_v, item.epsilon_l, item.p_tx) for item in budgets]).T
    utility = np.array([frame.utility for frame in frames], np.float64)
    return FlightSeries(
        epsilon_v, epsilon_l, p_tx, utility, np.array([frame.status != "infeasible" for frame in frames])
    )


def _means(series: FlightSeries) -> dict[str, float]:
    return {
        "utility": float(series.utility.mean()),
        "constraints_held": float(series.feasible.mean()),
        "epsilon_v": float(series.epsilon_v.mean()),
        "epsilon_l": float(series.epsilon_l.mean()),
        "p_tx": float(series.p_tx.mean()),
    }
