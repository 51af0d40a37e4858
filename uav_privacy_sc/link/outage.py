"""When a packet is lost."""

from __future__ import annotations

import math

from scipy.special import ndtr


def capacity(snr: float) -> float:
    """Return log2(1 + SNR) in bit a complex symbol."""
    return math.log1p(snr) / math.log(2.0)


def packet_error_probability(snr: float, rate: float, bits: int, model: str) -> float:
    """Return the probability that a packet of ``bits`` at ``rate`` bit a symbol is lost in a block of known SNR.

    ``capacity``: lost for certain when log2(1 + SNR) is below the rate, else never (block-fading outage).
    ``finite_blocklength``: the normal approximation of Polyanskiy, Poor and Verdu (2010), Eq. 223, for a complex
    Gaussian channel, which also loses short packets a little above capacity.
    """
    margin = capacity(snr) - rate
    if model == "capacity":
        return 1.0 if margin < 0.0 else 0.0
    symbols = max(bits, 1) / rate
    dispersion = snr * (snr + 2.0) / (snr + 1.0) ** 2 / math.log(2.0) ** 2
    if dispersion <= 0.0:
        return 1.0
    argument = (symbols * margin + 0.5 * math.log2(symbols)) / math.sqrt(symbols * dispersion)
    return float(ndtr(-argument))
