"""Benchmarks of whole frames through all seven nodes in one process: what they cost beside the networks, and their age.

Pictures are 1920x1080, of one synthetic scene that is shown again and again. What a frame costs is the CPU time of the
whole process from one frame's end to the next one's, every thread and the middleware among them; its networks answer
at once, with what they answered to the first picture. How old a frame is goes by the wall clock, with the networks as
they are, so it needs two cores that nobody else uses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from uav_privacy_sc import graph
from uav_privacy_sc.bench.measure import Meter, Row
from uav_privacy_sc.bench.registry import benchmark
from uav_privacy_sc.data.sources import Source, SourceFrame, SyntheticSource
from uav_privacy_sc.flight import FlightConfig, FlightEvent

if TYPE_CHECKING:
    from uav_privacy_sc.nodes.cruise import CruiseLog

PICTURE = (1920, 1080)
#: Frames that do not count, and the most and fewest that do.
WARM_UP, MOST, FEWEST = 5, 300, 10
COST_MS, AGE, QUEUED_AGE = 25.0, 1.3, 2.5
#: Share of the time between frames in which cores, or perception alone, are busy at a rate that is held; rates against
#: what perception alone could do where it is not.
BUSY, OVERRUN = 0.8, 2.0
#: A rate is held when no more than this share of its frames is lost; else it is lowered by a factor, at most so often.
LOST, LOWER, LOWEST, TRIES = 0.01, 0.85, 0.5, 5
#: Frames that tell how busy a frame keeps the cores; cores that the limits are for.
PROBE, CORES = 20, 2
#: What a frame passes through between camera and mask; budgets come beside it, and the eavesdropper after.
STAGES = ("perceive", "protect", "link", "decode")


class Repeated(Source):
    """One picture, again and again."""

    kind = "images"

    def __init__(self, picture: np.ndarray, frames: int) -> None:
        super().__init__("one picture", 10.0, frames)
        self._picture, self._count = picture, frames

    def _frames(self) -> Iterator[SourceFrame]:
        for index in range(self._count):
            yield SourceFrame(index, self.stamp_ns(index), self._picture)


class Answered:
    """A network that answers at once: with what it answered first."""

    def __init__(self, network: Callable[..., Any]) -> None:
        self._network, self._answer = network, None

    def __call__(self, *inputs: Any) -> Any:
        if self._answer is None:
            self._answer = self._network(*inputs)
        return self._answer


@benchmark("frame_cost", "nodes", cores=2)
def frame_cost(meter: Meter) -> Iterator[Row]:
    """A 1080p frame from camera to mask and reconstruction, everything but the networks' forward passes: CPU time."""
    cpu, wall = frame_times_ms(networks(answered=True), _picture(), _frames(meter))
    measured = f"p50 {np.median(cpu):.3g}; wall {np.median(wall):.3g}, p95 {np.percentile(wall, 95):.3g} ms"
    yield Row("1080p frame, no networks, p95", float(np.percentile(cpu, 95)), "ms", COST_MS, True, measured)


@benchmark("frame_age", "nodes", cores=2)
def frame_age(meter: Meter) -> Iterator[Row]:
    """Age of a 1080p frame at the ground's mask, p95, against its stages' medians; at a rate that the detector holds
    beside the other nodes, and at one that it does not, where the newest frame has to win."""
    stages, picture, frames = networks(answered=False), _picture(), _frames(meter)
    yield held_age_row(stages, picture, frames, held_rate_hz(stages, picture))
    perceive_s = median_seconds(lambda: stages["perception"](picture))
    yield age_row("  at a rate too high", stages, picture, frames, OVERRUN / perceive_s, QUEUED_AGE)


def networks(answered: bool) -> dict[str, Any]:
    """Return the stages of the shipped networks by node; ``answered`` without the time of their forward passes."""
    from uav_privacy_sc.attack.inversion import InversionAttacker
    from uav_privacy_sc.perception.stage import GroundDecoder, Perception

    perception, ground, eve = Perception(device="cpu"), GroundDecoder(device="cpu"), InversionAttacker(device="cpu")
    if answered:
        places = ((perception.detector, "backend"), (perception, "encoder"), (ground, "decoder"), (eve, "network"))
        for owner, name in places:
            setattr(owner, name, Answered(getattr(owner, name)))
    return {"perception": perception, "ground": ground, "eavesdropper": eve}


def frame_times_ms(stages: dict[str, Any], picture: np.ndarray, frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each of ``frames`` flown one after the other, CPU and wall time in milliseconds."""
    ends: list[tuple[float, float]] = []

    def note(event: FlightEvent) -> None:
        if event.kind == "frame":
            ends.append((time.process_time(), time.perf_counter()))

    log = graph.fly(Repeated(picture, WARM_UP + frames + 1), _config(), note, stages=stages)
    if log.interrupted:
        raise KeyboardInterrupt
    cpu, wall = np.diff(np.array(ends[WARM_UP:]), axis=0).T * 1e3
    return cpu, wall


def held_rate_hz(stages: dict[str, Any], picture: np.ndarray) -> float:
    """Return the rate at which frames keep two cores, or perception, busy for :data:`BUSY` of the time.

    One frame flies at a time. What it costs all nodes together in CPU time counts, the eavesdropper's among it: the
    detector alone could do more frames than there is time for beside the others.
    """
    ends: list[float] = []

    def note(event: FlightEvent) -> None:
        if event.kind == "frame":
            ends.append(time.process_time())

    log = graph.fly(Repeated(picture, WARM_UP + PROBE), _config(), note, stages=stages)
    if log.interrupted:
        raise KeyboardInterrupt
    core_s = float(np.median(np.diff(ends[WARM_UP:]))) / CORES
    return BUSY / max(core_s, float(np.median(log.stage_ms["perceive"])) / 1e3)


def held_age_row(stages: dict[str, Any], picture: np.ndarray, frames: int, rate_hz: float) -> Row:
    """Return :func:`age_row` at the first rate, from ``rate_hz`` down, that is held.

    A rate is held when at most :data:`LOST` frames are lost, however old those are that get through, and perception,
    which takes longer beside the other nodes than alone, is busy for :data:`BUSY` of the time at most and has done 19
    frames of 20 before the next one comes: beyond, frames wait for it. The last rate that is tried counts in any case,
    and the row says how many frames it lost.
    """
    for left in range(TRIES, 0, -1):
        cruised = _cruise(stages, picture, frames, rate_hz)
        perceived = cruised.flight.stage_ms.get("perceive", [])[WARM_UP:]
        typical, slow = np.percentile(perceived, [50, 95]) / 1e3 if perceived else (0.0, 0.0)
        busy = rate_hz * max(float(typical), BUSY * float(slow))
        held = len(cruised.ages_ms) >= (1.0 - LOST) * (WARM_UP + frames) and busy <= BUSY
        if held or left == 1:
            break
        rate_hz *= min(LOWER, max(LOWEST, BUSY / max(busy, 1e-9)))
    return _age_row("frame age / stages, p95", cruised, frames, rate_hz, AGE)


def age_row(what: str, stages: dict[str, Any], picture: np.ndarray, frames: int, rate_hz: float, at_most: float) -> Row:
    """Return the 95th percentile of the frames' ages in sums of the medians of their stages, at a rate."""
    return _age_row(what, _cruise(stages, picture, frames, rate_hz), frames, rate_hz, at_most)


def _cruise(stages: dict[str, Any], picture: np.ndarray, frames: int, rate_hz: float) -> CruiseLog:
    cruised = graph.cruise(Repeated(picture, WARM_UP + frames), rate_hz, _config(), stages)
    if cruised.flight.interrupted:
        raise KeyboardInterrupt
    return cruised


def _age_row(what: str, cruised: CruiseLog, frames: int, rate_hz: float, at_most: float) -> Row:
    ages = cruised.ages_ms[WARM_UP:] or [float("inf")]
    passed = sum(float(np.median(cruised.flight.stage_ms[name])) for name in STAGES if cruised.flight.stage_ms[name])
    oldest = float(np.percentile(ages, 95))
    measured = f"{oldest:.3g}/{passed:.3g} ms, {rate_hz:.2g} Hz, {len(ages)}/{frames} decoded"
    return Row(what, oldest / passed if passed else float("inf"), "x", at_most, True, measured)


def median_seconds(call: Callable[[], object], times: int = 7) -> float:
    """Return the median of the wall times of a call."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def _config() -> FlightConfig:
    return FlightConfig(in_flight=1, keep_frames=2, device="cpu")


def _frames(meter: Meter) -> int:
    return min(MOST, max(FEWEST, meter.repeats))


def _picture() -> np.ndarray:
    import cv2

    image = next(iter(SyntheticSource(7, 10.0, 1))).image
    assert image is not None
    return np.ascontiguousarray(cv2.resize(image, PICTURE, interpolation=cv2.INTER_LINEAR))
