"""P2's vertical federated learning with protected intermediate features (P2, section 4).

Two parties hold different columns of the same records, a server holds the labels (they are not protected). Each party
turns its columns into ``features`` numbers a record, clips them, adds noise and sends them; the server trains a top
model on what it gets. Two ways of training, by what epsilon is for (:mod:`.vertical_noise`):

*once* (reading *record*)
    The parties' maps are fixed: an orthonormal projection that depends on no data, then tanh. The features are released
    a single time, and the server fits a linear model by least squares. A record moves its own column alone, so the
    claim is true as it stands, for everything that is ever sent about the record.
*every step* (readings *entry* and *matrix*)
    P2's protocol: each party has a network of its own (linear, tanh), in every step features of one batch are
    released with fresh noise, and the server sends back gradients. Every record is released once an epoch, and through
    the parties' weights it moves later features of all others. What that composes to is in :class:`Given`.

The server knows which records are in a batch (they are aligned between the parties), so no amplification by sampling
is claimed, unlike P2's Lemma 4.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from uav_privacy_sc.fleet.vertical_noise import MECHANISMS, READINGS, Clip, Given, clip_for, given, noise_for
from uav_privacy_sc.fleet.vertical_table import VerticalTable
from uav_privacy_sc.fleet.vertical_training import Run, train
from uav_privacy_sc.privacy.domain import choice, positive, probability, whole
from uav_privacy_sc.privacy.matrix import MatrixNoise

#: Name of what is trained without noise, clipped all the same.
NO_NOISE = "none"
#: Least squares' ridge, as a share of the mean squared norm: for numbers only, noise is ridge enough.
_RIDGE = 1e-4
#: Seed of the projections, which are public.
_PROJECTION = 20250319


@dataclass(frozen=True)
class VerticalSetting:
    """What is compared, and how it is trained.

    ``features`` is m, the numbers a party sends for a record; ``batch`` is n of a step's release. ``seeds`` repetitions
    have a split, initial weights and noise of their own, the same split and weights for all mechanisms.

    Raises:
        ValueError: a parameter out of its range.
    """

    epsilons: tuple[float, ...] = (1.0, 2.0, 3.0, 5.0, 10.0)
    mechanisms: tuple[str, ...] = tuple(MECHANISMS)
    readings: tuple[str, ...] = READINGS
    seeds: int = 5
    seed: int = 0
    delta: float = 1e-5
    features: int = 16
    batch: int = 64
    epochs: int = 10
    learning_rate: float = 5e-3
    test_share: float = 0.2

    def __post_init__(self) -> None:
        for name in ("epsilons", "mechanisms", "readings"):
            given_ = getattr(self, name)
            if not given_ or len(set(given_)) != len(given_):
                raise ValueError(f"{name}={given_} must hold at least one, each once")
        for epsilon in self.epsilons:
            positive("epsilon", epsilon)
        for mechanism in self.mechanisms:
            choice("mechanism", mechanism, tuple(MECHANISMS))
        for reading in self.readings:
            choice("reading", reading, READINGS)
        for name in ("seeds", "features", "batch", "epochs"):
            whole(name, getattr(self, name))
        whole("seed", self.seed, 0)
        for name in ("delta", "test_share", "learning_rate"):
            probability(name, getattr(self, name))

    def steps(self, records: int) -> int:
        """Return how many releases a party makes in a training with ``records`` training records."""
        return self.epochs * (records // self.batch)


@dataclass(frozen=True)
class Outcome:
    """One mechanism at one epsilon: accuracies over the seeds.

    Attributes:
        sigma: largest deviation of a feature's noise, in units of the clip; 0 without noise.
        clean: test accuracy when test records are not protected.
        protected: test accuracy when they are sent through the same mechanism.
        given: what the noise gives; None without noise.
    """

    reading: str
    mechanism: str
    epsilon: float
    sigma: float
    clean: tuple[float, ...]
    protected: tuple[float, ...]
    given: Given | None


@dataclass(frozen=True)
class _Case:
    """A mechanism under a reading at an epsilon; ``noise`` is that of one release by one party, None for none."""

    reading: str
    mechanism: str
    epsilon: float
    clip: Clip
    noise: MatrixNoise | None
    guarantee: Given | None

    def rng(self, setting: VerticalSetting, seed: int) -> np.random.Generator:
        """Return the generator of this case's noise: of no other case or seed."""
        name = zlib.crc32(f"{self.reading} {self.mechanism} {self.epsilon!r}".encode())
        return np.random.default_rng([setting.seed, seed, name])


def compare(
    table: VerticalTable, setting: VerticalSetting, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Outcome]:
    """Train for every reading, mechanism, epsilon and seed, and once a seed without noise.

    ``progress`` is told trainings or steps done and their number.

    Raises:
        ValueError: fewer training records than a batch, or a calibration that does not exist.
    """
    splits = [_split(len(table.labels), setting, seed) for seed in range(setting.seeds)]
    records = len(splits[0][0])
    if records < setting.batch and set(setting.readings) != {"record"}:
        raise ValueError(f"batch={setting.batch} is more than the {records} training records; take a smaller one")
    cases = [case for reading in setting.readings for case in _cases(reading, records, setting)]
    once = [case for case in cases if case.reading == "record"]
    stepped = [case for case in cases if case.reading != "record"]
    total = len(once) * setting.seeds + (setting.steps(records) if stepped else 0)
    outcomes = []
    for done, case in enumerate(once, 1):
        found = [
            _once(table, case, splits[seed], setting.features, case.rng(setting, seed)) for seed in range(setting.seeds)
        ]
        outcomes.append(_outcome(case, found))
        progress(done * setting.seeds, total)
    if stepped:
        before = len(once) * setting.seeds
        outcomes += _every_step(table, stepped, splits, setting, lambda step: progress(before + step, total))
    return outcomes


def _split(count: int, setting: VerticalSetting, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng([setting.seed, seed]).permutation(count)
    tested = max(1, round(setting.test_share * count))
    return order[tested:], order[:tested]


def _cases(reading: str, records: int, setting: VerticalSetting) -> list[_Case]:
    """Return the cases of a reading, the one without noise first."""
    once = reading == "record"
    shape = (setting.features, records if once else setting.batch)
    kind = clip_for("analytic", reading, setting.features)
    cases = [_Case(reading, NO_NOISE, float("inf"), kind, None, None)]
    for mechanism in setting.mechanisms:
        clip = clip_for(mechanism, reading, setting.features)
        for epsilon in setting.epsilons:
            noise = noise_for(mechanism, reading, shape, epsilon, setting.delta)
            counts = (1, 1) if once else (setting.epochs, setting.steps(records))
            cases.append(_Case(reading, mechanism, epsilon, clip, noise, given(noise, clip, setting.delta, *counts)))
    return cases


def _outcome(case: _Case, accuracies: Sequence[tuple[float, float]]) -> Outcome:
    clean, protected = zip(*accuracies, strict=True)
    sigma = 0.0 if case.noise is None else float(case.noise.rows.max() / case.clip.bound)
    return Outcome(case.reading, case.mechanism, case.epsilon, sigma, clean, protected, case.guarantee)


def fixed_features(columns: np.ndarray, features: int, clip: Clip) -> np.ndarray:
    """Return a party's features (n, m) of its columns (n, f): projected as the public seed says, tanh, clipped.

    With more features than columns the rest is 0.
    """
    rng = np.random.default_rng([_PROJECTION, columns.shape[1]])
    basis, _ = np.linalg.qr(rng.standard_normal((columns.shape[1],) * 2))
    mapped = np.tanh(columns @ basis[:, :features])
    return clip(np.pad(mapped, ((0, 0), (0, max(0, features - columns.shape[1])))))


def _once(
    table: VerticalTable,
    case: _Case,
    split: tuple[np.ndarray, np.ndarray],
    features: int,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Return clean and protected test accuracy of a linear model on features that were released once."""
    trained, tested = split
    parties = [fixed_features(columns, features, case.clip) for columns in (table.first, table.second)]
    clean = np.hstack([mapped[tested] for mapped in parties])
    sent = np.hstack([_sent(mapped[trained], case.noise, rng) for mapped in parties])
    heard = np.hstack([_sent(mapped[tested], case.noise, rng) for mapped in parties])
    weights = _least_squares(sent, np.eye(table.classes)[table.labels[trained]])
    right = [float((_scores(x, weights).argmax(axis=1) == table.labels[tested]).mean()) for x in (clean, heard)]
    return right[0], right[1]


def _sent(features: np.ndarray, noise: MatrixNoise | None, rng: np.random.Generator) -> np.ndarray:
    if noise is None:
        return features
    columns = replace(noise, columns=np.ones(len(features)))  # one deviation for all records, however many
    return features + columns.sample(rng).T


def _least_squares(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    design = np.hstack([features, np.ones((len(features), 1))])
    gram = design.T @ design
    return np.linalg.solve(gram + _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram)), design.T @ targets)


def _scores(features: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return features @ weights[:-1] + weights[-1]


def _every_step(
    table: VerticalTable,
    cases: Sequence[_Case],
    splits: Sequence[tuple[np.ndarray, np.ndarray]],
    setting: VerticalSetting,
    progress: Callable[[int], None],
) -> list[Outcome]:
    """Train all cases and seeds side by side, and return their outcomes in order."""
    runs = [
        Run(seed, *splits[seed], case.clip, case.noise, case.rng(setting, seed))
        for case in cases
        for seed in range(setting.seeds)
    ]
    accuracies = train(table, runs, setting, progress)
    return [
        _outcome(case, accuracies[place * setting.seeds : (place + 1) * setting.seeds])
        for place, case in enumerate(cases)
    ]
