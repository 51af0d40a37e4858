"""Standard normal float32 draws from a cryptographic generator, faster than its ziggurat.

Box and Muller (1958), written for vector units: of every 64 random bits, 40 make the radius (through a float64
logarithm, so that the tail reaches 7.5 deviations, beyond which a draw falls once in 2e13) and 24 the angle. For
releases in floating point only: lattice releases, which owe their guarantee to the sampler, draw float64 from NumPy's
ziggurat.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_PAIRS = 12800  # drawn at a time: the buffers stay in the cache
_ANGLE_BITS, _RADIUS_BITS = 24, 40
_ANGLE_MASK = np.uint64((1 << _ANGLE_BITS) - 1)
_ANGLE_STEP = np.float32(2 * np.pi / (1 << _ANGLE_BITS))


def standard_normal(shape: tuple[int, ...], rng: np.random.Generator) -> NDArray[np.float32]:
    """Return independent standard normal float32 draws.

    Args:
        shape: of the result.
        rng: any generator; 64 of its bits make two draws.
    """
    count = math.prod(shape)
    pairs = (count + 1) // 2
    drawn = np.empty((2, pairs), np.float32)
    exact, single = np.empty(min(_PAIRS, pairs)), np.empty((2, min(_PAIRS, pairs)), np.float32)
    for start in range(0, pairs, _PAIRS):
        block = drawn[:, start : start + _PAIRS]
        length = block.shape[1]
        _fill(block, exact[:length], single[:, :length], rng)
    return drawn.reshape(-1)[:count].reshape(shape)


def _fill(
    block: NDArray[np.float32], exact: NDArray[np.float64], single: NDArray[np.float32], rng: np.random.Generator
) -> None:
    """Fill ``(2, n)`` with the two coordinates of n points; ``exact`` and ``single`` are room for (n,) and (2, n)."""
    bits = rng.integers(0, 1 << 64, len(exact), dtype=np.uint64)
    angle, radius = single
    np.copyto(angle, bits & _ANGLE_MASK, casting="unsafe")
    angle *= _ANGLE_STEP
    bits >>= np.uint64(_ANGLE_BITS)
    np.copyto(exact, bits, casting="unsafe")
    exact += 0.5  # never 0, so the logarithm is finite
    exact *= 2.0**-_RADIUS_BITS
    np.log(exact, out=exact)
    exact *= -2.0
    np.sqrt(exact, out=exact)
    np.copyto(radius, exact, casting="same_kind")
    np.cos(angle, out=block[0])
    np.sin(angle, out=block[1])
    block *= radius
