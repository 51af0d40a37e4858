"""A flight as data: what it is flown with, what happened frame by frame, and what it came to. Neither ROS nor torch."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from uav_privacy_sc.pipeline import Budgets, Payload, ReleaseRecord

#: Stages whose time is taken, in the order in which a frame meets them.
STAGES = ("perceive", "budget", "protect", "link", "decode", "attack")
#: What is counted, in the order in which frames get lost.
COUNTS = ("frames_in", "broken", "perceived", "released", "received", "decoded")


@dataclass(frozen=True)
class FlightConfig:
    """What a flight is flown with.

    Attributes:
        scenario: policy of the budget server.
        scenarios_file: YAML file with further policies; None for the shipped ones.
        profile: ``hardened`` or ``paper``, or the path of a ROS parameter file.
        parameters: parameters over those of the profile, by node name; those under ``""`` go to every node.
        isolate: put ``ground`` and ``eavesdropper`` in a DDS domain of their own.
        seed: seed of every random stream (an experiment, and marked so in each record); None for cryptographic noise.
        device: torch device of the networks: ``auto``, ``cpu`` or ``cuda:N``.
        weights: folder of the networks' weights; None for the shipped ones.
        ledger: file in which the odometer keeps what was spent; None keeps it in memory only.
        namespace: ROS namespace of the aircraft.
        frame_timeout_s: how long a frame may take from camera to decoder before the next one is flown.
        in_flight: how many frames may be on their way at once, at least 1.
        keep_frames: of how many frames, evenly spread, pictures and tensors are kept in the log.
    """

    scenario: str = "surveillance"
    scenarios_file: Path | None = None
    profile: str | Path = "hardened"
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    isolate: bool = True
    seed: int | None = None
    device: str = "auto"
    weights: Path | None = None
    ledger: Path | None = None
    namespace: str = "/"
    frame_timeout_s: float = 30.0
    in_flight: int = 2
    keep_frames: int = 240

    def __post_init__(self) -> None:
        if not (math.isfinite(self.frame_timeout_s) and self.frame_timeout_s > 0.0):
            raise ValueError(f"frame_timeout_s is {self.frame_timeout_s!r}; give a finite number of seconds above 0")
        for name, low in (("in_flight", 1), ("keep_frames", 2)):
            if not getattr(self, name) >= low:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a whole number of at least {low}")
        if self.seed is not None and not 0 <= self.seed < 2**63:
            raise ValueError(f"seed is {self.seed!r}; give a whole number from 0 to 2^63 - 1")


@dataclass
class FrameLog:
    """One frame: what the aircraft knew, what left it, and what each party made of it.

    Images are RGB uint8 (H, W, 3), features float32 (C, H', W'), objects ``scene.OBJECT_DTYPE``, ``epsilon_map``
    (H', W'), ``ground_mask`` uint8 in ``scene.MASK_CLASSES``. What did not come to be is None; ``dropped`` says why a
    frame did not reach the ground, ``ground_heard`` whether its features did.
    """

    index: int
    stamp_ns: int
    image: np.ndarray | None = None
    truth_objects: np.ndarray | None = None
    truth_mask: np.ndarray | None = None
    truth_ignored: np.ndarray | None = None
    percept_objects: np.ndarray | None = None
    raw_features: np.ndarray | None = None
    epsilon_map: np.ndarray | None = None
    budgets: Budgets | None = None
    utility: float | None = None
    status: str | None = None
    record: ReleaseRecord | None = None
    gain_db: float | None = None
    distance_m: float | None = None
    payload: Payload | None = None
    ground_snr_db: float | None = None
    ground_objects: np.ndarray | None = None
    ground_mask: np.ndarray | None = None
    ground_heard: bool | None = None
    eve_snr_db: float | None = None
    eve_features: np.ndarray | None = None
    eve_objects: np.ndarray | None = None
    eve_reconstruction: np.ndarray | None = None
    stage_ms: dict[str, float] = field(default_factory=dict)
    dropped: str | None = None

    #: What takes memory; everything else is kept for every frame.
    HEAVY = (
        "image",
        "truth_mask",
        "raw_features",
        "epsilon_map",
        "ground_mask",
        "eve_features",
        "eve_reconstruction",
    )

    @property
    def is_light(self) -> bool:
        """Whether pictures and tensors are gone, to keep memory flat in a long flight."""
        return all(getattr(self, name) is None for name in self.HEAVY)

    def lighten(self) -> None:
        """Let go of pictures and tensors."""
        for name in self.HEAVY:
            setattr(self, name, None)


@dataclass(frozen=True)
class FlightEvent:
    """Told to an observer: ``ready`` (nodes are up), ``frame`` (one is finished, all of it in ``frame``), ``end``.

    ``done`` of ``total`` frames have been flown (``total`` None where only the end will tell).
    """

    kind: str
    frame: FrameLog | None
    done: int
    total: int | None


@dataclass
class FlightLog:
    """What a flight came to. ``counts`` has :data:`COUNTS` and ``wall_s``; frames are in order of flight.

    ``bag_fault`` says why the bag ends before the flight does, where it does.
    """

    config: FlightConfig
    source_name: str
    rate_hz: float
    frames: list[FrameLog] = field(default_factory=list)
    stage_ms: dict[str, list[float]] = field(default_factory=lambda: {stage: [] for stage in STAGES})
    counts: dict[str, float] = field(default_factory=lambda: {**dict.fromkeys(COUNTS, 0), "wall_s": 0.0})
    interrupted: bool = False
    bag: Path | None = None
    bag_fault: str | None = None
    devices: dict[str, str] = field(default_factory=dict)

    @property
    def dropped(self) -> dict[str, int]:
        """How many frames were lost, by reason."""
        reasons: dict[str, int] = defaultdict(int)
        for frame in self.frames:
            if frame.dropped is not None:
                reasons[frame.dropped] += 1
        return dict(reasons)


class FrameThinner:
    """Keeps the pictures of at most ``limit`` frames, evenly spread over a flight of unknown length.

    Frames at multiples of a stride stay heavy; whenever there are too many of them the stride doubles.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.stride = 1
        self._heavy: list[tuple[int, FrameLog]] = []
        self._count = 0

    def add(self, frame: FrameLog) -> None:
        """Take in a finished frame, lightening it or others as needed."""
        position, self._count = self._count, self._count + 1
        if position % self.stride:
            frame.lighten()
            return
        self._heavy.append((position, frame))
        while len(self._heavy) > self.limit:
            self.stride *= 2
            for place, old in self._heavy:
                if place % self.stride:
                    old.lighten()
            self._heavy = [(place, old) for place, old in self._heavy if place % self.stride == 0]


@dataclass(frozen=True)
class StageEvent:
    """What a node tells whoever flies it in the same process; never goes over a topic."""

    node: str
    kind: str
    stamp_ns: int
    values: Mapping[str, Any]


class Logbook:
    """Collects :class:`StageEvent` from all nodes, on their threads, into one :class:`FrameLog` a stamp."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.open: dict[int, FrameLog] = {}
        self.reached: dict[int, set[str]] = defaultdict(set)

    def begin(self, frame: FrameLog) -> None:
        """Open the log of a frame before it is published."""
        with self.changed:
            self.open[frame.stamp_ns] = frame

    def __call__(self, event: StageEvent) -> None:
        """Write down what a node has done with a frame; wakes whoever waits for it."""
        with self.changed:
            frame = self.open.get(event.stamp_ns)
            if frame is not None:
                self._write(frame, event)
            self.changed.notify_all()

    def _write(self, frame: FrameLog, event: StageEvent) -> None:
        self.reached[event.stamp_ns].add(event.kind)
        for name, value in event.values.items():
            if name == "stage_ms":
                frame.stage_ms.update(value)
            else:
                setattr(frame, name, value)

    def close(self, stamp_ns: int) -> tuple[FrameLog, set[str]]:
        """Take out a frame and what it reached."""
        with self.changed:
            return self.open.pop(stamp_ns), self.reached.pop(stamp_ns, set())
