"""Light and weather: how bright, how hazy, how wet, and what the lens and the sensor add."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from uav_privacy_sc.data.synthetic.camera import Camera

#: What a flight's weather is drawn from.
WEATHERS = ("clear", "overcast", "haze", "rain", "dusk", "night")


@dataclass(frozen=True)
class Light:
    """Sun direction ``(3,)`` (towards the sun), strengths in [0, 1], a colour cast ``(3,)``, and the air.

    ``visibility_m`` is the distance at which haze hides two thirds; ``sky`` the colour it fades to; ``lamps`` how
    strongly street lamps and headlights light their surroundings; ``rain`` how many streaks fall, 0 to 1.
    """

    sun: np.ndarray
    ambient: float
    shadow: float
    cast: np.ndarray
    visibility_m: float = 2500.0
    sky: tuple[float, float, float] = (205.0, 215.0, 228.0)
    lamps: float = 0.0
    rain: float = 0.0


@dataclass(frozen=True)
class Lens:
    """Blur in pixels, motion blur in pixels, noise in grey values, JPEG quality (100: none), darkening of corners."""

    blur: float = 0.6
    motion: int = 1
    noise: float = 3.5
    quality: int = 100
    vignette: float = 0.0


def draw_light(rng: np.random.Generator, weather: str) -> Light:
    """Draw the light of a flight in one of :data:`WEATHERS`.

    Raises:
        ValueError: another weather.
    """
    if weather not in WEATHERS:
        raise ValueError(f"weather={weather!r} is unknown; use one of {', '.join(WEATHERS)}")
    elevation, azimuth = np.radians(rng.uniform(28, 75)), rng.uniform(0, 2 * np.pi)
    overcast = {"clear": rng.uniform(0, 0.5), "overcast": rng.uniform(0.6, 1.0)}.get(weather, 0.9)
    brightness = rng.uniform(0.9, 1.35)
    tint = 1 + rng.normal(0, 0.04, 3)
    visibility, sky, lamps, rain = rng.uniform(900, 4000), np.array([205.0, 215.0, 228.0]), 0.0, 0.0
    if weather == "haze":
        visibility, sky = rng.uniform(120, 500), np.array([200.0, 203.0, 203.0])
    elif weather == "rain":
        brightness, visibility, rain = rng.uniform(0.6, 0.9), rng.uniform(200, 800), rng.uniform(0.2, 1.0)
        sky = np.array([165.0, 172.0, 180.0])
    elif weather == "dusk":
        elevation, overcast, brightness = np.radians(rng.uniform(8, 20)), rng.uniform(0, 0.4), rng.uniform(0.55, 0.9)
        tint, sky = tint * np.array([1.10, 0.98, 0.86]), np.array([225.0, 180.0, 150.0])
        lamps = rng.uniform(0.0, 0.3)
    elif weather == "night":
        brightness, lamps = rng.uniform(0.2, 0.45), rng.uniform(0.5, 1.1)
        tint, sky = tint * np.array([0.88, 0.95, 1.16]), np.array([30.0, 34.0, 48.0])
    sun = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    ambient, shadow = 0.5 + 0.3 * overcast, 0.5 * (1 - 0.75 * overcast)
    return Light(sun, ambient, shadow, brightness * tint, visibility, tuple(sky), lamps, rain)


def draw_lens(rng: np.random.Generator) -> Lens:
    """Draw a camera between good and poor."""
    motion = int(rng.integers(2, 6)) if rng.random() < 0.15 else 1
    quality = int(rng.integers(45, 96)) if rng.random() < 0.7 else 100
    return Lens(rng.uniform(0.4, 1.1), motion, rng.uniform(1.0, 8.0), quality, rng.uniform(0, 0.35))


def light_up(image: np.ndarray, light: Light, lamps: np.ndarray | None) -> np.ndarray:
    """Return the picture under the light's cast; ``lamps`` ``(H, W)`` uint8 is what lamps add to it."""
    if lamps is None:
        return cv2.multiply(image, (*light.cast, 1.0))
    warm = np.array([1.0, 0.86, 0.62], np.float32) * light.lamps / 255
    gain = light.cast.astype(np.float32) + lamps[..., None].astype(np.float32) * warm
    return np.clip(image * gain, 0, 255).astype(np.uint8)


def lamp_map(camera: Camera, posts: np.ndarray, headlights: Sequence[np.ndarray]) -> np.ndarray:
    """Return ``(H, W)`` uint8 light on the scene from lamp ``posts`` ``(K, 2)`` and headlight cones ``(3, 2)`` each."""
    light = np.zeros((camera.height, camera.width), np.uint8)
    turns = np.linspace(0, 2 * np.pi, 16, endpoint=False)
    rings = [(radius, value) for radius, value in ((11.0, 60), (7.0, 130), (3.5, 220))]
    for radius, value in rings:
        for post in posts:
            rim = np.column_stack([post + radius * np.stack([np.cos(turns), np.sin(turns)], 1), np.zeros(16)])
            _fill(light, camera, rim, value)
    for cone in headlights:
        _fill(light, camera, np.column_stack([cone, np.zeros(len(cone))]), 190)
    spread = max(3, int(camera.focal / camera.position[2] * 1.2)) | 1
    return cv2.blur(cv2.blur(light, (spread, spread)), (spread, spread))


def _fill(light: np.ndarray, camera: Camera, points: np.ndarray, value: int) -> None:
    pixels, depth = camera.project(points)
    if depth.min() > 1.0 and np.abs(pixels).max() < 8000:
        cv2.fillConvexPoly(light, np.round(pixels).astype(np.int32), value)


def add_air(image: np.ndarray, camera: Camera, light: Light, reach: float) -> np.ndarray:
    """Fade the picture with distance towards the sky's colour; what is above the horizon is sky.

    Beyond ``reach`` metres, where no bodies are drawn, the fading is quicker.
    """
    distance = camera.ground_distance(8)
    if float(distance.max()) < 0.04 * light.visibility_m:
        return image
    clear = np.exp(-distance / light.visibility_m - np.maximum(distance - 1.2 * reach, 0) / 700)
    coarse = (255 * clear).round().astype(np.uint8)
    height, width = image.shape[:2]
    whole = cv2.resize(coarse, (8 * coarse.shape[1], 8 * coarse.shape[0]), interpolation=cv2.INTER_LINEAR)
    veil = cv2.merge([whole[:height, :width]] * 3)
    sky = np.clip(np.array(light.sky) * (light.cast if light.lamps < 0.4 else 1.0), 0, 255)
    behind = cv2.multiply(255 - veil, (*sky, 0.0), scale=1 / 255)
    return cv2.add(cv2.multiply(image, veil, scale=1 / 255), behind)


def expose(image: np.ndarray, lens: Lens, light: Light, rng: np.random.Generator) -> np.ndarray:
    """What rain, lens and sensor do to a picture."""
    if light.rain:
        image = _streaks(image, light.rain, rng)
    image = cv2.GaussianBlur(image, (3, 3) if lens.blur <= 0.7 else (5, 5), lens.blur)
    if lens.motion > 1:
        angle = rng.uniform(0, np.pi)
        steps = np.linspace(-0.5, 0.5, 9) * lens.motion
        kernel = np.zeros((9, 9), np.float32)
        columns, rows = np.round(4 + steps * np.cos(angle)), np.round(4 + steps * np.sin(angle))
        np.add.at(kernel, (rows.astype(int), columns.astype(int)), 1 / 9)
        image = cv2.filter2D(image, -1, kernel)
    if lens.vignette:
        image = _vignette(image, lens.vignette)
    noise = np.empty(image.shape[:2], np.int16)
    cv2.setRNGSeed(int(rng.integers(2**31)))
    cv2.randn(noise, 0, lens.noise)
    image = cv2.add(image, cv2.merge([noise] * 3), dtype=cv2.CV_8U)
    if lens.quality < 100:
        _, packed = cv2.imencode(".jpg", image, [cv2.IMWRITE_JPEG_QUALITY, lens.quality])
        image = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR))
    return image


def _streaks(image: np.ndarray, rain: float, rng: np.random.Generator) -> np.ndarray:
    height, width = image.shape[:2]
    layer = np.zeros((height, width), np.uint8)
    slant = rng.normal(0, 3)
    for x, y, length in rng.uniform((0, 0, 6), (width, height, 18), (int(500 * rain), 3)):
        cv2.line(layer, (int(x), int(y)), (int(x + slant), int(y + length)), 60, 1)
    return cv2.add(image, cv2.merge([layer] * 3))


def _vignette(image: np.ndarray, strength: float) -> np.ndarray:
    height, width = image.shape[:2]
    x = np.linspace(-1, 1, width, dtype=np.float32)
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    gain = (255 * (1 - strength * (x * x + y * y) / 2)).astype(np.uint8)
    return cv2.multiply(image, cv2.merge([gain] * 3), scale=1 / 255)
