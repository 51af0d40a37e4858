"""The ledger: a SQLite file of expenditures that only grows, and shows when a row was touched.

Every row carries a hash over its content and the hash before it. Triggers refuse to update or delete rows, and a head
row (last sequence number and hash) moves in the same transaction, so a removed tail shows too. With a key the hashes
are keyed, and whoever can write the file but lacks the key cannot forge a chain. A whole file replaced by an older copy
of itself is noticed while the odometer runs; across a restart only a copy kept elsewhere can show that.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

APPLICATION_ID = 0x55415650
GENESIS = "0" * 64

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE release (sequence INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TABLE head (id INTEGER PRIMARY KEY CHECK (id = 1), sequence INTEGER NOT NULL, hash TEXT NOT NULL);
INSERT INTO head VALUES (1, 0, '{GENESIS}');
CREATE TRIGGER release_fixed BEFORE UPDATE ON release BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER release_kept BEFORE DELETE ON release BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_kept BEFORE DELETE ON head BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
CREATE TRIGGER head_grows BEFORE UPDATE ON head WHEN NEW.sequence <> OLD.sequence + 1
  BEGIN SELECT RAISE(ABORT, 'the ledger only grows'); END;
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
                self._connection.execute("UPDATE head SET sequence = ?, hash = ?", (sequence, digest))
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise self._failed("written", error) from error
        self.sequence, self._hash = sequence, digest
        return sequence

    def rows(self) -> Iterator[dict[str, object]]:
        """Yield every row's content in order, checking the chain on the way.

        Raises:
            LedgerError: a row is missing, changed or out of order, or the head does not match the last row.
        """
        sequence, digest = 0, GENESIS
        try:
            head = self._connection.execute("SELECT sequence, hash FROM head").fetchone()
            for number, text, stored in self._connection.execute(
                "SELECT sequence, content, hash FROM release ORDER BY sequence"
            ):
                sequence += 1
                digest = self._digest(sequence, text, digest)
                if number != sequence or stored != digest:
                    raise LedgerError(f"ledger {self.path}: row {sequence} was changed or removed, or the key is wrong")
                yield json.loads(text)
        except (sqlite3.Error, ValueError) as error:
            raise self._failed("read", error) from error
        if head is None or tuple(head) != (sequence, digest):
            raise LedgerError(f"ledger {self.path}: rows after {sequence} were removed")
        self.sequence, self._hash = sequence, digest

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
            self._connection.executescript(_SCHEMA)

    def _check_head(self, head: tuple[int, str] | None) -> None:
        if head is None or tuple(head) != (self.sequence, self._hash):
            raise LedgerError(f"ledger {self.path} was changed by someone else; only one odometer may write it")

    def _digest(self, sequence: int, text: str, previous: str) -> str:
        return hashlib.blake2b(f"{sequence}\n{previous}\n{text}".encode(), key=self._key, digest_size=32).hexdigest()

    def _failed(self, what: str, error: Exception) -> LedgerError:
        return LedgerError(f"ledger {self.path} cannot be {what}: {error}")
