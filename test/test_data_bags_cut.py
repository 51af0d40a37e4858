"""Bags that were cut off, lost their metadata, are damaged inside or empty: what can be read is read, the rest said."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from rosbags.rosbag2 import CompressionFormat, CompressionMode, StoragePlugin, Writer
from test_data_bags import STORE, _bag, _raw, _refusal

from uav_privacy_sc.data.bags import Bag
from uav_privacy_sc.data.sources import open_source

FRAMES = 24
PIXELS = np.random.default_rng(5).integers(0, 255, (FRAMES, 60, 80, 3), np.uint8)


def _flight(path: Path, storage: StoragePlugin, zstd: bool = False) -> tuple[Path, Path]:
    """A bag with a picture every 0.1 s; its folder and its storage file. The writer makes a chunk of each megabyte."""
    writer = Writer(path, version=8, storage_plugin=storage)
    if zstd:
        writer.set_compression(CompressionMode.STORAGE, CompressionFormat.ZSTD)
    with writer:
        kind = "sensor_msgs/msg/Image"
        connection = writer.add_connection("/camera/image_raw", kind, typestore=STORE)
        for number, pixels in enumerate(PIXELS):
            stamp = 10**9 + number * 10**8
            message = _raw(np.repeat(np.repeat(pixels, 4, 0), 4, 1), stamp_ns=stamp)
            writer.write(connection, stamp, STORE.serialize_cdr(message, kind))
    (file,) = (child for child in path.iterdir() if child.suffix in (".mcap", ".db3"))
    return path, file


def _read(path: Path) -> tuple[list[int], list[str]]:
    """Stamps of the frames in 0.1 s since the first, each checked against what was written; and the notes."""
    with open_source(path) as source:
        frames = list(source)
        notes = list(source.notes)
    numbers = []
    for frame in frames:
        if frame.image is not None:
            numbers.append((frame.stamp_ns - 10**9) // 10**8)
            np.testing.assert_array_equal(frame.image[::4, ::4], PIXELS[numbers[-1]])
    return numbers, notes + [frame.error for frame in frames if frame.error]


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_bag_cut_in_half_gives_its_first_half_and_says_what_is_lost(tmp_path: Path, storage: StoragePlugin) -> None:
    bag, file = _flight(tmp_path / "bag", storage)
    os.truncate(file, file.stat().st_size // 2)
    numbers, notes = _read(bag)
    assert 9 <= len(numbers) <= 12 and numbers == list(range(len(numbers)))
    (note,) = notes
    assert (
        f"{len(numbers)} messages of /camera/image_raw are read, {FRAMES - len(numbers)} of {FRAMES} are lost" in note
    )
    (bag / "metadata.yaml").unlink()
    again, (note,) = _read(bag)
    assert again == numbers and "how many are lost nobody can tell" in note
    assert _read(file)[0] == numbers


def test_chunks_that_were_compressed_are_read_up_to_the_cut(tmp_path: Path) -> None:
    bag, file = _flight(tmp_path / "bag", StoragePlugin.MCAP, zstd=True)
    os.truncate(file, file.stat().st_size * 3 // 4)
    numbers, notes = _read(bag)
    assert 12 <= len(numbers) < FRAMES and numbers == list(range(len(numbers)))
    assert "cut off" in notes[0]


def test_only_the_index_is_missing_and_nothing_is_lost(tmp_path: Path) -> None:
    bag, file = _flight(tmp_path / "bag", StoragePlugin.MCAP)
    os.truncate(file, file.stat().st_size - 40)
    numbers, notes = _read(bag)
    assert numbers == list(range(FRAMES)) and f"0 of {FRAMES} are lost" in notes[0]


def test_a_damaged_chunk_in_the_middle_costs_its_own_messages_only(tmp_path: Path) -> None:
    bag, file = _flight(tmp_path / "bag", StoragePlugin.MCAP, zstd=True)
    content = bytearray(file.read_bytes())
    compressed = content.index(b"\x28\xb5\x2f\xfd", len(content) // 2)  # where a zstd frame begins
    content[compressed : compressed + 200] = bytes(200)
    file.write_bytes(content)
    numbers, notes = _read(bag)
    assert numbers[0] == 0 and numbers[-1] == FRAMES - 1 and 12 <= len(numbers) < FRAMES
    assert f"{FRAMES - len(numbers)} of {FRAMES} messages are lost" in notes[0]


def test_rows_in_the_write_ahead_log_of_a_killed_recorder_are_read(tmp_path: Path) -> None:
    bag, file = _flight(tmp_path / "whole", StoragePlugin.SQLITE3)
    killed = tmp_path / "killed"
    killed.mkdir()
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA wal_autocheckpoint=0")
        database.execute("DELETE FROM messages WHERE id > 20")
        database.commit()
        for end in ("", "-wal"):  # what lies on the disk while the recorder still runs
            (killed / f"bag_0.db3{end}").write_bytes(Path(f"{file}{end}").read_bytes())
    numbers, notes = _read(killed)
    assert numbers == list(range(20))
    assert "recorder was killed" in notes[0]
    database.close()


def test_a_split_bag_without_metadata_is_read_through_all_its_files(tmp_path: Path) -> None:
    split = tmp_path / "split"
    split.mkdir()
    for number in (2, 10):
        _, file = _flight(tmp_path / f"part_{number}", StoragePlugin.MCAP)
        file.rename(split / f"bag_{number}.mcap")
    with open_source(split) as source:
        assert len(list(source)) == source.length == 2 * FRAMES
    os.truncate(split / "bag_10.mcap", 20)
    numbers, notes = _read(split)
    assert numbers == list(range(FRAMES)) and "not whole" in notes[0]


def test_bags_of_nothing_or_of_other_types_are_refused_in_one_line(tmp_path: Path) -> None:
    with Writer(tmp_path / "none", version=9, storage_plugin=StoragePlugin.MCAP):
        pass
    assert "has no topic" in _refusal(tmp_path / "none")
    with Writer(tmp_path / "silent", version=9, storage_plugin=StoragePlugin.SQLITE3) as writer:
        writer.add_connection("/camera/image_raw", "sensor_msgs/msg/Image", typestore=STORE)
    assert "holds no message" in _refusal(tmp_path / "silent")
    text = STORE.types["std_msgs/msg/String"](data="x")
    assert "it holds std_msgs/msg/String" in _refusal(_bag(tmp_path / "words", {"/words": [text]}))
    (tmp_path / "notes.db3").write_text("not a database at all, but long enough to look like a file of one")
    assert "cannot be read" in _refusal(tmp_path / "notes.db3")


def test_messages_of_a_cut_bag_read_as_their_types(tmp_path: Path) -> None:
    text = STORE.types["std_msgs/msg/String"](data="over")
    bag = _bag(tmp_path / "bag", {"/camera/image_raw": [_raw(PIXELS[0])], "/words": [text, text]})
    (file,) = bag.glob("*.mcap")
    os.truncate(file, file.stat().st_size - 40)
    with Bag(bag) as opened:
        assert [topic.messages for topic in opened.topics] == [1, 2]
        assert [opened.read(message).data for message in opened.messages(["/words"])] == ["over", "over"]
