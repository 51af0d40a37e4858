"""One block of the air: draw its gain, send features through it, send a packet through it.

SNR convention. A block holds complex symbols of unit mean power, E|x|^2 = 1, two feature values a symbol. The receiver
sees y = sqrt(P g) e^(j theta) x + n with n ~ CN(0, sigma^2), where g = g_pl |h_f|^2 and E|h_f|^2 = 1, and divides by
the coefficient, which it knows. SNR = P g / sigma^2 (P1 Eq. 4): after equalization the mean power of the error is
1 / SNR of the mean power of the features.

Gain convention. ``BlockState.gain`` is g, the linear power gain with path loss. ``BlockState.gain_db`` is
10 log10(g * 1 W / sigma^2): dB above the reference gain, at which one watt arrives at the power of the noise, and
so also the SNR of a one-watt transmission. That is what topics, the optimizer's command line and the tables speak of.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.fading import fade_power
from uav_privacy_sc.link.outage import packet_error_probability
from uav_privacy_sc.link.path_loss import from_db, noise_power, path_loss_db, to_db
from uav_privacy_sc.link.payload import code_bits, code_rate, object_bits

__all__ = [
    "BlockState",
    "LinkConfig",
    "draw_fading",
    "public_scale",
    "transmit_codes",
    "transmit_features",
    "transmit_objects",
]


@dataclass(frozen=True)
class BlockState:
    """The channel during one block: power gain (linear, path loss included) and noise power (W)."""

    gain: float
    noise_power: float

    def __post_init__(self) -> None:
        for name in ("gain", "noise_power"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise ValueError(f"{name} is {value!r}; give a finite number above 0")

    @classmethod
    def from_gain_db(cls, gain_db: float, noise_power: float = 1.0) -> BlockState:
        """Return the block whose gain is ``gain_db`` above the reference gain ``noise_power / 1 W``."""
        if not (math.isfinite(gain_db) and abs(gain_db) < 300.0):
            raise ValueError(f"gain_db is {gain_db!r}; give a finite number of dB between -300 and 300")
        return cls(from_db(gain_db) * noise_power, noise_power)

    @property
    def gain_db(self) -> float:
        """Gain in dB above the reference gain: the SNR in dB of one transmitted watt."""
        return to_db(self.gain) - to_db(self.noise_power)

    def snr(self, p_tx: float) -> float:
        """Return the linear SNR of ``p_tx`` watts (P1 Eq. 4)."""
        if not (math.isfinite(p_tx) and p_tx > 0.0):
            raise ValueError(f"p_tx is {p_tx!r} W; give a finite power above 0")
        return p_tx * self.gain / self.noise_power

    def snr_db(self, p_tx: float) -> float:
        """Return the SNR of ``p_tx`` watts in dB."""
        return to_db(self.snr(p_tx))


def draw_fading(config: LinkConfig, rng: np.random.Generator) -> BlockState:
    """Draw the channel of one block, independent of every other block (P1 section 2.3).

    The ground station and the eavesdropper fade independently when each has its own ``rng``; use
    ``config.eavesdropper`` for the latter's distance.
    """
    gain = from_db(-path_loss_db(config)) * fade_power(config, rng)
    return BlockState(gain, noise_power(config))


def public_scale(features: np.ndarray) -> float:
    """Return the root mean square by which a block is brought to unit power; it goes out in the object packet.

    Computed from what is released, so knowing it costs no privacy (post-processing).

    Raises:
        ValueError: a value of ``features`` is NaN or infinite.
    """
    flat = features.reshape(-1)
    power = float(np.dot(flat, flat))
    if not math.isfinite(power):
        if not np.isfinite(flat).all():
            raise ValueError("features hold NaN or infinity; release finite values only")
        power = float(np.square(flat, dtype=np.float64).sum())
    return math.sqrt(power / max(flat.size, 1))


def transmit_features(
    features: np.ndarray,
    p_tx: float,
    state: BlockState,
    rng: np.random.Generator,
    cell_scale: np.ndarray | None = None,
) -> np.ndarray:
    """Send an analog block and return what the equalizer gives, float32 of the same shape.

    The noise of an equalized complex symbol is circular, so its real and imaginary parts can be drawn for each
    feature value at once: of variance ``scale^2 / SNR`` each, whatever the phase of the channel. A block without
    power carries nothing and arrives as zeros.

    ``cell_scale`` (rows, columns; any unit) divides the cells of ``features`` (C, rows, columns) before and multiplies
    them after the air, so that cells of little noise of their own are not drowned by those of much: with it the SNR
    is that of every cell whose power goes with its scale, not of the block alone. Both ends must know it, so it may
    only come from what is public, such as a budget map made of released locations.

    Raises:
        ValueError: ``features`` hold NaN or infinity, ``p_tx`` is not above 0, or ``cell_scale`` does not fit.
    """
    snr = state.snr(p_tx)
    features = np.asarray(features, np.float32)
    received = rng.standard_normal(features.shape, np.float32)
    if cell_scale is None:
        received *= np.float32(public_scale(features) / math.sqrt(snr))
    else:
        scale = _checked_scale(cell_scale, features.shape)
        received *= scale * np.float32(public_scale(features / scale) / math.sqrt(snr))
    received += features
    return received


def _checked_scale(cell_scale: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    scale = np.asarray(cell_scale, np.float32)
    if scale.shape != shape[-2:] or not (np.isfinite(scale).all() and (scale > 0.0).all()):
        raise ValueError(f"cell_scale has shape {scale.shape}; give finite numbers above 0, one a cell of {shape[-2:]}")
    return scale


def transmit_objects(
    objects: np.ndarray,
    p_tx: float,
    state: BlockState,
    rng: np.random.Generator,
    config: LinkConfig | None = None,
    *,
    with_scale: bool = False,
) -> np.ndarray | None:
    """Send the object records as one packet: a copy of them when it arrives, None when it is lost by outage.

    The packet shares the block, and so the SNR, with the features (P1 section 2.3). ``with_scale``: it carries the
    public scale of an analog block, too, and whoever loses it cannot scale the features, and so has none.
    """
    config = config or LinkConfig()
    bits = object_bits(len(objects), with_scale=with_scale)
    loss = packet_error_probability(state.snr(p_tx), config.object_rate, bits, config.object_outage)
    return None if rng.random() < loss else objects.copy()


def transmit_codes(
    codes: np.ndarray, p_tx: float, state: BlockState, rng: np.random.Generator, config: LinkConfig | None = None
) -> np.ndarray | None:
    """Send lattice codes as one packet instead of analog: a copy of them when it arrives, None when it is lost.

    The packet must fit into ``feature_airtime_s``, which sets its rate; a release too large for what the block
    carries is lost, never shortened.

    Raises:
        ValueError: the codes are not whole numbers, or ``p_tx`` is not above 0.
    """
    config = config or LinkConfig()
    rate, bits = code_rate(codes, config), code_bits(codes)
    loss = packet_error_probability(state.snr(p_tx), rate, bits, config.object_outage)
    return None if rng.random() < loss else codes.copy()
