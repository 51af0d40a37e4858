"""Parameters of the air-ground link, each with its unit and where its number comes from."""

from __future__ import annotations

import math
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

FADINGS = ("rayleigh", "rician", "none")
OUTAGE_MODELS = ("capacity", "finite_blocklength")
CORRELATIONS = ("block", "jakes")
SIGHTS = ("always", "elevation")
ENVIRONMENTS = ("suburban", "urban", "dense_urban", "high_rise")


def parameter(default: Any, unit: str, source: str, about: str) -> Any:
    """A dataclass field that carries its unit, its source (``published`` or ``ours``) and what it means."""
    return field(default=default, metadata={"unit": unit, "source": source, "about": about})


def require_finite(owner: object, names: tuple[str, ...], low: float, *, strict: bool) -> None:
    """Refuse, by name, any of the parameters that is not finite or lies below ``low`` (at it, too, when strict)."""
    for name in names:
        value = getattr(owner, name)
        good = isinstance(value, (int, float)) and math.isfinite(value) and (value > low if strict else value >= low)
        if not good:
            bound = "above" if strict else "at least"
            raise ValueError(f"{name} is {value!r}; give a finite number {bound} {low:g}")


def require_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Refuse a value that is not among the choices, naming both."""
    if value not in choices:
        raise ValueError(f"{name} is {value!r}; choose one of {', '.join(choices)}")


@dataclass(frozen=True)
class LinkConfig:
    """One transmitter, one place to hear it from, and a second place where somebody else listens.

    The mean power gain is log-distance (free space to one metre, ``path_loss_exponent`` beyond) less
    ``excess_loss_db``; P1 section 2.3 fixes the form (LoS-dominated path loss times Rayleigh block fading,
    |h_f|^2 ~ Exp(1)) and no number.
    """

    carrier_hz: float = parameter(5.8e9, "Hz", "ours", "carrier frequency")
    bandwidth_hz: float = parameter(20e6, "Hz", "ours", "bandwidth; also complex symbols a second")
    distance_m: float = parameter(350.0, "m", "ours", "slant range to the ground station")
    eavesdropper_distance_m: float = parameter(250.0, "m", "ours", "slant range to the eavesdropper")
    noise_figure_db: float = parameter(7.0, "dB", "ours", "receiver noise figure")
    temperature_k: float = parameter(290.0, "K", "ours", "noise temperature of the antenna")
    path_loss_exponent: float = parameter(2.2, "", "ours", "LoS exponent beyond one metre (3GPP TR 36.777 has 2.2)")
    excess_loss_db: float = parameter(6.0, "dB", "ours", "antenna pointing, polarization and implementation")
    fading: str = parameter("rayleigh", "", "published", "small-scale fading: " + ", ".join(FADINGS))
    k_factor_db: float = parameter(10.0, "dB", "ours", "LoS to scattered power, for rician")
    object_rate: float = parameter(0.1, "bit/s/Hz", "ours", "code rate of the object packet")
    object_outage: str = parameter("capacity", "", "ours", "when a packet is lost: " + ", ".join(OUTAGE_MODELS))

    feature_airtime_s: float = parameter(0.05, "s", "ours", "airtime of a frame's lattice codes when sent as a packet")
    correlation: str = parameter("block", "", "published", "from block to block: " + ", ".join(CORRELATIONS))
    speed_mps: float = parameter(
        10.0, "m/s", "ours", "speed, where no trajectory says it; with the carrier, the Doppler"
    )
    elevation_deg: float = parameter(
        30.0, "deg", "ours", "elevation seen from the receiver, where no trajectory says it"
    )
    line_of_sight: str = parameter("always", "", "published", "when there is one: " + ", ".join(SIGHTS))
    environment: str = parameter("urban", "", "ours", "LoS probability over elevation: " + ", ".join(ENVIRONMENTS))
    nlos_loss_db: float = parameter(20.0, "dB", "ours", "further loss without line of sight")
    shadowing_sigma_db: float = parameter(0.0, "dB", "ours", "log-normal shadowing; 0 is none, as in P1")
    shadowing_distance_m: float = parameter(30.0, "m", "ours", "way over which shadowing and LoS decorrelate to 1/e")
    blockage_rate_hz: float = parameter(0.0, "1/s", "ours", "blockages a second of clear sight; 0 is none, as in P1")
    blockage_duration_s: float = parameter(2.0, "s", "ours", "mean length of a blockage")
    blockage_loss_db: float = parameter(20.0, "dB", "ours", "loss while blocked")
    interference_to_noise: float = parameter(0.0, "", "ours", "interference over noise power; 0 is none, as in P1")
    interference_activity: float = parameter(1.0, "", "ours", "share of blocks that are interfered with")

    def __post_init__(self) -> None:
        positive = ("carrier_hz", "bandwidth_hz", "distance_m", "eavesdropper_distance_m", "temperature_k")
        require_finite(self, (*positive, "path_loss_exponent", "object_rate"), 0.0, strict=True)
        require_finite(self, ("feature_airtime_s", "shadowing_distance_m", "blockage_duration_s"), 0.0, strict=True)
        losses = ("noise_figure_db", "excess_loss_db", "nlos_loss_db", "shadowing_sigma_db", "blockage_loss_db")
        require_finite(self, (*losses, "speed_mps", "blockage_rate_hz", "interference_to_noise"), 0.0, strict=False)
        require_finite(self, ("k_factor_db",), -40.0, strict=False)
        for name, high in (("elevation_deg", 90.0), ("interference_activity", 1.0)):
            require_finite(self, (name,), 0.0, strict=False)
            if getattr(self, name) > high:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a number from 0 to {high:g}")
        require_choice("fading", self.fading, FADINGS)
        require_choice("object_outage", self.object_outage, OUTAGE_MODELS)
        require_choice("correlation", self.correlation, CORRELATIONS)
        require_choice("line_of_sight", self.line_of_sight, SIGHTS)
        require_choice("environment", self.environment, ENVIRONMENTS)

    @property
    def eavesdropper(self) -> LinkConfig:
        """The same radio heard from where the eavesdropper stands."""
        return replace(self, distance_m=self.eavesdropper_distance_m)

    @classmethod
    def parameters(cls) -> tuple[Field[Any], ...]:
        """The fields with their metadata (``unit``, ``source``, ``about``), for documentation."""
        return fields(cls)
