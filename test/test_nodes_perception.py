"""The perception and ground nodes: other people's detections in and out, options, and an empty scene all the way.

``vision_msgs`` has no wheel, so a stand-in of the same fields takes its place here; rclpy's part in carrying it is left
out, what the nodes do with it is not.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeStages, some_objects
from rclpy.context import Context
from rclpy.node import Node

from uav_privacy_sc import graph, scene
from uav_privacy_sc.data.sources import Source, SourceFrame
from uav_privacy_sc.flight import FlightConfig
from uav_privacy_sc.nodes.conversion import (
    MalformedMessage,
    make_header,
    objects_from_message,
    objects_to_message,
    picture_to_message,
    tensor_to_message,
)
from uav_privacy_sc.nodes.detections import detections_to_message, objects_from_detections, vision_messages
from uav_privacy_sc.nodes.ground import DETECTIONS, GroundNode
from uav_privacy_sc.nodes.perception import WAITING, PerceptionNode

SHAPE = (100, 200, 3)


def _point() -> Any:
    return SimpleNamespace(x=0.0, y=0.0)


def _box() -> Any:
    return SimpleNamespace(center=SimpleNamespace(position=_point(), theta=0.0), size_x=0.0, size_y=0.0)


@dataclass
class ObjectHypothesisWithPose:
    hypothesis: Any = field(default_factory=lambda: SimpleNamespace(class_id="", score=0.0))


@dataclass
class Detection2D:
    header: Any = None
    results: list[Any] = field(default_factory=list)
    bbox: Any = field(default_factory=_box)
    id: str = ""


@dataclass
class Detection2DArray:
    header: Any = None
    detections: list[Any] = field(default_factory=list)


@pytest.fixture
def vision(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Put the stand-in where vision_msgs would be, and catch what rclpy would carry."""
    package, messages = ModuleType("vision_msgs"), ModuleType("vision_msgs.msg")
    for kind in (ObjectHypothesisWithPose, Detection2D, Detection2DArray):
        setattr(messages, kind.__name__, kind)
    monkeypatch.setitem(sys.modules, "vision_msgs", package)
    monkeypatch.setitem(sys.modules, "vision_msgs.msg", messages)
    caught = SimpleNamespace(messages=messages, callbacks={}, published=[])
    subscribe, advertise = Node.create_subscription, Node.create_publisher

    def create_subscription(self: Node, kind: Any, topic: str, callback: Any, *rest: Any, **options: Any) -> Any:
        caught.callbacks[topic] = callback
        return None if kind is Detection2DArray else subscribe(self, kind, topic, callback, *rest, **options)

    def create_publisher(self: Node, kind: Any, topic: str, *rest: Any, **options: Any) -> Any:
        if kind is not Detection2DArray:
            return advertise(self, kind, topic, *rest, **options)
        return SimpleNamespace(publish=lambda message: caught.published.append((topic, message)))

    monkeypatch.setattr(Node, "create_subscription", create_subscription)
    monkeypatch.setattr(Node, "create_publisher", create_publisher)
    return caught


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


def detection(name: str, score: float, x: float, y: float, w: float, h: float, theta: float = 0.0) -> Detection2D:
    made, result = Detection2D(), ObjectHypothesisWithPose()
    made.bbox.center.position.x, made.bbox.center.position.y, made.bbox.center.theta = x, y, theta
    made.bbox.size_x, made.bbox.size_y = w, h
    result.hypothesis.class_id, result.hypothesis.score = name, score
    made.results.append(result)
    return made


def array(*detections: Detection2D, stamp: int = 7) -> Detection2DArray:
    return Detection2DArray(make_header(stamp, "camera"), list(detections))


# Conversion


def test_detections_become_records_in_parts_of_the_picture() -> None:
    given = array(detection("person", 0.9, 50, 25, 20, 10), detection("awning-tricycle", 0.5, 100, 50, 40, 40))
    objects, left_out = objects_from_detections(given, SHAPE)
    assert [scene.OBJECT_CLASSES[label] for label in objects["label"]] == ["pedestrian", "awning-tricycle"]
    assert np.allclose(scene.corners(objects)[0], [0.2, 0.2, 0.3, 0.3])
    assert objects["score"].tolist() == pytest.approx([0.9, 0.5]) and (objects["cell"] == -1).all()
    assert not left_out


@pytest.mark.parametrize(
    ("name", "numbering", "label"),
    [("0", "coco", "pedestrian"), ("0", "visdrone", "pedestrian"), ("3", "coco", "motor"), ("3", "visdrone", "car")],
)
def test_numbers_count_in_the_list_that_is_said(name: str, numbering: str, label: str) -> None:
    objects, _ = objects_from_detections(array(detection(name, 0.9, 50, 50, 9, 9)), SHAPE, 0.0, numbering)
    assert scene.OBJECT_CLASSES[objects["label"][0]] == label


def test_the_best_hypothesis_counts() -> None:
    one = detection("car", 0.3, 50, 50, 10, 10)
    one.results += detection("bus", 0.6, 0, 0, 0, 0).results
    assert scene.OBJECT_CLASSES[objects_from_detections(array(one), SHAPE)[0]["label"][0]] == "bus"


def test_a_turned_box_is_enclosed_and_one_over_the_edge_is_clipped() -> None:
    turned = detection("car", 0.9, 100, 50, 40, 20, np.pi / 2)
    objects, _ = objects_from_detections(array(turned, detection("car", 0.9, 195, 95, 40, 40)), SHAPE)
    assert np.allclose(scene.corners(objects), [[0.45, 0.3, 0.55, 0.7], [0.875, 0.75, 1.0, 1.0]], atol=1e-6)


def test_what_is_left_out_is_counted_by_reason() -> None:
    given = array(
        detection("dog", 0.9, 50, 50, 10, 10),
        detection("car", 0.1, 50, 50, 10, 10),
        detection("car", 0.9, -50, 50, 10, 10),
        detection("car", 0.9, 50, 50, 0, 10),
    )
    objects, left_out = objects_from_detections(given, SHAPE, 0.25)
    assert len(objects) == 0 and objects.dtype == scene.OBJECT_DTYPE
    assert left_out == {"of other classes": 1, "below confidence": 1, "outside the picture or without area": 2}


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (detection("human", 0.9, 50, 50, 10, 10), "class 'human' is neither"),
        (detection("80", 0.9, 50, 50, 10, 10), "class 80 is beyond the 80 of coco"),
        (detection("", 0.9, 50, 50, 10, 10), "class '' is neither"),
        (detection("car", float("nan"), 50, 50, 10, 10), "score is nan"),
        (detection("car", 1.5, 50, 50, 10, 10), "score is 1.5"),
        (detection("car", 0.9, float("nan"), 50, 10, 10), "a box has a NaN"),
        (detection("car", 0.9, 50, 50, 10, float("inf")), "a box has a NaN"),
        (detection("car", 0.9, 50, 50, -10, 10), "negative"),
        (Detection2D(), "no hypothesis"),
    ],
)
def test_one_detection_that_is_not_understood_refuses_the_frame(wrong: Detection2D, named: str) -> None:
    with pytest.raises(MalformedMessage, match=named):
        objects_from_detections(array(detection("car", 0.9, 50, 50, 10, 10), wrong), SHAPE)


def test_received_objects_become_detections_and_come_back_the_same(vision: Any) -> None:
    objects = some_objects(5)
    message = detections_to_message(objects, make_header(7, "camera"), (88, 160), vision.messages)
    assert message.header.frame_id == "camera"
    back, left_out = objects_from_detections(message, (88, 160))
    assert not left_out
    assert np.allclose(scene.corners(back), scene.corners(objects).clip(0, 1), atol=1e-6)
    assert back["label"].tolist() == objects["label"].tolist()


def test_where_vision_msgs_is_not_the_parameter_that_needs_it_is_named(
    context: Context, stages: FakeStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vision_msgs", None)
    monkeypatch.setitem(sys.modules, "vision_msgs.msg", None)
    with pytest.raises(ValueError, match="parameter detections_topic needs vision_msgs, which is not installed"):
        PerceptionNode(stage=stages.perceive, context=context, overrides={"detections_topic": "boxes"})
    with pytest.raises(ValueError, match="parameter publish_detections needs vision_msgs"):
        GroundNode(stage=stages.decode, context=context, overrides={"publish_detections": True})
    with pytest.raises(ValueError, match="leave mine out"):
        vision_messages("mine")


# Nodes


class ExternalStage:
    """Features only; to be asked for objects is a fault."""

    def __call__(self, image: np.ndarray) -> Any:
        raise AssertionError("the external detector's objects were to be used")

    def features(self, image: np.ndarray) -> np.ndarray:
        return np.full((CHANNELS, *GRID), 0.5, np.float32)


def external(context: Context, **overrides: Any) -> tuple[PerceptionNode, dict[str, list[Any]]]:
    overrides = {"detections_topic": "boxes", **overrides}
    node = PerceptionNode(stage=ExternalStage(), context=context, overrides=overrides, use_global_arguments=False)
    given: dict[str, list[Any]] = {"semantic/objects": [], "semantic/features": []}
    node.give = lambda name, message: given[name].append(message)  # type: ignore[method-assign]
    return node, given


def image(stamp: int) -> Any:
    return picture_to_message(np.zeros(SHAPE, np.uint8), make_header(stamp, "camera"))


def test_external_detections_go_the_way_of_our_own_joined_by_stamp(context: Context, vision: Any) -> None:
    node, given = external(context)
    try:
        see, tell = vision.callbacks["camera/image_raw"], vision.callbacks["boxes"]
        tell(array(detection("car", 0.9, 50, 25, 20, 10), detection("dog", 0.9, 50, 25, 20, 10), stamp=2))
        see(image(1))
        assert not given["semantic/objects"], "a picture waits for its detections"
        see(image(2))
        tell(array(stamp=1))
        objects = [objects_from_message(message) for message in given["semantic/objects"]]
        assert [len(found) for found in objects if found is not None] == [1, 0], "none detected is a frame, too"
        assert [message.header.stamp.nanosec for message in given["semantic/features"]] == [2, 1]
        assert node.status()[2]["detections of other classes"] == 1
        tell(array(detection("human", 0.9, 50, 25, 20, 10), stamp=3))
        see(image(3))
        assert node.drops == {"MalformedMessage": 1} and len(given["semantic/objects"]) == 2
        for stamp in range(4, 5 + WAITING):
            see(image(stamp))
        assert node.drops["half a frame"] == 1
    finally:
        node.close()


def test_tiles_and_an_external_detector_exclude_each_other(context: Context, vision: Any) -> None:
    with pytest.raises(ValueError, match="tiles is 2, but objects come from detections_topic; set tiles to 1"):
        external(context, tiles=2)


def test_the_ground_publishes_what_it_received_and_nothing_of_a_lost_packet(
    context: Context, vision: Any, stages: FakeStages
) -> None:
    node = GroundNode(
        stage=stages.decode, context=context, overrides={"publish_detections": True}, use_global_arguments=False
    )
    try:
        objects = some_objects(3)
        for stamp, received in ((1, objects), (2, None), (3, scene.no_objects())):
            header = make_header(stamp, "camera")
            vision.callbacks["ground/rx/objects"](objects_to_message(received, header))
            vision.callbacks["ground/rx/features"](tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), header))
        assert not node.drops
        assert [(topic, message.header.stamp.nanosec) for topic, message in vision.published] == [
            (DETECTIONS, 1),
            (DETECTIONS, 3),
        ]
        back, _ = objects_from_detections(vision.published[0][1], (4 * GRID[0], 4 * GRID[1]))
        assert np.allclose(scene.centers(back), scene.centers(objects), atol=1e-6)
    finally:
        node.close()


def test_diagnostics_name_the_networks_and_what_is_to_be_known_of_them(context: Context) -> None:
    stage = SimpleNamespace(
        device="cpu",
        networks={"detector_sha256": "ab", "codec_sha256": "cd"},
        notes=("another detector",),
        counts={"x": 1},
    )
    node = PerceptionNode(stage=stage, context=context, use_global_arguments=False)
    try:
        healthy, text, values = node.status()
        assert healthy and text == "perceiving; another detector"
        assert values == {"device": "cpu", "detector_sha256": "ab", "codec_sha256": "cd", "x": 1}
    finally:
        node.close()


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"half": True, "device": "cpu"}, "half=True needs a CUDA device"),
        ({"detector": "/no/such/detector.pt", "device": "cpu"}, "detector weights /no/such/detector.pt are not there"),
        ({"detector": "/no/such/detector.tflite", "device": "cpu"}, "end in .tflite; give .pt, .onnx or .engine"),
        ({"tiles": 4}, "parameter tiles is 4; give a whole number from 1 to 3"),
        ({"half": "yes"}, "parameter half is 'yes'; give true or false"),
    ],
)
def test_a_wrong_option_is_one_line_that_names_it(context: Context, overrides: dict[str, Any], named: str) -> None:
    pytest.importorskip("torch")
    with pytest.raises(ValueError, match=named) as caught:
        PerceptionNode(context=context, overrides=overrides, use_global_arguments=False)
    assert "\n" not in str(caught.value)


# All the way


class EmptyScene(Source):
    """Asphalt and nothing else."""

    kind = "images"

    def __init__(self, frames: int) -> None:
        super().__init__("empty scene", 10.0, frames)

    def _frames(self) -> Iterator[SourceFrame]:
        for index in range(self.length or 0):
            yield SourceFrame(index, self.stamp_ns(index), np.full((270, 480, 3), 90, np.uint8))


def test_an_empty_scene_is_a_frame_from_the_camera_to_the_ground() -> None:
    pytest.importorskip("torch")
    config = FlightConfig(seed=1, device="cpu", parameters={"link": {"fading": "none"}})
    log = graph.fly(EmptyScene(2), config)
    assert log.dropped == {} and log.counts["decoded"] == 2
    for frame in log.frames:
        assert frame.percept_objects is not None and len(frame.percept_objects) == 0
        assert frame.record is not None and frame.record.objects == 0
        assert frame.ground_objects is not None and len(frame.ground_objects) == 0
        assert frame.ground_mask is not None and frame.ground_mask.max() < len(scene.MASK_CLASSES)
        assert frame.eve_reconstruction is not None
