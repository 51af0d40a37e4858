"""The ground: decodes what it received into a semantic mask."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from uav_privacy_sc.nodes.base import StageNode, qos_profile
from uav_privacy_sc.nodes.conversion import (
    lost_tensor_shape,
    markers_to_message,
    objects_from_message,
    objects_to_message,
    picture_to_message,
    stamp_ns,
    tensor_from_message,
)
from uav_privacy_sc.nodes.detections import detections_to_message, vision_messages
from uav_privacy_sc.nodes.join import StampJoin
from uav_privacy_sc.nodes.lattice_follower import LatticeFollower
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.perception import DEVICE, WEIGHTS
from uav_privacy_sc.nodes.process import leave, run
from uav_privacy_sc.palette import overlay
from uav_privacy_sc.pipeline import LOST_FEATURES, GroundStage, Reception

#: Where received objects go as a Detection2DArray, in pixels of the mask; not in the graph, for it is off by default.
DETECTIONS = "ground/rx/detections"


@dataclass(frozen=True)
class GroundConfig:
    """Parameters of the ground decoder."""

    weights: str = parameter("", WEIGHTS)
    device: str = parameter("auto", DEVICE)
    lost_features: str = parameter(
        "prior", "mask where the feature packet was lost: of silence and objects, or the last", choices=LOST_FEATURES
    )
    publish_detections: bool = parameter(False, f"received objects as vision_msgs/Detection2DArray on {DETECTIONS}")


class GroundNode(StageNode[GroundConfig]):
    """Wraps ``perception.stage.GroundDecoder``, or the ``stage`` handed in."""

    NAME = "ground"
    Config = GroundConfig

    def __init__(self, stage: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self._vision = vision_messages("publish_detections") if self.config.publish_detections else None
        self.stage = self._load() if stage is None else stage
        self._decode = GroundStage(self.stage, self.config.lost_features)
        self.lattice = LatticeFollower(self, "ground/rx/lattice_step")
        self._join = StampJoin(self._on_reception, lambda stamp: self.drop("half a frame", stamp))
        self.take("ground/rx/objects", self._join.first)
        self.take("ground/rx/features", self._join.second)
        if self._vision is not None:
            self.give_to(self._vision.Detection2DArray, DETECTIONS, qos_profile("frame"))

    def _load(self) -> Any:
        from uav_privacy_sc.perception.stage import GroundDecoder

        weights = Path(self.config.weights) if self.config.weights else None
        return GroundDecoder(weights=weights, device=self.config.device)

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the device, the codec's checksum, and what was lost."""
        lost = {name: self.counts[name] for name in ("object packets lost", "feature packets lost")}
        networks = getattr(self.stage, "networks", {})
        return True, "decoding", {"device": getattr(self.stage, "device", ""), **networks, **lost}

    def _on_reception(self, objects_message: Any, features_message: Any) -> None:
        header = features_message.header
        objects = objects_from_message(objects_message)
        lost = lost_tensor_shape(features_message)
        features = None if lost else tensor_from_message(features_message, self.lattice.step)
        for name, packet in (("object", objects), ("feature", features)):
            self.counts[f"{name} packets lost"] += packet is None
        with self.timed("decode") as taken:
            mask = self._decode(Reception(features, objects, math.nan, lost or ()))
        self.counts["frames"] += 1
        found = {"ground_mask": mask, "ground_objects": objects, "ground_heard": features is not None}
        self.tell("decoded", stamp_ns(header), stage_ms=taken, **found)
        self.give("ground/mask", picture_to_message(mask, header))
        self.give("ground/objects", objects_to_message(objects, header))
        if self._vision is not None and objects is not None:  # a lost packet is not an empty scene
            self.give(DETECTIONS, detections_to_message(objects, header, mask.shape, self._vision))
        if self.wanted("ground/markers"):
            self.give("ground/markers", markers_to_message(objects, header))
        if self.wanted("ground/overlay"):
            self.give("ground/overlay", picture_to_message(overlay(mask, objects), header))


def main() -> None:
    """Run the node as a process."""
    leave(run(GroundNode, GroundNode.NAME))


if __name__ == "__main__":
    main()
