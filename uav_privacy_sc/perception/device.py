"""Which device the networks run on; never silently another than asked for."""

from __future__ import annotations

import torch


def choose_device(name: str = "auto") -> torch.device:
    """Return the torch device for ``auto`` (CUDA if there is one), ``cpu`` or ``cuda:N``.

    Raises ``ValueError`` for another name or a CUDA device that is not there.
    """
    if name == "auto":
        return torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    kind, _, index = name.partition(":")
    if kind != "cuda" or not (index or "0").isdigit():
        raise ValueError(f"device={name!r} is unknown; use auto, cpu or cuda:N")
    if int(index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={name!r} is not there: {torch.cuda.device_count()} CUDA devices; use auto or cpu")
    return torch.device(kind, int(index or 0))


def require_half(half: bool, device: torch.device) -> None:
    """Refuse half precision where it would be slower than full, instead of quietly running something else.

    Raises:
        ValueError: ``half`` on another device than CUDA.
    """
    if half and device.type != "cuda":
        raise ValueError(f"half=True needs a CUDA device, not {device}; set half to false or device to cuda:N")
