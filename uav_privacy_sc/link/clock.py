"""When the blocks of a flight are, from the stamps of the frames that they carry."""

from __future__ import annotations

import math

import numpy as np

#: Blocks that one gain tells apart in its last places, as many as three bits do.
BLOCK_MARKS = 8
#: From one block to the next until two stamps have told.
FIRST_PERIOD_S = 0.1
#: A pause longer than this says nothing about when the next frame comes.
LONGEST_PERIOD_S = 1.0


class BlockClock:
    """Seconds of flight at which the next frame is expected. The first stamp is 0, or ``start_s`` says which one is.

    Goes by stamps alone, so that a seeded flight repeats however fast it is flown. A clock that jumps back (a looped
    bag) takes the flight back with it.

    Raises:
        ValueError: ``start_s`` is not finite.
    """

    def __init__(self, start_s: float | None = None) -> None:
        if start_s is not None and not math.isfinite(start_s):
            raise ValueError(f"start_s is {start_s!r}; give finite seconds, or None for the first stamp")
        self._start_s = start_s
        self._last_s: float | None = None
        self._period_s = FIRST_PERIOD_S
        self.expected_s = 0.0

    def tick(self, stamp_ns: int) -> float:
        """Take in the stamp of a frame that was sent; return when the next one is expected."""
        now_s = stamp_ns / 1e9
        if self._start_s is None:
            self._start_s = now_s
        if self._last_s is not None and 0.0 < now_s - self._last_s <= LONGEST_PERIOD_S:
            self._period_s = now_s - self._last_s
        self._last_s = now_s
        self.expected_s = now_s - self._start_s + self._period_s
        return self.expected_s


def marked_gain_db(gain_db: float, block: int) -> float:
    """Return a gain with the number of its block, modulo ``BLOCK_MARKS``, in the last three bits of its Float32.

    Another value is another block, the same value a repetition: that holds where the channel stands still, and where
    up to ``BLOCK_MARKS - 2`` messages in a row are lost. It moves a gain by at most seven units in the last place, 13
    millionths of a dB between 16 and 32 dB.
    """
    bits = np.float32(gain_db).view(np.uint32)
    return float(((bits & ~np.uint32(BLOCK_MARKS - 1)) | np.uint32(block % BLOCK_MARKS)).view(np.float32))
