"""Perception: what is in the picture, as features and objects. Its output must not leave the aircraft."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.nodes.base import StageNode, qos_profile
from uav_privacy_sc.nodes.conversion import objects_to_message, picture_from_message, stamp_ns, tensor_to_message
from uav_privacy_sc.nodes.detections import NUMBERINGS, objects_from_detections, vision_messages
from uav_privacy_sc.nodes.join import StampJoin
from uav_privacy_sc.nodes.networks import TOPIC as NETWORKS
from uav_privacy_sc.nodes.networks import networks_to_message
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run

DEVICE = "torch device: auto, cpu or cuda:N"
WEIGHTS = "folder of the networks' weights; empty for the shipped ones"
#: Pictures that may wait for an external detector.
WAITING = 10


@dataclass(frozen=True)
class PerceptionConfig:
    """Parameters of perception."""

    weights: str = parameter("", WEIGHTS)
    detector: str = parameter("", "detector weights (.pt, .onnx, .engine); empty for the folder's detector.pt")
    device: str = parameter("auto", DEVICE)
    half: bool = parameter(False, "detector in half precision; needs CUDA")
    confidence: float = parameter(0.25, "least score of a detection", low=0.0, high=1.0)
    tiles: int = parameter(1, "tiles a side for small objects; 1 for none", low=1, high=3)
    reach_cells: int = parameter(
        0, "as protection's: cells around an object that it is charged for; 0: the codec's reach is not checked", low=0
    )
    transport: str = parameter("raw", "take raw or compressed images", choices=("raw", "compressed"))
    detections_topic: str = parameter("", "vision_msgs/Detection2DArray to take objects from; empty for our detector")
    detections_classes: str = parameter("coco", "what numeric class ids on it mean", choices=NUMBERINGS)

    def __post_init__(self) -> None:
        if self.detections_topic and self.tiles > 1:
            raise ValueError(f"tiles is {self.tiles}, but objects come from detections_topic; set tiles to 1")


class PerceptionNode(StageNode[PerceptionConfig]):
    """Wraps ``perception.stage.Perception``, or the ``stage`` handed in.

    With ``detections_topic``, objects come from an external detector, joined to their picture by stamp; features are
    still ours, and both go the same way through protection.
    """

    NAME = "perception"
    Config = PerceptionConfig

    def __init__(self, stage: Any = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        messages = vision_messages("detections_topic") if self.config.detections_topic else None
        self.stage = self._load() if stage is None else stage
        self.give(NETWORKS, networks_to_message(getattr(self.stage, "networks", {})))
        for note in getattr(self.stage, "notes", ()):
            self.get_logger().warning(note)
        images = "camera/image_raw" + ("" if self.config.transport == "raw" else "/compressed")
        if messages is None:
            self.take(images, self._on_image)
        else:
            self._join = StampJoin(self._on_both, lambda stamp: self.drop("half a frame", stamp), WAITING)
            self.take(images, self._join.first)
            self._take_detections(messages.Detection2DArray)

    def _take_detections(self, kind: Any) -> None:
        self.take_from(kind, self.config.detections_topic, self._join.second, qos_profile("frame"))

    def _load(self) -> Any:
        from uav_privacy_sc.perception.stage import Perception

        config = self.config
        stage = Perception(
            Path(config.weights) if config.weights else None,
            config.device,
            config.confidence,
            detector=config.detector or None,
            half=config.half,
            tiles=config.tiles,
        )
        if 0 < config.reach_cells < stage.reach_cells:
            raise ValueError(
                f"reach_cells is {config.reach_cells}, but an object changes these features {stage.reach_cells} cells "
                f"away; set reach_cells to {stage.reach_cells} for protection and perception"
            )
        stage.warm_up()
        return stage

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return the device, which networks these are, and what was left out."""
        values = {"device": getattr(self.stage, "device", ""), **getattr(self.stage, "networks", {})}
        values |= {name: count for name, count in self.counts.items() if name.startswith("detections ")}
        return (
            True,
            "; ".join(("perceiving", *getattr(self.stage, "notes", ()))),
            values | getattr(self.stage, "counts", {}),
        )

    def _on_image(self, message: Any) -> None:
        image = picture_from_message(message)
        with self.timed("perceive") as taken:
            percept = self.stage(image)
        self._publish(percept.features, percept.objects, message.header, taken)

    def _on_both(self, message: Any, detections: Any) -> None:
        image = picture_from_message(message)
        config = self.config
        objects, left_out = objects_from_detections(
            detections, image.shape, config.confidence, config.detections_classes
        )
        self.counts.update({f"detections {reason}": count for reason, count in left_out.items()})
        with self.timed("perceive") as taken:
            features = self.stage.features(image)
        self._publish(features, objects, message.header, taken)

    def _publish(self, features: np.ndarray, objects: np.ndarray, header: Any, taken: dict[str, float]) -> None:
        self.counts["frames"] += 1
        self.tell("perceived", stamp_ns(header), raw_features=features, percept_objects=objects, stage_ms=taken)
        self.give("semantic/objects", objects_to_message(objects, header))
        self.give("semantic/features", tensor_to_message(features, header))


def main() -> None:
    """Run the node as a process."""
    leave(run(PerceptionNode, PerceptionNode.NAME))


if __name__ == "__main__":
    main()
