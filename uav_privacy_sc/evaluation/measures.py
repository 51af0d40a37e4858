"""What each party of a flight could see: pictures of the eavesdropper and masks of the ground against the truth.

"Without protection" is the same inverter on the aircraft's raw features, sent over the same link model at the SNR that
the eavesdropper had, without privacy noise. "Blind" is its picture of features that are all zero: what it draws
without having heard anything, the floor below which nothing more can be hidden from it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
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

    def picture_mean(self, case: str, score: str) -> Score:
        """Return the mean over frames of one of the :class:`PictureScores` in one of :data:`EVE_CASES`."""
        found = [getattr(frame.pictures[case], score) for frame in self.frames if case in frame.pictures]
        return metrics.mean_of(found) if found else Missing("no reconstruction in any measured frame")

    def ground(self, case: str, metric: Callable[[np.ndarray], Score]) -> Score:
        """Return a metric of the pooled confusion in one of :data:`GROUND_CASES`."""
        if case in self.confusions:
            return metric(self.confusions[case])
        return Missing("no annotations" if self.labelled == "nothing" else "no mask at the ground in a measured frame")


class FlightMeter:
    """Measures a flight frame by frame.

    ``attacker`` and ``decoder`` may be None: what needs them is then absent. ``rng`` draws the noise of the
    repeated, unprotected transmissions. ``keep`` are the frame indices whose unprotected reconstruction is kept.
    """

    def __init__(
        self,
        attacker: Attacker | None,
        decoder: Decoder | None,
        rng: np.random.Generator,
        keep: Collection[int] = (),
    ) -> None:
        self._attacker = attacker
        self._decoder = decoder
        self._rng = rng
        self._keep = frozenset(keep)
        self._blind: np.ndarray | None = None

    def measure(self, log: FlightLog, progress: Callable[[], None] = lambda: None) -> FlightMeasures:
        """Measure every frame whose pictures the log still holds; ``progress`` is called after each."""
        measures = FlightMeasures()
        start_ns = log.frames[0].stamp_ns if log.frames else 0
        for frame in log.frames:
            if frame.image is not None:
                measures.frames.append(self._frame(frame, (frame.stamp_ns - start_ns) / 1e9, measures))
                progress()
        return measures

    def _frame(self, frame: FrameLog, time_s: float, measures: FlightMeasures) -> FrameMeasures:
        pictures = self._pictures(frame, measures)
        accuracy = self._accuracy(frame, measures)
        return FrameMeasures(frame.index, time_s, pictures, accuracy, location_error(frame))

    def _pictures(self, frame: FrameLog, measures: FlightMeasures) -> dict[str, PictureScores]:
        reconstructions: dict[str, np.ndarray] = {}
        if frame.eve_reconstruction is not None:
            reconstructions["with_protection"] = frame.eve_reconstruction
        unprotected = self._attack_unprotected(frame)
        if unprotected is not None:
            reconstructions["without_protection"] = unprotected
            reconstructions["blind"] = self._draw_blind(frame)
            if frame.index in self._keep:
                measures.unprotected[frame.index] = unprotected
        objects = frame.truth_objects if frame.truth_objects is not None else frame.percept_objects
        measures.sensitive_from = "detections" if frame.truth_objects is None else "truth"
        return {case: score_picture(picture, frame, objects) for case, picture in reconstructions.items()}

    def _attack_unprotected(self, frame: FrameLog) -> np.ndarray | None:
        if self._attacker is None or frame.raw_features is None or frame.eve_snr_db is None:
            return None
        return self._attacker(self._send(frame.raw_features, frame.eve_snr_db))

    def _draw_blind(self, frame: FrameLog) -> np.ndarray:
        assert self._attacker is not None and frame.raw_features is not None
        if (
            self._blind is None
            or frame.eve_reconstruction is None
            or self._blind.shape != frame.eve_reconstruction.shape
        ):
            self._blind = self._attacker(np.zeros_like(frame.raw_features))
        return self._blind

    def _send(self, features: np.ndarray, snr_db: float) -> np.ndarray:
        return transmit_features(features, 1.0, BlockState.from_gain_db(snr_db), self._rng)

    def _accuracy(self, frame: FrameLog, measures: FlightMeasures) -> dict[str, Score]:
        if frame.ground_mask is None:
            return {}
        truth, labelled = truth_labels(frame, frame.ground_mask.shape)
        if truth is None:
            return {}
        measures.labelled = labelled
        counts = {case: metrics.confusion(mask, truth) for case, mask in self._masks(frame).items()}
        for case, count in counts.items():
            measures.confusions[case] = measures.confusions.get(case, 0) + count
        return {case: metrics.category_accuracy(count) for case, count in counts.items()}

    def _masks(self, frame: FrameLog) -> dict[str, np.ndarray]:
        """Return the mask of each ground case: as flown, from descriptors alone, and from unprotected messages."""
        assert frame.ground_mask is not None
        masks = {"received": frame.ground_mask}
        if self._decoder is None or frame.raw_features is None or frame.ground_snr_db is None:
            return masks
        received = scene.no_objects() if frame.ground_objects is None else frame.ground_objects
        masks["descriptors_only"] = self._decoder(np.zeros_like(frame.raw_features), received)
        if frame.percept_objects is not None:
            raw = self._send(frame.raw_features, frame.ground_snr_db)
            masks["without_protection"] = self._decoder(raw, frame.percept_objects)
        return masks


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


def truth_labels(frame: FrameLog, shape: tuple[int, int]) -> tuple[np.ndarray | None, str]:
    """Return the true classes on the ground's grid and whether they come from ``masks``, ``boxes`` or ``nothing``."""
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
    """Return how far, on average, received centres lie from detected ones, in image sides; None if they do not pair."""
    detected, received = frame.percept_objects, frame.ground_objects
    if detected is None or received is None or not len(detected) or len(detected) != len(received):
        return None
    return float(np.linalg.norm(scene.centers(detected) - scene.centers(received), axis=1).mean())


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
