"""What people use today: hide the people that the detector found, and send a JPEG in equal channel uses.

Both ways have as many complex symbols as the analog features take, at the same power and fade. The JPEG has the bits
that the block's capacity carries in them, for the aircraft knows its gain as the controller does: the quality is the
highest that fits, where none does the picture is shrunk, and where not even that helps nothing is sent. An eavesdropper
who hears it has the picture itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation.baseline_tables import figures, tables
from uav_privacy_sc.evaluation.execution import Unit
from uav_privacy_sc.evaluation.figures import Figure
from uav_privacy_sc.evaluation.measurement import Measurement
from uav_privacy_sc.evaluation.messages import (
    EPSILON_L,
    NO_PEOPLE,
    P_TX,
    About,
    protect,
    score_mask,
    score_picture,
    transmit,
)
from uav_privacy_sc.evaluation.metrics import Missing, Score
from uav_privacy_sc.evaluation.networks import networks_for
from uav_privacy_sc.evaluation.profiles import protection_config, varied
from uav_privacy_sc.evaluation.protocols.protocol import Protocol
from uav_privacy_sc.evaluation.protocols.scenarios import _block
from uav_privacy_sc.evaluation.samples import Sample
from uav_privacy_sc.evaluation.setting import SampleStore, Setting
from uav_privacy_sc.link.channel import LinkConfig
from uav_privacy_sc.link.outage import capacity
from uav_privacy_sc.link.payload import analog_payload
from uav_privacy_sc.release import Budgets

NAME = "baseline"
#: Overlap from which a box that a detector finds in an eavesdropper's picture counts as the person.
FOUND_IOU = 0.5
#: A box is hidden with a margin of this share of its size on each side.
MARGIN = 0.1
#: Size of the eavesdropper's picture in the comparison: that of the inverter.
SIZE = (320, 176)
NO_JPEG = "no JPEG is small enough for the block's capacity"
ANALOG = "analog features have no bits"
_OF_JPEG = ("bits", "quality", "scale", "ssim", "psnr", "ssim_sensitive", "psnr_sensitive", "people_found")
OURS: tuple[tuple[str, str, float | None, float], ...] = (
    ("features, no protection", "none", None, 1.0),
    ("features, uniform ε_v 1", "uniform", None, 1.0),
    ("features, region-aware ε_v 1", "region_aware", 1.12, 1.0),
    ("features, region-aware ε_v 10", "region_aware", 1.12, 10.0),
    ("features, uniform ε_v 300", "uniform", None, 300.0),
    ("features, region-aware ε_v 1, κ_bg 300", "region_aware", 300.0, 1.0),
)


def blurred(patch: np.ndarray) -> np.ndarray:
    """Return a patch blurred by a Gaussian of a quarter of its longer side."""
    return cv2.GaussianBlur(patch, (0, 0), max(max(patch.shape[:2]) / 4, 1.0))


def pixelated(patch: np.ndarray) -> np.ndarray:
    """Return a patch as 4 x 4 flat tiles at most."""
    height, width = patch.shape[:2]
    small = cv2.resize(patch, (min(4, width), min(4, height)), interpolation=cv2.INTER_AREA)
    return cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST)


def blackened(patch: np.ndarray) -> np.ndarray:
    """Return a black patch."""
    return np.zeros_like(patch)


METHODS: dict[str, Callable[[np.ndarray], np.ndarray] | None] = {
    "JPEG, nothing hidden": None,
    "JPEG, people blurred": blurred,
    "JPEG, people pixelated": pixelated,
    "JPEG, people blacked out": blackened,
}


def hide(image: np.ndarray, objects: np.ndarray, how: Callable[[np.ndarray], np.ndarray] | None) -> np.ndarray:
    """Return the picture with the sensitive objects among ``objects`` hidden, boxes widened by :data:`MARGIN`."""
    hidden = image.copy()
    if how is None:
        return hidden
    people = objects[np.isin(objects["label"], scene.SENSITIVE_LABELS)].copy()
    people["w"] *= 1 + 2 * MARGIN
    people["h"] *= 1 + 2 * MARGIN
    for u1, v1, u2, v2 in scene.grid_boxes(scene.corners(people), image.shape[:2]).tolist():
        if u2 > u1 and v2 > v1:
            hidden[v1:v2, u1:u2] = how(image[v1:v2, u1:u2])
    return hidden


def jpeg_within(image: np.ndarray, bits: int) -> tuple[bytes, int, float]:
    """Return the best JPEG of an RGB picture within ``bits``: its bytes, quality and what is left of the sides.

    Raises:
        ValueError: not even an eighth of each side at the lowest quality fits.
    """
    for scale in (1.0, 0.75, 0.5, 0.35, 0.25, 0.125):
        size = (max(8, round(image.shape[1] * scale)), max(8, round(image.shape[0] * scale)))
        small = image if scale == 1.0 else cv2.resize(image, size, interpolation=cv2.INTER_AREA)
        low, high, best = 1, 95, None
        while low <= high:
            quality = (low + high) // 2
            data = _encoded(small, quality)
            if 8 * len(data) <= bits:
                best, low = (data, quality, scale), quality + 1
            else:
                high = quality - 1
        if best is not None and (best[1] >= 5 or scale == 0.125):
            return best
    raise ValueError(f"bits is {bits}; no JPEG of a {image.shape[1]}x{image.shape[0]} picture is so small")


def _encoded(image: np.ndarray, quality: int) -> bytes:
    return cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])[
        1
    ].tobytes()


def decoded(data: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Return a JPEG as an RGB picture of ``shape``."""
    image = cv2.cvtColor(cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR), cv2.COLOR_BGR2RGB)
    return image if image.shape == tuple(shape) else cv2.resize(image, (shape[1], shape[0]))


def units(setting: Setting, store: SampleStore) -> Iterator[Unit]:
    """Yield one unit a sample."""
    for sample in store:
        yield Unit(sample.name, partial(measure, sample, setting))


def measure(sample: Sample, setting: Setting) -> list[Measurement]:
    """Return both ways of sending one sample, for ground and eavesdropper."""
    found: list[Measurement] = []
    for seed in range(setting.seeds):
        about = About(NAME, setting, sample, seed)
        for name, how in METHODS.items():
            found += _sent_as_picture(about.but(mechanism=name), how)
        for name, mechanism, kappa, epsilon in OURS:
            found += _sent_as_features(about.but(mechanism=name), mechanism, kappa, epsilon)
    return found


def channel_uses(features: np.ndarray) -> int:
    """Return the complex symbols of analog features, which all ways of sending get."""
    return analog_payload(features.size, 0, LinkConfig()).feature_symbols


def carried_bits(symbols: int, snr: float) -> int:
    """Return the bits that a block's capacity carries in a number of complex symbols."""
    return math.floor(symbols * capacity(snr))


def _sent_as_picture(about: About, how: Callable[[np.ndarray], np.ndarray] | None) -> Iterator[Measurement]:
    sample = about.sample
    assert sample.image is not None and sample.features is not None
    symbols = channel_uses(sample.features)
    bits = carried_bits(symbols, _block(about.setting, sample, about.seed).snr(P_TX))
    networks = networks_for(about.setting.networks)
    yield about.row("channel_uses", float(symbols))
    yield about.row("exposed", _exposed(sample, how))
    try:
        data, quality, scale = jpeg_within(hide(sample.image, sample.detected, how), bits)
    except ValueError:
        yield about.row("arrives", 0.0)
        yield from score_mask(about, networks.decoder(np.zeros_like(sample.features), scene.no_objects()))
        yield from (about.row(name, Missing(NO_JPEG)) for name in _OF_JPEG)
        return
    picture = decoded(data, sample.image.shape)
    yield from (about.row(n, float(v)) for n, v in (("bits", 8 * len(data)), ("quality", quality), ("scale", scale)))
    yield about.row("arrives", 1.0)
    percept = networks.perception(picture)
    yield from score_mask(about, networks.decoder(percept.features, percept.objects))
    yield from _eavesdropped(about, picture)


def _sent_as_features(about: About, mechanism: str, kappa: float | None, epsilon: float) -> Iterator[Measurement]:
    setting, sample = about.setting, about.sample
    config = varied(protection_config(setting.profile), mechanism, kappa)
    release = protect(sample, config, Budgets(epsilon, EPSILON_L, P_TX), setting.noise_seed(sample.name, about.seed))
    sent = transmit(release, P_TX, setting, sample, about.seed)
    networks = networks_for(setting.networks)
    yield from score_mask(about, networks.decoder(sent.ground.heard, sent.ground.prior))
    yield about.row("channel_uses", float(sent.payload.feature_symbols))
    yield about.row("bits", float(sent.payload.feature_bits) if sent.payload.feature_bits else Missing(ANALOG))
    yield about.row("arrives", float(sent.ground.features is not None))
    yield from _eavesdropped(about, networks.inverters["inverter"](release.features))


def _eavesdropped(about: About, picture: np.ndarray) -> Iterator[Measurement]:
    """Score the eavesdropper's picture at the inverter's size, and whether a detector finds people in it."""
    networks = networks_for(about.setting.networks)
    same = picture if picture.shape[:2] == SIZE[::-1] else cv2.resize(picture, SIZE, interpolation=cv2.INTER_AREA)
    yield from score_picture(about, same)
    yield about.row("people_found", recall(networks.perception(picture).objects, about.sample.boxes))


def recall(found: np.ndarray, truth: np.ndarray, iou: float = FOUND_IOU) -> Score:
    """Return the share of true sensitive objects that a sensitive box of ``found`` overlaps by ``iou``."""
    true = scene.corners(truth[np.isin(truth["label"], scene.SENSITIVE_LABELS)])
    if not len(true):
        return Missing(NO_PEOPLE)
    boxes = scene.corners(found[np.isin(found["label"], scene.SENSITIVE_LABELS)])
    if not len(boxes):
        return 0.0
    return float((_overlaps(true, boxes).max(axis=1) >= iou).mean())


def _overlaps(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=2)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=1) for boxes in (first, second)]
    return common / np.maximum(areas[0][:, None] + areas[1] - common, 1e-12)


def _exposed(sample: Sample, how: Callable[[np.ndarray], np.ndarray] | None) -> Score:
    """Return the share of true sensitive objects less than half of which is hidden: those the detector missed."""
    true = sample.boxes[np.isin(sample.boxes["label"], scene.SENSITIVE_LABELS)]
    if not len(true):
        return Missing(NO_PEOPLE)
    if how is None:
        return 1.0
    shape = (sample.image.shape[0], sample.image.shape[1]) if sample.image is not None else (540, 960)
    people = sample.detected[np.isin(sample.detected["label"], scene.SENSITIVE_LABELS)].copy()
    people["w"] *= 1 + 2 * MARGIN
    people["h"] *= 1 + 2 * MARGIN
    hidden: np.ndarray = scene.coverage(scene.corners(people), shape).max(axis=0, initial=False)
    shares = [hidden[v1:v2, u1:u2].mean() for u1, v1, u2, v2 in scene.grid_boxes(scene.corners(true), shape) if u2 > u1]
    return float(np.mean(np.array(shares) < 0.5)) if shares else Missing(NO_PEOPLE)


def gallery(setting: Setting, store: SampleStore) -> list[Figure]:
    """Return what an eavesdropper has of a few samples by each way of sending."""
    from uav_privacy_sc.evaluation.gallery import baseline_gallery

    return baseline_gallery(setting, store)


PROTOCOL = Protocol(
    NAME,
    "blur, pixelate or black out, then JPEG, against protected features",
    "pictures",
    units,
    tables,
    figures,
    gallery,
)
