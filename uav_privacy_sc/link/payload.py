"""How much a frame puts on the air."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.link.config import LinkConfig

#: Stamp, sequence number, count and checksum of the object packet.
HEADER_BITS = 128
#: Centre and size at 16 bit each, score at 8, label at 8, cell at 16.
OBJECT_BITS = 96
#: The public scale of an analog block, a float32.
SCALE_BITS = 32


def object_bits(count: int, *, with_scale: bool = False) -> int:
    """Return the bits of a packet of ``count`` object records; an empty one still has its header.

    ``with_scale``: beside analog features it carries their public scale, too.
    """
    return HEADER_BITS + OBJECT_BITS * count + (SCALE_BITS if with_scale else 0)


@dataclass(frozen=True)
class Payload:
    """What one frame puts on the air; analog features have symbols and no bits, lattice codes have both."""

    object_bits: int
    feature_bits: int
    object_symbols: int
    feature_symbols: int
    airtime_s: float

    @property
    def bits(self) -> int:
        """Bits of both packets."""
        return self.object_bits + self.feature_bits


def analog_payload(feature_values: int, object_count: int, config: LinkConfig) -> Payload:
    """Return the payload of a frame with analog features: two values a complex symbol, the scale with the objects."""
    bits = object_bits(object_count, with_scale=True)
    return _payload(bits, 0, math.ceil(feature_values / 2), config)


def coded_payload(codes: np.ndarray, object_count: int, config: LinkConfig) -> Payload:
    """Return the payload of a frame whose features are lattice codes, sent in the configured airtime."""
    symbols = math.ceil(config.feature_airtime_s * config.bandwidth_hz)
    return _payload(object_bits(object_count), code_bits(codes), symbols, config)


def code_bits(codes: np.ndarray) -> int:
    """Return the bits of a packet of integer codes: each at the width that the range of all of them needs.

    Range and count travel in the header. They are computed from what is released.

    Raises:
        ValueError: the codes are not whole numbers.
    """
    if not np.issubdtype(codes.dtype, np.integer):
        raise ValueError(f"codes are of type {codes.dtype}; give whole numbers, the lattice codes of a release")
    if codes.size == 0:
        return HEADER_BITS
    width = (int(codes.max()) - int(codes.min())).bit_length()
    return HEADER_BITS + width * codes.size


def code_rate(codes: np.ndarray, config: LinkConfig) -> float:
    """Return the bit a complex symbol that sending the codes within the configured airtime takes."""
    return code_bits(codes) / (config.feature_airtime_s * config.bandwidth_hz)


def _payload(for_objects: int, for_features: int, feature_symbols: int, config: LinkConfig) -> Payload:
    object_symbols = math.ceil(for_objects / config.object_rate)
    airtime = (object_symbols + feature_symbols) / config.bandwidth_hz
    return Payload(for_objects, for_features, object_symbols, feature_symbols, airtime)
