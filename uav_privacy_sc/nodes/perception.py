"""Perception: what is in the picture, as features and objects. Its output must not leave the aircraft."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.conversion import objects_to_message, picture_from_message, stamp_ns, tensor_to_message
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run

DEVICE = "torch device: auto, cpu or cuda:N"
WEIGHTS = "folder of the networks' weights; empty for the shipped ones"


@dataclass(frozen=True)
class PerceptionConfig:
    """Parameters of perception."""

    weights: str = parameter("", WEIGHTS)
    device: str = parameter("auto", DEVICE)
    confidence: float = parameter(0.25, "least score of a detection", low=0.0, high=1.0)
    transport: str = parameter("raw", "take raw or compressed images", choices=("raw", "compressed"))


class PerceptionNode(StageNode[PerceptionConfig]):
    """Wraps ``perception.stage.Perception``, or the ``stage`` handed in."""

    NAME = "perception"
    Config = PerceptionConfig

    def __init__(self, stage: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self.stage = self._load() if stage is None else stage
        suffix = "" if self.config.transport == "raw" else "/compressed"
        self.take(f"camera/image_raw{suffix}", self._on_image)

    def _load(self) -> Any:
        from uav_privacy_sc.perception.stage import Perception

        config = self.config
        weights = Path(config.weights) if config.weights else None
        stage = Perception(weights=weights, device=config.device, confidence=config.confidence)
        stage.warm_up()
        return stage

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the device."""
        return True, "perceiving", {"device": getattr(self.stage, "device", "")}

    def _on_image(self, message: Any) -> None:
        image = picture_from_message(message)
        with self.timed("perceive") as taken:
            percept = self.stage(image)
        self.counts["frames"] += 1
        stamp = stamp_ns(message.header)
        self.tell("perceived", stamp, raw_features=percept.features, percept_objects=percept.objects, stage_ms=taken)
        self.give("semantic/objects", objects_to_message(percept.objects, message.header))
        self.give("semantic/features", tensor_to_message(percept.features, message.header))


def main() -> None:
    """Run the node as a process."""
    leave(run(PerceptionNode, PerceptionNode.NAME))


if __name__ == "__main__":
    main()
