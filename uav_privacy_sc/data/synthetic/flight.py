"""A flight over a town: frames with picture, objects, mask and identities, the same from the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.render import Drawing, Light, Painter, Placed
from uav_privacy_sc.data.synthetic.town import TOWN_SIZE, build_town
from uav_privacy_sc.data.synthetic.traffic import populate

#: An object counts as visible from these on: pixels, and share of its silhouette.
_MIN_PIXELS = 9
_MIN_SHARE = 0.2
_MIN_SIDE = 3.0
#: Hidden shares at which VisDrone's degrees 1 and 2 begin (silhouettes are hulls, so a little is always "hidden").
_NOTICEABLE = (0.25, 0.5)


@dataclass(frozen=True)
class FlightStyle:
    """Ranges a flight draws from: altitude in metres, pitch below the horizon in degrees, traffic density."""

    altitude_m: tuple[float, float] = (18.0, 42.0)
    pitch_deg: tuple[float, float] = (38.0, 85.0)
    density: tuple[float, float] = (0.5, 1.1)
    speed_mps: tuple[float, float] = (2.0, 6.0)
    hfov_deg: float = 66.0

    def __post_init__(self) -> None:
        limits = {"altitude_m": (5, 150), "pitch_deg": (25, 90), "density": (0.01, 5), "speed_mps": (0, 200)}
        for name, (low, high) in limits.items():
            start, end = getattr(self, name)
            if not low <= start <= end <= high:
                raise ValueError(f"{name}={start, end} must be a rising pair within [{low}, {high}]")
        if not 20 <= self.hfov_deg <= 120:
            raise ValueError(f"hfov_deg={self.hfov_deg} must be within [20, 120]")


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

    def camera(self, time_s: float, focal: float, width: int, height: int) -> Camera:
        wave = np.sin(np.array([0.9, 1.3, 0.7, 0.5]) * time_s + self.sway)
        heading = self.course + self.yaw_rate * time_s
        travelled = self.speed * time_s * np.array([np.cos(self.course), np.sin(self.course)])
        position = np.array([*(self.start + travelled), self.altitude + 0.5 * wave[3]])
        yaw = heading + self.yaw_offset + 0.015 * wave[0]
        pitch = min(self.pitch + 0.012 * wave[1], np.pi / 2)
        return Camera(position, yaw, pitch, 0.02 * wave[2], focal, width, height)


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
        self._focal = width / (2 * np.tan(np.radians(style.hfov_deg) / 2))

    def __len__(self) -> int:
        return self.frames

    def __iter__(self) -> Iterator[SyntheticFrame]:
        return (self[k] for k in range(self.frames))

    @cached_property
    def _world(self) -> tuple[Painter, _Course]:
        rng = np.random.default_rng([self.seed, 1])
        style = self.style
        altitude = rng.uniform(*style.altitude_m)
        town = build_town(rng, max_height=0.5 * altitude)
        agents = populate(town, rng, rng.uniform(*style.density))
        crossing = np.array(town.crossings[rng.integers(len(town.crossings))])
        course = float(rng.choice([0, np.pi / 2, np.pi, -np.pi / 2]) + rng.normal(0, 0.12))
        pitch = np.radians(rng.uniform(*style.pitch_deg))
        back = altitude / np.tan(pitch) + rng.uniform(5, 35)
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
        )
        return Painter(town, agents, _weather(rng), rng), flown

    def __getitem__(self, index: int) -> SyntheticFrame:
        if not 0 <= index < self.frames:
            raise IndexError(f"frame {index} is outside a flight of {self.frames}")
        painter, course = self._world
        time_s = index / self.rate_hz
        camera = course.camera(time_s, self._focal, self.width, self.height)
        reach = _reach(camera)
        agents = painter.placed_agents(camera, time_s, reach)
        drawing = painter.draw(camera, agents, reach)
        mask = np.where(drawing.identities == 0, drawing.ground, painter.lookup[drawing.identities])
        objects, ids, truncation, occlusion = _truth(camera, agents, drawing, painter.lookup)
        image = self._expose(drawing.image, painter.light, index)
        return SyntheticFrame(index, time_s, image, objects, mask, ids, truncation, occlusion)

    def _expose(self, image: np.ndarray, light: Light, index: int) -> np.ndarray:
        """What lens and sensor do: a little blur, noise, colour cast."""
        rng = np.random.default_rng([self.seed, 2, index])
        image = cv2.GaussianBlur(image, (3, 3), 0.6)
        noise = np.empty(image.shape[:2], np.int16)
        cv2.setRNGSeed(int(rng.integers(2**31)))
        cv2.randn(noise, 0, 3.5)
        grain = cv2.merge([noise] * 3)
        return cv2.add(cv2.multiply(image, (*light.cast, 1.0)), grain, dtype=cv2.CV_8U)


def _weather(rng: np.random.Generator) -> Light:
    elevation, azimuth = np.radians(rng.uniform(28, 75)), rng.uniform(0, 2 * np.pi)
    sun = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    overcast = rng.uniform(0, 1)
    brightness = rng.uniform(0.9, 1.35)
    return Light(sun, 0.5 + 0.3 * overcast, 0.5 * (1 - 0.75 * overcast), brightness * (1 + rng.normal(0, 0.04, 3)))


def _reach(camera: Camera) -> float:
    """Metres around the point looked at within which bodies are drawn: the picture's far corner, at most 150."""
    tilt = max(camera.pitch - np.arctan(camera.height / 2 / camera.focal), np.radians(8))
    far = camera.position[2] / np.tan(tilt) - camera.position[2] / np.tan(camera.pitch)
    return float(min(far * 1.3 + camera.position[2] * 1.2 + 12, 0.47 * TOWN_SIZE))


def _truth(
    camera: Camera, agents: list[Placed], drawing: Drawing, lookup: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Boxes of what can be seen, with identity, truncation and occlusion."""
    seen = np.bincount(drawing.identities.ravel(), minlength=len(lookup))
    size = np.array([camera.width, camera.height], float)
    rows = []
    for agent in agents:
        if seen[agent.identity] < _MIN_PIXELS:
            continue
        pixels, _ = camera.project(agent.corners.reshape(-1, 3))
        low, high = pixels.min(axis=0), pixels.max(axis=0)
        inner_low, inner_high = np.clip(low, 0, size), np.clip(high, 0, size)
        inside = np.prod((inner_high - inner_low) / np.maximum(high - low, 1e-6))
        silhouette = cv2.contourArea(cv2.convexHull(pixels.astype(np.float32))) * inside
        share = min(seen[agent.identity] / max(silhouette, 1.0), 1.0)
        if share >= _MIN_SHARE and inside >= _MIN_SHARE and (inner_high - inner_low).min() >= _MIN_SIDE:
            rows.append(
                (
                    agent.identity,
                    *(inner_low + inner_high) / 2 / size,
                    *(inner_high - inner_low) / size,
                    1 - inside,
                    1 - share,
                )
            )
    table = np.array(rows, float).reshape(-1, 7)
    ids = table[:, 0].astype(np.int64)
    objects = scene.make_objects(table[:, 1:3], table[:, 3:5], lookup[ids])
    truncation = (table[:, 5] > _NOTICEABLE[0]).astype(np.int64)
    return objects, ids, truncation, np.digitize(table[:, 6], _NOTICEABLE)
