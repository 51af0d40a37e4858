"""The eavesdropper: tries to see the picture in what it overhears."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.conversion import (
    lost_tensor_shape,
    markers_to_message,
    objects_from_message,
    picture_to_message,
    stamp_ns,
    tensor_from_message,
)
from uav_privacy_sc.nodes.lattice_follower import LatticeFollower
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.perception import DEVICE, WEIGHTS
from uav_privacy_sc.nodes.process import leave, run


@dataclass(frozen=True)
class EavesdropperConfig:
    """Parameters of the eavesdropper."""

    weights: str = parameter("", WEIGHTS)
    device: str = parameter("auto", DEVICE)


class EavesdropperNode(StageNode[EavesdropperConfig]):
    """Wraps ``attack.inversion.InversionAttacker``, or the ``stage`` handed in."""

    NAME = "eavesdropper"
    Config = EavesdropperConfig

    def __init__(self, stage: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self.stage = self._load() if stage is None else stage
        self.lattice = LatticeFollower(self, "eve/rx/lattice_step")
        self.take("eve/rx/objects", self._on_objects)
        self.take("eve/rx/features", self._on_features)

    def _load(self) -> Any:
        from uav_privacy_sc.attack.inversion import InversionAttacker

        weights = Path(self.config.weights) if self.config.weights else None
        return InversionAttacker(weights=weights, device=self.config.device)

    def tell_lost(self, stamp_ns: int, text: str) -> None:
        """Nothing is lost to the ground when the eavesdropper fails."""
        self.tell("reconstructed", stamp_ns)

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the device."""
        return True, "listening", {"device": getattr(self.stage, "device", "")}

    def _on_objects(self, message: Any) -> None:
        if self.wanted("eve/markers"):
            self.give("eve/markers", markers_to_message(objects_from_message(message), message.header))

    def _on_features(self, message: Any) -> None:
        lost = lost_tensor_shape(message)
        self.counts["feature packets lost"] += lost is not None
        # Whoever lost the packet draws what silence suggests, as when measuring without having heard anything.
        features = np.zeros(lost, np.float32) if lost else tensor_from_message(message, self.lattice.step)
        with self.timed("attack") as taken:
            picture = self.stage(features)
        self.counts["frames"] += 1
        self.tell("reconstructed", stamp_ns(message.header), eve_reconstruction=picture, stage_ms=taken)
        self.give("eve/reconstruction", picture_to_message(picture, message.header))


def main() -> None:
    """Run the node as a process."""
    leave(run(EavesdropperNode, EavesdropperNode.NAME))


if __name__ == "__main__":
    main()
