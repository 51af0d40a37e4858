"""``demo`` and ``run``: fly a source through the whole graph, measure the flight, write what it came to."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, progress_bar, say
from uav_privacy_sc.commands.interrupts import stoppable, undisturbed
from uav_privacy_sc.control.policy import ScenarioPolicy, select_policy
from uav_privacy_sc.data.sources import BAG_SUFFIXES, Source, open_source
from uav_privacy_sc.evaluation.headline import terminal_lines
from uav_privacy_sc.evaluation.measures import FlightMeasures, FlightMeter, frames_to_show
from uav_privacy_sc.evaluation.report import SHOWN_FRAMES, write_report
from uav_privacy_sc.evaluation.summary import SourceFacts, summarize, write_metrics
from uav_privacy_sc.flight import FlightConfig, FlightEvent, FlightLog
from uav_privacy_sc.graph import config_file, fly
from uav_privacy_sc.pipeline import BudgetStage
from uav_privacy_sc.privacy.ledger import LedgerError

_NETWORKS_AT_ONCE = 2
BAG, METRICS, REPORT = "bag", "metrics.json", "report.html"


@dataclass(frozen=True)
class FlightOrder:
    """What to fly, how, and where the results go."""

    source: str
    out: Path
    config: FlightConfig
    rate_hz: float | None = None
    frames: int | None = None
    topic: str | None = None
    epsilon_v: float | None = None
    epsilon_l: float | None = None
    as_json: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def carry_out(order: FlightOrder) -> int:
    """Fly and report; return the exit status: 1 when not one frame was released, else 0.

    Raises:
        ValueError: something in the order, its source or its weights cannot be used; one line.
    """
    policy = fixed_policy(order)
    config_file(order.config.profile)
    with open_source(order.source, order.rate_hz, order.frames, order.topic) as source:
        prepare_folder(order.out)
        for note in source.notes:
            say(note)
        cores = _share_cores()
        with progress_bar() as bar:
            log = _fly(order, source, policy, bar)
            measures = _measure(order, log, bar, cores)
        facts = SourceFacts(source.kind, dict(source.oddities), tuple(source.notes))
    with undisturbed():
        summary = summarize(log, measures, facts, order.options)
        try:
            write_metrics(order.out / METRICS, summary)
            write_report(order.out / REPORT, log, measures, summary)
        except OSError as error:
            say(f"error: the results do not fit into {order.out}: {error.strerror or error}; below is all of them")
            return max(1, _tell(order, log, summary, written=False))
        return _tell(order, log, summary)


def _share_cores() -> int:
    """Give each network half of the cores, because two are at work at any time, and return how many may be.

    More threads than cores wait for one another: on two cores, one of them busy otherwise, a decoding took 297 ms with
    two threads and 24 ms with one.
    """
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, cores // _NETWORKS_AT_ONCE))
    return min(cores, _NETWORKS_AT_ONCE)


def fixed_policy(order: FlightOrder) -> ScenarioPolicy:
    """Return the scenario's policy, confined to the budgets that the order fixes, if any.

    A fixed epsilon_v leaves the rest of the scenario's total to epsilon_l, and the other way round; fixing both sets
    the total.
    """
    policy = select_policy(order.config.scenario, order.config.scenarios_file)
    epsilon_v, epsilon_l = order.epsilon_v, order.epsilon_l
    if epsilon_v is None and epsilon_l is None:
        return policy
    for name, value in (("epsilon-v", epsilon_v), ("epsilon-l", epsilon_l)):
        if value is not None and not 0 < value < float("inf"):
            raise BadInput(f"{name} is {value}; give a finite number above 0")
    if epsilon_v is None:
        epsilon_v = _rest(policy, "epsilon-l", epsilon_l or 0.0)
    elif epsilon_l is None:
        epsilon_l = _rest(policy, "epsilon-v", epsilon_v)
    assert epsilon_l is not None
    # Rounded up, so that the total less one budget is not below the other by the last bit.
    total = float(np.nextafter(epsilon_v + epsilon_l, np.inf))
    return replace(policy, epsilon_v_min=epsilon_v, epsilon_l_min=epsilon_l, epsilon_total=total)


def _rest(policy: ScenarioPolicy, name: str, given: float) -> float:
    rest = policy.epsilon_total - given
    if rest <= 0:
        raise BadInput(
            f"{name} is {given:g}, but scenario {policy.name} has {policy.epsilon_total:g} in all; "
            "give less, or fix both budgets"
        )
    return rest


def prepare_folder(out: Path) -> None:
    """Create the folder of the results, make sure that it can be written, and remove what an earlier flight left.

    Raises:
        BadInput: it cannot be written, or what is to be replaced is not a bag.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
        _remove_bag(out / BAG)
        for name in (METRICS, REPORT):  # a flight that fails must not stand beside another's results
            (out / name).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"out folder {out} cannot be written: {error.strerror or error}") from None


def _remove_bag(bag: Path) -> None:
    if not bag.exists():
        return
    ours = bag.is_dir() and all(
        child.name == "metadata.yaml" or child.suffix in BAG_SUFFIXES for child in bag.iterdir()
    )
    if not ours:
        raise BadInput(f"{bag} exists and is no rosbag2; give another --out")
    shutil.rmtree(bag)


def _fly(order: FlightOrder, source: Source, policy: ScenarioPolicy, bar: Progress) -> FlightLog:
    task = bar.add_task("starting", total=source.length, note="")

    def observe(event: FlightEvent) -> None:
        dropped = "" if event.frame is None or event.frame.dropped is None else f"dropped: {event.frame.dropped}"
        bar.update(task, description="flying", completed=event.done, note=dropped[:60])

    fixed = order.epsilon_v is not None or order.epsilon_l is not None
    stages = {"budget_server": BudgetStage(policy)} if fixed else {}
    try:
        return fly(source, order.config, observe, order.out / BAG, stages=stages)
    except LedgerError as error:
        raise BadInput(str(error)) from None


def _measure(order: FlightOrder, log: FlightLog, bar: Progress, workers: int) -> FlightMeasures:
    """Measure the flight with networks of the evaluation's own; a Ctrl-C here keeps what was measured until then."""
    measures = FlightMeasures()
    try:
        with stoppable():
            meter = _meter(order, log, workers)
            task = bar.add_task("measuring", total=sum(frame.image is not None for frame in log.frames), note="")
            meter.measure(log, lambda: bar.advance(task), measures)
    except KeyboardInterrupt:
        log.interrupted = True
    return measures


def _meter(order: FlightOrder, log: FlightLog, workers: int) -> FlightMeter:
    from uav_privacy_sc.attack.inversion import InversionAttacker
    from uav_privacy_sc.perception.stage import GroundDecoder

    config = order.config
    attacker = InversionAttacker(config.weights, config.device)
    decoder = GroundDecoder(config.weights, config.device)
    keep = [frame.index for frame in frames_to_show(log, SHOWN_FRAMES)]
    return FlightMeter(attacker, decoder, np.random.default_rng(config.seed), keep, workers)


def _tell(order: FlightOrder, log: FlightLog, summary: dict[str, Any], written: bool = True) -> int:
    if log.interrupted:
        say(f"interrupted after {len(log.frames)} frames; what was measured so far is in {order.out}")
    if log.bag_fault:
        say(f"warning: {log.bag_fault}")
    if order.as_json:
        print_json(summary)
    else:
        where = [("report", f"{order.out / REPORT}, {METRICS} and {BAG} beside it")] if written else []
        print_lines([*terminal_lines(summary), *where])
    if log.counts["released"] or log.interrupted:
        return 0
    reasons = sorted(log.dropped.items(), key=lambda item: -item[1])
    say(f"error: nothing was released: {reasons[0][0] if reasons else 'the source held no frame'}")
    return 1
