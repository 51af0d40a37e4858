"""Where the noise comes from: independent generators, one for every mechanism.

Without a seed each generator is a cipher in counter mode under a key of its own from the operating system: an
eavesdropper who learns one stream (the coarse channel of a lattice release, say) learns nothing of another, and no
output predicts the next. A seed makes an experiment repeatable and every release worthless as privacy, so
:attr:`RandomStreams.seeded` goes into every record.
"""

from __future__ import annotations

import os
import secrets
import weakref

import numpy as np
from randomgen import AESCounter

from .domain import whole

STREAMS = ("visual", "location", "size", "label", "count")


class RandomStreams:
    """One independent NumPy ``Generator`` for every mechanism.

    Args:
        seed: None for cryptographic randomness from the operating system; a whole number of at least 0 for experiments.

    Attributes:
        visual, location, size, label, count: ``numpy.random.Generator`` of each mechanism.
        seeded: whether a seed made the streams repeatable.

    Raises:
        ValueError: a seed that is not a whole number of at least 0.

    Example:
        >>> streams = RandomStreams(seed=7)
        >>> streams.seeded, streams.visual.standard_normal() == RandomStreams(seed=7).visual.standard_normal()
        (True, True)
    """

    visual: np.random.Generator
    location: np.random.Generator
    size: np.random.Generator
    label: np.random.Generator
    count: np.random.Generator

    def __init__(self, seed: int | None = None) -> None:
        self.seeded = seed is not None
        if seed is None:
            keys = [secrets.randbits(128) for _ in STREAMS]
        else:
            children = np.random.SeedSequence(whole("seed", seed, 0)).spawn(len(STREAMS))
            keys = [int.from_bytes(child.generate_state(2, np.uint64).tobytes(), "little") for child in children]
        for name, key in zip(STREAMS, keys, strict=True):
            setattr(self, name, np.random.Generator(AESCounter(key=key)))
        if seed is None:
            _UNSEEDED.add(self)

    def __getstate__(self) -> dict[str, object]:
        if not self.seeded:
            raise TypeError("streams cannot be copied or pickled: noise used twice cancels; make new RandomStreams()")
        return self.__dict__

    def rekey(self) -> None:
        """Give every stream a fresh key from the operating system; the generators keep their identity."""
        for name in STREAMS:
            getattr(self, name).bit_generator.state = AESCounter(key=secrets.randbits(128)).state


_UNSEEDED: weakref.WeakSet[RandomStreams] = weakref.WeakSet()


def _rekey_all() -> None:
    for streams in list(_UNSEEDED):
        streams.rekey()


if hasattr(os, "register_at_fork"):  # a forked child must not repeat its parent's noise
    os.register_at_fork(after_in_child=_rekey_all)
