"""Fly as a camera does: frames come at their rate whatever becomes of them; what is late is lost, not waited for."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Any

from uav_privacy_sc.flight import FlightLog, FrameLog, Logbook, StageEvent
from uav_privacy_sc.nodes.flight import POLL_S, Flight, Interrupted

#: How long after the last frame the ground may still be busy with those before it, in seconds.
DRAIN_S = 10.0


@dataclass
class CruiseLog:
    """What a cruise came to: the ``flight``, and in milliseconds how old each frame was when its mask was there.

    ``ages_ms`` is in order of decoding; a frame that was not decoded has none.
    """

    flight: FlightLog
    ages_ms: list[float] = field(default_factory=list)


class _Clocked(Logbook):
    """A logbook that takes down when a mask was decoded, by the clock that stamped its frame."""

    def __init__(self, ages_ms: list[float]) -> None:
        super().__init__()
        self._ages_ms = ages_ms

    def _write(self, frame: FrameLog, event: StageEvent) -> None:
        if event.kind == "decoded":
            self._ages_ms.append((time.time_ns() - event.stamp_ns) / 1e6)
        super()._write(frame, event)


class Cruise(Flight):
    """A flight whose frames are stamped when they are published, at ``rate_hz``, best effort as between processes."""

    def __init__(self, rate_hz: float, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._period_s = 1.0 / rate_hz
        self._log = CruiseLog(self.log)
        self.logbook = _Clocked(self._log.ages_ms)

    def cruise(self) -> CruiseLog:
        """Fly to the end, or to an interruption, and return the log."""
        self.fly()
        return self._log

    def _parameters(self, name: str) -> dict[str, Any]:
        given = super()._parameters(name)
        return {key: value for key, value in given.items() if not key.startswith("qos_overrides.")}

    def _fly_frames(self) -> None:
        camera, due, last = self.nodes["camera"], time.monotonic(), None
        while (frame := camera.next_frame()) is not None:
            if self.should_stop():
                raise Interrupted
            self._pause_until(due)
            due += self._period_s
            frame = replace(frame, stamp_ns=time.time_ns())
            self.logbook.begin(FrameLog(frame.index, frame.stamp_ns))
            camera.publish(frame)
            last = frame.stamp_ns
        if last is not None:
            self._await(lambda: self._is_finished(last), DRAIN_S)
        for stamp in list(self.logbook.open):
            perceived = "perceived" in self.logbook.reached[stamp]
            done = self._is_finished(stamp)
            self._finish(stamp, None if done else "not decoded" if perceived else "a newer frame came first")

    def _pause_until(self, due: float) -> None:
        """Sleep: unlike :meth:`_await` this does not wake, and hold up the nodes' threads, at all that they tell."""
        self._check_interruption()
        while (left := due - time.monotonic()) > 0.0:
            time.sleep(min(POLL_S, left))
            self._check_interruption()
