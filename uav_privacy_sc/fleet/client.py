"""What a client does with an order: train, clip, make private, write down what that spends, and only then send."""

from __future__ import annotations

import hashlib
import io
import json
import logging
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from uav_privacy_sc.fleet.accounting import UploadAccount, UploadCost, alone, ledger_path, spent_in
from uav_privacy_sc.fleet.data import ClientData
from uav_privacy_sc.fleet.learning import NotFiniteError, local_update, private_features
from uav_privacy_sc.fleet.messages import FEATURES, UPLOADED, Order, Upload
from uav_privacy_sc.fleet.model import FloatVector, Trainee
from uav_privacy_sc.fleet.setting import PUBLIC, TRAINING, FleetSetting, Method

LEDGERS, UPLOADS = "ledgers", "uploads"
log = logging.getLogger("uav_privacy_sc.fleet")


class OrderRefused(ValueError):
    """An order that this client does not carry out; one line with the reason."""


@dataclass(frozen=True)
class FleetClient:
    """One client: its pictures, its account, and the method whose privacy it insists on.

    The clip and the noise are the client's own: an order names neither. What it uploads for a round is stored, and sent
    again when it is asked again: noise that is drawn twice would be spent twice.

    Args:
        folder: of the method, for ledger and stored uploads; clients may share it.
        ceiling: worst-case epsilon beyond which nothing is uploaded; None: no ceiling.
        runs: folder of all runs on the same pictures, whose ledgers the ceiling counts, too; None: of this one alone.
    """

    number: int
    setting: FleetSetting
    method: Method
    trainee: Trainee
    data: ClientData
    folder: Path
    ceiling: float | None = None
    runs: Path | None = None

    def carry_out(self, order: Order) -> Upload:
        """Return the upload of an order.

        Raises:
            OrderRefused: an order for another client, method or model.
            CeilingReached: it would spend more than the ceiling; nothing was.
            LedgerError: the ledger cannot be written or trusted; nothing was sent.
        """
        self._check(order)
        model = hashlib.sha256(np.ascontiguousarray(order.weights).tobytes()).hexdigest()
        made: list[bool] = []

        def make() -> bytes:
            made.append(True)
            return to_bytes(self._make(order), model)

        ledgers = self.folder / LEDGERS
        ledgers.mkdir(parents=True, exist_ok=True)
        ledger = ledger_path(ledgers, self.number)
        with alone(self.runs):
            elsewhere = 0.0 if self.runs is None else spent_in(self._others(ledger))
            account = UploadAccount(ledger, self.folder / UPLOADS, self.number, self.ceiling, elsewhere=elsewhere)
            try:
                stored = account.upload(order.round, self._cost(order), make, str(order.attempt))
            finally:
                account.close()
        return from_bytes(stored, model, again=not made)

    def _others(self, own: Path) -> list[Path]:
        """Return the ledgers of other runs on the same pictures."""
        assert self.runs is not None
        return [path for path in sorted(self.runs.glob(f"*/{LEDGERS}/*.ledger")) if path.resolve() != own.resolve()]

    def _check(self, order: Order) -> None:
        if order.client != self.number or order.method != self.method.name:
            raise OrderRefused(
                f"an order for client {order.client} and method {order.method}; this is client {self.number} with "
                f"{self.method.name}"
            )
        if order.weights.shape != (self.trainee.size,) or not np.all(np.isfinite(order.weights)):
            raise OrderRefused(
                f"a model of shape {order.weights.shape}, here are {self.trainee.size} parameters (or it is not finite)"
            )
        if order.strategy == FEATURES and not len(self.data.public):
            raise OrderRefused("features are ordered, and this client has no public pictures to make them of")
        if not 1 <= order.entries <= self.trainee.size:
            raise OrderRefused(f"entries is {order.entries}; give 1 to {self.trainee.size}")

    def _cost(self, order: Order) -> UploadCost:
        mechanism, seeded = self.method.mechanism(order.strategy), self.setting.seed is not None
        return UploadCost(mechanism, order.strategy, order.entries, self.trainee.size, self.method.bound, seeded)

    def _make(self, order: Order) -> Upload:
        """Train and release. All that is drawn follows from seed, round and client, whatever happened before.

        Which public pictures are sent has a stream of its own: how far training has drawn depends on its pictures.
        """
        setting, mechanism = self.setting, self.method.mechanism(order.strategy)
        noise = setting.release_rng(order.round, self.number)
        update = self._train(order)
        indices: np.ndarray = np.zeros(0, np.int64)
        values: np.ndarray = np.zeros(0, np.float32)
        features: np.ndarray = np.zeros((0, self.trainee.feature_size), np.float32)
        size = self.trainee.size
        if order.strategy == FEATURES:
            size = self.trainee.encoder_size
            public = self.data.public
            public = public[setting.rng(PUBLIC, order.round, self.number).permutation(len(public))]
            features = private_features(self.trainee, order.weights, update, public, order.entries, mechanism, noise)
        else:
            sparse = mechanism.release(update, order.entries, noise)
            indices, values = sparse.indices, sparse.values
        return Upload(
            client=self.number,
            round=order.round,
            strategy=order.strategy,
            size=size,
            samples=len(self.data.images),
            sigma_1=mechanism.sigma_1,
            sigma_2=mechanism.sigma_2,
            bound=mechanism.bound,
            again=False,
            indices=indices,
            values=values,
            features=features,
        )

    def _train(self, order: Order) -> FloatVector:
        """Return the update; zeros where training diverged: that it did depends on the pictures, and is not told."""
        rng = self.setting.rng(TRAINING, order.round, self.number)
        try:
            images, config = self.data.images, self.setting.client
            return local_update(self.trainee, order.weights, images, config, order.round, rng)
        except NotFiniteError as error:
            log.warning("client %d, round %d: %s; no change is made private instead", self.number, order.round, error)
            return np.zeros(self.trainee.size, np.float32)


def to_bytes(upload: Upload, model: str) -> bytes:
    """Return an upload as it is stored, with the digest of the model that it was made from."""
    plain = {name: value for name, value in asdict(upload).items() if name not in UPLOADED}
    buffer = io.BytesIO()
    about = np.array(json.dumps({"upload": plain, "model": model}))
    np.savez(buffer, about=about, **{name: getattr(upload, name) for name in UPLOADED})
    return buffer.getvalue()


def from_bytes(stored: bytes, model: str, again: bool) -> Upload:
    """Return a stored upload.

    Raises:
        OrderRefused: it was made from another model: another upload for the same round would be spent for anew.
    """
    with np.load(io.BytesIO(stored), allow_pickle=False) as found:
        about = json.loads(str(found["about"]))
        arrays = {name: found[name] for name in UPLOADED}
    plain = {**about["upload"], "again": again}
    if about["model"] != model:
        raise OrderRefused(
            f"round {plain['round']} was uploaded from another model; begin under another folder, or go on from the "
            "checkpoint that this client knows"
        )
    return Upload(**plain, **arrays)
