"""Benchmarks of perception: the whole of it against the bare network, the codec against the detector, and memory."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from statistics import median

import numpy as np

from uav_privacy_sc.bench.measure import Meter, Row
from uav_privacy_sc.bench.registry import benchmark
from uav_privacy_sc.scene import OBJECT_CLASSES

#: The picture that is perceived, and the long side of the network's input in the memory run.
PICTURE, SMALL_SIDE = (540, 960), 64
#: Frames of the memory run; fewer with few repeats, and the row says how many.
FRAMES, LEAST_FRAMES = 2000, 100


def _picture() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (*PICTURE, 3), np.uint8)


def _few(meter: Meter) -> Meter:
    return Meter(max(5, meter.repeats // 5), min(meter.warmup, 2))


@benchmark("perception", "perception")
def perception(meter: Meter) -> Iterator[Row]:
    """A 960x540 picture to features and objects, against its network's bare forward pass at 640; then the other
    networks' forward passes (encoder, decoder, inverter) against the detector's."""
    import torch

    from uav_privacy_sc.attack.inversion import InversionAttacker
    from uav_privacy_sc.perception.codec import mask_shape
    from uav_privacy_sc.perception.image import to_tensor
    from uav_privacy_sc.perception.stage import GroundDecoder, Perception

    stage, decoder, inverter = Perception(device="cpu"), GroundDecoder(device="cpu"), InversionAttacker(device="cpu")
    picture, few = _picture(), _few(meter)
    batch, percept = to_tensor(picture), stage(picture)

    @torch.inference_mode()
    def network() -> None:
        stage.detector.backend(batch)

    @torch.inference_mode()
    def codec() -> None:
        stage.encoder(tap)
        decoder.decoder(code, prior)
        inverter.network(code)

    _, tap = stage.detector.infer(batch)
    code = torch.from_numpy(percept.features)[None]
    prior = torch.zeros(1, len(OBJECT_CLASSES), *mask_shape(code.shape, decoder.mask_scale))
    yield Row.slowdown("perception / network", few.compare(lambda: stage(picture), network), at_most=1.15)
    yield Row.slowdown("codec, attacker / network", few.compare(codec, network), at_most=0.25)


@benchmark("perception_memory", "perception")
def memory(meter: Meter) -> Iterator[Row]:
    """Resident memory in the last tenth of 2,000 frames (fewer with few repeats) against the second tenth."""
    from uav_privacy_sc.perception.detector import Detector
    from uav_privacy_sc.perception.weights import shipped

    detector, picture = Detector(shipped("detector.pt"), long_side=SMALL_SIDE), _picture()
    frames = min(FRAMES, max(LEAST_FRAMES, 10 * meter.repeats))
    yield memory_growth(lambda: detector(picture), frames)


def memory_growth(call: Callable[[], object], frames: int) -> Row:
    """Return by what factor the median resident memory of the last tenth of ``frames`` calls is the second tenth's."""
    import psutil

    process, tenth = psutil.Process(), max(1, frames // 10)
    held: dict[int, list[int]] = {1: [], 9: []}
    for frame in range(frames):
        call()
        if frame // tenth in held and frame % max(1, tenth // 5) == 0:
            gc.collect()
            held[frame // tenth].append(process.memory_info().rss)
    second, last = (median(samples) for samples in held.values())
    measured = f"{last / 1e6:.0f}/{second / 1e6:.0f} MB"
    return Row(f"memory, {frames} frames", last / second, "x", 1.05, True, measured)
