"""Things that stand about and are none of the ten classes: lamps, signs, stalls, containers, heaps, walls.

They give a detector something to be wrong about: a stall's canopy is no awning-tricycle, a container no truck.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from uav_privacy_sc.data.synthetic.bodies import Body, assemble, box, hue

_STEEL = (150.0, 152.0, 150.0)


def _grey(rng: np.random.Generator, low: float, high: float) -> tuple[float, ...]:
    return tuple(rng.uniform(low, high) + rng.normal(0, 4, 3))


def lamp(rng: np.random.Generator) -> Body:
    """A street lamp whose arm points forward, over the road."""
    height, reach = rng.uniform(7.0, 10.0), rng.uniform(1.8, 3.2)
    return assemble(
        box((0, 0, 0), (0.22, 0.22, height), _STEEL),
        box((reach / 2, 0, height - 0.1), (reach, 0.12, 0.12), _STEEL),
        box((reach, 0, height - 0.2), (0.8, 0.3, 0.14), (225, 225, 220)),
    )


def sign(rng: np.random.Generator) -> Body:
    height, width = rng.uniform(2.2, 5.0), rng.uniform(0.6, 2.6)
    panel = hue(rng) if rng.random() < 0.6 else (40, 90, 160)
    return assemble(
        box((0, 0, 0), (0.12, 0.12, height), _STEEL),
        box((0.1, 0, height - 0.9), (0.08, width, 0.9), (120, 122, 120), front=panel),
    )


def stall(rng: np.random.Generator) -> Body:
    """A market stall: a table under a canopy."""
    length, width = rng.uniform(1.8, 3.6), rng.uniform(1.6, 2.4)
    canopy = hue(rng) if rng.random() < 0.6 else _grey(rng, 90, 230)
    posts = [box((s * length * 0.46, t * width * 0.46, 0), (0.06, 0.06, 2.1), _STEEL) for s in (-1, 1) for t in (-1, 1)]
    goods = box((0, 0, 0.7), (length * 0.7, width * 0.6, 0.3), tuple(rng.uniform(60, 200, 3)))
    return assemble(
        box((0, 0, 0), (length * 0.8, width * 0.7, 0.7), _grey(rng, 80, 160)),
        goods,
        *posts,
        box((0, 0, 2.1), (length, width, 0.35), canopy, taper=(rng.uniform(0.1, 0.9), rng.uniform(0.2, 0.9))),
    )


def parasol(rng: np.random.Generator) -> Body:
    size = rng.uniform(1.4, 2.8)
    return assemble(
        box((0, 0, 0), (0.08, 0.08, 2.0), _STEEL), box((0, 0, 2.0), (size, size, 0.5), hue(rng), taper=(0.15, 0.15))
    )


def container(rng: np.random.Generator) -> Body:
    color = tuple(np.asarray(hue(rng)) * rng.uniform(0.6, 1.0)) if rng.random() < 0.7 else _grey(rng, 130, 215)
    return assemble(box((0, 0, 0), (rng.choice([6.1, 12.2]), 2.44, 2.6), color))


def heap(rng: np.random.Generator) -> Body:
    """Sand, gravel or refuse."""
    color = np.array([150, 130, 100]) * rng.uniform(0.5, 1.3) + rng.normal(0, 10, 3)
    length, width = rng.uniform(1.0, 7.0), rng.uniform(1.0, 5.0)
    return assemble(
        box((0, 0, 0), (length, width, rng.uniform(0.5, 2.0)), tuple(np.clip(color, 20, 235)), taper=(0.4, 0.4))
    )


def stack(rng: np.random.Generator) -> Body:
    """Blocks, crates or pallets, a few side by side."""
    parts = []
    for k in range(rng.integers(2, 6)):
        size = rng.uniform(0.8, 2.2, 2)
        color = _grey(rng, 90, 200) if rng.random() < 0.6 else tuple(rng.uniform(70, 190, 3))
        parts.append(box((k * 1.6 - 3, rng.normal(0, 0.5), 0), (*size, rng.uniform(0.5, 2.2)), color))
    return assemble(*parts)


def wall(rng: np.random.Generator) -> Body:
    length, height = rng.uniform(6, 26), rng.uniform(1.0, 2.4)
    color = _grey(rng, 120, 210) if rng.random() < 0.6 else (150, 90, 70)
    return assemble(box((0, 0, 0), (length, 0.3, height), color))


def shed(rng: np.random.Generator) -> Body:
    length, width, height = rng.uniform(3, 9), rng.uniform(2.5, 5), rng.uniform(2.2, 3.2)
    roof = np.array(_ROOFS[rng.integers(len(_ROOFS))]) + rng.normal(0, 10, 3)
    return assemble(
        box((0, 0, 0), (length, width, height), tuple(_grey(rng, 120, 220))),
        box((0, 0, height), (length * 1.06, width * 1.08, rng.uniform(0.2, 1.0)), tuple(roof), taper=(1.0, 0.15)),
    )


_ROOFS = ((150, 82, 66), (70, 110, 165), (165, 168, 170), (110, 108, 105), (185, 120, 130))

#: Makers by the name a town calls them.
FIXTURES: dict[str, Callable[[np.random.Generator], Body]] = {
    "lamp": lamp,
    "sign": sign,
    "stall": stall,
    "parasol": parasol,
    "container": container,
    "heap": heap,
    "stack": stack,
    "wall": wall,
    "shed": shed,
}
