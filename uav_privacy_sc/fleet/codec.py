"""The flight's own codec as the model that the fleet updates (P3 on :mod:`uav_privacy_sc.perception.codec`).

Every aircraft trains encoder and decoder on taps of the frozen detector, with the loss of
:mod:`uav_privacy_sc.perception.training.codec`: the mask's cross entropy under the noise of protection and link, and a
little of the picture that the shipped inverter, frozen too, makes of the clear code. Shapes never change, so what comes
out flies like what went in.

A record is a tile of a picture (``tiles`` a side), named by its number: the fleet's "images" are ``(n,)`` int64 arrays
of such numbers. Nothing but encoder and decoder is ever sent; they have group normalization, no running statistics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from uav_privacy_sc import scene
from uav_privacy_sc.attack.inversion import Inverter
from uav_privacy_sc.fleet.codec_taps import open_taps
from uav_privacy_sc.fleet.data import ClientData, DataError, FleetData, SplitConfig
from uav_privacy_sc.fleet.model import FlatParameters, FloatVector
from uav_privacy_sc.perception.codec import Codec, prior_planes
from uav_privacy_sc.perception.tap import tap_of
from uav_privacy_sc.perception.training.batches import TapSet, draw_protection, send
from uav_privacy_sc.perception.training.codec import CodecTraining, mask_loss
from uav_privacy_sc.perception.training.samples import UNKNOWN
from uav_privacy_sc.perception.weights import load_module, locate, locate_sound
from uav_privacy_sc.privacy.domain import whole

#: Whole numbers (n,); of any type, for where the fleet has pictures of bytes it has these.
Records = NDArray[Any]
#: SNR at which :meth:`CodecTrainee.psnr` sends: P3's gamma.
_PSNR_SNR_DB = 20.0
_CHUNK = 64


@dataclass(frozen=True)
class _Tiles:
    """How pictures are cut: ``side`` tiles a side, of ``rows`` x ``columns`` cells; pixels to a cell's side of each."""

    side: int
    rows: int
    columns: int
    pool: int
    mask: int
    picture: int

    def cut(self, array: np.ndarray, record: int, scale: int) -> np.ndarray:
        """Return a record's part of an array ``(..., H, W)`` of its picture with ``scale`` entries to a cell's side."""
        row, column = divmod(record % self.side**2, self.side)
        top, left = row * self.rows * scale, column * self.columns * scale
        return array[..., top : top + self.rows * scale, left : left + self.columns * scale]


def _tiles(taps: TapSet, codec: Codec, side: int) -> _Tiles:
    pool = codec.settings["pool"]
    rows, columns = (length // pool for length in taps.taps.shape[2:])
    if not 1 <= side <= min(rows, columns):
        raise ValueError(f"tiles={side} must be 1 to {min(rows, columns)}, the cells of a picture's shorter side")
    scales = (taps.masks.shape[1] // rows, taps.pictures.shape[1] // rows)
    return _Tiles(side, rows // side, columns // side, pool, *scales)


class CodecTrainee(FlatParameters):
    """A codec, the tiles it is trained on, and the frozen networks around it; a ``fleet.model.Trainee``.

    Args:
        codec: what is trained.
        taps: of the pictures.
        inverter: of the eavesdropper, never changed; None leaves the loss of the picture, and PSNR, out.
        weights: folder that all came from; None for the shipped one.
        tiles: tiles a side of a picture.
        training: settings of the loss; its steps, batch and rate are not used.

    Attributes:
        public: records by which the server tells whose features it got (:meth:`feature_loss`).

    Raises:
        ValueError: masks of which nothing is known, tiles out of range, or a codec with running statistics.
    """

    def __init__(
        self,
        codec: Codec,
        taps: TapSet,
        inverter: Inverter | None,
        weights: Path | None = None,
        tiles: int = 2,
        training: CodecTraining | None = None,
    ) -> None:
        if (np.asarray(taps.masks) == UNKNOWN).all():
            raise ValueError("the codec is trained on masks, and no pixel of these pictures has a known class")
        if found := [name for name, _ in codec.named_buffers()]:
            raise ValueError(f"the codec has running statistics ({found[0]}), which would leave unprotected")
        self.codec, self.taps, self.inverter, self.weights = codec, taps, inverter, weights
        self.training = training or CodecTraining(channels=codec.settings["channels"], pool=codec.settings["pool"])
        self._tiles = _tiles(taps, codec, whole("tiles", tiles))
        self.shape = (codec.settings["channels"], self._tiles.rows, self._tiles.columns)
        self.feature_size = math.prod(self.shape)
        self.feature_norms = (0.0, math.sqrt(math.prod(self.shape[1:])))  # every cell's vector is shorter than 1
        self.encoder_size = sum(p.numel() for p in codec.encoder.parameters())
        self.size = sum(p.numel() for p in self.trainable())
        self.public: Records = np.zeros(0, np.int64)
        self._class_weights = torch.ones(len(scene.MASK_CLASSES))
        self._class_weights[: len(scene.OBJECT_CLASSES)] = self.training.object_weight
        if inverter is not None:
            inverter.requires_grad_(False)

    def records(self, pictures: NDArray[np.int64]) -> Records:
        """Return the records of pictures by their numbers, all tiles of each."""
        side = self._tiles.side**2
        return (np.asarray(pictures, np.int64)[:, None] * side + np.arange(side)).ravel()

    def trainable(self) -> list[nn.Parameter]:
        """Return the encoder's parameters, then the decoder's."""
        return [*self.codec.encoder.parameters(), *self.codec.decoder.parameters()]

    def loss(self, images: Records, rng: np.random.Generator) -> torch.Tensor:
        """Return the codec's loss on records, protection and link drawn for each as in ``train codec``."""
        batch = self._batch(images)
        sigma, snr_db, prior, features = self._drawn(images, rng)
        noise = _torch_generator(rng)
        code = self.codec.encoder(batch.tap)
        scores = self.codec.decoder(send(code, sigma, snr_db, noise) * features, prior)
        painted = mask_loss(scores, batch.mask, self._class_weights)
        if self.inverter is None:
            return painted
        clear = send(code, torch.zeros_like(sigma), snr_db, noise)
        return painted + self.training.picture_weight * functional.l1_loss(self.inverter(clear), batch.picture)

    def feature_loss(self, features: FloatVector, rng: np.random.Generator) -> torch.Tensor:
        """Return the loss of feature reconstruction for ``(n, d)`` features of public tiles.

        The server does not know of which tile features are; it takes the one of :attr:`public` whose code, by the model
        as it is, is nearest. The decoder learns to paint that tile's mask from the features, sent as in flight, and the
        encoder to give such features for it (squared error of a cell). Both are post-processing of the upload.

        Raises:
            ValueError: no public records, or features of another shape.
        """
        if not len(self.public):
            raise ValueError("public holds no records; features cannot be told apart, share_pictures() sets it")
        target = torch.from_numpy(np.array(features, np.float32)).unflatten(1, self.shape)
        own = torch.from_numpy(self.encode(self.public))
        nearest = self.public[torch.cdist(target.flatten(1), own).argmin(dim=1).numpy()]
        batch = self._batch(nearest)
        sigma, snr_db, prior, on = self._drawn(nearest, rng)
        scores = self.codec.decoder(send(target, sigma, snr_db, _torch_generator(rng)) * on, prior)
        pulled = (self.codec.encoder(batch.tap) - target).square().sum(dim=1).mean()
        return mask_loss(scores, batch.mask, self._class_weights) + pulled

    @torch.no_grad()
    def encode(self, images: Records) -> FloatVector:
        """Return ``(n, d)`` float32: the codes of records, every cell's vector shorter than 1."""
        parts = [self.codec.encoder(self._tap(part)).flatten(1).numpy() for part in _chunks(images)]
        return np.concatenate(parts) if parts else np.zeros((0, self.feature_size), np.float32)

    @torch.no_grad()
    def reconstruct(self, features: FloatVector) -> NDArray[np.uint8]:
        """Return the pictures ``(n, h, w, 3)`` uint8 that the frozen inverter makes of ``(n, d)`` received features.

        Raises:
            ValueError: there is no inverter.
        """
        if self.inverter is None:
            raise ValueError("there is no inverter.pt in the folder of weights; nothing makes pictures of features")
        received = torch.from_numpy(np.array(features, np.float32)).unflatten(1, self.shape)
        return self.inverter(received).permute(0, 2, 3, 1).mul(255).round().to(torch.uint8).numpy()

    @torch.no_grad()
    def psnr(self, images: Records, rng: np.random.Generator) -> float:
        """Return the mean PSNR in dB of the inverter's pictures at 20 dB SNR, without protection; NaN without one."""
        if self.inverter is None or not len(images):
            return math.nan
        values, noise = [], _torch_generator(rng)
        for part in _chunks(images):
            batch = self._batch(part)
            code = self.codec.encoder(batch.tap)
            heard = send(code, torch.zeros(len(part), 1, 1, 1), [_PSNR_SNR_DB] * len(part), noise)
            error = (self.inverter(heard) - batch.picture).square().flatten(1).mean(dim=1).clamp_min(1e-10)
            values.append(-10 * torch.log10(error))
        return float(torch.cat(values).mean())

    @torch.no_grad()
    def describe(self, images: Records, seed: int = 0) -> dict[str, float]:
        """Return loss (draws by ``seed``), and accuracy and mean IoU of the mask from clear features and true boxes."""
        from uav_privacy_sc.perception.training.measure_codec import confusion

        rng, losses = np.random.default_rng(seed), []
        classes = len(scene.MASK_CLASSES)
        table: np.ndarray = np.zeros((classes, classes))
        for part in _chunks(images):
            losses.append(float(self.loss(part, rng)) * len(part))
            batch = self._batch(part)
            prior = torch.from_numpy(np.stack([self._prior(record) for record in part.tolist()]))
            painted = self.codec.decoder(self.codec.encoder(batch.tap), prior).argmax(dim=1).numpy()
            for truth, seen in zip(batch.mask.numpy(), painted, strict=True):
                table += confusion(truth, seen)
        union = table.sum(axis=0) + table.sum(axis=1) - np.diag(table)
        there = table.sum(axis=1) > 0
        return {
            "loss": sum(losses) / max(1, len(images)),
            "accuracy": float(np.trace(table) / max(1.0, table.sum())),
            "miou": float((np.diag(table)[there] / union[there]).mean()) if there.any() else math.nan,
        }

    def _checked(self, records: Records) -> Records:
        """Return them where each is a tile's number: pictures, which the fleet's other models take, are refused."""
        count = len(self.taps.objects) * self._tiles.side**2
        if records.ndim != 1 or records.dtype.kind not in "iu" or not ((records >= 0) & (records < count)).all():
            raise ValueError(
                f"records {records.shape} {records.dtype} must be (n,) whole numbers from 0 to {count - 1}, of tiles"
            )
        return records

    def _picture_of(self, record: int) -> int:
        return record // self._tiles.side**2

    def _prior(self, record: int) -> np.ndarray:
        seen = self.taps.objects[self._picture_of(record)].copy()
        seen["score"] = 1.0
        return self._tiles.cut(prior_planes(seen, self.taps.masks.shape[1:]), record, self._tiles.mask)

    def _tap(self, records: Records) -> torch.Tensor:
        found = [
            self._tiles.cut(self.taps.taps[self._picture_of(record)], record, self._tiles.pool)
            for record in self._checked(records).tolist()
        ]
        return torch.from_numpy(np.stack(found).astype(np.float32))

    def _batch(self, records: Records) -> _Batch:
        masks, pictures = [], []
        for record in self._checked(records).tolist():
            place = self._picture_of(record)
            masks.append(self._tiles.cut(self.taps.masks[place], record, self._tiles.mask))
            picture = self.taps.pictures[place].transpose(2, 0, 1)
            pictures.append(self._tiles.cut(picture, record, self._tiles.picture))
        mask = torch.from_numpy(np.stack(masks)).long()
        return _Batch(self._tap(records), mask, torch.from_numpy(np.stack(pictures)).float() / 255)

    def _drawn(
        self, records: Records, rng: np.random.Generator
    ) -> tuple[torch.Tensor, list[float | None], torch.Tensor, torch.Tensor]:
        """Return sigma of the cells, SNR, prior planes, and features on (1) or off (0) of each record."""
        grid = tuple(length // self._tiles.pool for length in self.taps.taps.shape[2:])
        sigma, snr_db, prior, on = [], [], [], []
        for record in records.tolist():
            objects = self.taps.objects[self._picture_of(record)]
            drawn = draw_protection(objects, grid, self.taps.masks.shape[1:], self.training, rng)  # type: ignore[arg-type]
            sigma.append(self._tiles.cut(drawn.sigma[None], record, 1))
            prior.append(self._tiles.cut(drawn.prior, record, self._tiles.mask))
            snr_db.append(drawn.snr_db)
            on.append(float(drawn.features))
        features = torch.tensor(on)[:, None, None, None]
        return torch.from_numpy(np.stack(sigma)).float(), snr_db, torch.from_numpy(np.stack(prior)), features


@dataclass(frozen=True)
class _Batch:
    """Taps, masks and pictures (in [0, 1]) of some records."""

    tap: torch.Tensor
    mask: torch.Tensor
    picture: torch.Tensor


def _torch_generator(rng: np.random.Generator) -> torch.Generator:
    return torch.Generator().manual_seed(int(rng.integers(2**62)))


def _chunks(records: Records) -> Sequence[Records]:
    return [records[start : start + _CHUNK] for start in range(0, len(records), _CHUNK)]


def open_codec(
    weights: Path | None,
    data: Path,
    *,
    limit: int | None = None,
    cache: Path | None = None,
    tiles: int = 2,
    progress: Any = lambda done: None,
) -> CodecTrainee:
    """Return the codec of a folder of weights with the pictures of ``data`` to train on.

    Args:
        weights: folder with ``detector.pt``, ``codec.pt`` and, if the picture is to count, ``inverter.pt``; None for
            the shipped one. Checksums are held against its card.
        data: folder of pictures with masks (or boxes) that ``train codec`` takes.
        limit: take so many pictures at most, evenly.
        cache: folder for the taps (:func:`open_taps`).
        tiles: tiles a side of a picture.
        progress: told the number of pictures whose taps are there.

    Raises:
        WeightsError: weights that are not there, cannot be read or are not those of the card.
        DatasetError: a folder that cannot be used.
        ValueError: tiles out of range.
    """
    codec = load_module(locate_sound("codec.pt", weights), Codec)
    assert isinstance(codec, Codec)
    inverter = None
    if locate("codec.pt", weights).with_name("inverter.pt").is_file():
        inverter = load_module(locate_sound("inverter.pt", weights), Inverter)
        assert isinstance(inverter, Inverter)
    taps = open_taps(Path(data), locate_sound("detector.pt", weights), tap_of(codec), limit, cache, progress)
    return CodecTrainee(codec, taps, inverter, weights, tiles)


def share_pictures(trainee: CodecTrainee, config: SplitConfig, rng: np.random.Generator) -> FleetData:
    """Split the pictures over the clients, all tiles of a picture to the same; sets :attr:`CodecTrainee.public`.

    Raises:
        DataError: fewer than two pictures for each client, or a split by labels, which these pictures have not.
    """
    if config.split != "iid":
        raise DataError(f"split={config.split} needs labels, and these pictures have none; use iid")
    order = rng.permutation(len(trainee.taps.objects))
    held = max(1, int(config.test_share * len(order)))
    test, order = order[:held], order[held:]
    if len(order) < 2 * config.clients:
        raise DataError(f"{len(order)} pictures are too few for {config.clients} clients; give at least two for each")
    clients = []
    for part in np.array_split(order, config.clients):
        public = part[: max(1, int(config.public_share * len(part)))]
        clients.append(ClientData(trainee.records(part), trainee.records(public)))
    trainee.public = np.concatenate([client.public for client in clients])
    return FleetData(tuple(clients), trainee.public, trainee.records(test))
