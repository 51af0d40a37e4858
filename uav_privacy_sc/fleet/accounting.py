"""What a client's uploads have cost: in the ledger before an upload leaves, never twice for the same upload.

One ledger file a client. Clients hold different data, so a fleet's epsilon is that of its worst client. Which clients
take part, how much they send (S_k) and how many pictures they have (p_k) is known to the server and in no figure here;
no amplification by sampling is claimed for that reason.
"""

from __future__ import annotations

import fcntl
import hashlib
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from uav_privacy_sc.privacy.accountant import BudgetExhausted
from uav_privacy_sc.privacy.domain import choice, positive, whole
from uav_privacy_sc.privacy.ledger import Ledger, LedgerError
from uav_privacy_sc.privacy.oneshot import STRATEGIES, OneshotLaplace, paper_epsilon
from uav_privacy_sc.privacy.oneshot_composition import composed_epsilon

#: What a row of such a ledger says it is.
KIND = "fleet upload"
#: Failure probability at which reports compose.
DELTA = 1e-5


class CeilingReached(BudgetExhausted):
    """The upload would pass the client's ceiling: it must not be made."""


class UploadLost(RuntimeError):
    """The upload was paid for and is not there any more: it cannot be repeated, only another round can be joined."""


@dataclass(frozen=True)
class UploadCost:
    """What one upload costs.

    Attributes:
        mechanism: that makes it; for features its bound is that of the encoder.
        strategy: "gradient" or "features".
        count: S_k, the uplink budget in numbers.
        size: N, parameters of the whole model.
        bound: G, the L1 bound of the whole update, for the paper's figure.
        seeded: the noise came from a seed: an experiment, not private.

    Raises:
        ValueError: a value out of range.
    """

    mechanism: OneshotLaplace
    strategy: str
    count: int
    size: int
    bound: float
    seeded: bool = False

    def __post_init__(self) -> None:
        choice("strategy", self.strategy, STRATEGIES)
        object.__setattr__(self, "count", whole("count", self.count))
        object.__setattr__(self, "size", whole("size", self.size))
        object.__setattr__(self, "bound", float(positive("bound", self.bound)))
        object.__setattr__(self, "seeded", bool(self.seeded))
        if self.count > self.size:
            raise ValueError(f"count={self.count} must be at most size={self.size}")

    @property
    def epsilon(self) -> float:
        """Pure epsilon that holds for any two neighbours."""
        return self.mechanism.worst_case_epsilon

    @property
    def paper_epsilon(self) -> float:
        """What P3's Theorem 1 says for the same upload."""
        sigmas = self.mechanism.sigma_1, self.mechanism.sigma_2
        return paper_epsilon(self.count, self.bound, self.size, *sigmas, self.strategy)


@dataclass(frozen=True)
class ClientSpending:
    """What one client has spent: for its costliest round, and over all rounds.

    ``paper`` figures are Theorem 1's and their sum. ``round_epsilon`` and ``epsilon`` are pure and hold for any two
    neighbours; ``epsilon_at_delta`` holds up to ``delta``.
    """

    client: int
    uploads: int
    seeded: int
    paper_round: float
    paper: float
    round_epsilon: float
    epsilon: float
    epsilon_at_delta: float
    delta: float
    last_round: int


@dataclass(frozen=True)
class FleetSpending:
    """All clients' spending; the fleet's is the worst client's, as their data are apart."""

    clients: tuple[ClientSpending, ...]
    delta: float

    @property
    def uploads(self) -> int:
        """Uploads of all clients."""
        return sum(client.uploads for client in self.clients)

    def worst(self, name: str) -> float:
        """Return the largest of a field of :class:`ClientSpending` over the clients, 0 without any."""
        return max((getattr(client, name) for client in self.clients), default=0.0)

    def summary(self) -> dict[str, Any]:
        """Return the fleet's figures and every client's, for JSON."""
        names = ("paper_round", "paper", "round_epsilon", "epsilon", "epsilon_at_delta")
        fleet = {name: self.worst(name) for name in names}
        return {
            "delta": self.delta,
            "uploads": self.uploads,
            "fleet": fleet,
            "clients": [asdict(c) for c in self.clients],
        }


class UploadAccount:
    """A client's uploads: paid for and stored before they leave, given out again when asked for again.

    Args:
        ledger: the client's ledger file, created when missing; None keeps it in memory.
        uploads: folder for the uploads themselves; None keeps them in memory.
        client: the client's number.
        ceiling_epsilon: what the sum of its pure epsilons may not pass, or None.
        elsewhere: epsilon that other ledgers have spent on the same data; the ceiling counts it.
        key: secret that keys the ledger's hash chain, or None.
        keep: how many of the last uploads stay stored.

    Raises:
        ValueError: a value out of range, or a ledger of another client.
        LedgerError: the ledger cannot be opened, was tampered with, or is none of uploads.
    """

    def __init__(
        self,
        ledger: Path | None,
        uploads: Path | None,
        client: int,
        ceiling_epsilon: float | None = None,
        *,
        elsewhere: float = 0.0,
        key: bytes | None = None,
        keep: int = 3,
    ) -> None:
        if not (math.isfinite(elsewhere) and elsewhere >= 0):
            raise ValueError(f"elsewhere is {elsewhere}; it must be a number of at least 0")
        self._elsewhere = elsewhere
        self.client, self.keep = whole("client", client, 0), whole("keep", keep)
        self.ceiling_epsilon = None if ceiling_epsilon is None else float(positive("ceiling_epsilon", ceiling_epsilon))
        self._folder = None if uploads is None else Path(uploads)
        self._memory: dict[int, bytes] = {}
        self._lock = threading.Lock()
        self._ledger = Ledger(None if ledger is None else Path(ledger), key)
        self._rows = _check_rows(self._ledger.load(), ledger)
        owners = {row["client"] for row in self._rows}
        if owners - {self.client}:
            raise ValueError(f"ledger {ledger} is that of client {min(owners)}, not of {self.client}; give its own")

    def upload(self, round_: int, cost: UploadCost, make: Callable[[], bytes], attempt: str = "") -> bytes:
        """Return the upload of a round, paid for and stored; a repeated request gets the same bytes for nothing.

        Args:
            round_: the round; one upload each.
            cost: what it costs.
            make: makes the upload; called once at most, after the ceiling was checked.
            attempt: who asked, for the ledger.

        Raises:
            CeilingReached: it would pass the ceiling; nothing was made.
            UploadLost: it was paid for before and is not stored any more, or was changed.
            LedgerError: the ledger or the store could not be written; nothing may be sent.
        """
        round_ = whole("round", round_, 0)
        with self._lock:
            for row in self._rows:
                if row["round"] == round_:
                    return self._stored(round_, row["digest"])
            self._check_ceiling(cost)
            payload = make()
            self._store(round_, payload)
            row = self._row(round_, cost, attempt, payload)
            self._ledger.append(row)
            self._rows.append(row)
            self._forget()
            return payload

    def spending(self, delta: float) -> ClientSpending:
        """Return what was spent so far."""
        with self._lock:
            return client_spending(self.client, self._rows, delta)

    def remaining(self) -> float | None:
        """Return the pure epsilon left below the ceiling, never below 0; None without a ceiling."""
        if self.ceiling_epsilon is None:
            return None
        return max(0.0, self.ceiling_epsilon - self._spent())

    def close(self) -> None:
        """Close the ledger."""
        self._ledger.close()

    def _spent(self) -> float:
        return self._elsewhere + math.fsum(row["epsilon"] for row in self._rows)

    def _check_ceiling(self, cost: UploadCost) -> None:
        after = self._spent() + cost.epsilon
        if self.ceiling_epsilon is not None and not after <= self.ceiling_epsilon:
            raise CeilingReached(
                f"client {self.client}: epsilon would be {after:.4g}, above "
                f"ceiling_epsilon={self.ceiling_epsilon:.4g}; upload refused"
            )

    def _row(self, round_: int, cost: UploadCost, attempt: str, payload: bytes) -> dict[str, Any]:
        return {
            "kind": KIND,
            "client": self.client,
            "round": round_,
            "attempt": str(attempt),
            "strategy": cost.strategy,
            "count": cost.count,
            "size": cost.size,
            "mechanism": asdict(cost.mechanism),
            "paper_bound": cost.bound,
            "paper_epsilon": cost.paper_epsilon,
            "epsilon": cost.epsilon,
            "seeded": cost.seeded,
            "digest": _digest(payload),
        }

    def _path(self, round_: int) -> Path:
        assert self._folder is not None
        return self._folder / f"client-{self.client:06d}-round-{round_:06d}.upload"

    def _store(self, round_: int, payload: bytes) -> None:
        if self._folder is None:
            self._memory[round_] = bytes(payload)
            return
        path = self._path(round_)
        partial = path.with_suffix(".part")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(payload)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(path)
        except OSError as error:
            raise LedgerError(f"upload {path} cannot be stored: {error.strerror or error}; nothing was sent") from None

    def _stored(self, round_: int, digest: str) -> bytes:
        payload = self._memory.get(round_) if self._folder is None else _read(self._path(round_))
        if payload is None or _digest(payload) != digest:
            raise UploadLost(
                f"client {self.client}: the upload of round {round_} was paid for and is not stored any more; join a "
                "later round, or begin anew in another folder"
            )
        return payload

    def _forget(self) -> None:
        for row in self._rows[-self.keep - 1 : -self.keep]:
            self._memory.pop(row["round"], None)
            if self._folder is not None:
                self._path(row["round"]).unlink(missing_ok=True)


#: What of a row adds up.
_COSTS = {"client", "round", "mechanism", "seeded", "epsilon", "paper_epsilon"}


def ledger_path(folder: Path, client: int) -> Path:
    """Return where a client's ledger lies in a fleet's folder of ledgers."""
    return folder / f"client-{client:06d}.ledger"


def fleet_spending(ledgers: Path | Iterable[Path], delta: float, key: bytes | None = None) -> FleetSpending:
    """Return what the clients of these ledgers (a folder of them, or files) have spent.

    Raises:
        LedgerError: a ledger cannot be read, was tampered with, or is none of uploads.
        ValueError: a delta out of range.
    """
    paths = sorted(ledgers.glob("client-*.ledger")) if isinstance(ledgers, Path) and ledgers.is_dir() else ledgers
    clients = []
    for path in [paths] if isinstance(paths, Path) else paths:
        ledger = Ledger(path, key)
        try:
            rows = _check_rows(ledger.rows(), path)
        finally:
            ledger.close()
        for client in sorted({row["client"] for row in rows}):
            clients.append(client_spending(client, [row for row in rows if row["client"] == client], delta))
    return FleetSpending(tuple(clients), delta)


def spent_in(ledgers: Iterable[Path]) -> float:
    """Return the sum of the pure epsilons of all uploads in these ledgers: that of data that all of them are about.

    Raises:
        LedgerError: as for :func:`fleet_spending`.
    """
    return math.fsum(client.epsilon for client in fleet_spending(list(ledgers), DELTA).clients)


def together(folders: Iterable[Path], delta: float) -> FleetSpending:
    """Return what the clients of several folders of ledgers have spent, where a number is the same data in all.

    Raises:
        LedgerError: as for :func:`fleet_spending`.
    """
    rows: dict[int, list[dict[str, Any]]] = {}
    for path in sorted(path for folder in folders for path in folder.glob("client-*.ledger")):
        ledger = Ledger(path)
        try:
            for row in _check_rows(ledger.rows(), path):
                rows.setdefault(row["client"], []).append(row)
        finally:
            ledger.close()
    return FleetSpending(tuple(client_spending(client, rows[client], delta) for client in sorted(rows)), delta)


@contextmanager
def alone(folder: Path | None) -> Iterator[None]:
    """Hold a folder's lock, so that no two uploads pass a ceiling that each alone stays under; None: nothing."""
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def client_spending(client: int, rows: list[dict[str, Any]], delta: float) -> ClientSpending:
    """Return what rows of one client's ledger add up to."""
    used = Counter(OneshotLaplace(**row["mechanism"]) for row in rows)
    return ClientSpending(
        client,
        len(rows),
        sum(row["seeded"] for row in rows),
        max((row["paper_epsilon"] for row in rows), default=0.0),
        math.fsum(row["paper_epsilon"] for row in rows),
        max((row["epsilon"] for row in rows), default=0.0),
        math.fsum(row["epsilon"] for row in rows),
        composed_epsilon(used, delta),
        delta,
        max((row["round"] for row in rows), default=-1),
    )


def is_upload(row: Mapping[str, object]) -> bool:
    """Return whether a ledger's row is that of an upload."""
    return row.get("kind") == KIND


def holds_uploads(path: Path) -> bool:
    """Return whether a file is a ledger whose rows are uploads; False for any other, which its own reader will name."""
    try:
        ledger = Ledger(path)
    except LedgerError:
        return False
    try:
        return any(is_upload(row) for row in ledger.rows())
    except LedgerError:
        return False
    finally:
        ledger.close()


def _check_rows(rows: list[dict[str, object]], path: Path | None) -> list[dict[str, Any]]:
    if not all(is_upload(row) for row in rows):
        raise LedgerError(f"ledger {path} is that of a flight, not of a fleet's uploads; choose another path")
    if any(not set(row) >= _COSTS for row in rows):
        raise LedgerError(f"ledger {path} has an upload without its cost; it is not one that this version writes")
    return rows


def _digest(payload: bytes) -> str:
    return hashlib.blake2b(payload, digest_size=32).hexdigest()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
