"""Gaussian noise at the full resolution of a double, from a cryptographic generator, and its addition to features.

Draws are Box and Muller's (1958): a radius from 53 random bits and an angle from 53 more, which take part in every
bit of a draw. That matters more than speed. A draw in single precision (NumPy's ziggurat as well as any other) can
take so few values that a release, less a guess of the features, shows whether the guess was right: with 24 bits of
angle every wrong guess of a cell is refuted by a single frame, whatever sigma is. Here noise and features are added in
double and rounded to single at the very end, so that every float32 on the air has some 2^29 doubles behind it.

The angle goes through the tangent of its half, which NumPy computes on vector units where sine and cosine are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .domain import FloatArray

#: Channels handled at a time: buffers of them fit the cache.
BLOCK = 16
_PAIRS = 12800  # drawn at a time, for the same reason

Clip = Callable[[NDArray[np.float32]], NDArray[np.float32]]


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> FloatArray:
    """Return independent standard normal float64 draws; the largest possible one is 8.57."""
    return fill(np.empty(shape), rng)


def fill(out: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Fill a C-contiguous float64 array with independent standard normal draws and return it.

    Raises:
        ValueError: an array that is not C-contiguous float64.
    """
    if not (out.flags.c_contiguous and out.dtype == np.float64):
        raise ValueError("out must be a C-contiguous float64 array")
    flat = out.reshape(-1)
    room = np.empty(min(_PAIRS, (flat.size + 1) // 2))
    for start in range(0, flat.size - 1, 2 * _PAIRS):
        block = flat[start : start + 2 * _PAIRS]
        half = len(block) // 2
        _pairs(block[:half], block[half : 2 * half], room[:half], rng)
    if flat.size % 2:
        pair = np.empty((2, 1))
        _pairs(pair[0], pair[1], room[:1], rng)
        flat[-1] = pair[0, 0]
    return out


def add_noise(
    features: NDArray[np.float32], clip: Clip, sigma: FloatArray, rng: np.random.Generator
) -> NDArray[np.float32]:
    """Return the clipped features with Gaussian noise, summed in double and rounded once.

    Rounding a sum is post-processing of it, whatever the features are; and the sum has about 2^29 values to every
    float32, so that what is left to tell guesses apart is of the order of 1e-8 of a probability.

    Args:
        features: ``(C, rows, columns)``, finite.
        clip: brings a block of channels to the norm bound, in a new array.
        sigma: noise deviation in the unit of the features, broadcast to their shape.
        rng: the generator of the visual stream.
    """
    released = np.empty(features.shape, np.float32)
    deviation = np.broadcast_to(sigma, features.shape)
    buffer = np.empty((min(BLOCK, len(features)), *features.shape[1:]))
    for start in range(0, len(features), BLOCK):
        block = slice(start, start + BLOCK)
        noise = fill(buffer[: len(features[block])], rng)
        noise *= deviation[block]
        np.add(noise, clip(features[block]), out=released[block], casting="same_kind")
    return released


def _pairs(first: FloatArray, second: FloatArray, room: FloatArray, rng: np.random.Generator) -> None:
    """Fill ``first`` and ``second`` with the two coordinates of points; ``room``, as long, is to work in."""
    tangent, radius = second, first
    rng.random(out=tangent)
    tangent *= math.pi  # half the angle; the tangent repeats after pi
    np.tan(tangent, out=tangent)
    rng.random(out=radius)
    np.subtract(1.0, radius, out=radius)  # exact, and never 0
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    np.multiply(tangent, tangent, out=room)
    room += 1.0
    np.divide(radius, room, out=room)
    room *= 2.0
    np.subtract(room, radius, out=first)  # as 2 / (1 + t^2) - 1 is the cosine
    np.multiply(tangent, room, out=second)  # and 2 t / (1 + t^2) the sine
