"""Solid bodies of the ten VisDrone classes, and of buildings: tapered boxes with a colour for each face.

Local axes in metres: x forward, y left, z up, origin on the ground below the middle. A body is a ``Body``: stacked
boxes, drawn bottom to top, which is the right order for a camera that looks down.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

#: Corners of a unit box: bottom four, then top four, counter-clockwise seen from above.
_CORNERS = np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) / 2.0
#: Faces as corner indices, seen from outside counter-clockwise: top, front (+x), back, left (+y), right.
FACES = np.array([[4, 5, 6, 7], [0, 4, 7, 3], [2, 6, 5, 1], [1, 5, 4, 0], [3, 7, 6, 2]])

Color = Sequence[float]
GLASS: Color = (38, 46, 58)
RUBBER: Color = (28, 28, 30)
SKIN: Color = (205, 160, 130)


@dataclass(frozen=True)
class Body:
    """Boxes of one body: ``(B, 8, 3)`` local corners and ``(B, 5, 3)`` face colours (RGB, 0 to 255)."""

    corners: np.ndarray
    colors: np.ndarray


def box(
    center: tuple[float, float, float],
    size: tuple[float, float, float],
    color: Color,
    sides: Color | None = None,
    front: Color | None = None,
    taper: tuple[float, float] = (1.0, 1.0),
) -> tuple[np.ndarray, np.ndarray]:
    """One tapered box: ``center`` is the middle of its base, ``taper`` scales its top in x and y."""
    x, y, z = center
    corners = np.zeros((8, 3))
    corners[:4, :2] = _CORNERS * size[:2]
    corners[4:, :2] = _CORNERS * size[:2] * taper
    corners[4:, 2] = size[2]
    colors = np.array([color] + [sides or color] * 4, float)
    if front is not None:
        colors[1] = front
    return corners + (x, y, z), colors


def assemble(*parts: tuple[np.ndarray, np.ndarray]) -> Body:
    """Return the body of some boxes, the lowest first."""
    return Body(np.stack([p[0] for p in parts]), np.stack([p[1] for p in parts]))


#: Paints of vehicles besides white, silver, grey and black: reds, blues, greens, browns, yellows.
_PAINTS = ((150, 30, 32), (176, 48, 40), (40, 62, 120), (62, 98, 160), (52, 84, 66), (110, 84, 62), (214, 170, 48))


def _paint(rng: np.random.Generator, vivid: float = 0.25) -> Color:
    """A vehicle's colour: white, silver, grey or black mostly, else a paint or, now and then, any hue."""
    if rng.random() > vivid:
        grey = rng.choice([238, 232, 222, 190, 165, 120, 80, 45, 32]) + rng.normal(0, 6)
        return tuple(np.clip(grey + rng.normal(0, 3, 3), 15, 250))
    if rng.random() < 0.75:
        return tuple(np.clip(np.array(_PAINTS[rng.integers(len(_PAINTS))]) * rng.uniform(0.8, 1.2), 10, 250))
    return hue(rng)


def hue(rng: np.random.Generator, low: float = 40, high: float = 225) -> Color:
    """Return a saturated colour, as of clothes, canopies and shop signs."""
    color = rng.uniform(low, low + 50, 3)
    color[rng.integers(3)] = rng.uniform(150, high)
    if rng.random() < 0.3:
        color[rng.integers(3)] = rng.uniform(140, high)
    return tuple(color + rng.uniform(0.1, 0.45) * (color.mean() - color))


def _wheels(length: float, width: float, radius: float) -> list[tuple[np.ndarray, np.ndarray]]:
    offsets = [(s * length * 0.32, t * width * 0.46) for s in (-1, 1) for t in (-1, 1)]
    return [box((x, y, 0), (2 * radius, 0.22, 2 * radius), RUBBER) for x, y in offsets]


def _lamps(length: float, width: float, z: float) -> list[tuple[np.ndarray, np.ndarray]]:
    front = [box((length / 2, s * width * 0.36, z), (0.12, 0.3, 0.14), (245, 240, 210)) for s in (-1, 1)]
    rear = [box((-length / 2, s * width * 0.38, z), (0.12, 0.28, 0.16), (190, 25, 25)) for s in (-1, 1)]
    return front + rear


def car(rng: np.random.Generator) -> Body:
    """A saloon, a hatchback or a high estate: bonnet, cabin of glass, roof in the body's paint."""
    length, width, height = rng.uniform(3.8, 4.9), rng.uniform(1.7, 1.9), rng.uniform(1.42, 1.75)
    paint = _paint(rng)
    tall = (height - 1.42) / 0.33
    cabin = (rng.uniform(0.46, 0.56) + 0.14 * tall) * length
    shift = rng.uniform(-0.25, -0.02) - 0.3 * tall
    roof = paint if rng.random() < 0.9 else GLASS
    return assemble(
        *_wheels(length, width, 0.33),
        box((0, 0, 0.22), (length, width, 0.6), paint, taper=(0.97, 0.96)),
        *_lamps(length, width, 0.5),
        box((shift, 0, 0.8), (cabin, width * 0.93, height - 0.84), GLASS, taper=(0.66 + 0.16 * tall, 0.84)),
        box((shift - 0.05, 0, height - 0.06), (cabin * (0.64 + 0.16 * tall), width * 0.8, 0.06), roof),
    )


def van(rng: np.random.Generator) -> Body:
    length, width, height = rng.uniform(4.7, 5.9), rng.uniform(1.85, 2.1), rng.uniform(1.95, 2.5)
    paint = _paint(rng, 0.2)
    return assemble(
        *_wheels(length, width, 0.36),
        box((0, 0, 0.25), (length, width, 0.85), paint),
        *_lamps(length, width, 0.6),
        box((-0.25, 0, 1.1), (length - 0.5, width * 0.97, height - 1.2), paint, front=GLASS, taper=(0.88, 0.93)),
        box((length * 0.24, 0, 1.15), (length * 0.3, width * 0.985, 0.55), GLASS, taper=(0.85, 0.96)),
        box((-0.3, 0, height - 0.12), (length * 0.8, width * 0.88, 0.12), paint),
    )


def truck(rng: np.random.Generator) -> Body:
    length, width, height = rng.uniform(6.5, 10.5), rng.uniform(2.3, 2.55), rng.uniform(2.7, 3.6)
    cab, paint = rng.uniform(1.8, 2.3), _paint(rng, 0.65)
    bed = length - cab - 0.35
    parts = [
        *_wheels(length, width, 0.5),
        box((0, 0, 0.55), (length, width * 0.8, 0.3), (60, 60, 62)),
        box((length / 2 - cab / 2, 0, 0.6), (cab, width * 0.96, 1.0), paint),
        box((length / 2 - cab / 2, 0, 1.6), (cab, width * 0.95, 0.9), paint, front=GLASS, taper=(0.8, 0.95)),
    ]
    middle = -length / 2 + bed / 2
    if rng.random() < 0.6:
        parts.append(box((middle, 0, 0.85), (bed, width, height - 0.85), _paint(rng, 0.4)))
    else:
        side = _paint(rng, 0.6)
        load = tuple(rng.uniform(70, 170, 3) * np.array([1.0, 0.9, 0.75]))
        parts.append(box((middle, 0, 0.85), (bed, width, 0.85), load, sides=side))
        parts.append(box((middle, 0, 1.7), (bed * 0.7, width * 0.7, 0.35), load, taper=(0.5, 0.5)))
    return assemble(*parts)


def bus(rng: np.random.Generator) -> Body:
    length, width = rng.uniform(9.5, 12.5), 2.55
    paint, stripe = hue(rng), _paint(rng, 0.3)
    roof = paint if rng.random() < 0.5 else (225, 225, 222)
    units = [box((x * length, 0, 3.05), (1.6, 1.5, 0.22), (190, 190, 188)) for x in (-0.27, 0.22)]
    return assemble(
        *_wheels(length, width, 0.48),
        box((0, 0, 0.35), (length, width, 0.55), stripe),
        box((0, 0, 0.9), (length, width, 0.65), paint),
        *_lamps(length, width, 0.7),
        box((0, 0, 1.55), (length, width * 0.99, 1.0), GLASS),
        box((0, 0, 2.55), (length, width, 0.5), roof, sides=paint, taper=(0.98, 0.92)),
        *units,
    )


def _cycle(length: float, tyre: float, frame: Color, bulk: float) -> list[tuple[np.ndarray, np.ndarray]]:
    wheel = 0.66
    return [
        box((length / 2 - wheel / 2, 0, 0), (wheel, tyre, wheel), RUBBER),
        box((-length / 2 + wheel / 2, 0, 0), (wheel, tyre, wheel), RUBBER),
        box((0, 0, 0.4), (length * 0.6, bulk, 0.4), frame),
        box((-0.25, 0, 0.8), (0.35, bulk * 1.3, 0.1), (40, 35, 32)),
        box((length * 0.27, 0, 0.85), (0.1, 0.6, 0.15), (70, 70, 72)),
    ]


def bicycle(rng: np.random.Generator) -> Body:
    basket = box((0.72, 0, 0.7), (0.32, 0.34, 0.25), (120, 120, 118))
    return assemble(*_cycle(rng.uniform(1.65, 1.85), 0.1, hue(rng), 0.12), basket)


def motor(rng: np.random.Generator) -> Body:
    length, paint = rng.uniform(1.85, 2.15), _paint(rng, 0.7)
    fairing = box((0.5, 0, 0.45), (0.5, 0.48, 0.6), paint, taper=(0.6, 0.8))
    trunk = box((-0.75, 0, 0.85), (0.4, 0.42, 0.35), paint)
    floor = box((0, 0, 0.28), (1.3, 0.42, 0.3), paint)
    return assemble(*_cycle(length, 0.2, paint, 0.36), floor, fairing, trunk)


def tricycle(rng: np.random.Generator) -> Body:
    paint = hue(rng)
    inside = tuple(np.asarray(paint) * 0.45)
    load = box((-0.55, 0, 0.95), (0.9, 0.7, rng.uniform(0.1, 0.45)), tuple(rng.uniform(90, 190, 3)))
    return assemble(
        *_wheels(1.6, 1.1, 0.28),
        box((1.05, 0, 0), (0.6, 0.14, 0.6), RUBBER),
        box((-0.55, 0, 0.5), (1.55, 1.1, 0.45), inside, sides=paint),
        load,
        box((0.65, 0, 0.35), (0.9, 0.3, 0.45), paint),
        box((0.95, 0, 0.85), (0.12, 0.75, 0.12), (60, 60, 62)),
    )


def awning_tricycle(rng: np.random.Generator) -> Body:
    paint, canopy = hue(rng), hue(rng)
    length, width = rng.uniform(2.4, 2.9), rng.uniform(1.15, 1.35)
    posts = [
        box((s * length * 0.38, t * width * 0.42, 0.8), (0.08, 0.08, 0.75), (90, 90, 92))
        for s in (-1, 1)
        for t in (-1, 1)
    ]
    return assemble(
        *_wheels(length, width, 0.28),
        box((length / 2 - 0.2, 0, 0), (0.55, 0.14, 0.55), RUBBER),
        box((-0.15, 0, 0.35), (length * 0.85, width, 0.5), (70, 60, 55), sides=paint),
        *posts,
        box((length * 0.32, 0, 0.85), (0.08, width * 0.85, 0.6), GLASS),
        box((-0.05, 0, 1.55), (length * 0.92, width * 1.05, 0.14), canopy, taper=(0.9, 0.8)),
    )


def pedestrian(rng: np.random.Generator) -> Body:
    height = rng.uniform(1.55, 1.85)
    shirt, trousers = _paint(rng, 0.7), tuple(rng.uniform(25, 110, 3))
    hair = tuple(rng.uniform(15, 70) * np.ones(3))
    step = rng.uniform(-0.22, 0.22)
    hip, chest = 0.48 * height, 0.84 * height
    return assemble(
        box((step, 0.1, 0), (0.2, 0.16, hip), trousers),
        box((-step, -0.1, 0), (0.2, 0.16, hip), trousers),
        box((-step * 0.6, 0.27, hip), (0.14, 0.12, 0.5), shirt),
        box((step * 0.6, -0.27, hip), (0.14, 0.12, 0.5), shirt),
        box((0, 0, hip), (0.26, 0.44, chest - hip), shirt, taper=(0.9, 0.85)),
        box((0, 0, chest), (0.22, 0.2, height - chest), hair, front=SKIN, sides=hair),
    )


def people(rng: np.random.Generator) -> Body:
    """A person who is not walking: seated, as on a bench, a wall or a saddle."""
    shirt, trousers = _paint(rng, 0.8), tuple(rng.uniform(25, 120, 3))
    hair = hue(rng) if rng.random() < 0.3 else tuple(rng.uniform(15, 70) * np.ones(3))
    return assemble(
        box((0.42, 0.12, 0), (0.16, 0.15, 0.45), trousers),
        box((0.42, -0.12, 0), (0.16, 0.15, 0.45), trousers),
        box((0.22, 0, 0.42), (0.55, 0.42, 0.16), trousers),
        box((0.22, 0.26, 0.62), (0.45, 0.12, 0.12), shirt),
        box((0.22, -0.26, 0.62), (0.45, 0.12, 0.12), shirt),
        box((-0.02, 0, 0.5), (0.28, 0.46, 0.6), shirt, taper=(0.9, 0.85)),
        box((0.02, 0, 1.1), (0.24, 0.22, 0.24), hair, front=SKIN),
    )


#: Makers of bodies, by the index of the class in ``scene.OBJECT_CLASSES``.
MAKERS: tuple[Callable[[np.random.Generator], Body], ...] = (
    pedestrian,
    people,
    bicycle,
    car,
    van,
    truck,
    tricycle,
    awning_tricycle,
    bus,
    motor,
)


_WALLS = ((205, 195, 180), (180, 165, 150), (165, 100, 82), (215, 215, 212), (150, 155, 160), (225, 190, 150))
_ROOFS = (
    (125, 122, 118),
    (160, 155, 148),
    (150, 82, 66),
    (92, 100, 110),
    (178, 172, 160),
    (70, 112, 168),
    (190, 118, 128),
    (205, 205, 202),
)


def building(rng: np.random.Generator, length: float, width: float, height: float) -> Body:
    """A block under a flat roof with a few installations, or a low house under a ridge."""
    wall = tuple(np.array(_WALLS[rng.integers(len(_WALLS))]) + rng.normal(0, 9, 3))
    roof = tuple(np.array(_ROOFS[rng.integers(len(_ROOFS))]) + rng.normal(0, 9, 3))
    if height < 9 and rng.random() < 0.5:
        ridge = box((0, 0, height), (length * 1.04, width * 1.06, 0.18 * width), roof, taper=(0.96, 0.06))
        return assemble(box((0, 0, 0), (length, width, height), roof, sides=wall), ridge)
    parts = [box((0, 0, 0), (length, width, height), roof, sides=wall)]
    for _ in range(rng.integers(1, 7)):
        x, y = rng.uniform(-0.38, 0.38, 2) * (length, width)
        size = rng.uniform(0.6, 3.2, 2)
        parts.append(box((x, y, height), (*size, rng.uniform(0.5, 2.0)), tuple(rng.uniform(90, 225) * np.ones(3))))
    return assemble(*parts)
