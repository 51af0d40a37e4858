"""Where in a detector the encoder takes its features: a layer, and how many channels and what stride it has there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

#: Layer of YOLO11n whose output (128 channels, stride 8) the encoder takes.
TAP_LAYER = 4
_TRIAL = 64


@dataclass(frozen=True)
class Tap:
    """``layer`` is an index into the detector's list of modules; ``stride`` is input pixels a cell and side."""

    layer: int = TAP_LAYER
    channels: int = 128
    stride: int = 8

    def __post_init__(self) -> None:
        for name, low in (("layer", 0), ("channels", 1), ("stride", 1)):
            value = getattr(self, name)
            if not (isinstance(value, int) and value >= low):
                raise ValueError(f"tap {name} is {value!r}; give a whole number of at least {low}")


#: The shipped codec's.
YOLO11N = Tap()


def tap_at(layers: Any, layer: int) -> Tap:
    """Return the tap at a layer of a network, ``layers`` being its list of modules.

    Raises:
        ValueError: there is no such layer, or its output is no grid of features.
    """
    if not 0 <= layer < len(layers):
        raise ValueError(f"tap layer {layer} is not there: the detector has {len(layers)} layers, counted from 0")
    seen: list[Any] = []
    hook = layers[layer].register_forward_hook(lambda module, inputs, output: seen.append(output))
    try:
        with torch.inference_mode():
            x = torch.zeros(1, 3, _TRIAL, _TRIAL)
            for module in layers[: layer + 1]:
                x = module(x)
    except (TypeError, AttributeError, RuntimeError):  # a layer that joins several earlier ones
        seen.clear()
    finally:
        hook.remove()
    if not (seen and isinstance(seen[0], torch.Tensor) and seen[0].ndim == 4 and seen[0].shape[2] == seen[0].shape[3]):
        raise ValueError(f"tap layer {layer} gives no grid of features by itself; tap a layer of the backbone")
    return Tap(layer, seen[0].shape[1], _TRIAL // seen[0].shape[2])


def tap_of(codec: Any) -> Tap:
    """Return the tap that a codec was trained on, from the settings in its file; YOLO11n's where it does not say."""
    settings, usual = getattr(codec, "settings", None) or {}, Tap()
    return Tap(
        settings.get("tap_layer", usual.layer),
        settings.get("tap_channels", usual.channels),
        settings.get("stride", usual.stride),
    )
