"""A flight over a town: frames with picture, objects, mask and identities, the same from the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.data.synthetic.atmosphere import WEATHERS, Lens, draw_lens, draw_light, expose
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.ground import TOWN_SIZE
from uav_privacy_sc.data.synthetic.render import Drawing, Painter
from uav_privacy_sc.data.synthetic.town import build_town
from uav_privacy_sc.data.synthetic.traffic import populate

#: An object counts as visible from these on: pixels, and share of its silhouette.
_MIN_PIXELS = 9
_MIN_SHARE = 0.2
_MIN_SIDE = 3.0
#: Hidden shares at which VisDrone's degrees 1 and 2 begin (silhouettes are hulls, so a little is always "hidden").
_NOTICEABLE = (0.25, 0.5)
#: Metres of an object that still shows three pixels, for counting what a picture will hold.
_SMALLEST_SEEN = 0.35


@dataclass(frozen=True)
class FlightStyle:
    """Ranges a flight draws from.

    ``altitude_m`` in metres (log-uniform), ``pitch_deg`` below the horizon, ``hfov_deg`` of the lens, ``speed_mps``.
    How full the scene is follows from ``density`` (1 is a busy street) or, where ``objects`` is given, from how many
    the picture is to show (log-uniform). ``realism`` moves the shares of the classes from even ones (0) to VisDrone's
    (1). ``weathers`` are of :data:`atmosphere.WEATHERS`; ``poor_lens`` adds blur, noise, JPEG and dark corners.
    """

    altitude_m: tuple[float, float] = (18.0, 42.0)
    pitch_deg: tuple[float, float] = (38.0, 85.0)
    density: tuple[float, float] = (0.5, 1.1)
    speed_mps: tuple[float, float] = (2.0, 6.0)
    hfov_deg: tuple[float, float] = (66.0, 66.0)
    objects: tuple[float, float] | None = None
    realism: tuple[float, float] = (0.0, 0.0)
    weathers: tuple[str, ...] = ("clear", "overcast")
    poor_lens: bool = False

    def __post_init__(self) -> None:
        limits = {
            "altitude_m": (5, 150),
            "pitch_deg": (20, 90),
            "density": (0.01, 5),
            "speed_mps": (0, 200),
            "hfov_deg": (20, 120),
            "objects": (1, 1000),
            "realism": (0, 1),
        }
        for name, (low, high) in limits.items():
            if getattr(self, name) is None:
                continue
            start, end = getattr(self, name)
            if not low <= start <= end <= high:
                raise ValueError(f"{name}={start, end} must be a rising pair within [{low}, {high}]")
        for weather in self.weathers or ("none",):
            if weather not in WEATHERS:
                raise ValueError(f"weathers={self.weathers} must name some of {', '.join(WEATHERS)}")


#: What the shipped networks are trained on: every weather, from low over the street to high over the town.
VARIED = FlightStyle(
    altitude_m=(15.0, 120.0),
    pitch_deg=(20.0, 90.0),
    speed_mps=(1.0, 12.0),
    hfov_deg=(52.0, 84.0),
    objects=(10.0, 200.0),
    realism=(0.0, 0.9),
    weathers=("clear", "clear", "overcast", "overcast", "haze", "rain", "dusk", "night"),
    poor_lens=True,
)
#: Objects on a square metre of town at density 1, as measured on 36 flights.
_OBJECTS_PER_M2 = 0.018


@dataclass(frozen=True)
class SyntheticFrame:
    """One exposure with its truth.

    ``image`` is RGB uint8 ``(H, W, 3)``; ``objects`` are :data:`scene.OBJECT_DTYPE` records; ``mask`` is uint8
    ``(H, W)`` with values of :data:`scene.MASK_CLASSES`; ``ids``, ``truncation`` and ``occlusion`` are ``(M,)`` int64
    with VisDrone's degrees: truncation 1 when part of the object is outside the picture, occlusion 1 when up to a
    half of it is hidden, 2 when more is.
    """

    index: int
    time_s: float
    image: np.ndarray
    objects: np.ndarray
    mask: np.ndarray
    ids: np.ndarray
    truncation: np.ndarray
    occlusion: np.ndarray


@dataclass(frozen=True)
class _Course:
    """Where the drone is at a time, and how it looks."""

    start: np.ndarray
    course: float
    speed: float
    altitude: float
    pitch: float
    yaw_offset: float
    yaw_rate: float
    sway: np.ndarray  # (4,) phases
    focal: float  # pixels

    def camera(self, time_s: float, width: int, height: int) -> Camera:
        wave = np.sin(np.array([0.9, 1.3, 0.7, 0.5]) * time_s + self.sway)
        heading = self.course + self.yaw_rate * time_s
        travelled = self.speed * time_s * np.array([np.cos(self.course), np.sin(self.course)])
        position = np.array([*(self.start + travelled), self.altitude + 0.5 * wave[3]])
        yaw = heading + self.yaw_offset + 0.015 * wave[0]
        pitch = min(self.pitch + 0.012 * wave[1], np.pi / 2)
        return Camera(position, yaw, pitch, 0.02 * wave[2], self.focal, width, height)


class SyntheticFlight:
    """A sequence of rendered frames; index it or iterate over it.

    ``seed`` decides everything: town, traffic, weather, course. ``frames`` at ``rate_hz`` of ``width`` x ``height``
    pixels. Raises ``ValueError`` for a parameter out of range.
    """

    def __init__(
        self,
        seed: int = 7,
        frames: int = 80,
        width: int = 960,
        height: int = 540,
        rate_hz: float = 10.0,
        style: FlightStyle = FlightStyle(),
    ) -> None:
        for name, value, low, high in (
            ("seed", seed, 0, 2**63),
            ("frames", frames, 1, 10**6),
            ("width", width, 64, 4096),
            ("height", height, 64, 4096),
            ("rate_hz", rate_hz, 0.1, 240),
        ):
            if not low <= value <= high:
                raise ValueError(f"{name}={value} must be within [{low}, {high}]")
        self.seed, self.frames, self.width, self.height, self.rate_hz, self.style = (
            seed,
            frames,
            width,
            height,
            rate_hz,
            style,
        )

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[SyntheticFrame]:
        return (self[k] for k in range(self.frames))

    @cached_property
    def _world(self) -> tuple[Painter, _Course, Lens]:
        rng = np.random.default_rng([self.seed, 1])
        style = self.style
        altitude = _log_uniform(rng, style.altitude_m)
        pitch = np.radians(rng.uniform(*style.pitch_deg))
        focal = self.width / (2 * np.tan(np.radians(rng.uniform(*style.hfov_deg)) / 2))
        town = build_town(rng, max_height=min(0.5 * altitude, 40.0))
        crossing = np.array(town.crossings[rng.integers(len(town.crossings))])
        course = float(rng.choice([0, np.pi / 2, np.pi, -np.pi / 2]) + rng.normal(0, 0.12))
        back = altitude / np.tan(max(pitch, np.radians(25))) + rng.uniform(5, 35)
        start = crossing - back * np.array([np.cos(course), np.sin(course)]) + rng.normal(0, 4, 2)
        flown = _Course(
            start,
            course,
            rng.uniform(*style.speed_mps),
            altitude,
            pitch,
            rng.normal(0, 0.25),
            rng.normal(0, 0.01),
            rng.uniform(0, 6, 4),
            focal,
        )
        agents = populate(town, rng, self._density(rng, flown), rng.uniform(*style.realism))
        light = draw_light(rng, str(rng.choice(style.weathers)))
        lens = draw_lens(rng) if style.poor_lens else Lens()
        return Painter(town, agents, light, rng), flown, lens

    def _density(self, rng: np.random.Generator, course: _Course) -> float:
        """Draw how full the town is, or find it from how many objects the picture is to show."""
        if self.style.objects is None:
            return rng.uniform(*self.style.density)
        wanted = _log_uniform(rng, self.style.objects)
        camera = course.camera(0.0, self.width, self.height)
        distance = camera.ground_distance(8)
        near = distance[distance < min(_reach(camera), _SMALLEST_SEEN * course.focal)]
        slant = near / camera.position[2]
        area = float(np.sum(64 * (near / course.focal) ** 2 * slant))
        return float(np.clip(wanted / max(area * _OBJECTS_PER_M2, 1e-6), 0.12, 3.0))

    def __getitem__(self, index: int) -> SyntheticFrame:
        if not 0 <= index < self.frames:
            raise IndexError(f"frame {index} is outside a flight of {self.frames}")
        painter, course, lens = self._world
        time_s = index / self.rate_hz
        camera = course.camera(time_s, self.width, self.height)
        reach = _reach(camera)
        drawing = painter.draw(camera, painter.placed_agents(camera, time_s, reach), reach)
        objects, ids, truncation, occlusion = _truth(camera, drawing)
        image = expose(drawing.image, lens, painter.light, np.random.default_rng([self.seed, 2, index]))
        return SyntheticFrame(index, time_s, image, objects, drawing.mask, ids, truncation, occlusion)


def _log_uniform(rng: np.random.Generator, limits: tuple[float, float]) -> float:
    return float(np.exp(rng.uniform(*np.log(limits))))


def _reach(camera: Camera) -> float:
    """Metres around the point looked at within which bodies are drawn: the picture's far corner, at most 320."""
    tilt = max(camera.pitch - np.arctan(camera.height / 2 / camera.focal), np.radians(8))
    far = camera.position[2] / np.tan(tilt) - camera.position[2] / np.tan(camera.pitch)
    return float(min(far * 1.3 + camera.position[2] * 1.2 + 12, TOWN_SIZE))


def _truth(camera: Camera, drawing: Drawing) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Boxes of what can be seen, with identity, truncation and occlusion."""
    seen = np.bincount(drawing.identities.ravel(), minlength=len(drawing.labels))
    size = np.array([camera.width, camera.height], float)
    rows = []
    for identity, agent in enumerate(drawing.agents, 1):
        if seen[identity] < _MIN_PIXELS:
            continue
        pixels, _ = camera.project(agent.corners.reshape(-1, 3))
        low, high = pixels.min(axis=0), pixels.max(axis=0)
        inner_low, inner_high = np.clip(low, 0, size), np.clip(high, 0, size)
        inside = np.prod((inner_high - inner_low) / np.maximum(high - low, 1e-6))
        silhouette = cv2.contourArea(cv2.convexHull(pixels.astype(np.float32))) * inside
        share = min(seen[identity] / max(silhouette, 1.0), 1.0)
        if share >= _MIN_SHARE and inside >= _MIN_SHARE and (inner_high - inner_low).min() >= _MIN_SIDE:
            box = (*(inner_low + inner_high) / 2 / size, *(inner_high - inner_low) / size)
            rows.append((agent.agent, agent.label, *box, 1 - inside, 1 - share))
    table = np.array(rows, float).reshape(-1, 8)
    objects = scene.make_objects(table[:, 2:4], table[:, 4:6], table[:, 1].astype(np.int32))
    truncation = (table[:, 6] > _NOTICEABLE[0]).astype(np.int64)
    return objects, table[:, 0].astype(np.int64), truncation, np.digitize(table[:, 7], _NOTICEABLE)
