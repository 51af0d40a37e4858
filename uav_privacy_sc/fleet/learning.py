"""One round of FedSFR as plain functions: local training, aggregation, feature reconstruction, model selection (P3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from uav_privacy_sc.fleet.model import FloatVector, Images, Trainee
from uav_privacy_sc.privacy.domain import choice, positive, whole
from uav_privacy_sc.privacy.oneshot import OneshotLaplace, SparseUpdate


class UpdateError(ValueError):
    """An upload that must not be aggregated."""


class NotFiniteError(UpdateError):
    """It holds NaN or infinity."""


class MisshapenError(UpdateError):
    """It belongs to another model: its size or shape differs."""


class UnclippedError(UpdateError):
    """Its norm is larger than clipping and noise together can make it."""


@dataclass(frozen=True)
class TrainingConfig:
    """How parameters are fitted (P3 section V; the optimizer is ours, P3 names none).

    Attributes:
        rate: learning rate of round 0; P3: 0.01 at clients, 0.001 at the server.
        batch: images, or feature vectors, of a step.
        epochs: passes over the data.
        optimizer: "adam" or "sgd".
        decay: factor of the rate ...
        decay_rounds: ... every so many rounds.

    Raises:
        ValueError: a value out of range.
    """

    rate: float = 0.01
    batch: int = 16
    epochs: int = 3
    optimizer: str = "adam"
    decay: float = 0.9
    decay_rounds: int = 10

    def __post_init__(self) -> None:
        for name in ("rate", "decay"):
            object.__setattr__(self, name, float(positive(name, getattr(self, name))))
        if self.decay > 1:
            raise ValueError(f"decay must be at most 1, got {self.decay}; use 0.9")
        for name in ("batch", "epochs", "decay_rounds"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        choice("optimizer", self.optimizer, ("adam", "sgd"))

    def rate_at(self, round_: int) -> float:
        """Return the learning rate of a round, counted from 0."""
        return self.rate * self.decay ** (whole("round", round_, 0) // self.decay_rounds)


def local_update(
    trainee: Trainee, start: FloatVector, images: Images, config: TrainingConfig, round_: int, rng: np.random.Generator
) -> FloatVector:
    """Return g = w_local - w_global, ``(N,)`` float32, after training from ``start`` on the client's images.

    The sign is that of a step to take, so the server adds it.

    Raises:
        NotFiniteError: training diverged.
        ValueError: no images.
    """
    trainee.load(start)
    fit(trainee, trainee.loss, images, config, round_, rng)
    return finite("update", trainee.parameters() - start)


def fit(
    trainee: Trainee,
    loss: Callable[[NDArray, np.random.Generator], torch.Tensor],
    data: NDArray,
    config: TrainingConfig,
    round_: int,
    rng: np.random.Generator,
) -> list[float]:
    """Minimize ``loss`` over batches of ``data`` and return the mean loss of every epoch.

    Raises:
        NotFiniteError: a loss that is not finite.
        ValueError: no data.
    """
    if not len(data):
        raise ValueError("data must hold at least one entry, got none; leave the client out")
    parameters, rate = trainee.trainable(), config.rate_at(round_)
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.SGD
    optimizer, means = kind(parameters, lr=rate), []
    for _ in range(config.epochs):
        order, total = rng.permutation(len(data)), 0.0
        for first in range(0, len(order), config.batch):
            chosen = order[first : first + config.batch]
            optimizer.zero_grad(set_to_none=True)
            value = loss(data[chosen], rng)
            value.backward()
            optimizer.step()
            total += value.item() * len(chosen)
        if not math.isfinite(total):
            raise NotFiniteError(f"training diverged: its loss is {total}; use a smaller rate than {rate:g}")
        means.append(total / len(order))
    return means


def sparsify(update: FloatVector, count: int) -> SparseUpdate:
    """Return the ``count`` largest entries in size, without noise: FedAvg without privacy.

    Raises:
        ValueError: an update that is not a finite vector, or a count out of range.
    """
    update = finite("update", update)
    count = whole("count", count)
    if update.ndim != 1 or count > len(update):
        raise ValueError(f"count={count} must be at most the size of a vector, got shape {update.shape}")
    indices = np.sort(np.argpartition(np.abs(update), len(update) - count)[len(update) - count :])
    return SparseUpdate(indices, update[indices], len(update))


def private_features(
    trainee: Trainee,
    start: FloatVector,
    update: FloatVector,
    public: Images,
    entries: int,
    mechanism: OneshotLaplace,
    rng: np.random.Generator,
) -> FloatVector:
    """Return ``(n, d)`` features of public images by an encoder that is private itself (P3 section III-A, case ii).

    S_k/2 entries of the encoder's update leave the mechanism and are added to the global encoder; encoding public
    images with it is post-processing. As many images are encoded as S_k numbers can carry.

    Args:
        trainee: changed to the private encoder on the way.
        start: global model, ``(N,)``.
        update: the client's whole update, ``(N,)``; the mechanism clips the encoder's part to its bound.
        public: the client's public images, already in the order in which they are to be sent.
        entries: S_k.
        mechanism: its bound is that of the encoder.
        rng: of the release.

    Raises:
        ValueError: entries too few for one feature vector, or no public images.
    """
    number = min(entries // trainee.feature_size, len(public))
    if number < 1:
        raise ValueError(
            f"entries={entries} and {len(public)} public images give no feature vector of {trainee.feature_size}"
        )
    encoder = trainee.encoder_size
    chosen = mechanism.release(np.asarray(update)[:encoder], max(1, min(entries // 2, encoder)), rng)
    private = np.asarray(start, np.float32).copy()
    private[:encoder] += chosen.dense()
    trainee.load(private)
    return trainee.encode(public[:number])


def check_update(update: SparseUpdate, size: int, mechanism: OneshotLaplace | None = None) -> SparseUpdate:
    """Return the update if it may be aggregated.

    Raises:
        MisshapenError: it belongs to a model of another size.
        NotFiniteError: values that are not finite.
        UnclippedError: its norm is out of reach of clipping and noise; without a mechanism not checked.
    """
    if update.size != size:
        raise MisshapenError(f"update of {update.size} parameters for a model of {size}; it was made for another model")
    finite("values", update.values)
    if mechanism is not None and len(update.values):
        norm, most = (
            float(np.abs(update.values, dtype=np.float64).sum()),
            mechanism.largest_norm(len(update.values), size),
        )
        if not norm <= most:
            raise UnclippedError(
                f"update of L1 norm {norm:.4g} above {most:.4g}: it was not clipped to {mechanism.bound:g}"
            )
    return update


def check_features(features: NDArray, dimension: int) -> FloatVector:
    """Return ``(n, d)`` float32 features if they may be learned from.

    Raises:
        MisshapenError: another shape, or none.
        NotFiniteError: values that are not finite.
    """
    features = np.asarray(features)
    if features.ndim != 2 or not len(features) or features.shape[1] != dimension:
        raise MisshapenError(f"features must be (n, {dimension}) with n of at least 1, got {features.shape}")
    return finite("features", features)


def aggregate(start: FloatVector, updates: Sequence[tuple[SparseUpdate, float]]) -> FloatVector:
    """Return FedAvg's model, ``w + sum_k p_k g_k / sum_k p_k`` over the clients that sent updates.

    P3's p_k sum to one over all clients; with partial participation we divide by those present. An entry that a client
    did not send counts as 0 from that client, which is what makes sparse rounds slow.

    Args:
        start: ``(N,)`` global model.
        updates: checked updates with p_k, or |D_k|, above 0. None at all leaves the model as it is.

    Raises:
        UpdateError: as for :func:`check_update`.
        ValueError: a weight that is not finite and above 0.
    """
    start = np.asarray(start, np.float32)
    if not updates:
        return start.copy()
    total = math.fsum(float(positive("weight", weight)) for _, weight in updates)
    change = np.zeros(len(start))
    for update, weight in updates:
        check_update(update, len(start))
        change[update.indices] += weight / total * update.values.astype(np.float64)
    return (start + change).astype(np.float32)


def reconstruct_features(
    trainee: Trainee,
    start: FloatVector,
    features: FloatVector,
    config: TrainingConfig,
    round_: int,
    rng: np.random.Generator,
) -> tuple[FloatVector, list[float]]:
    """Return the model after feature reconstruction at the server, and the loss of every epoch.

    Encoder and decoder both learn: from w^(t+1/2) on, features are decoded to images and encoded again, and the loss is
    how far they come back from where they started (:meth:`Trainee.feature_loss`).

    Raises:
        NotFiniteError: training diverged.
        UpdateError: as for :func:`check_features`.
    """
    features = check_features(features, trainee.feature_size)
    trainee.load(start)
    losses = fit(trainee, trainee.feature_loss, features, config, round_, rng)
    return finite("model", trainee.parameters()), losses


@dataclass(frozen=True)
class Selection:
    """Which of two models was kept, and the PSNR in dB of both on the public images."""

    parameters: FloatVector
    reconstructed: bool
    psnr_aggregated: float
    psnr_reconstructed: float


def select_model(
    trainee: Trainee,
    aggregated: FloatVector,
    reconstructed: FloatVector,
    public: Images,
    rng: np.random.Generator,
) -> Selection:
    """Keep the better of w^(t+1/2) and the model after feature reconstruction, on public images (P3 section III-B).

    Both see the same channel. P3 compares the MSE, which is the autoencoder's loss. Uploads and public images are all
    it looks at, so it costs no privacy. A tie keeps the aggregated model.

    Raises:
        ValueError: no public images.
    """
    if not len(public):
        raise ValueError("public must hold at least one image, got none; give every client a public share above 0")
    seed = int(rng.integers(2**63))
    error, quality = [], []
    for parameters in (aggregated, reconstructed):
        trainee.load(parameters)
        with torch.no_grad():
            error.append(trainee.loss(public, np.random.default_rng(seed)).item())
        quality.append(trainee.psnr(public, np.random.default_rng(seed)))
    better = error[1] < error[0]
    kept = reconstructed if better else aggregated
    trainee.load(kept)
    return Selection(np.asarray(kept, np.float32), better, quality[0], quality[1])


def finite(name: str, values: NDArray) -> FloatVector:
    """Return ``values`` as float32.

    Raises:
        NotFiniteError: NaN or infinity among them.
    """
    array = np.asarray(values, np.float32)
    if not np.isfinite(array).all():
        raise NotFiniteError(f"{name} holds {np.count_nonzero(~np.isfinite(array))} values of NaN or infinity")
    return array
