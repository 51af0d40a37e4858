"""What each party of a flight could see: pictures of the eavesdropper and masks of the ground against the truth.

"Without protection" is the same inverter on the aircraft's raw features, sent over the same link model at the SNR that
the eavesdropper had, without privacy noise. "Blind" is its picture of features that are all zero: what it draws
without having heard anything, the floor below which nothing more can be hidden from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import cv2
import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation import metrics
from uav_privacy_sc.evaluation.metrics import Missing, Score
from uav_privacy_sc.flight import FlightLog, FrameLog
from uav_privacy_sc.link.channel import BlockState, transmit_features

#: ``features -> (H, W, 3)`` uint8 picture.
Attacker = Callable[[np.ndarray], np.ndarray]
#: ``(features, objects) -> (H, W)`` uint8 mask.
Decoder = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: What the ground knows in each of the compared cases.
GROUND_CASES = ("received", "descriptors_only", "without_protection")
#: What the eavesdropper has in each of the compared cases.
EVE_CASES = ("with_protection", "without_protection", "blind")


@dataclass(frozen=True)
class PictureScores:
    """A reconstruction against the original at its own size: whole, and inside the boxes of sensitive objects."""

    ssim: Score
    psnr_db: Score
    ssim_sensitive: Score
    psnr_sensitive_db: Score


@dataclass(frozen=True)
class FrameMeasures:
    """What was measured in one frame; a case that was not to be had is absent."""

    index: int
    time_s: float
    pictures: dict[str, PictureScores] = field(default_factory=dict)
    accuracy: dict[str, Score] = field(default_factory=dict)
    location_error: float | None = None


@dataclass
class FlightMeasures:
    """All measured frames, with what is pooled over them.

    Attributes:
        frames: one a frame whose pictures the log still holds, in order.
        confusions: for each of :data:`GROUND_CASES`, the ``(K, K)`` counts over all measured pixels.
        labelled: ``masks`` where truth labels every pixel, ``boxes`` where it labels annotated boxes, or ``nothing``.
        sensitive_from: whether sensitive boxes are those of the ``truth`` or of the aircraft's own ``detections``.
        unprotected: reconstructions without protection of the frames that were asked for, by index.
    """

    frames: list[FrameMeasures] = field(default_factory=list)
    confusions: dict[str, np.ndarray] = field(default_factory=dict)
    labelled: str = "nothing"
    sensitive_from: str = "detections"
    unprotected: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, measured: _Measured) -> None:
        """Take in what was measured in one more frame."""
        self.frames.append(measured.frame)
        self.sensitive_from = measured.sensitive_from
        if measured.labelled != "nothing":
            self.labelled = measured.labelled
        for case, count in measured.confusions.items():
            self.confusions[case] = self.confusions.get(case, 0) + count
        if measured.unprotected is not None:
            self.unprotected[measured.frame.index] = measured.unprotected

    def picture_mean(self, case: str, score: str) -> Score:
        """Return the mean over frames of one of the :class:`PictureScores` in one of :data:`EVE_CASES`."""
        found = [getattr(frame.pictures[case], score) for frame in self.frames if case in frame.pictures]
        return metrics.mean_of(found) if found else Missing("no reconstruction in any measured frame")

    def ground(self, case: str, metric: Callable[[np.ndarray], Score]) -> Score:
        """Return a metric of the pooled confusion in one of :data:`GROUND_CASES`."""
        if case in self.confusions:
            return metric(self.confusions[case])
        return Missing("no annotations" if self.labelled == "nothing" else "no mask at the ground in a measured frame")


@dataclass(frozen=True)
class _Measured:
    """What one frame adds to the measures of its flight."""

    frame: FrameMeasures
    confusions: dict[str, np.ndarray]
    labelled: str
    sensitive_from: str
    unprotected: np.ndarray | None


class FlightMeter:
    """Measures a flight frame by frame.

    ``attacker`` and ``decoder`` may be None: what needs them is then absent; they are called from ``workers`` threads.
    ``rng`` seeds the noise of the repeated, unprotected transmissions, a stream of its own for every frame.
    ``keep`` are the frame indices whose unprotected reconstruction is kept.
    """

    def __init__(
        self,
        attacker: Attacker | None,
        decoder: Decoder | None,
        rng: np.random.Generator,
        keep: Collection[int] = (),
        workers: int = 1,
    ) -> None:
        self._attacker = attacker
        self._decoder = decoder
        self._seed = int(rng.integers(2**63))
        self._keep = frozenset(keep)
        self._workers = workers
        self._blind: dict[tuple[int, ...], np.ndarray] = {}

    def measure(
        self, log: FlightLog, progress: Callable[[], None] = lambda: None, into: FlightMeasures | None = None
    ) -> FlightMeasures:
        """Measure every frame whose pictures the log still holds; ``progress`` is called after each.

        ``into`` holds what was measured so far even when an exception, such as KeyboardInterrupt, ends this early.
        """
        measures = FlightMeasures() if into is None else into
        frames = [frame for frame in log.frames if frame.image is not None]
        start_ns = log.frames[0].stamp_ns if log.frames else 0
        pool = ThreadPoolExecutor(self._workers)
        try:
            for measured in pool.map(lambda frame: self._frame(frame, (frame.stamp_ns - start_ns) / 1e9), frames):
                measures.add(measured)
                progress()
        finally:
            pool.shutdown(cancel_futures=True)
        return measures

    def _frame(self, frame: FrameLog, time_s: float) -> _Measured:
        rng = np.random.default_rng((self._seed, frame.index))
        unprotected = self._attack_unprotected(frame, rng)
        truth, labelled = truth_labels(frame)
        masks = {} if truth is None else self._masks(frame, rng)
        confusions = {case: metrics.confusion(mask, truth) for case, mask in masks.items() if truth is not None}
        accuracy = {case: metrics.category_accuracy(count) for case, count in confusions.items()}
        pictures = self._pictures(frame, unprotected)
        return _Measured(
            FrameMeasures(frame.index, time_s, pictures, accuracy, location_error(frame)),
            confusions,
            labelled,
            "detections" if frame.truth_objects is None else "truth",
            unprotected if frame.index in self._keep else None,
        )

    def _pictures(self, frame: FrameLog, unprotected: np.ndarray | None) -> dict[str, PictureScores]:
        reconstructions = {"with_protection": frame.eve_reconstruction, "without_protection": unprotected}
        if unprotected is not None:
            reconstructions["blind"] = self._draw_blind(frame)
        objects = frame.truth_objects if frame.truth_objects is not None else frame.percept_objects
        found = {case: picture for case, picture in reconstructions.items() if picture is not None}
        return {case: score_picture(picture, frame, objects) for case, picture in found.items()}

    def _attack_unprotected(self, frame: FrameLog, rng: np.random.Generator) -> np.ndarray | None:
        if self._attacker is None or frame.raw_features is None or frame.eve_snr_db is None:
            return None
        return self._attacker(_send(frame.raw_features, frame.eve_snr_db, rng))

    def _draw_blind(self, frame: FrameLog) -> np.ndarray:
        assert self._attacker is not None and frame.raw_features is not None
        shape = frame.raw_features.shape
        if shape not in self._blind:
            self._blind[shape] = self._attacker(np.zeros_like(frame.raw_features))
        return self._blind[shape]

    def _masks(self, frame: FrameLog, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Return the mask of each ground case: as flown, from descriptors alone, and from unprotected messages."""
        assert frame.ground_mask is not None
        masks = {"received": frame.ground_mask}
        if self._decoder is None or frame.raw_features is None or frame.ground_snr_db is None:
            return masks
        received = scene.no_objects() if frame.ground_objects is None else frame.ground_objects
        masks["descriptors_only"] = self._decoder(np.zeros_like(frame.raw_features), received)
        if frame.percept_objects is not None:
            raw = _send(frame.raw_features, frame.ground_snr_db, rng)
            masks["without_protection"] = self._decoder(raw, frame.percept_objects)
        return masks


def _send(features: np.ndarray, snr_db: float, rng: np.random.Generator) -> np.ndarray:
    return transmit_features(features, 1.0, BlockState.from_gain_db(snr_db), rng)


def score_picture(picture: np.ndarray, frame: FrameLog, objects: np.ndarray | None) -> PictureScores:
    """Compare a reconstruction with the original scaled to its size, whole and inside sensitive boxes."""
    assert frame.image is not None
    height, width = picture.shape[:2]
    original = cv2.resize(frame.image, (width, height), interpolation=cv2.INTER_AREA)
    local = metrics.similarity(picture, original)
    whole = local if isinstance(local, Missing) else local.mean()
    inside = _sensitive(objects, (height, width))
    if isinstance(inside, Missing):
        return PictureScores(whole, metrics.psnr(picture, original), inside, inside)
    within = local if isinstance(local, Missing) else local.mean(inside)
    return PictureScores(whole, metrics.psnr(picture, original), within, metrics.psnr(picture, original, inside))


def _sensitive(objects: np.ndarray | None, shape: tuple[int, int]) -> np.ndarray | Missing:
    if objects is None:
        return Missing("no boxes known")
    pixels = metrics.sensitive_pixels(objects, shape)
    return pixels if pixels.any() else Missing("no pedestrian or people in a measured frame")


def truth_labels(frame: FrameLog) -> tuple[np.ndarray | None, str]:
    """Return the true classes on the grid of the ground's mask, and whether they come from ``masks`` or ``boxes``.

    They are None, and come from ``nothing``, where the ground made no mask or nothing is known.
    """
    if frame.ground_mask is None:
        return None, "nothing"
    shape = frame.ground_mask.shape
    if frame.truth_mask is not None:
        labels = metrics.resize_labels(frame.truth_mask, shape).copy()
        labels[_ignored(frame, shape)] = metrics.UNLABELLED
        return labels, "masks"
    if frame.truth_objects is not None:
        return metrics.box_labels(frame.truth_objects, shape), "boxes"
    return None, "nothing"


def _ignored(frame: FrameLog, shape: tuple[int, int]) -> np.ndarray:
    boxes = np.zeros((0, 4)) if frame.truth_ignored is None else frame.truth_ignored
    ignored: np.ndarray = scene.coverage(boxes, shape).max(axis=0, initial=False)
    return ignored


def location_error(frame: FrameLog) -> float | None:
    """Return how far, on average, received centres lie from detected ones, in image sides; None if they do not pair.

    Where the release shuffled them, only those pair whose size no other object has; sizes tell nothing of the noise on
    places, so that these stand for all.
    """
    detected, received, record = frame.percept_objects, frame.ground_objects, frame.record
    if detected is None or received is None:
        return None
    if record is not None and (record.order_shuffled or record.count_epsilon):
        detected, received = (detected[:0], received[:0]) if record.size_epsilon else _of_equal_size(detected, received)
    if not len(detected) or len(detected) != len(received):
        return None
    return float(np.linalg.norm(scene.centers(detected) - scene.centers(received), axis=1).mean())


def _of_equal_size(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs, in one order, whose exact size occurs once in each of the two."""
    sizes = np.concatenate([np.stack([objects["w"], objects["h"]], axis=1) for objects in (first, second)])
    kinds, numbers = np.unique(sizes, axis=0, return_inverse=True)
    numbers = numbers.reshape(-1)
    sides = numbers[: len(first)], numbers[len(first) :]
    once = np.logical_and(*(np.bincount(side, minlength=len(kinds)) == 1 for side in sides))
    return tuple(  # type: ignore[return-value]
        objects[np.argsort(side, kind="stable")][once[np.sort(side)]]
        for objects, side in zip((first, second), sides, strict=True)
    )


def frames_to_show(log: FlightLog, number: int = 5) -> list[FrameLog]:
    """Return frames for side-by-side pictures: complete ones, with people in them where there are, evenly spread."""
    shown = [frame for frame in log.frames if frame.image is not None and frame.eve_reconstruction is not None]
    shown = [frame for frame in shown if frame.ground_mask is not None] or shown
    shown = shown or [frame for frame in log.frames if frame.image is not None]
    peopled = [frame for frame in shown if _has_people(frame)]
    shown = peopled if len(peopled) >= number else shown
    places = np.unique(np.linspace(0, len(shown) - 1, min(number, len(shown))).round().astype(int)) if shown else []
    return [shown[place] for place in places]


def _has_people(frame: FrameLog) -> bool:
    objects = frame.truth_objects if frame.truth_objects is not None else frame.percept_objects
    return objects is not None and bool(np.isin(objects["label"], scene.SENSITIVE_LABELS).any())
