"""What a client may upload in a round: entries S_k from the capacity of a Rayleigh channel (P3 section V)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from uav_privacy_sc.link.path_loss import from_db
from uav_privacy_sc.privacy.domain import whole


@dataclass(frozen=True)
class UplinkConfig:
    """How capacity becomes a share S_k/N.

    P3 says that S_k is proportional to capacity under CN(0, 1) fading, that S_k/N lies "approximately between 0.05 and
    0.25", and that about half of the clients fall below 0.15. Its SNR and the factor are ours: the median share is set
    to 0.15, and at 15 dB nine shares in ten lie between 0.05 and 0.22.

    Attributes:
        snr_db: mean SNR of the uplink.
        median: share of a client with the median fade.
        least, most: limits of the share.
        threshold: S_th/N; below it a client sends features.

    Raises:
        ValueError: a value out of range.
    """

    snr_db: float = 15.0
    median: float = 0.15
    least: float = 0.05
    most: float = 0.25
    threshold: float = 0.15

    def __post_init__(self) -> None:
        if not math.isfinite(self.snr_db):
            raise ValueError(f"snr_db must be finite, got {self.snr_db}; use a value such as 15")
        if not 0 < self.least <= self.median <= self.most <= 1:
            raise ValueError(
                f"least={self.least}, median={self.median}, most={self.most} must rise within (0, 1]; "
                "use 0.05, 0.15 and 0.25"
            )
        if not 0 <= self.threshold <= 1:
            raise ValueError(f"threshold must lie within [0, 1], got {self.threshold}; use a value such as 0.15")


def capacity(fade: NDArray[np.float64] | float, snr_db: float) -> NDArray[np.float64]:
    """Return bits per channel use, log2(1 + snr * fade), of fades |h|^2."""
    return np.log2(1 + from_db(snr_db) * np.asarray(fade, np.float64))


def uplink_shares(clients: int, config: UplinkConfig, rng: np.random.Generator) -> NDArray[np.float64]:
    """Draw ``(clients,)`` shares S_k/N, one independent Rayleigh fade a client and round (|h|^2 is Exp(1))."""
    bits = capacity(rng.standard_exponential(whole("clients", clients)), config.snr_db)
    return np.clip(config.median / capacity(math.log(2), config.snr_db) * bits, config.least, config.most)


def ideal_shares(features: NDArray[np.bool_], gradient: float = 0.2, feature: float = 0.1) -> NDArray[np.float64]:
    """Return P3's FedAvg (ideal): fixed shares, 0.2 for clients that would send updates and 0.1 for the others."""
    return np.where(features, feature, gradient)


def sends_features(shares: NDArray[np.float64], config: UplinkConfig) -> NDArray[np.bool_]:
    """Return ``(clients,)`` whether the share is below S_th/N."""
    return np.asarray(shares) < config.threshold


def upload_entries(share: float, size: int) -> int:
    """Return S_k: how many numbers of a model with ``size`` parameters a client with that share may send, at least 1.

    Raises:
        ValueError: a share outside (0, 1].
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must lie within (0, 1], got {share}; use a value such as 0.15")
    return max(1, int(share * whole("size", size)))


def feature_vectors(entries: int, dimension: int) -> int:
    """Return how many feature vectors of ``dimension`` numbers fit into ``entries`` (P3: S_k limits them)."""
    return whole("entries", entries) // whole("dimension", dimension)
