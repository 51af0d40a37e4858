"""How far an object's pixels change the code around it: what an odometer has to charge beyond its own cells."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@torch.no_grad()
def measure_reach(layers: nn.Module, cell: int, pool: int = 1, size: int = 40) -> int:
    """Return in how many cells around its own the pixels of one cell can change the output of ``layers``.

    ``layers`` is a convolutional network up to the tap; a cell is ``cell`` network pixels wide, ``pool`` taps a side.
    Every weight is made equal and positive in a copy, so nothing cancels: what can arrive does. ``size`` cells a side
    are looked at.

    Raises:
        ValueError: if the reach does not end within the picture, as behind an attention layer, which sees all of it.
    """
    network: Any = copy.deepcopy(layers).double().cpu().eval()
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d):
            layer.weight.fill_(1 / layer.weight[0].numel())
            if layer.bias is not None:
                layer.bias.fill_(0.5)
    middle = size // 2
    dark = torch.full((1, 3, size * cell, size * cell), 0.5, dtype=torch.float64)
    lit = dark.clone()
    lit[..., middle * cell : (middle + 1) * cell, middle * cell : (middle + 1) * cell] += 1
    difference = (network(dark) - network(lit)).abs().sum(dim=1, keepdim=True)
    changed = functional.avg_pool2d(difference, pool)[0, 0].nonzero() - middle
    reach = int(changed.abs().max()) if len(changed) else 0
    if reach >= middle - 1:
        raise ValueError(f"an object changes cells {reach} and more away, as far as was looked; tap an earlier layer")
    return reach
