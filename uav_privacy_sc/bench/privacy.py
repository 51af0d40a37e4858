"""Benchmarks of the mechanisms."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.bench.algorithm2 import grid_loop, planar_laplace_loop
from uav_privacy_sc.bench.measure import Meter, Row
from uav_privacy_sc.bench.registry import benchmark
from uav_privacy_sc.privacy import lattice, location, matrix, normal, visual
from uav_privacy_sc.privacy.randomness import RandomStreams

CHANNELS, GRID = 64, (40, 40)
OBJECTS, PLACES = 50, 100
EPSILON_V, EPSILON_L, DELTA = 1.5, 3.5, 1e-5
GRID_SIZE, SCALE = 16, 100.0
#: The matrix whose mechanisms P2 times (Table 3), with entries in [-1, 1].
MATRIX, LOW, HIGH = (120, 400), -1.0, 1.0


def some_objects(count: int, rng: np.random.Generator) -> np.ndarray:
    """Return objects of all classes, of a drone's sizes, in random places."""
    labels = np.arange(count) % len(scene.OBJECT_CLASSES)
    sizes = rng.uniform(0.02, 0.12, (count, 2))
    return scene.make_objects(rng.random((count, 2)), sizes, labels, 0.9)


@benchmark("region_aware", "privacy")
def region_aware(meter: Meter) -> Iterator[Row]:
    """Budget map, clip and noise for 64x40x40 features and 50 objects, against the bare cryptographic draw."""
    yield from _release(meter, "region-aware", visual.VisualConfig(), 1.3, "P1 1.41 ms", 2.5, "P1 505 KB")


@benchmark("lattice", "privacy")
def lattice_release(meter: Meter) -> Iterator[Row]:
    """The same on the lattice, as in the hardened profile."""
    config = visual.VisualConfig(lattice_step=lattice.STEP)
    yield from _release(meter, "lattice", config, 1.3, "", 2.5, "")


def _release(
    meter: Meter,
    what: str,
    config: visual.VisualConfig,
    at_most: float,
    published: str,
    tensors: float,
    published_memory: str,
) -> Iterator[Row]:
    rng, streams = np.random.default_rng(0), RandomStreams()
    features = rng.standard_normal((CHANNELS, *GRID), np.float32)
    objects = some_objects(OBJECTS, rng)

    def release() -> np.ndarray:
        epsilon = visual.allocate(objects, GRID, EPSILON_V, config)
        return visual.release(features, epsilon, config, streams.visual)

    def draw() -> np.ndarray:
        return streams.visual.standard_normal(features.shape, np.float32)

    def own_draw() -> np.ndarray:
        return normal.standard_normal(features.shape, streams.visual)

    yield Row.slowdown(f"{what} / draw", meter.compare(release, draw), at_most=at_most, published=published)
    yield Row.slowdown("  / the draw it makes", meter.compare(release, own_draw))
    peak = meter.peak_bytes(release)
    yield Row.memory(f"{what}, memory", peak, features.nbytes, at_most=tensors, published=published_memory)


@benchmark("location", "privacy")
def places(meter: Meter) -> Iterator[Row]:
    """Grid and planar Laplace for 100 objects, against loops written as Algorithm 2 reads."""
    centers, rng = np.random.default_rng(0).random((PLACES, 2)), RandomStreams().location
    grid = meter.compare(
        lambda: location.release_grid(centers, EPSILON_L, GRID_SIZE, rng),
        lambda: grid_loop(centers, EPSILON_L, GRID_SIZE, rng),
    )
    yield Row.speedup("grid / Algorithm 2", grid, at_least=20.0, published="P1 0.10 ms")
    laplace = meter.compare(
        lambda: location.release_planar_laplace(centers, EPSILON_L, SCALE, rng),
        lambda: planar_laplace_loop(centers, EPSILON_L, SCALE, rng),
    )
    yield Row.speedup("Laplace / Algorithm 2", laplace, at_least=20.0, published="P1 0.10 ms")


@benchmark("matrix", "privacy")
def matrices(meter: Meter) -> Iterator[Row]:
    """P2's UDN and IDN, set up and drawn once for 120x400, against the Gaussian."""
    rng, entries = RandomStreams().visual, MATRIX[0] * MATRIX[1]
    sensitivity = (HIGH - LOW) * float(np.sqrt(entries))

    def gaussian() -> np.ndarray:
        return matrix.gaussian(MATRIX, 1.0, DELTA, sensitivity).sample(rng)

    udn = meter.compare(lambda: matrix.udn(MATRIX, 1.0, DELTA, sensitivity).sample(rng), gaussian)
    yield Row.slowdown("UDN / Gaussian", udn, at_most=1.2, published="P2 1.51x")
    idn = meter.compare(lambda: matrix.idn(MATRIX, 1.0, DELTA, LOW, HIGH).sample(rng), gaussian)
    yield Row.slowdown("IDN / Gaussian", idn, at_most=1.2, published="P2 1.37x")


@benchmark("matrix_release", "privacy")
def matrix_releases(meter: Meter) -> Iterator[Row]:
    """The same as visual mechanisms on 64x40x40 features, clip and budget included, against uniform Gaussian noise."""
    rng, streams = np.random.default_rng(0), RandomStreams()
    features = rng.standard_normal((CHANNELS, *GRID), np.float32)

    def release(mechanism: str) -> None:
        config = visual.VisualConfig(mechanism, channels=CHANNELS)
        epsilon = visual.allocate(scene.no_objects(), GRID, EPSILON_V, config)
        visual.release(features, epsilon, config, streams.visual)

    for name in ("udn", "idn"):
        timing = meter.compare(partial(release, f"matrix_{name}"), partial(release, "uniform"))
        yield Row.slowdown(f"{name.upper()} release / uniform", timing, at_most=1.2)
