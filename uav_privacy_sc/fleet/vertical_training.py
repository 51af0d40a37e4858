"""P2's protocol for vertical federated learning: features of a batch released in every step, gradients sent back.

All runs (mechanisms, budgets, seeds) are trained side by side as one stack of small networks: parameters are
``(runs, inputs, outputs)``, and Adam works entry by entry, so no run knows of another.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch.nn import functional

from uav_privacy_sc.fleet.vertical_noise import PARTIES, Clip
from uav_privacy_sc.fleet.vertical_table import VerticalTable
from uav_privacy_sc.privacy.matrix import MatrixNoise

#: Width of the server's top network.
_HIDDEN = 32


@dataclass(frozen=True)
class Run:
    """One training: its seed, training and test records by number, clip, noise of a release (m, n), and generator."""

    seed: int
    trained: np.ndarray
    tested: np.ndarray
    clip: Clip
    noise: MatrixNoise | None
    rng: np.random.Generator


class Schedule(Protocol):
    """What a training needs to know of a setting."""

    @property
    def seed(self) -> int: ...
    @property
    def features(self) -> int: ...
    @property
    def batch(self) -> int: ...
    @property
    def epochs(self) -> int: ...
    @property
    def learning_rate(self) -> float: ...


def train(
    table: VerticalTable, runs: Sequence[Run], schedule: Schedule, progress: Callable[[int], None] = lambda step: None
) -> list[tuple[float, float]]:
    """Train the runs and return each one's test accuracy on clean and on protected features.

    Raises:
        ValueError: a run's features are not finite.
    """
    columns = [torch.from_numpy(part.astype(np.float32)) for part in (table.first, table.second)]
    labels = torch.from_numpy(table.labels)
    networks = _Networks(runs, [part.shape[1] for part in columns], table.classes, schedule)
    optimizer = torch.optim.Adam(networks.parameters, lr=schedule.learning_rate)
    step = 0
    for epoch in range(schedule.epochs):
        orders = _orders(runs, schedule, epoch)
        for start in range(0, orders.shape[1] - schedule.batch + 1, schedule.batch):
            chosen = orders[:, start : start + schedule.batch]
            sent = networks.released([part[chosen] for part in columns])
            loss = functional.cross_entropy(networks.top(sent).flatten(0, 1), labels[chosen].flatten(), reduction="sum")
            optimizer.zero_grad()
            (loss / schedule.batch).backward()
            optimizer.step()
            step += 1
            progress(step)
    return _accuracies(networks, columns, labels, runs, schedule)


def _orders(runs: Sequence[Run], schedule: Schedule, epoch: int) -> torch.Tensor:
    """Return ``(runs, records)``: each run's training records in the order of an epoch; the same for equal seeds."""
    return torch.from_numpy(
        np.stack([np.random.default_rng([schedule.seed, run.seed, epoch]).permutation(run.trained) for run in runs])
    )


class _Networks:
    """Two local networks and the server's, for every run."""

    def __init__(self, runs: Sequence[Run], inputs: Sequence[int], classes: int, schedule: Schedule) -> None:
        self._runs = runs
        sizes = [(width, schedule.features) for width in inputs]
        sizes += [(PARTIES * schedule.features, _HIDDEN), (_HIDDEN, classes)]
        self._weights = [self._start(size, place, schedule.seed) for place, size in enumerate(sizes)]
        self._biases = [torch.zeros(len(runs), 1, size[1], requires_grad=True) for size in sizes]
        deviations = [0.0 if run.noise is None else float(np.sqrt(np.mean(run.noise.rows**2))) for run in runs]
        # The server knows the mechanism, and brings what it hears to the size of one.
        self._gain = torch.tensor([(1 + sigma**2) ** -0.5 for sigma in deviations])[:, None, None]
        self._bound = torch.tensor([run.clip.bound for run in runs])[:, None, None]
        if any(run.clip.kind != "box" for run in runs):
            raise ValueError("features of a trained network are clipped entry by entry; give a clip of kind box")

    def _start(self, size: tuple[int, int], place: int, seed: int) -> torch.Tensor:
        drawn = {
            run.seed: np.random.default_rng([seed, run.seed, 1, place]).standard_normal(size) / np.sqrt(size[0])
            for run in self._runs
        }
        stacked = np.stack([drawn[run.seed] for run in self._runs]).astype(np.float32)
        return torch.from_numpy(stacked).requires_grad_()

    @property
    def parameters(self) -> list[torch.Tensor]:
        return [*self._weights, *self._biases]

    def clean(self, columns: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Return both parties' features ``(runs, n, m)``, clipped.

        Raises:
            ValueError: some are not finite.
        """
        found = []
        for party, part in enumerate(columns):
            mapped = torch.tanh(torch.baddbmm(self._biases[party], part, self._weights[party]))
            if not torch.isfinite(mapped).all():
                raise ValueError("features hold NaN or infinity; nothing is released, take a lower learning rate")
            found.append(torch.minimum(torch.maximum(mapped, -self._bound), self._bound))
        return found

    def released(self, columns: Sequence[torch.Tensor]) -> torch.Tensor:
        """Return what the server hears of both, ``(runs, n, 2 m)``: clipped, with noise."""
        return torch.cat([part + self._noise(part.shape) for part in self.clean(columns)], dim=2)

    def _noise(self, shape: torch.Size) -> torch.Tensor:
        drawn = np.zeros(tuple(shape), np.float32)
        for place, run in enumerate(self._runs):
            if run.noise is not None:  # as many draws as are needed: test records come in batches of their own
                whole = -(-shape[1] // len(run.noise.columns))
                drawn[place] = np.concatenate([run.noise.sample(run.rng).T for _ in range(whole)])[: shape[1]]
        return torch.from_numpy(drawn)

    def top(self, heard: torch.Tensor) -> torch.Tensor:
        """Return the server's scores ``(runs, n, classes)``."""
        hidden = torch.relu(torch.baddbmm(self._biases[2], heard * self._gain, self._weights[2]))
        return torch.baddbmm(self._biases[3], hidden, self._weights[3])


@torch.no_grad()
def _accuracies(
    networks: _Networks,
    columns: Sequence[torch.Tensor],
    labels: torch.Tensor,
    runs: Sequence[Run],
    schedule: Schedule,
) -> list[tuple[float, float]]:
    chosen = torch.from_numpy(np.stack([run.tested for run in runs]))
    parts = [part[chosen] for part in columns]
    found = []
    for heard in (torch.cat(networks.clean(parts), dim=2), networks.released(parts)):
        right = networks.top(heard).argmax(dim=2) == labels[chosen]
        found.append(right.float().mean(dim=1).tolist())
    return list(zip(*found, strict=True))
