"""The ledger: a SQLite file of expenditures that only grows, and shows when a row was touched.

Every row carries a hash over its content and the hash before it. Triggers refuse to update, delete or replace rows,
and a head row (last sequence number and a seal over it and the last hash) moves in the same transaction, so a removed
tail shows too. With a key hashes and seal are keyed, and whoever can write the file but lacks the key can neither forge
a chain nor seal a shorter one. A file changed, removed or replaced while the odometer runs is noticed at the next
release; across a restart only a copy kept elsewhere can show that an older copy has taken its place.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from pathlib import Path

APPLICATION_ID = 0x55415650
GENESIS = "0" * 64

_REFUSE = "BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;"
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE release (sequence INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (1, 0, '%s');
CREATE TRIGGER release_next BEFORE INSERT ON release WHEN NEW.sequence <> (SELECT sequence FROM head) + 1 {_REFUSE}
CREATE TRIGGER release_fixed BEFORE UPDATE ON release {_REFUSE}
CREATE TRIGGER release_kept BEFORE DELETE ON release {_REFUSE}
CREATE TRIGGER head_alone BEFORE INSERT ON head {_REFUSE}
CREATE TRIGGER head_kept BEFORE DELETE ON head {_REFUSE}
CREATE TRIGGER head_grows BEFORE UPDATE ON head WHEN NEW.sequence <> OLD.sequence + 1 {_REFUSE}
PRAGMA application_id = {APPLICATION_ID};
COMMIT;
"""


class LedgerError(RuntimeError):
    """The ledger cannot be written or cannot be trusted: nothing may be released."""


class Ledger:
    """An append-only chain of JSON objects on disk, or in memory when ``path`` is None.

    Args:
        path: file to open or create; its folder must exist.
        key: secret of at most 64 bytes that keys the hash chain, or None.
        busy_timeout_s: how long to wait for a lock before giving up.

    Raises:
        LedgerError: no such folder, not a ledger, locked, damaged or tampered with.
        ValueError: a key that is too long.
    """

    def __init__(self, path: Path | None = None, key: bytes | None = None, busy_timeout_s: float = 1.0) -> None:
        self.path = path
        self._key = key or b""
        if len(self._key) > 64:
            raise ValueError(f"key must have at most 64 bytes, got {len(self._key)}; use 32 random bytes")
        self.sequence, self._hash = 0, GENESIS
        name = ":memory:" if path is None else str(path)
        try:
            self._connection = sqlite3.connect(
                name, timeout=busy_timeout_s, isolation_level=None, check_same_thread=False
            )
            self._prepare()
            self._files = self._identity()
        except sqlite3.Error as error:
            raise self._failed("opened", error) from error

    def append(self, content: dict[str, object]) -> int:
        """Write one row and sync it to disk before returning its sequence number.

        Raises:
            LedgerError: the disk is full, the file is locked, or someone else has changed it; nothing was written.
        """
        text = json.dumps(content, separators=(",", ":"), sort_keys=True)
        sequence = self.sequence + 1
        digest = self._digest(sequence, text, self._hash)
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._check_head(self._connection.execute("SELECT sequence, hash FROM head").fetchone())
                self._connection.execute("INSERT INTO release VALUES (?, ?, ?)", (sequence, text, digest))
                self._connection.execute(
                    "UPDATE head SET sequence = ?, hash = ?", (sequence, self._seal(sequence, digest))
                )
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed("written", error) from error
        self.sequence, self._hash = sequence, digest
        return sequence

    def load(self) -> list[dict[str, object]]:
        """Return every row's content in order and go on from the last one; :meth:`append` only after it.

        Raises:
            LedgerError: as for :meth:`rows`.
        """
        contents, self.sequence, self._hash = self._read()
        return contents

    def rows(self) -> list[dict[str, object]]:
        """Return every row's content in order, as it is on disk now, checking the chain on the way.

        Raises:
            LedgerError: a row is missing, changed or out of order, or the head does not match the last row.
        """
        return self._read()[0]

    def close(self) -> None:
        """Close the file; everything in it is on disk already."""
        self._connection.close()

    def _prepare(self) -> None:
        tables = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if tables and self._connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
            raise LedgerError(f"{self.path} is a database but no ledger; choose another path")
        if self.path is not None:
            self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        if not tables:
            self._connection.executescript(_SCHEMA % self._seal(0, GENESIS))

    def _read(self) -> tuple[list[dict[str, object]], int, str]:
        """Return contents, last sequence number and last hash of one moment, whoever else is writing."""
        sequence, digest, contents = 0, GENESIS, []
        try:
            self._connection.execute("BEGIN")
            try:
                head = self._connection.execute("SELECT sequence, hash FROM head").fetchone()
                for number, text, stored in self._connection.execute("SELECT * FROM release ORDER BY sequence"):
                    sequence += 1
                    digest = self._digest(sequence, text, digest)
                    if number != sequence or stored != digest:
                        raise LedgerError(
                            f"ledger {self.path}: row {sequence} was changed or removed, or the key is wrong"
                        )
                    contents.append(json.loads(text))
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
        except (sqlite3.Error, ValueError) as error:
            raise self._failed("read", error) from error
        if head is None or tuple(head) != (sequence, self._seal(sequence, digest)):
            raise LedgerError(f"ledger {self.path}: rows after {sequence} were removed, or the key is wrong")
        return contents, sequence, digest

    def _check_head(self, head: tuple[int, str] | None) -> None:
        if head is None or tuple(head) != (self.sequence, self._seal(self.sequence, self._hash)):
            raise LedgerError(f"ledger {self.path} was changed by someone else; only one odometer may write it")
        if self._identity() != self._files:
            raise LedgerError(f"ledger {self.path} was removed or replaced; what is written now would be lost")

    def _identity(self) -> list[tuple[int, int] | None]:
        """Return which files lie under the names of the database and its write-ahead log."""
        if self.path is None:
            return []
        return [_file_identity(name) for name in (str(self.path), f"{self.path}-wal")]

    def _seal(self, sequence: int, digest: str) -> str:
        """Return what the head says about the last row: with a key, something that no row of the file gives away."""
        return self._digest(sequence, "head", digest) if self._key else digest

    def _digest(self, sequence: int, text: str, previous: str) -> str:
        return hashlib.blake2b(f"{sequence}\n{previous}\n{text}".encode(), key=self._key, digest_size=32).hexdigest()

    def _failed(self, what: str, error: Exception) -> LedgerError:
        return LedgerError(f"ledger {self.path} cannot be {what}: {error}")


def _file_identity(name: str) -> tuple[int, int] | None:
    try:
        status = os.stat(name)
    except OSError:
        return None
    return status.st_dev, status.st_ino
