"""The camera: plays a source as ``camera/image_raw``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import cv2
from sensor_msgs.msg import CameraInfo, CompressedImage

from uav_privacy_sc.data.sources import Source, SourceFrame, open_source
from uav_privacy_sc.nodes.base import StageNode
from uav_privacy_sc.nodes.conversion import fill, make_header, picture_to_message
from uav_privacy_sc.nodes.parameters import parameter
from uav_privacy_sc.nodes.process import leave, run


@dataclass(frozen=True)
class CameraConfig:
    """Parameters of the camera."""

    source: str = parameter("synthetic", "folder, dataset, video, rosbag2, device:NUMBER or synthetic[:SEED]")
    rate_hz: float = parameter(0.0, "frames a second; 0 for the source's own", low=0.0, high=1000.0)
    max_frames: int = parameter(0, "stop after so many frames; 0 for all", low=0, high=2**31 - 1)
    loop: bool = parameter(False, "start again at the end")
    stamp: str = parameter("clock", "stamp frames by the node's clock or by the source", choices=("clock", "source"))
    frame_id: str = parameter("camera", "frame_id of every header")
    jpeg_quality: int = parameter(90, "of camera/image_raw/compressed", low=1, high=100)


class CameraNode(StageNode[CameraConfig]):
    """Publishes a source at its rate, or frame by frame for a caller that has handed in an open ``source``."""

    NAME = "camera"
    Config = CameraConfig

    def __init__(self, source: Source | None = None, **options: Any) -> None:
        super().__init__(**options)
        self.create_outputs(*self.spec.gives)
        self.source = source or self._open()
        self._frames = self._play()
        if source is None:
            self.create_timer(1.0 / self.source.rate_hz, self._on_timer)

    def next_frame(self) -> SourceFrame | None:
        """Return the next frame to publish, or None at the end of the flight."""
        return next(self._frames, None)

    def publish(self, frame: SourceFrame) -> None:
        """Publish a frame of the source; one without a picture is dropped and counted."""
        self.counts["frames"] += 1
        if frame.image is None:
            self.drop("broken frame", frame.stamp_ns, frame.error or "no picture")
            return
        stamp = frame.stamp_ns if self.config.stamp == "source" else self.get_clock().now().nanoseconds
        header = make_header(stamp, self.config.frame_id)
        height, width = frame.image.shape[:2]
        self.give("camera/camera_info", CameraInfo(header=header, height=height, width=width))
        self.give("camera/image_raw", picture_to_message(frame.image, header))
        if self.wanted("camera/image_raw/compressed"):
            self.give("camera/image_raw/compressed", self._compressed(frame.image, header))

    def status(self) -> tuple[bool, str, dict[str, Any]]:
        """Return what is being played."""
        return True, "playing", {"source": self.source.name}

    def close(self) -> None:
        """Close the source, too."""
        self.source.close()
        super().close()

    def _open(self) -> Source:
        return open_source(self.config.source, self.config.rate_hz or None, self.config.max_frames or None)

    def _play(self) -> Iterator[SourceFrame]:
        yield from self.source
        while self.config.loop:
            self.source.close()
            self.source = self._open()
            yield from self.source

    def _on_timer(self) -> None:
        frame = self.next_frame()
        if frame is not None:
            self.publish(frame)
        else:
            self.get_logger().info("end of the source", once=True)

    def _compressed(self, image: Any, header: Any) -> CompressedImage:
        quality = [cv2.IMWRITE_JPEG_QUALITY, self.config.jpeg_quality]
        encoded = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), quality)[1]
        message = CompressedImage(header=header, format="rgb8; jpeg compressed bgr8")
        fill(message.data, encoded)
        return message


def main() -> None:
    """Run the node as a process."""
    leave(run(CameraNode, CameraNode.NAME))


if __name__ == "__main__":
    main()
