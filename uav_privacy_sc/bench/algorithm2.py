"""P1's Algorithm 2 as it reads: a loop over objects and candidate cells. Slow, and kept to measure ``location`` by."""

from __future__ import annotations

import math

import numpy as np

from uav_privacy_sc.privacy.domain import FloatArray


def grid_loop(
    centers: FloatArray, epsilon_l: float, grid_size: int, rng: np.random.Generator
) -> list[tuple[float, float, int]]:
    """Return ``x, y, id`` of each released cell (lines 2 to 12)."""
    released = []
    for x, y in centers.tolist():
        a, b = min(int(grid_size * x), grid_size - 1), min(int(grid_size * y), grid_size - 1)
        cells, weights = [], []
        for candidate_b in range(grid_size):
            for candidate_a in range(grid_size):
                score = -(abs(candidate_a - a) + abs(candidate_b - b))
                cells.append((candidate_a, candidate_b))
                weights.append(math.exp(epsilon_l / 2 * score))
        total = sum(weights)
        chosen = rng.choice(len(cells), p=[weight / total for weight in weights])
        column, row = cells[chosen]
        released.append(((column + 0.5) / grid_size, (row + 0.5) / grid_size, row * grid_size + column))
    return released


def planar_laplace_loop(
    centers: FloatArray, epsilon_l: float, scale: float, rng: np.random.Generator
) -> list[tuple[float, float]]:
    """Return the perturbed coordinates of each object (lines 14 to 20)."""
    released = []
    for x, y in centers.tolist():
        theta = rng.uniform(0.0, 2 * math.pi)
        radius = rng.gamma(2.0, 1 / epsilon_l)
        moved_x, moved_y = x + radius * math.cos(theta) / scale, y + radius * math.sin(theta) / scale
        released.append((float(np.clip(moved_x, 0.0, 1.0)), float(np.clip(moved_y, 0.0, 1.0))))
    return released
