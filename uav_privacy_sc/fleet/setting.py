"""What a fleet learns with, and by which method: plain values, checked, the same at server and clients."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uav_privacy_sc.fleet.learning import TrainingConfig
from uav_privacy_sc.fleet.link import UplinkConfig
from uav_privacy_sc.fleet.messages import FEATURES
from uav_privacy_sc.fleet.model import Autoencoder, AutoencoderConfig, FloatVector, Trainee
from uav_privacy_sc.privacy.domain import choice, positive, whole
from uav_privacy_sc.privacy.oneshot import VALUES, OneshotLaplace, release_generator

if TYPE_CHECKING:
    from uav_privacy_sc.fleet.codec import CodecTrainee

FEDAVG, FEDSFR = "fedavg", "fedsfr"
#: First label of each stream of random numbers, so that none depends on how often another is used.
MODEL, CLIENTS, FADES, TRAINING, RELEASE, SERVER, SELECTION, TEST, DATA, PUBLIC = range(10)
#: Names of methods are names of folders, and may come from another machine.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class Method:
    """One curve: how a round makes a model of what clients upload, and at what privacy.

    Attributes:
        name: of its folder: letters, digits, dots and dashes; ``title`` is for people.
        algorithm: ``fedavg`` (all send updates) or ``fedsfr`` (those below the threshold send features).
        selection: P3's model selection: reconstruction is kept only where it is better on public pictures.
        ideal: shares are P3's fixed ones instead of those of fading channels.
        sigma_1, sigma_2: noise of selection and values.
        feature_noise: factor on both for clients that send features: 0.5 gives them, by Theorem 1, the epsilon that
            clients with updates have (P3's "privacy"), 1 half of it ("power").
        bound: G; ``encoder_bound``: the L1 bound of the encoder's part, G/2 if None, as P3 assumes and we enforce.
        values: ``fresh`` (P3) or ``same``, which spends less (:mod:`uav_privacy_sc.privacy.oneshot`).
        threshold: S_th/N.

    Raises:
        ValueError: a value out of range.
    """

    name: str
    title: str
    algorithm: str = FEDSFR
    selection: bool = True
    ideal: bool = False
    sigma_1: float = 0.001
    sigma_2: float = 0.001
    feature_noise: float = 1.0
    bound: float = 100.0
    encoder_bound: float | None = None
    values: str = "fresh"
    threshold: float = 0.15

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"name is {self.name!r}; it names a folder, use up to 64 letters, digits, dots and dashes")
        choice("algorithm", self.algorithm, (FEDAVG, FEDSFR))
        choice("values", self.values, VALUES)
        positive("feature_noise", self.feature_noise)
        for strategy in ("gradient", FEATURES):
            self.mechanism(strategy)
        self.uplink()

    def mechanism(self, strategy: str) -> OneshotLaplace:
        """Return what makes an upload private: with features, the encoder's update."""
        if strategy != FEATURES:
            return OneshotLaplace(self.sigma_1, self.sigma_2, self.bound, values=self.values)
        bound = self.bound / 2 if self.encoder_bound is None else self.encoder_bound
        factor = self.feature_noise
        return OneshotLaplace(factor * self.sigma_1, factor * self.sigma_2, bound, values=self.values)

    def uplink(self) -> UplinkConfig:
        """Return how channels decide who sends what."""
        return UplinkConfig(threshold=self.threshold)


@dataclass(frozen=True)
class CodecModel:
    """The flight's own codec as the model (:mod:`uav_privacy_sc.fleet.codec`), and the pictures that it is trained on.

    Attributes:
        data: folder of pictures with masks or boxes; ``limit``: how many of them at most.
        weights: folder to start from, None for the shipped one; ``cache``: for the detector's taps.
    """

    data: str
    weights: str | None = None
    limit: int | None = None
    cache: str | None = None

    def open(self) -> CodecTrainee:
        """Return it with the parameters that it starts from.

        Raises:
            ValueError: weights or pictures that cannot be used.
        """
        trainee, start = _codec(self)
        trainee.load(start)
        return trainee


@lru_cache(maxsize=1)
def _codec(model: CodecModel) -> tuple[CodecTrainee, FloatVector]:
    from uav_privacy_sc.fleet.codec import open_codec

    weights, cache = (None if name is None else Path(name) for name in (model.weights, model.cache))
    trainee = open_codec(weights, Path(model.data), limit=model.limit, cache=cache)
    return trainee, trainee.parameters()


@dataclass(frozen=True)
class FleetSetting:
    """What all methods of an experiment share.

    Attributes:
        clients: K; ``per_round``: how many of them are asked in a round (K_m + K_o).
        minimum: uploads without which a round does not count; half of ``per_round`` if None.
        rounds: T.
        client, server: local training and feature reconstruction.
        model: P3's autoencoder, or the flight's codec.
        seed: of everything that is drawn. None: noise is cryptographic, all else as with seed 0.
        timeout_s: how long uploads are waited for; ``attempts``: how often they are asked for; ``join_s``: how long
            clients are waited for at the start.

    Raises:
        ValueError: a value out of range.
    """

    clients: int = 50
    per_round: int = 20
    minimum: int | None = None
    rounds: int = 200
    client: TrainingConfig = field(default_factory=lambda: TrainingConfig(rate=0.01))
    server: TrainingConfig = field(default_factory=lambda: TrainingConfig(rate=0.001))
    model: AutoencoderConfig | CodecModel = field(default_factory=AutoencoderConfig)
    seed: int | None = 0
    timeout_s: float = 3600.0
    join_s: float = 120.0
    attempts: int = 3

    def __post_init__(self) -> None:
        for name in ("clients", "per_round", "rounds", "attempts"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        for name in ("timeout_s", "join_s"):
            object.__setattr__(self, name, float(positive(name, getattr(self, name))))
        if self.per_round > self.clients:
            raise ValueError(
                f"per_round is {self.per_round}, but there are {self.clients} clients; ask at most so many"
            )
        if self.minimum is not None and not 1 <= self.minimum <= self.per_round:
            raise ValueError(f"minimum is {self.minimum}; give 1 to per_round, which is {self.per_round}")
        if self.seed is not None:
            whole("seed", self.seed, 0)

    @property
    def enough(self) -> int:
        """Uploads that make a round."""
        return max(1, self.per_round // 2) if self.minimum is None else self.minimum

    def rng(self, *labels: int) -> np.random.Generator:
        """Return the generator of one purpose (the first label), round and client."""
        return np.random.default_rng([self.seed or 0, *labels])

    def release_rng(self, round_number: int, client: int) -> np.random.Generator:
        """Return the generator of one release's noise: seeded in experiments, else cryptographic."""
        return release_generator(self.seed, RELEASE, round_number, client)

    def trainee(self) -> Trainee:
        """Return the model of round 0, the same everywhere."""
        return self.model.open() if isinstance(self.model, CodecModel) else Autoencoder(self.model, self.rng(MODEL))

    def as_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)
