"""P2's comparison: theoretical and measured noise energy and run time of the matrix mechanisms, published and tight.

All protect a whole matrix with entries in [low, high], any of which may change: P2's setting (section 4, Tables 2, 3).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from . import matrix
from .calibration import epsilon_from_mu
from .domain import whole

#: Shapes that are compared: P2's LeNet gradients, and our features (channels by cells).
SHAPES = {"LeNet (P2)": (120, 400), "features": (16, 1600)}
#: P2 Table 3, seconds; what the paper took for a draw (and MVG's SVD, MM's optimization).
PUBLISHED_SECONDS = {"gaussian": 0.00164, "mvg": 0.51146, "mm": 0.82323, "udn": 0.00248, "idn": 0.00224}


@dataclass(frozen=True)
class ComparisonRow:
    """One mechanism: expected and mean measured ``||Z||_F^2``, what it really gives, and how long it takes.

    Attributes:
        mechanism: name; ``idn_tight`` is IDN through the analytic Gaussian, ``gaussian`` the tight mechanism itself.
        theoretical: expected energy.
        measured, standard_error: of the energies of the draws.
        ratio: theoretical energy over that of ``gaussian``.
        actual_epsilon: epsilon that the noise really gives at delta.
        seconds: median time of setting up and drawing once.
        relative_time: seconds over those of ``gaussian``.
        published_relative_time: the same by P2 Table 3, or None.
    """

    mechanism: str
    theoretical: float
    measured: float
    standard_error: float
    ratio: float
    actual_epsilon: float
    seconds: float
    relative_time: float
    published_relative_time: float | None


def compare(
    shape: tuple[int, int],
    epsilon: float,
    delta: float,
    rng: np.random.Generator,
    draws: int = 30,
    low: float = -1.0,
    high: float = 1.0,
) -> Iterator[ComparisonRow]:
    """Yield a row for each mechanism, the Gaussian first.

    Raises:
        ValueError: a parameter out of its range.
    """
    whole("draws", draws, 2)
    base: tuple[float, float] | None = None
    for name, build in _builders(shape, epsilon, delta, low, high).items():
        noise = build()
        energies = [float(np.sum(noise.sample(rng) ** 2)) for _ in range(draws)]
        seconds = _median_seconds(lambda build=build: build().sample(rng), draws)  # type: ignore[misc]
        base = base or (noise.energy, seconds)
        published = PUBLISHED_SECONDS.get(name)
        yield ComparisonRow(
            mechanism=name,
            theoretical=noise.energy,
            measured=float(np.mean(energies)),
            standard_error=float(np.std(energies, ddof=1) / np.sqrt(draws)),
            ratio=noise.energy / base[0],
            actual_epsilon=float(epsilon_from_mu(noise.mu_box(high - low), delta)),
            seconds=seconds,
            relative_time=seconds / base[1],
            published_relative_time=None if published is None else published / PUBLISHED_SECONDS["gaussian"],
        )


def _builders(
    shape: tuple[int, int], epsilon: float, delta: float, low: float, high: float
) -> dict[str, Callable[[], matrix.MatrixNoise]]:
    width, entries = high - low, shape[0] * shape[1]
    sensitivity, gamma = width * float(np.sqrt(entries)), max(abs(low), abs(high)) * float(np.sqrt(entries))
    return {
        "gaussian": lambda: matrix.gaussian(shape, epsilon, delta, sensitivity),
        "udn": lambda: matrix.udn(shape, epsilon, delta, sensitivity),
        "idn": lambda: matrix.idn(shape, epsilon, delta, low, high),
        "idn_tight": lambda: matrix.idn(shape, epsilon, delta, low, high, tight=True),
        "mvg": lambda: matrix.mvg(shape, epsilon, delta, sensitivity, gamma),
        "mm": lambda: matrix.matrix_mechanism(shape, epsilon, delta, width, np.eye(shape[0])),
    }


def _median_seconds(call: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return float(np.median(times))
