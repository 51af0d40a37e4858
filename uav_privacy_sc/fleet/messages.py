"""What the server orders and what a client uploads, as plain values and as Flower's records."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

GRADIENT, FEATURES = "gradient", "features"
STRATEGIES = (GRADIENT, FEATURES)
#: The arrays of an upload.
UPLOADED = ("indices", "values", "features")


class Malformed(ValueError):
    """A message that is not what it should be; one line."""


@dataclass(frozen=True)
class Order:
    """What a client is asked for in a round.

    Attributes:
        method: name of the method that is run; a client refuses one that it does not know.
        round, attempt: numbers from 0; an order of another attempt asks for the same upload again.
        strategy: ``gradient`` or ``features``.
        entries: S_k, the numbers that the uplink carries.
        weights: (N,) float32, the global model.
    """

    method: str
    round: int
    attempt: int
    client: int
    strategy: str
    entries: int
    weights: np.ndarray

    def record(self) -> RecordDict:
        """Return it as a message's content."""
        plain = {name: value for name, value in vars(self).items() if name != "weights"}
        return RecordDict({"order": ConfigRecord(plain), "weights": _arrays({"weights": self.weights})})

    @staticmethod
    def read(content: RecordDict) -> Order:
        """Return what an order says.

        Raises:
            Malformed: it is none.
        """
        plain, arrays = _plain(content, "order"), _numpy(content, "weights")
        try:
            found = Order(weights=arrays["weights"], **plain)
        except (TypeError, KeyError) as error:
            raise Malformed(f"this is no order of this version: {error}") from None
        if found.strategy not in STRATEGIES:
            raise Malformed(f"strategy is {found.strategy!r}; choose one of {', '.join(STRATEGIES)}")
        return found


@dataclass(frozen=True)
class Upload:
    """What a client gives for a round; ``bound`` and sigmas are what it says that it was made with.

    Attributes:
        size: length of the vector that was made private: N, or the encoder's part of it.
        samples: |D_k|.
        again: whether it was stored and is sent once more, so that nothing was spent.
        indices, values: of the sparse update; empty with features.
        features: (M, d) float32 of public pictures; empty with an update.
    """

    client: int
    round: int
    strategy: str
    size: int
    samples: int
    sigma_1: float
    sigma_2: float
    bound: float
    again: bool
    indices: np.ndarray
    values: np.ndarray
    features: np.ndarray

    def record(self) -> RecordDict:
        """Return it as a message's content."""
        plain = {name: value for name, value in asdict(self).items() if name not in UPLOADED}
        arrays = {name: getattr(self, name) for name in UPLOADED}
        return RecordDict({"upload": ConfigRecord(plain), "arrays": _arrays(arrays)})

    @staticmethod
    def read(content: RecordDict) -> Upload:
        """Return what an upload says, unchecked (:mod:`uav_privacy_sc.fleet.faults` does that).

        Raises:
            Malformed: it is none.
        """
        try:
            found: dict[str, Any] = {**_plain(content, "upload"), **_numpy(content, "arrays")}
            return Upload(**found)
        except TypeError as error:
            raise Malformed(f"this is no upload of this version: {error}") from None


def _arrays(found: dict[str, np.ndarray]) -> ArrayRecord:
    return ArrayRecord({name: Array(np.ascontiguousarray(value)) for name, value in found.items()})


def _numpy(content: RecordDict, name: str) -> dict[str, np.ndarray]:
    if name not in content.array_records:
        raise Malformed(f"a message without {name}")
    try:
        return {key: value.numpy() for key, value in content.array_records[name].items()}
    except (ValueError, OSError, EOFError) as error:
        raise Malformed(f"arrays that cannot be read: {error}") from None


def _plain(content: RecordDict, name: str) -> dict[str, Any]:
    if name not in content.config_records:
        raise Malformed(f"a message without {name}")
    return dict(content.config_records[name])
