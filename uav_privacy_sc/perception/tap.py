"""Where in a detector the encoder takes its features: a layer, and how many channels and what stride it has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: Layer of YOLO11n whose output (128 channels, stride 16) the encoder takes.
TAP_LAYER = 6


@dataclass(frozen=True)
class Tap:
    """``layer`` is an index into the detector's list of modules; ``stride`` is input pixels a cell and side."""

    layer: int = TAP_LAYER
    channels: int = 128
    stride: int = 16

    def __post_init__(self) -> None:
        for name, low in (("layer", 0), ("channels", 1), ("stride", 1)):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= low):
                raise ValueError(f"tap {name} is {value!r}; give a whole number of at least {low}")


def tap_of(codec: Any) -> Tap:
    """Return the tap that a codec was trained on, from the settings in its file; YOLO11n's where it does not say."""
    settings, usual = getattr(codec, "settings", None) or {}, Tap()
    return Tap(
        settings.get("tap_layer", usual.layer),
        settings.get("tap_channels", usual.channels),
        settings.get("stride", usual.stride),
    )
