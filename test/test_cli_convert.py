"""``convert``: every kind of source to a rosbag2 that plays with the right stamps, types and QoS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import yaml
from PIL import Image
from rosbags.highlevel import AnyReader
from rosbags.interfaces import QosReliability

from uav_privacy_sc.cli import main
from uav_privacy_sc.data.sources import open_source

ROOT = Path(__file__).parents[1]
AUAIR_TIME = {"year": 2019, "month": 8, "day": 29, "hour": 9, "min": 11, "sec": 11}
#: 2019-08-29 09:11:11 UTC
AUAIR_BEGIN_NS = 1_567_069_871 * 10**9


def _picture(path: Path, seed: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 255, (40, 64, 3), np.uint8)
    Image.fromarray(pixels).save(path, **({"quality": 90} if path.suffix == ".jpg" else {}))
    return path.read_bytes()


def _messages(bag: Path) -> dict[str, list]:
    found: dict[str, list] = {}
    with AnyReader([bag]) as reader:
        for connection, time_ns, data in reader.messages():
            message = reader.deserialize(data, connection.msgtype)
            found.setdefault(connection.topic, []).append((time_ns, message))
    return found


def _stamps(messages: list) -> list[int]:
    for time_ns, message in messages:
        assert message.header.stamp.sec * 10**9 + message.header.stamp.nanosec == time_ns
    return [time_ns for time_ns, _ in messages]


def _video(root: Path, numbers: tuple[int, ...]) -> Path:
    for number in numbers:
        _picture(root / "sequences" / "uav1" / f"{number:07d}.jpg", number)
    (root / "annotations").mkdir()
    rows = "".join(f"{number},1,10,10,20,8,1,4,0,0\n" for number in numbers)
    (root / "annotations" / "uav1.txt").write_text(rows)
    return root


def test_jpeg_files_are_passed_through_byte_for_byte_at_a_slide_a_second(tmp_path: Path) -> None:
    files = [_picture(tmp_path / "det" / "images" / f"{number}.jpg", number) for number in range(3)]
    (tmp_path / "det" / "annotations").mkdir()
    assert main(["convert", str(tmp_path / "det"), str(tmp_path / "bag")]) == 0
    (messages,) = _messages(tmp_path / "bag").values()
    assert [bytes(message.data) for _, message in messages] == files
    assert {(message.format, message.header.frame_id) for _, message in messages} == {("jpeg", "camera")}
    assert _stamps(messages) == [10**9, 2 * 10**9, 3 * 10**9]


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_a_video_flies_at_its_rate_and_a_missing_frame_leaves_its_gap(tmp_path: Path, storage: str) -> None:
    root = _video(tmp_path / "vid", (1, 2, 5))
    assert main(["convert", str(root), str(tmp_path / "bag"), "--raw", "--storage", storage]) == 0
    (messages,) = _messages(tmp_path / "bag").values()
    assert np.allclose(np.diff(_stamps(messages)), [1e9 / 30, 3e9 / 30], atol=1)
    assert {(message.encoding, message.step) for _, message in messages} == {("rgb8", 64 * 3)}
    assert main(["convert", str(root), str(tmp_path / "slow"), "--rate", "10"]) == 0
    (messages,) = _messages(tmp_path / "slow").values()
    assert _stamps(messages) == [10**9, 11 * 10**8, 14 * 10**8]


def test_metadata_offers_reliable_pictures_in_a_version_that_humble_reads(tmp_path: Path) -> None:
    root = _video(tmp_path / "vid", (1, 2))
    assert main(["convert", str(root), str(tmp_path / "bag")]) == 0
    about = yaml.safe_load((tmp_path / "bag" / "metadata.yaml").read_text())["rosbag2_bagfile_information"]
    assert about["version"] == 8 and about["storage_identifier"] == "mcap" and about["message_count"] == 2
    (row,) = about["topics_with_message_count"]
    (offered,) = yaml.safe_load(row["topic_metadata"]["offered_qos_profiles"])
    assert (offered["reliability"], offered["durability"], offered["history"]) == (1, 2, 1)
    with AnyReader([tmp_path / "bag"]) as reader:
        (profile,) = reader.connections[0].ext.offered_qos_profiles
    assert profile.reliability is QosReliability.RELIABLE and profile.depth == 10


def _auair(root: Path, **changes: object) -> Path:
    entries = []
    for number in (1, 6, 7):
        name = f"frame_20190829091111_x_{number:07d}.jpg"
        _picture(root / "images" / name, number)
        entries.append(
            {
                "image_name": name,
                "image_width": 64.0,
                "image_height": 40.0,
                "time": {**AUAIR_TIME, "ms": 200.0 * (number - 1)},
                "longtitude": 10.18 + number / 1000,
                "latitude": 56.2,
                "altitude": 15077.8,
                "bbox": [{"top": 4, "left": 8, "height": 10, "width": 16, "class": 1}],
                **changes,
            }
        )
    document = {"categories": ["Human", "Car"], "annotations": entries}
    (root / "annotations.json").write_text(json.dumps(document))
    return root


def test_au_air_keeps_its_clock_and_its_positions(tmp_path: Path) -> None:
    assert main(["convert", str(_auair(tmp_path / "auair")), str(tmp_path / "bag"), "--truth"]) == 0
    messages = _messages(tmp_path / "bag")
    wanted = [AUAIR_BEGIN_NS + offset * 10**9 // 10 for offset in (0, 10, 12)]
    for topic in ("/camera/image_raw/compressed", "/gps/fix", "/truth/objects"):
        assert _stamps(messages[topic]) == wanted
    fix = messages["/gps/fix"][1][1]
    assert (fix.latitude, round(fix.longitude, 6), fix.altitude) == (56.2, 10.186, 15.0778)
    assert fix.position_covariance_type == 0
    truth = messages["/truth/objects"][0][1]
    assert [field.name for field in truth.fields] == ["x", "y", "z", "w", "h", "score", "label", "cell"]
    values = np.frombuffer(truth.data, "<f4")[:5]
    np.testing.assert_allclose(values, [16 / 64, 9 / 40, 0, 16 / 64, 10 / 40], rtol=1e-6)


def test_places_that_are_none_are_left_out_and_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = _auair(tmp_path / "auair", latitude=956.2)
    assert main(["convert", str(root), str(tmp_path / "bag")]) == 0
    assert "/gps/fix" not in _messages(tmp_path / "bag")
    assert "3 entries" in capsys.readouterr().err


def test_truth_is_not_in_a_bag_unless_asked_for(tmp_path: Path) -> None:
    assert main(["convert", str(_auair(tmp_path / "auair")), str(tmp_path / "bag")]) == 0
    assert set(_messages(tmp_path / "bag")) == {"/camera/image_raw/compressed", "/gps/fix"}


def test_a_broken_picture_is_left_out_counted_and_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(3):
        _picture(tmp_path / "in" / f"{number}.png", number)
    (tmp_path / "in" / "1.png").write_bytes(b"no picture")
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "bag"), "--json"]) == 0
    printed = capsys.readouterr()
    facts = json.loads(printed.out)
    assert (facts["frames"], facts["broken"]) == (2, 1)
    assert "1.png" in printed.err
    (messages,) = _messages(tmp_path / "bag").values()
    assert _stamps(messages) == [10**9, 12 * 10**8]


def test_png_files_pass_through_and_anything_else_becomes_jpeg(tmp_path: Path) -> None:
    png = _picture(tmp_path / "in" / "0.png", 0)
    _picture(tmp_path / "in" / "1.bmp", 1)
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "bag"), "--compressed"]) == 0
    (((_, first), (_, second)),) = _messages(tmp_path / "bag").values()
    assert (first.format, bytes(first.data)) == ("png", png)
    assert second.format == "jpeg" and bytes(second.data[:3]) == b"\xff\xd8\xff"


def test_nothing_is_overwritten_without_force_and_only_bags_with_it(tmp_path: Path, capsys) -> None:
    _picture(tmp_path / "in" / "0.png", 0)
    bag, call = tmp_path / "bag", ["convert", str(tmp_path / "in"), str(tmp_path / "bag")]
    assert main(call) == 0
    before = (bag / "bag.mcap").stat().st_mtime_ns
    assert main(call) == 2
    assert (bag / "bag.mcap").stat().st_mtime_ns == before
    assert main([*call, "--force"]) == 0
    (bag / "thesis.txt").write_text("all I have")
    assert main([*call, "--force"]) == 2
    assert (bag / "thesis.txt").is_file()
    assert main(["convert", str(bag), str(bag), "--force"]) == 2
    assert (bag / "bag.mcap").is_file()
    assert all("\n" not in line.strip() and "Traceback" not in line for line in capsys.readouterr().err.splitlines())


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--storage", "zip"), "mcap, sqlite3"),
        (("--rate", "nan"), "rate"),
        (("--frames", "0"), "frames"),
        (("--topic", "/a b"), "topic"),
    ],
)
def test_wrong_calls_end_in_one_line_and_leave_nothing(tmp_path: Path, capsys, options: tuple, word: str) -> None:
    _picture(tmp_path / "in" / "0.png", 0)
    assert main(["convert", str(tmp_path / "in"), str(tmp_path / "bag"), *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert word in line
    assert not (tmp_path / "bag").exists()


def test_ctrl_c_leaves_a_whole_bag_of_what_was_converted(tmp_path: Path) -> None:
    for number in range(400):
        _picture(tmp_path / "in" / f"{number}.png", number % 3)
    words = [sys.executable, "-m", "uav_privacy_sc", "convert", str(tmp_path / "in"), str(tmp_path / "bag"), "--json"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "bag").glob("*.mcap")) and time.monotonic() < deadline:
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    printed, complaints = process.communicate(timeout=60)
    assert process.returncode == 0 and "Traceback" not in complaints
    frames = json.loads(printed)["frames"]
    assert 0 < frames < 400 and f"interrupted after {frames} pictures" in complaints
    with open_source(tmp_path / "bag") as source:
        assert len(list(source)) == frames and not source.notes
