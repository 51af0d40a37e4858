"""Muon, an optimizer for the filters of a network: every step is made orthogonal before it is taken.

A gradient's large directions drown its small ones. Muon (K. Jordan and others, 2024, "Muon: an optimizer for hidden
layers in neural networks") gives all of them the same length, by a few Newton-Schulz iterations instead of a singular
value decomposition. Ultralytics and torch have it, too, but iterate in bfloat16, which takes seconds a step on CPUs
without instructions for it, and torch's takes no convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch

#: Coefficients of the fifth-order iteration, chosen by its authors to lift small singular values fast.
_LINEAR, _CUBIC, _QUINTIC = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5


class Muon(torch.optim.Optimizer):
    """Steps of momentum with look-ahead, made orthogonal; ``lr`` is the length of a step in every direction.

    ``filters`` are parameters of two or more dimensions, outputs first, each taken as a matrix with a row for every
    output. One with more rows than columns takes longer steps, by the root of their ratio. Filters that see one channel
    each are such a matrix, too, though they do not mix; ultralytics does the same.
    """

    def __init__(self, filters: Iterable[torch.Tensor], lr: float, momentum: float = 0.95) -> None:
        if not 0 < lr < math.inf:
            raise ValueError(f"lr={lr} must be above 0 and finite")
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum} must be from 0 to below 1")
        super().__init__(filters, {"lr": lr, "momentum": momentum})
        if thin := [tuple(p.shape) for group in self.param_groups for p in group["params"] if p.ndim < 2]:
            raise ValueError(f"filters of shape {thin[0]} are no matrix; give those to another optimizer")

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """Take one step along the gradients that are there; return what ``closure``, which may find them, gives."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for filters in group["params"]:
                if filters.grad is None:
                    continue
                state = self.state[filters]
                if not state:
                    state["mean"] = torch.zeros_like(filters)
                state["mean"].lerp_(filters.grad, 1 - group["momentum"])
                ahead = filters.grad.lerp(state["mean"], group["momentum"]).flatten(1)
                length = group["lr"] * math.sqrt(max(1.0, ahead.shape[0] / ahead.shape[1]))
                filters.sub_(orthogonal(ahead).view(filters.shape), alpha=length)
        return loss


def orthogonal(matrix: torch.Tensor) -> torch.Tensor:
    """Return a matrix ``(M, N)`` with the singular vectors of the one given and singular values of 0.7 to 1.2.

    Values that are tiny beside the largest come out smaller than that; a matrix of zeros stays one.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / wide.norm().clamp_min(1e-7)  # no singular value above 1, where the iteration may diverge
    for _ in range(_ITERATIONS):
        square = wide @ wide.T
        wide = _LINEAR * wide + (_CUBIC * square + _QUINTIC * square @ square) @ wide
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.T
