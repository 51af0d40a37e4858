"""What can still be read of a rosbag2 storage file that was cut off: its recorder was killed, or its disk was full.

An MCAP file without its end has no index, so it is read from its beginning, record by record, up to where it stops. An
SQLite file that is shorter than it says is read in the order of its rows, up to the first page that is not there; what
a recorder had not yet moved out of the write-ahead log is read, too.
"""

from __future__ import annotations

import sqlite3
import struct
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import BinaryIO
from zlib import crc32

from rosbags.rosbag2.storage_mcap import DECOMPRESSORS

_MAGIC = b"\x89MCAP0\r\n"
_FOOTER, _SCHEMA, _CHANNEL, _MESSAGE, _CHUNK, _DATA_END = 0x02, 0x03, 0x04, 0x05, 0x06, 0x0F
_MESSAGE_HEAD = struct.Struct("<HIQQ")


class CutBagError(ValueError):
    """A storage file of which nothing can be read; one line."""


@dataclass(frozen=True)
class RawMessage:
    """One recorded message as it lies in the file: topic, type, time of its recording, CDR bytes."""

    topic: str
    msgtype: str
    time_ns: int
    data: bytes


class CutFile(ABC):
    """A damaged storage file.

    Attributes:
        path: the file.
        definitions: the ``.msg`` text of each type that the file defines.
        counts: messages that can be read, by ``(topic, type)``.
        span_ns: times of the first and the last of them, None where there is none.
        damage: what is wrong, in a few words; empty where the file is whole after all.

    Raises:
        CutBagError: nothing at all can be read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.definitions: dict[str, str] = {}
        self.topics: set[tuple[str, str]] = set()
        self.damage = ""
        self.counts: Counter[tuple[str, str]] = Counter()
        self.span_ns: tuple[int, int] | None = None
        for message in self.messages():
            self.counts[message.topic, message.msgtype] += 1
            low, high = self.span_ns or (message.time_ns, message.time_ns)
            self.span_ns = (min(low, message.time_ns), max(high, message.time_ns))
        if not self.topics:
            raise CutBagError(f"{path}: {self.damage or 'it holds no topic'}")

    @abstractmethod
    def messages(self) -> Iterator[RawMessage]:
        """Yield what can be read, in the order of the file."""


def open_cut_file(path: Path) -> CutFile:
    """Open an ``.mcap`` or ``.db3`` file that cannot be opened the usual way.

    Raises:
        CutBagError: nothing at all can be read.
    """
    return CutMcap(path) if path.suffix == ".mcap" else CutSqlite(path)


class CutMcap(CutFile):
    """An MCAP file without its end, or with damaged chunks, which are left out."""

    def messages(self) -> Iterator[RawMessage]:
        self._names: dict[int, str] = {}
        self._channels: dict[int, tuple[str, str]] = {}
        self.damage = ""
        try:
            with self.path.open("rb") as file:
                if file.read(len(_MAGIC)) != _MAGIC:
                    self.damage = "it does not begin as an MCAP file does"
                    return
                yield from self._records(file)
        except OSError as error:
            raise CutBagError(f"{self.path}: {error.strerror or error}") from None

    def _records(self, file: BinaryIO) -> Iterator[RawMessage]:
        while True:
            head = file.read(9)
            if len(head) < 9:
                self.damage = self.damage or "it was cut off"
                return
            operation, size = struct.unpack("<BQ", head)
            if operation in (_FOOTER, _DATA_END):
                return
            body = file.read(size) if operation <= _CHUNK else b""
            if operation > _CHUNK:
                file.seek(size, 1)  # indexes and attachments
            elif len(body) < size and operation != _CHUNK:
                self.damage = "it was cut off"
                return
            yield from self._record(operation, body)

    def _record(self, operation: int, body: bytes) -> Iterator[RawMessage]:
        try:
            if operation == _SCHEMA:
                self._schema(BytesIO(body))
            elif operation == _CHANNEL:
                self._channel(BytesIO(body))
            elif operation == _MESSAGE:
                yield self._message(body)
            elif operation == _CHUNK:
                yield from self._chunk(BytesIO(body))
        except Exception:  # parsers and decompressors that take damaged bytes at their word raise all kinds
            self.damage = "a part of it is damaged"

    def _chunk(self, body: BytesIO) -> Iterator[RawMessage]:
        body.seek(16)
        uncompressed, checksum = struct.unpack("<QI", body.read(12))
        compression = _text(body)
        (size,) = struct.unpack("<Q", body.read(8))
        stored = body.read()
        if compression and len(stored) < size:
            self.damage = "it was cut off"
            return
        records = BytesIO(DECOMPRESSORS[compression](stored, uncompressed))
        whole = len(stored) >= size
        if whole and (len(records.getbuffer()) != uncompressed or checksum not in (0, crc32(records.getbuffer()))):
            raise ValueError("a chunk is not what was written")
        yield from self._records_of(records)

    def _records_of(self, records: BytesIO) -> Iterator[RawMessage]:
        while head := records.read(9):
            operation, size = struct.unpack("<BQ", head.ljust(9, b"\xff"))
            body = records.read(min(size, len(records.getbuffer())))
            if len(head) < 9 or len(body) < size:
                self.damage = "it was cut off"
                return
            yield from self._record(operation, body)

    def _schema(self, body: BytesIO) -> None:
        (number,) = struct.unpack("<H", body.read(2))
        name, encoding, text = _text(body), _text(body), _text(body)
        self._names[number] = name
        if encoding == "ros2msg":
            self.definitions[name] = text

    def _channel(self, body: BytesIO) -> None:
        number, schema = struct.unpack("<HH", body.read(4))
        self._channels[number] = (_text(body), self._names[schema])
        self.topics.add(self._channels[number])

    def _message(self, body: bytes) -> RawMessage:
        channel, _, log_time, _ = _MESSAGE_HEAD.unpack_from(body)
        return RawMessage(*self._channels[channel], log_time, body[_MESSAGE_HEAD.size :])


def _text(body: BytesIO) -> str:
    (size,) = struct.unpack("<I", body.read(4))
    return body.read(size).decode()


class CutSqlite(CutFile):
    """An SQLite storage file that is shorter than it says, or whose last rows are in a write-ahead log beside it."""

    def messages(self) -> Iterator[RawMessage]:
        self.damage = ""
        try:
            with closing(self._connect()) as database:
                known = {row[0]: (row[1], row[2]) for row in database.execute("SELECT id, name, type FROM topics")}
                self.topics |= set(known.values())
                self._define(database)
                rows = "SELECT topic_id, timestamp, data FROM messages NOT INDEXED ORDER BY id"
                for topic, time_ns, data in database.execute(rows):
                    if topic in known:
                        yield RawMessage(*known[topic], time_ns, bytes(data))
        except sqlite3.Error as error:
            cut = "malformed" in str(error)
            self.damage = "it was cut off" if cut and self.topics else f"SQLite says: {error}"

    def _connect(self) -> sqlite3.Connection:
        """Open with the write-ahead log where there is one, and without what SQLite would write beside the file."""
        mode = "mode=ro" if has_log(self.path) else "immutable=1"
        database = sqlite3.connect(f"{self.path.resolve().as_uri()}?{mode}", uri=True)
        # SQLite refuses a file shorter than its header says, unless one claims to repair it.
        database.execute("PRAGMA writable_schema=ON")
        return database

    def _define(self, database: sqlite3.Connection) -> None:
        rows = "SELECT topic_type, encoding, encoded_message_definition FROM message_definitions"
        try:
            self.definitions |= {name: text for name, kind, text in database.execute(rows) if kind == "ros2msg"}
        except sqlite3.OperationalError:
            return  # recorded before Iron, without definitions


def has_log(path: Path) -> bool:
    """Return whether an SQLite file has rows in a write-ahead log, which only a recorder that was killed leaves."""
    log = path.with_name(f"{path.name}-wal")
    return log.is_file() and log.stat().st_size > 0
