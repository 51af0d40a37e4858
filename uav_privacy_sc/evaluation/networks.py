"""The networks of an evaluation, loaded once a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Networks:
    """Which networks: a folder of weights (None for the shipped ones) and a torch device. Small, and can be sent."""

    weights: str | None = None
    device: str = "cpu"

    def checksums(self) -> dict[str, str]:
        """Return the SHA-256 of every weights file that there is.

        Raises:
            ValueError: the folder, or a file that is needed, is not there.
        """
        from uav_privacy_sc.perception.weights import checksum, locate

        names = ("detector.pt", "codec.pt", "inverter.pt")
        found = {name: checksum(locate(name, self.weights)) for name in names}
        adaptive = self.adaptive_file
        return found if adaptive is None else {**found, adaptive.name: checksum(adaptive)}

    @property
    def adaptive_file(self) -> Path | None:
        """Weights of the inverter trained on protected features, None where there are none."""
        from uav_privacy_sc.perception.weights import locate

        path = locate("codec.pt", self.weights).with_name("inverter-adaptive.pt")
        return path if path.is_file() else None


class Loaded:
    """The networks themselves, each loaded when it is first asked for."""

    def __init__(self, networks: Networks) -> None:
        self.networks = networks

    @cached_property
    def perception(self) -> Any:
        """What runs on the aircraft."""
        from uav_privacy_sc.perception.stage import Perception

        return Perception(self.networks.weights, self.networks.device)

    @cached_property
    def decoder(self) -> Any:
        """What runs on the ground."""
        from uav_privacy_sc.perception.stage import GroundDecoder

        return GroundDecoder(self.networks.weights, self.networks.device)

    @cached_property
    def inverters(self) -> dict[str, Any]:
        """The trained inverters by the name of the attacker; the adaptive one where its weights exist."""
        from uav_privacy_sc.attack.inversion import InversionAttacker

        weights, device = self.networks.weights, self.networks.device
        found = {"inverter": InversionAttacker(weights, device)}
        if self.networks.adaptive_file is not None:
            found["inverter_adaptive"] = InversionAttacker(weights, device, adaptive=True)
        return found

    @cached_property
    def encoder(self) -> Any:
        """The frozen encoder, which the gradient attacker differentiates through."""
        from uav_privacy_sc.attack.gradient import frozen_encoder
        from uav_privacy_sc.perception.stage import Perception

        return frozen_encoder(Perception(self.networks.weights, self.networks.device))


@lru_cache(maxsize=2)
def networks_for(networks: Networks) -> Loaded:
    """Return the loaded networks of this process."""
    return Loaded(networks)
