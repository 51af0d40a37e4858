"""Audit: a lower bound of epsilon from samples, to hold against a mechanism's claim.

A mechanism releases two neighbouring inputs many times. Half of the outputs choose an event (a score above a
threshold), the other half count how often it happens; Clopper-Pearson intervals of the two chances give, with the
stated confidence,

    epsilon >= log((p1_low - delta) / p0_high).

That bound stops near the logarithm of the number of samples. For Gaussian mechanisms a second one goes further: two
error rates bound the Gaussian DP parameter, ``mu >= Phi^-1(1 - FPR_high) - Phi^-1(FNR_high)`` (Nasr et al. 2023), and
mu gives epsilon at delta. Each bound of a sound mechanism is above its claim in one audit of ``1 / (1 - confidence)``
at most; an audit proves nothing about rare events, nor about what the low bits of floats tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from . import descriptors, location, predictive, visual
from .calibration import actual_epsilon, epsilon_from_mu
from .domain import FloatArray, choice, positive, probability, whole
from .randomness import RandomStreams

_CHUNK = 20000
_CANDIDATES = 400

Sampler = Callable[[int, RandomStreams], FloatArray]


@dataclass(frozen=True)
class Subject:
    """What is audited: two samplers of ``(n, d)`` outputs on neighbouring inputs, and the claim for that pair.

    Attributes:
        first, second: ``(count, streams) -> (count, d)`` outputs.
        epsilon, delta: the claim.
        gaussian: whether outputs are Gaussian around the two inputs, which permits the sharper bound.
        neighbours: the pair in words.
    """

    first: Sampler
    second: Sampler
    epsilon: float
    delta: float
    gaussian: bool
    neighbours: str


@dataclass(frozen=True)
class AuditResult:
    """Lower bounds of epsilon beside the claim; ``gaussian_epsilon`` is None where the mechanism is not Gaussian."""

    mechanism: str
    neighbours: str
    claimed_epsilon: float
    delta: float
    lower_epsilon: float
    gaussian_epsilon: float | None
    samples: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether neither bound exceeds the claim."""
        return max(self.lower_epsilon, self.gaussian_epsilon or 0.0) <= self.claimed_epsilon


def audit(
    mechanism: str,
    epsilon: float = 1.0,
    delta: float = 1e-5,
    samples: int = 100_000,
    confidence: float = 0.999,
    streams: RandomStreams | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditResult:
    """Audit a mechanism at a claimed epsilon.

    Args:
        mechanism: one of :func:`subjects`.
        epsilon: the claim: of a cell for visual mechanisms, of one unit for descriptors.
        delta: the claim's delta for visual mechanisms; others are pure.
        samples: outputs for each of the two inputs, at least 1000.
        confidence: of each bound.
        streams: where the noise comes from; cryptographic when None.
        progress: called with the number of outputs drawn since the last call; ``2 * samples`` in all.

    Raises:
        ValueError: an unknown mechanism, or a parameter out of its range.
    """
    choice("mechanism", mechanism, subjects())
    probability("confidence", confidence)
    subject = _SUBJECTS[mechanism](float(positive("epsilon", epsilon)), float(probability("delta", delta)))
    return audit_subject(mechanism, subject, whole("samples", samples, 1000), confidence, streams, progress)


def audit_subject(
    name: str,
    subject: Subject,
    samples: int,
    confidence: float = 0.999,
    streams: RandomStreams | None = None,
    progress: Callable[[int], None] | None = None,
) -> AuditResult:
    """Audit any pair of samplers: for a mechanism of one's own."""
    streams = streams or RandomStreams()
    first = _draw(subject.first, samples, streams, progress)
    second = _draw(subject.second, samples, streams, progress)
    half = samples // 2
    weights = _discriminant(first[:half], second[:half])
    low, high = first @ weights, second @ weights
    alpha = (1 - confidence) / 2
    threshold, sign = _best_event(low[:half], high[:half], subject.delta, alpha)
    lower = _lower_epsilon(sign * low[half:] > threshold, sign * high[half:] > threshold, subject.delta, alpha, sign)
    sharp = _gaussian_epsilon(low, high, half, subject.delta, alpha) if subject.gaussian and subject.delta else None
    return AuditResult(name, subject.neighbours, subject.epsilon, subject.delta, lower, sharp, samples, confidence)


def subjects() -> tuple[str, ...]:
    """Return the names of everything that :func:`audit` knows."""
    return tuple(_SUBJECTS)


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return lower and upper bounds of a chance, each failing with probability at most ``alpha``."""
    low = float(betaincinv(hits, trials - hits + 1, alpha)) if hits else 0.0
    high = float(betaincinv(hits + 1, trials - hits, 1 - alpha)) if hits < trials else 1.0
    return low, high


def map_leak(epsilon_v: float, channels: int = 16, cells: int = 20000, streams: RandomStreams | None = None) -> float:
    """Return the ROC AUC of telling pedestrian cells from background by the energy of one released cell.

    The noise shows a map that was built from detections (P1, Proposition 1); 0.5 would mean that it shows nothing.

    Raises:
        ValueError: a parameter out of its range.
    """
    streams = streams or RandomStreams()
    factors = np.array([[0.3], [1.12]]) * float(positive("epsilon_v", epsilon_v))
    released = visual.release(
        np.zeros((channels, 2, cells), np.float32),
        np.broadcast_to(factors, (2, cells)).copy(),
        visual.VisualConfig(),
        streams.visual,
    )
    energy = np.sum(released.astype(np.float64) ** 2, axis=0)
    rank = np.searchsorted(np.sort(energy[1]), energy[0])
    return float(rank.mean() / cells)


def _draw(sampler: Sampler, samples: int, streams: RandomStreams, progress: Callable[[int], None] | None) -> FloatArray:
    parts = []
    for start in range(0, samples, _CHUNK):
        parts.append(sampler(min(_CHUNK, samples - start), streams))
        if progress is not None:
            progress(len(parts[-1]))
    return np.concatenate(parts)


def _discriminant(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the direction that tells the two best when both are Gaussian with a common diagonal covariance."""
    shift = second.mean(axis=0) - first.mean(axis=0)
    spread = (first.var(axis=0) + second.var(axis=0)) / 2
    return shift / (spread + 1e-12 * shift**2 + np.finfo(float).tiny)


def _best_event(low: FloatArray, high: FloatArray, delta: float, alpha: float) -> tuple[float, int]:
    """Return the threshold and direction with the largest bound on the choosing half."""
    both = np.concatenate([low, high])
    best, chosen = -np.inf, (0.0, 1)
    for threshold in np.unique(np.quantile(both, np.linspace(0, 1, _CANDIDATES), method="lower")):
        for sign in (1, -1):
            edge = float(sign * threshold)
            bound = _lower_epsilon(sign * low > edge, sign * high > edge, delta, alpha, sign)
            if bound > best:
                best, chosen = bound, (edge, sign)
    return chosen


def _lower_epsilon(first: np.ndarray, second: np.ndarray, delta: float, alpha: float, sign: int) -> float:
    """Return the bound from how often the event happened; ``sign`` says which input makes it likelier."""
    likely, unlikely = (second, first) if sign > 0 else (first, second)
    p1, _ = clopper_pearson(int(np.count_nonzero(likely)), len(likely), alpha)
    _, p0 = clopper_pearson(int(np.count_nonzero(unlikely)), len(unlikely), alpha)
    return float(np.log((p1 - delta) / p0)) if p1 - delta > p0 else 0.0


def _gaussian_epsilon(low: FloatArray, high: FloatArray, half: int, delta: float, alpha: float) -> float:
    threshold = (low[:half].mean() + high[:half].mean()) / 2
    trials = len(low) - half
    _, false_positive = clopper_pearson(int(np.count_nonzero(low[half:] > threshold)), trials, alpha)
    _, false_negative = clopper_pearson(int(np.count_nonzero(high[half:] <= threshold)), trials, alpha)
    mu = max(0.0, float(ndtri(1 - false_positive) - ndtri(false_negative)))
    return float(epsilon_from_mu(mu, delta))


def _cell_subject(epsilon: float, delta: float, mechanism: str, **settings: object) -> Subject:
    """Two vectors as far apart as the clip allows, in a cell of budget epsilon."""
    config = visual.VisualConfig(mechanism=mechanism, delta=delta, **settings)  # type: ignore[arg-type]

    def sampler(sign: float) -> Sampler:
        def sample(count: int, streams: RandomStreams) -> FloatArray:
            features = np.full((config.channels, 1, count), sign * 1e3, np.float32)
            released = visual.release(features, np.full((1, count), epsilon), config, streams.visual)
            return released[:, 0, :].T.astype(np.float64)

        return sample

    return Subject(sampler(-1.0), sampler(1.0), epsilon, delta, True, "opposite vectors of norm c_clip in one cell")


def _pure_subject(sample: Callable[[int, int, RandomStreams], FloatArray], epsilon: float, neighbours: str) -> Subject:
    return Subject(
        lambda count, streams: sample(0, count, streams),
        lambda count, streams: sample(1, count, streams),
        epsilon,
        0.0,
        False,
        neighbours,
    )


def _grid(epsilon: float, delta: float) -> Subject:
    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        centers = np.tile([(3.5 + which) / 16, 7.5 / 16], (count, 1))
        return location.release_grid(centers, epsilon, 16, streams.location)[0][:, :1]

    return _pure_subject(sample, epsilon, "one grid step apart")


def _planar_laplace(epsilon: float, delta: float) -> Subject:
    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        x = np.array([0.5, 0.51])
        released = location.release_planar_laplace(
            np.tile([x[which], 0.5], (count, 1)), epsilon, 100.0, streams.location
        )
        far = [np.hypot(released[:, 0] - start, released[:, 1] - 0.5) for start in x]
        return (far[0] - far[1])[:, None]

    return _pure_subject(sample, epsilon, "one unit apart")


def _label(epsilon: float, delta: float) -> Subject:
    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        released = descriptors.release_labels(np.full(count, which), epsilon, streams.label)
        return np.where(released == 1, 1.0, np.where(released == 0, -1.0, 0.0))[:, None]

    return _pure_subject(sample, epsilon, "two classes")


def _size(epsilon: float, delta: float) -> Subject:
    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        sizes = np.tile([0.1 * 2**which, 0.1], (count, 1))
        return np.log2(descriptors.release_sizes(sizes, epsilon, streams.size)[:, :1].astype(np.float64))

    return _pure_subject(sample, epsilon, "widths one octave apart")


def _count(epsilon: float, delta: float) -> Subject:
    config = descriptors.DescriptorConfig(count_epsilon=epsilon)

    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        return descriptors.padded_numbers(20 + which, config, (count, 1), streams.count).astype(np.float64)

    return _pure_subject(sample, epsilon, "20 and 21 objects")


def _predictive(epsilon: float, delta: float) -> Subject:
    """The private test alone: how long a point is kept, for paths one grid step apart."""
    config = predictive.PredictiveConfig(threshold=2.0, test_ratio=1.0)

    def sample(which: int, count: int, streams: RandomStreams) -> FloatArray:
        centers = np.tile([(3.5 + which) / 16, 3.5 / 16], (count, 1))
        return predictive.frames_kept(config, centers, np.full(2, 3.5 / 16), epsilon, 6, streams.location)[:, None]

    return _pure_subject(sample, epsilon, "paths one grid step apart, released point kept")


_SUBJECTS: dict[str, Callable[[float, float], Subject]] = {
    "uniform": lambda epsilon, delta: _cell_subject(epsilon, delta, "uniform"),
    "region_aware": lambda epsilon, delta: _cell_subject(epsilon, delta, "region_aware"),
    "lattice": lambda epsilon, delta: _cell_subject(epsilon, delta, "region_aware", lattice_step=2.0**-6),
    "classical": lambda epsilon, delta: _cell_subject(epsilon, delta, "region_aware", calibration="classical"),
    "matrix_udn": lambda epsilon, delta: _cell_subject(epsilon, delta, "matrix_udn"),
    "matrix_idn": lambda epsilon, delta: _cell_subject(epsilon, delta, "matrix_idn"),
    "matrix_mvg": lambda epsilon, delta: _cell_subject(epsilon, delta, "matrix_mvg"),
    "grid": _grid,
    "planar_laplace": _planar_laplace,
    "label": _label,
    "size": _size,
    "count": _count,
    "predictive": _predictive,
}


def expected_epsilon(mechanism: str, epsilon: float, delta: float) -> float:
    """Return the epsilon that a mechanism really gives at a claim: the claim, but for ``classical``."""
    return float(actual_epsilon(epsilon, delta, "classical")) if mechanism == "classical" else epsilon
