"""Whether weights that were trained again are as good as others: two model cards side by side, figure by figure.

Training again with other seeds, threads or versions never gives the same weights. What counts is that the figures lie
within the spread between trainings that differ in the seed alone, :data:`WITHIN`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

#: How far apart figures of two trainings may lie. Decoder: a codec trained with another seed on the same flights lay
#: within 0.01 in accuracy and 0.031 in mIoU, one on another detector within 0.006 in both; inverters on another codec
#: within 0.010 in SSIM. Detector: judged; one trained otherwise and longer lay 0.041 apart.
WITHIN = {
    "detector mAP50": 0.05,
    "detector mAP50, all sizes": 0.05,
    "decoder accuracy, epsilon_v 1": 0.02,
    "decoder accuracy, epsilon_v 10": 0.02,
    "decoder accuracy, epsilon_v 100": 0.02,
    "decoder accuracy, no noise": 0.02,
    "decoder mIoU, no noise": 0.06,
    "plain inverter SSIM, no noise": 0.03,
    "adaptive inverter SSIM, epsilon_v 10": 0.03,
}
_PLACES = {
    "detector mAP50": ("detector", "map50"),
    "detector mAP50, all sizes": ("detector", "map50_all_sizes"),
    "decoder accuracy, epsilon_v 1": ("codec", "uniform", "1", "both", "accuracy"),
    "decoder accuracy, epsilon_v 10": ("codec", "uniform", "10", "both", "accuracy"),
    "decoder accuracy, epsilon_v 100": ("codec", "uniform", "100", "both", "accuracy"),
    "decoder accuracy, no noise": ("codec", "uniform", "none", "both", "accuracy"),
    "decoder mIoU, no noise": ("codec", "uniform", "none", "both", "miou"),
    "plain inverter SSIM, no noise": ("inverter", "plain", "none", "ssim"),
    "adaptive inverter SSIM, epsilon_v 10": ("inverter", "adaptive", "10", "ssim"),
}


class CardsDiffer(ValueError):
    """Two cards whose figures cannot be compared; one line."""


@dataclass(frozen=True)
class Comparison:
    """One figure of both cards, NaN where a card lacks it."""

    name: str
    here: float
    there: float

    @property
    def agrees(self) -> bool | None:
        """Whether the figures lie within :data:`WITHIN` of one another, None where one is missing."""
        difference = abs(self.here - self.there)
        return None if math.isnan(difference) else difference <= WITHIN[self.name]

    def as_dict(self) -> dict[str, Any]:
        """Return all of it for JSON, None for what is missing."""
        values = {
            name: None if math.isnan(value) else value for name, value in (("here", self.here), ("there", self.there))
        }
        return {"name": self.name, **values, "within": WITHIN[self.name], "agrees": self.agrees}


def compare(here: dict[str, Any], there: dict[str, Any]) -> list[Comparison]:
    """Return the main figures of two cards (contents of ``card.json``) side by side.

    Raises:
        CardsDiffer: a card has no figures, or they were measured on different pictures.
    """
    figures = [card.get("figures") or {} for card in (here, there)]
    for name, found in zip(("the first", "the second"), figures, strict=True):
        if not found:
            raise CardsDiffer(f"{name} card has no figures; measure the weights with `uav-privacy-sc train card`")
    if not _of_the_same_pictures(*(found.get("data") or {} for found in figures)):
        raise CardsDiffer("the cards' figures are of different test pictures; measure both on the same with --data")
    return [Comparison(name, *(_figure(found, place) for found in figures)) for name, place in _PLACES.items()]


def _of_the_same_pictures(here: dict[str, Any], there: dict[str, Any]) -> bool:
    """Whether figures are of the same pictures, or of the same flights rendered elsewhere: pixels round differently."""
    flights = ("made", "pictures", "size", "objects_by_class")
    rendered = bool(here.get("made")) and all(here.get(name) == there.get(name) for name in flights)
    return rendered or here.get("digest") == there.get("digest")


def _figure(figures: Any, place: tuple[str, ...]) -> float:
    for key in place:
        figures = figures.get(key) if isinstance(figures, dict) else None
    return float(figures) if isinstance(figures, int | float) else math.nan
