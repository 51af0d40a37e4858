"""Benchmarks of the link and the controller."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count

import numpy as np

from uav_privacy_sc.bench.measure import Meter, Row
from uav_privacy_sc.bench.privacy import some_objects
from uav_privacy_sc.bench.registry import benchmark
from uav_privacy_sc.control.algorithm3 import plain_grid_search
from uav_privacy_sc.control.bcd import optimize_at_db
from uav_privacy_sc.control.policy import load_policies
from uav_privacy_sc.link.channel import LinkConfig, transmit_features, transmit_objects
from uav_privacy_sc.link.process import LinkProcess
from uav_privacy_sc.pipeline import LinkStage

SHAPE, DESCRIPTORS = (16, 40, 40), 200
GAIN_DB = 12.0
#: How far the utility of the fast solver may lie below that of the plain search.
SAME = 1e-3


@benchmark("link", "link")
def link(meter: Meter) -> Iterator[Row]:
    """A block with 16x40x40 features and 200 descriptors, to one party and as flown to both, against the bare draws."""
    rng, config = np.random.default_rng(0), LinkConfig()
    features, objects = rng.standard_normal(SHAPE, np.float32), some_objects(DESCRIPTORS, rng)
    process, stage, times = LinkProcess(config, rng), LinkStage(config, rng, rng), count()

    def send() -> None:
        state = process.state(0.1 * next(times))
        transmit_features(features, 1.0, state, rng)
        transmit_objects(objects, 1.0, state, rng, config, with_scale=True)

    def draw() -> np.ndarray:
        return rng.standard_normal(SHAPE, np.float32)

    yield Row.slowdown("link / draw", meter.compare(send, draw), at_most=1.5)
    both = meter.compare(lambda: stage(features, objects, 1.0, 100_000_000 * next(times)), lambda: (draw(), draw()))
    yield Row.slowdown("both links / 2 draws", both, at_most=1.5)


@benchmark("control", "control")
def control(meter: Meter) -> Iterator[Row]:
    """A full BCD solve of each scenario at 12 dB, against a plain grid search written as Algorithm 3 reads."""
    few = Meter(max(1, meter.repeats // 10), min(meter.warmup, 1))
    gain, lost = 10 ** (GAIN_DB / 10), 0.0
    for name, policy in load_policies().items():
        solve = partial(optimize_at_db, policy, GAIN_DB)
        search = partial(plain_grid_search, policy, gain)
        yield Row.duration(f"BCD, {name}", meter.seconds(solve), at_most_ms=1.0, published="P1 19.0 ms")
        yield Row.speedup("  / Algorithm 3", few.compare(solve, search), at_least=15.0)
        lost = max(lost, search()[1] - solve().utility)
    yield Row("BCD, utility lost", lost, "", SAME)
