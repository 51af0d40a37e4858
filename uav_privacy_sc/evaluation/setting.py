"""What an evaluation is made with: everything that decides its numbers, in one value that can be sent and recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.evaluation.execution import Execution, WorkerLost, fingerprint
from uav_privacy_sc.evaluation.networks import Networks
from uav_privacy_sc.evaluation.presets import Preset
from uav_privacy_sc.evaluation.samples import Dataset, Sample, open_dataset
from uav_privacy_sc.privacy.domain import positive, probability, whole

PROFILES = ("hardened", "paper")


@dataclass(frozen=True)
class MatrixScale:
    """What the protocol ``matrix`` measures: the budget that all mechanisms claim, and the number of draws.

    Raises:
        ValueError: one out of its range.
    """

    epsilon: float = 1.0
    delta: float = 1e-5
    draws: int = 30

    def __post_init__(self) -> None:
        positive("epsilon", self.epsilon)
        probability("delta", self.delta)
        whole("draws", self.draws, 2)


@dataclass(frozen=True)
class Setting:
    """Arguments of an evaluation.

    Attributes:
        dataset: ``synthetic``, ``synthetic:SEED`` or a path.
        samples: how many pictures or layouts at most.
        seeds: repetitions on each, with other noise and another fade.
        profile: ``hardened``, ``paper`` or a ROS parameter file.
        preset: the scale.
        networks: weights and device.
        base_seed: from which all noise is drawn.
        attackers: names of those to run (all where none is named), and modules, or ``.py`` files, that register more.
        matrix: what P2's mechanisms claim, and over how many draws they are measured.

    Raises:
        ValueError: a number out of range.
    """

    dataset: str
    samples: int
    seeds: int
    profile: str
    preset: Preset
    networks: Networks = Networks()
    base_seed: int = 0
    attackers: tuple[str, ...] = ()
    matrix: MatrixScale = MatrixScale()

    def __post_init__(self) -> None:
        for name, low in (("samples", 1), ("seeds", 1), ("base_seed", 0)):
            if not getattr(self, name) >= low:
                raise ValueError(f"{name} is {getattr(self, name)!r}; give a whole number of at least {low}")

    def noise_seed(self, sample: str, seed: int) -> int:
        """Return the seed of all mechanisms' noise: the same for every mechanism, so that they can be paired."""
        return int(self.rng("noise", sample, seed).integers(2**62))

    def rng(self, purpose: str, sample: str, seed: int) -> np.random.Generator:
        """Return the generator of one purpose on one sample and repetition."""
        words = [self.base_seed, seed, *purpose.encode(), 0, *sample.encode()]
        return np.random.default_rng(words)

    def as_dict(self) -> dict[str, Any]:
        """Return everything in plain values."""
        return asdict(self)


class SampleStore:
    """The samples of a setting: made once, kept in ``folder``, read one by one.

    ``made`` are the digests of what they are made with (``provenance.made_with``).

    Raises:
        ValueError: no such dataset, or nothing in it.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path, setting: Setting, made: Mapping[str, Any]) -> None:
        self.setting = setting
        self.notes: list[str] = []
        digest = fingerprint([setting.dataset, setting.samples, dict(made)])
        self.folder = folder / digest
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dataset: Dataset = open_dataset(setting.dataset, setting.samples, setting.networks)
        self.kind, self.length = self.dataset.kind, self.dataset.length
        self.notes += self.dataset.notes

    @property
    def complete(self) -> bool:
        """Whether all samples are on disk."""
        return (self.folder / "complete").is_file()

    def prepare(self, execution: Execution, progress: Callable[[int], None] = lambda done: None) -> None:
        """Render or read all samples and perceive their pictures, unless they are there."""
        if self.complete:
            self._count()
            self._note(json.loads((self.folder / "complete").read_text(encoding="utf-8")))
            return
        calls = (partial(_numbered, number, call) for number, call in self._missing())
        done = len(list(self.folder.glob("[0-9]*[0-9].npz")))
        try:
            for number, sample in execution.stream(calls):
                sample.save(self._path(number))
                done += 1
                progress(done)
        except WorkerLost as error:
            raise error.keeping(f"{done} finished samples", self.folder) from None
        self._count()
        oddities = dict(sorted(self.dataset.oddities.items()))
        (self.folder / "complete").write_text(json.dumps(oddities), encoding="utf-8")
        self._note(oddities)

    def _note(self, oddities: Mapping[str, int]) -> None:
        self.notes += [f"{self.dataset.name}: {oddity}: {count}" for oddity, count in oddities.items()]

    def _count(self) -> None:
        self.length = len(list(self.folder.glob("[0-9]*[0-9].npz")))
        if not self.length:
            raise ValueError(f"dataset {self.setting.dataset} has no picture that can be read")

    def _missing(self) -> Iterator[tuple[int, Any]]:
        for number, call in enumerate(self.dataset.draws):
            if not self._path(number).is_file():
                yield number, call

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}.npz"

    def __iter__(self) -> Iterator[Sample]:
        for path in sorted(self.folder.glob("[0-9]*[0-9].npz")):
            yield Sample.load(path)

    def people(self) -> tuple[int, int]:
        """Return how many samples hold a pedestrian or people, and how many there are."""
        found = [sample.has_people for sample in self]
        return sum(found), len(found)


def _numbered(number: int, call: Callable[[], Sample]) -> tuple[int, Sample]:
    return number, call()
