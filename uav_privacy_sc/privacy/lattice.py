"""Releases on a lattice: whole multiples of a public step, so that floating point leaks nothing.

A float sum ``value + noise`` betrays ``value`` in its low bits (Mironov, 2012). Here the clipped value is first cut to
whole steps, the noise is rounded to whole steps without seeing the value, and integers are added. As rounding a sum of
a lattice point and real noise equals adding the rounded noise, the release is post-processing of the ideal Gaussian
mechanism on the cut value, up to the sampler's own precision, which does not depend on the data.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .domain import FloatArray, positive
from .normal import BLOCK, Clip, fill

#: Largest magnitude of a released count of steps (int16; one value is spared to stay symmetric).
LIMIT = 32767
#: Default step: a power of two, so every value is exact in float32; int16 then spans +-512.
STEP = 2.0**-6

_REACH = 9  # no draw of the sampler is that many deviations long: the tail of its 53 bits ends at 8.57


def check_step(step: float) -> float:
    """Return ``step`` when it is a power of two, on which lattice arithmetic is exact.

    Raises:
        ValueError: a step that is not a finite power of two above 0.
    """
    step = float(positive("lattice_step", step))
    if math.frexp(step)[0] != 0.5:
        raise ValueError(f"lattice_step must be a power of two such as 0.015625, got {step}")
    return step


def release(
    features: NDArray[np.float32],
    clip: Clip,
    sigma: FloatArray,
    step: float,
    c_clip: float,
    rng: np.random.Generator,
) -> NDArray[np.float32]:
    """Return the features clipped, cut to whole steps and with Gaussian noise in whole steps, saturated to int16.

    Cutting is towards zero, so no vector grows; that every cell's norm is within ``c_clip`` is checked on whole
    numbers, where it is exact. It is the bound that sigma is calibrated for. Works by blocks of channels that fit the
    cache.

    Args:
        features: ``(C, rows, columns)``, finite.
        clip: brings a block of channels to the norm bound, in a new array.
        sigma: noise deviation in the unit of the features, broadcast to their shape.
        step: a power of two.
        c_clip: norm bound of a cell.
        rng: the generator of the visual stream.

    Raises:
        ArithmeticError: a cell's vector exceeds ``c_clip`` on the lattice; nothing may be released then.
    """
    released = np.empty(features.shape, np.float32)
    squares = np.zeros(features.shape[1:])
    deviation = np.broadcast_to(sigma / step, features.shape)
    saturates = _REACH * float(np.max(sigma, initial=0.0)) + c_clip > LIMIT * step
    exact = np.float32 if c_clip / step <= 2**11 else np.float64  # whole numbers up to 2^24 are exact in float32
    buffer = np.empty((min(BLOCK, len(features)), *features.shape[1:]))
    for start in range(0, len(features), BLOCK):
        block = slice(start, start + BLOCK)
        counts = clip(features[block])
        counts *= np.float32(1 / step)
        np.trunc(counts, out=counts)
        squares += np.einsum("c...,c...->...", counts, counts, dtype=exact)
        noise = fill(buffer[: len(counts)], rng)
        noise *= deviation[block]
        np.rint(noise, out=noise)
        if saturates:
            noise += counts
            np.clip(noise, -LIMIT, LIMIT, out=noise)
            counts[...] = noise
        else:  # all sums are whole numbers below 2^15, exact in float32
            released[block] = noise
            counts += released[block]
        np.multiply(counts, np.float32(step), out=released[block])
    if squares.size and not squares.max() <= np.floor((c_clip / step) ** 2):
        raise ArithmeticError(f"a feature vector exceeds c_clip={c_clip} on the lattice; release refused")
    return released


def encode(values: NDArray[np.float32], step: float) -> NDArray[np.int16]:
    """Return released lattice values as int16 counts of ``step`` for the wire (``16SC<C>``).

    Raises:
        ValueError: values that are not lattice values of this step.
    """
    counts = values / np.float32(check_step(step))
    if not (np.abs(counts) <= LIMIT).all() or (counts != np.rint(counts)).any():
        raise ValueError(f"features are not multiples of lattice_step={step} within int16; release them with that step")
    return counts.astype(np.int16)


def decode(counts: NDArray[np.int16], step: float) -> NDArray[np.float32]:
    """Return float32 values of int16 counts of ``step``; the inverse of :func:`encode`, exact."""
    return counts.astype(np.float32) * np.float32(check_step(step))
