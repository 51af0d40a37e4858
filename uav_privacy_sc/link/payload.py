"""How much a frame puts on the air."""

from __future__ import annotations

import math
from dataclasses import dataclass

from uav_privacy_sc.link.config import LinkConfig

#: Stamp, sequence number, count and checksum of the object packet.
HEADER_BITS = 128
#: Centre and size at 16 bit each, score at 8, label at 8, cell at 16.
OBJECT_BITS = 96
#: The public scale of an analog block, a float32.
SCALE_BITS = 32


def object_bits(count: int) -> int:
    """Return the bits of a packet of ``count`` object records; an empty one still has its header."""
    return HEADER_BITS + OBJECT_BITS * count


@dataclass(frozen=True)
class Payload:
    """What one frame puts on the air: bits of the object packet, symbols of both parts, and the airtime."""

    packet_bits: int
    packet_symbols: int
    feature_symbols: int
    airtime_s: float


def payload(feature_values: int, object_count: int, config: LinkConfig) -> Payload:
    """Return the payload of a frame with analog features, two values a complex symbol."""
    bits = object_bits(object_count) + SCALE_BITS
    packet_symbols = math.ceil(bits / config.object_rate)
    feature_symbols = math.ceil(feature_values / 2)
    airtime = (packet_symbols + feature_symbols) / config.bandwidth_hz
    return Payload(bits, packet_symbols, feature_symbols, airtime)
