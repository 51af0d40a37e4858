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
