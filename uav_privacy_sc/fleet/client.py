"""What a client does with an order: train, clip, make private, write down what that spends, and only then send."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from uav_privacy_sc.fleet.accounting import UploadAccount, UploadCost, ledger_path
from uav_privacy_sc.fleet.data import ClientData
from uav_privacy_sc.fleet.learning import local_update, private_features
from uav_privacy_sc.fleet.messages import FEATURES, UPLOADED, Order, Upload
from uav_privacy_sc.fleet.model import Trainee
from uav_privacy_sc.fleet.setting import TRAINING, FleetSetting, Method

LEDGERS, UPLOADS = "ledgers", "uploads"


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
    """

    number: int
    setting: FleetSetting
    method: Method
    trainee: Trainee
    data: ClientData
    folder: Path
    ceiling: float | None = None

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
        account = UploadAccount(ledger_path(ledgers, self.number), self.folder / UPLOADS, self.number, self.ceiling)
        try:
            stored = account.upload(order.round, self._cost(order), make, str(order.attempt))
        finally:
            account.close()
        return from_bytes(stored, model, again=not made)

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
        if not 1 <= order.entries <= self.trainee.size:
            raise OrderRefused(f"entries is {order.entries}; give 1 to {self.trainee.size}")

    def _cost(self, order: Order) -> UploadCost:
        mechanism, seeded = self.method.mechanism(order.strategy), self.setting.seed is not None
        return UploadCost(mechanism, order.strategy, order.entries, self.trainee.size, self.method.bound, seeded)

    def _make(self, order: Order) -> Upload:
        """Train and release. All that is drawn follows from seed, round and client, whatever happened before."""
        setting, mechanism = self.setting, self.method.mechanism(order.strategy)
        rng = setting.rng(TRAINING, order.round, self.number)
        noise = setting.release_rng(order.round, self.number)
        update = local_update(self.trainee, order.weights, self.data.images, setting.client, order.round, rng)
        indices: np.ndarray = np.zeros(0, np.int64)
        values: np.ndarray = np.zeros(0, np.float32)
        features: np.ndarray = np.zeros((0, self.trainee.feature_size), np.float32)
        size = self.trainee.size
        if order.strategy == FEATURES:
            size = self.trainee.encoder_size
            public = self.data.public[rng.permutation(len(self.data.public))]
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
