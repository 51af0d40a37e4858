"""``optimize``: the controller alone, for one gain, or over a trajectory against fixed budgets and power."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, say
from uav_privacy_sc.control.adaptation import Comparison, FlightSeries, compare, mission_epsilon
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy, inherited_values, select_policy
from uav_privacy_sc.control.tracking import TrackingConfig
from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.link.trajectory import load_trajectory

DELTA = 1e-5
MOST_BLOCKS = 100_000
LEAST_RATE_HZ = 1e-6
#: What only a trajectory makes use of, as on the command line and as it is by default.
FOR_TRAJECTORIES = {"fading": "rayleigh", "rate_hz": 10.0, "seed": 0}


@dataclass(frozen=True)
class Solving:
    """What to solve: ``gain_db`` or ``trajectory``, and where to draw it; the rest is for a trajectory."""

    scenario: str
    scenarios_file: Path | None
    gain_db: float | None
    trajectory: Path | None
    plot: Path | None
    fading: str
    rate_hz: float
    seed: int
    as_json: bool


def carry_out(order: Solving) -> int:
    """Solve, print and draw; return 1 when no point meets every constraint of the scenario, else 0.

    Over a trajectory: 1 when no block's point does; how many do not is printed.

    Raises:
        ValueError: no such scenario, a gain out of range, or a trajectory that cannot be used; one line.
    """
    _check(order)
    policy = select_policy(order.scenario, order.scenarios_file)
    inherited = inherited_values(order.scenario, order.scenarios_file)
    if inherited:
        say(f"{order.scenarios_file}, {order.scenario}: not given, so as shipped: {inherited}")
    if order.trajectory is not None:
        return _follow(order, policy, order.trajectory)
    assert order.gain_db is not None
    point = optimize_at_db(policy, order.gain_db)
    if order.plot is not None:
        from uav_privacy_sc.evaluation.control_plot import draw_solve

        _draw(order.plot, lambda path: draw_solve(policy, order.gain_db or 0.0, point, path))
    if order.as_json:
        print_json({"scenario": order.scenario, "gain_db": order.gain_db, **asdict(point)})
    else:
        _print(order.scenario, order.gain_db, point)
    return 0 if point.feasible else 1


def _check(order: Solving) -> None:
    if (order.gain_db is None) == (order.trajectory is None):
        both = order.gain_db is not None
        raise BadInput("--gain and --trajectory: give one of them" + (", not both" if both else ""))
    if order.trajectory is None:
        for name, default in FOR_TRAJECTORIES.items():
            if getattr(order, name) != default:
                option = name.removesuffix("_hz")
                raise BadInput(f"--{option} says something about a --trajectory only; with --gain leave it out")
    if not (math.isfinite(order.rate_hz) and order.rate_hz >= LEAST_RATE_HZ):
        raise BadInput(f"rate is {order.rate_hz}; give a finite number of blocks a second, at least {LEAST_RATE_HZ:g}")
    if order.seed < 0:
        raise BadInput(f"seed is {order.seed}; give a whole number of at least 0")
    if order.plot is not None:
        from uav_privacy_sc.evaluation.odometer_plot import SUFFIXES

        if order.plot.suffix.lower() not in SUFFIXES:
            raise BadInput(f"plot {order.plot} has no known ending; give one of {', '.join(SUFFIXES)}")


def _draw(path: Path, draw: Any) -> None:
    try:
        draw(path)
    except OSError as error:
        raise BadInput(f"plot {path} cannot be written: {error.strerror or error}") from None
    say(f"plotted to {path}")


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


def _follow(order: Solving, policy: ScenarioPolicy, trajectory: Path) -> int:
    """Fly the trajectory through the link and the controller as the nodes run them, without frames."""
    config = LinkConfig(fading=order.fading)
    path = load_trajectory(trajectory, gap_remedy="fill it")
    duration = float(path.time_s[-1] - path.time_s[0])
    blocks = duration * order.rate_hz
    if not blocks < MOST_BLOCKS:
        at = f"trajectory of {duration:g} s at {order.rate_hz:g} blocks a second"
        raise BadInput(f"{at} has {blocks:g}, more than {MOST_BLOCKS}; lower --rate")
    count = int(blocks) + 1
    ground, eve = (np.random.default_rng([order.seed, number]) for number in range(2))
    links = FlightLinks(config, ground, eve, path)
    time_s = float(path.time_s[0]) + np.arange(count) / order.rate_hz
    distance = np.array([links.views(float(t))[0].distance_m for t in time_s])
    blockage = np.array([path.blockage(float(t)) for t in time_s])
    gains = np.array([links.states(float(t))[0].gain_db for t in time_s])
    flown = compare(policy, gains, DELTA, TrackingConfig())
    if order.plot is not None:
        from uav_privacy_sc.evaluation.control_plot import FlightPath, draw_flight

        _draw(order.plot, lambda file: draw_flight(policy, flown, FlightPath(time_s, distance, blockage), DELTA, file))
    _tell(order, trajectory, flown, duration)
    return 0 if flown.adaptive.feasible.any() else 1


def _tell(order: Solving, trajectory: Path, flown: Comparison, duration: float) -> None:
    block_s = 1.0 / order.rate_hz
    found = {name: _means(getattr(flown, name), block_s) for name in ("adaptive", "fixed")}
    infeasible = int((~flown.adaptive.feasible).sum())
    if order.as_json:
        head = {"scenario": order.scenario, "trajectory": str(trajectory), "blocks": len(flown.gain_db), "delta": DELTA}
        head["infeasible_blocks"] = infeasible
        print_json({**head, **found, "utility_gain": flown.utility_gain})
        return
    print_lines(
        [
            ("scenario", f"{order.scenario} over {trajectory}: {len(flown.gain_db)} blocks in {duration:g} s"),
            ("infeasible", f"{infeasible} of {len(flown.gain_db)} blocks miss a constraint, following"),
            ("gain", f"{flown.gain_db.min():.1f} to {flown.gain_db.max():.1f} dB, fading {order.fading}"),
            ("gained", f"{flown.utility_gain:+.4f} utility at equal mission epsilon and energy"),
        ]
    )
    rows = [(name.replace("_", " "), *(f"{found[case][name]:.4g}" for case in found)) for name in found["adaptive"]]
    print_table(("mean of the flight", *found), rows)


def _means(series: FlightSeries, block_s: float) -> dict[str, float]:
    """Return what a flight came to; energy as if each block were transmitted in all of its time."""
    return {
        "utility": float(series.utility.mean()),
        "constraints_held": float(series.feasible.mean()),
        "epsilon_v": float(series.epsilon_v.mean()),
        "epsilon_l": float(series.epsilon_l.mean()),
        "p_tx_w": float(series.p_tx.mean()),
        "energy_j": float(series.p_tx.sum() * block_s),
        "mission_epsilon": mission_epsilon(series, DELTA),
    }
