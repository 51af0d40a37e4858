"""``protect``: what gets into the bag that is shared, what never does, and what happens when something goes wrong."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
from conftest import FakeStages
from rosbags.highlevel import AnyReader
from rosbags.rosbag2 import StoragePlugin, Writer
from test_data_bags import STORE, _header, _jpeg

from uav_privacy_sc.cli import main
from uav_privacy_sc.data import bag_file
from uav_privacy_sc.data.bag_file import BagFile, offered
from uav_privacy_sc.data.protected_bag import NotProtected, verify
from uav_privacy_sc.privacy.accountant import Odometer

pytest.importorskip("rclpy", reason="rclpy is not installed")

FRAMES = 4
SECRET = "secret_drone_17"
ALLOWED = {
    "/tx/features": "sensor_msgs/msg/Image",
    "/tx/objects": "sensor_msgs/msg/PointCloud2",
    "/tx/lattice_step": "std_msgs/msg/Float32",
}


def _pictures() -> list[np.ndarray]:
    rng = np.random.default_rng(8)
    pictures = [rng.integers(0, 255, (54, 96, 3), np.uint8) for _ in range(FRAMES)]
    for number, picture in enumerate(pictures):
        picture[0, 0, 0] = 10 + number
    return pictures


def _raw(pixels: np.ndarray, stamp_ns: int) -> object:
    head = _header(stamp_ns)
    head.frame_id = SECRET
    height, width = pixels.shape[:2]
    return STORE.types["sensor_msgs/msg/Image"](
        header=head,
        height=height,
        width=width,
        encoding="rgb8",
        is_bigendian=0,
        step=3 * width,
        data=pixels.reshape(-1),
    )


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A recorded flight: pictures raw and compressed, words, raw detections and a record of an earlier flight."""
    diagnostics = STORE.types["diagnostic_msgs/msg/DiagnosticArray"](header=_header(1), status=[])
    topics = {
        "/camera/image_raw": lambda number, pixels, stamp: _raw(pixels, stamp),
        "/front/compressed": lambda number, pixels, stamp: _jpeg(pixels),
        "/words": lambda number, pixels, stamp: STORE.types["std_msgs/msg/String"](data=f"word {number}"),
        "/drone/semantic/objects": lambda number, pixels, stamp: bag_file.points(np.zeros(0), _header(stamp)),
        "/drone/tx/record": lambda number, pixels, stamp: diagnostics,
    }
    with Writer(tmp_path / "in", version=9, storage_plugin=StoragePlugin.MCAP) as writer:
        for topic, make in topics.items():
            connection = None
            for number, pixels in enumerate(_pictures()):
                message = make(number, pixels, 5 * 10**9 + number * 10**8)
                kind = getattr(message, "__msgtype__")  # noqa: B009 - the name would be mangled
                connection = connection or writer.add_connection(topic, kind, typestore=STORE)
                writer.write(connection, 9 * 10**9 + number * 10**8, STORE.serialize_cdr(message, kind))
    return tmp_path / "in"


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> FakeStages:
    """Real nodes over real topics, with a perception that needs no network."""
    from uav_privacy_sc import graph
    from uav_privacy_sc.commands import protect

    fakes = FakeStages()

    def fly(source, config, observer, should_stop, stages):
        given = {**stages, "perception": fakes.perceive}
        return graph.fly(source, config, observer, should_stop=should_stop, stages=given)

    monkeypatch.setattr(protect, "fly", fly)
    return fakes


def _protect(recorded: Path, out: Path, *options: str) -> int:
    return main(["protect", str(recorded), str(out), "--topic", "/camera/image_raw", "--device", "cpu", *options])


def _contents(bag: Path) -> dict[str, tuple[str, list]]:
    found: dict[str, tuple[str, list]] = {}
    with AnyReader([bag]) as reader:
        for connection in reader.connections:
            found[connection.topic] = (connection.msgtype, [])
        for connection, time_ns, data in reader.messages():
            found[connection.topic][1].append((time_ns, reader.deserialize(data, connection.msgtype)))
    return found


@pytest.mark.parametrize("storage", ["mcap", "sqlite3"])
def test_the_bag_holds_protected_topics_and_no_trace_of_a_picture(tmp_path, recorded, stages, capsys, storage) -> None:
    assert _protect(recorded, tmp_path / "out", "--storage", storage, "--json") == 0
    facts = json.loads(capsys.readouterr().out)
    contents = _contents(tmp_path / "out" / "bag")
    assert {topic: kind for topic, (kind, _) in contents.items()} == ALLOWED
    assert [len(messages) for _, messages in contents.values()] == [1, FRAMES, FRAMES]
    assert {message.encoding for _, message in contents["/tx/features"][1]} == {"16SC16"}
    everything = b"".join(file.read_bytes() for file in (tmp_path / "out" / "bag").iterdir())
    for pixels in _pictures():
        assert not any(row.tobytes()[:24] in everything for row in pixels)
    for word in (SECRET, "spent_", "word 0", "rgb8", "\x89PNG", "semantic"):
        assert word.encode("latin-1") not in everything, word
    assert set(facts["left_out"]) == {
        "/camera/image_raw",
        "/front/compressed",
        "/words",
        "/drone/semantic/objects",
        "/drone/tx/record",
        "tx/record",
    }


def test_features_are_noised_anew_and_stamps_are_those_of_the_pictures(tmp_path, recorded, stages) -> None:
    assert _protect(recorded, tmp_path / "one") == _protect(recorded, tmp_path / "two") == 0
    one, two = (_contents(tmp_path / name / "bag")["/tx/features"][1] for name in ("one", "two"))
    for (time_ns, first), (_, second) in zip(one, two, strict=True):
        assert first.header.stamp.sec * 10**9 + first.header.stamp.nanosec == time_ns
        assert np.mean(first.data.view("<i2") != second.data.view("<i2")) > 0.9
    assert [time_ns for time_ns, _ in one] == [5 * 10**9 + number * 10**8 for number in range(FRAMES)]


def test_the_odometer_stands_beside_the_bag_and_goes_on_where_it_was(tmp_path, recorded, stages, capsys) -> None:
    out = tmp_path / "out"
    assert _protect(recorded, out, "--epsilon-v", "1", "--epsilon-l", "2") == 0
    report = json.loads((out / "odometer.json").read_text())
    assert report["releases"] == FRAMES and report["mission"]["epsilon"] > 0
    assert "mission" in (out / "odometer.txt").read_text() and (out / "odometer.png").stat().st_size > 1000
    assert not {"odometer.json", "odometer.ledger"} & {file.name for file in (out / "bag").iterdir()}
    assert _protect(recorded, out) == 2
    assert _protect(recorded, out, "--force") == 0
    assert json.loads((out / "odometer.json").read_text())["releases"] == 2 * FRAMES
    assert "8 releases" in capsys.readouterr().out


def test_a_kept_topic_is_repeated_with_a_warning_on_the_clock_of_the_recorder(
    tmp_path, recorded, stages, capsys
) -> None:
    assert _protect(recorded, tmp_path / "out", "--keep", "/words") == 0
    assert "/words (std_msgs/msg/String) is repeated as recorded" in capsys.readouterr().err
    contents = _contents(tmp_path / "out" / "bag")
    assert set(contents) == {*ALLOWED, "/words"}
    words, features = contents["/words"][1], contents["/tx/features"][1]
    assert [message.data for _, message in words] == [f"word {number}" for number in range(FRAMES)]
    assert [time_ns for time_ns, _ in features] == [time_ns for time_ns, _ in words]


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("/camera/image_raw", "never repeated"),
        ("front/compressed", "never repeated"),
        ("/drone/semantic/objects", "tells what protection hides"),
        ("/drone/tx/record", "tells what protection hides"),
        ("/nowhere", "does not have"),
    ],
)
def test_pictures_and_what_tells_of_them_are_not_kept(tmp_path, recorded, capsys, topic: str, why: str) -> None:
    assert _protect(recorded, tmp_path / "out", "--keep", topic) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert why in line
    assert not (tmp_path / "out").exists()


def test_a_fault_while_writing_removes_the_bag(tmp_path, recorded, stages, monkeypatch, capsys) -> None:
    def full(self, topic, time_ns, message) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BagFile, "write", full)
    assert _protect(recorded, tmp_path / "out") == 1
    said = capsys.readouterr().err
    assert f"nothing is left in {tmp_path / 'out' / 'bag'}: {tmp_path / 'out'} cannot be written: No space left" in said
    assert "OSError" not in said and not (tmp_path / "out" / "bag").exists()


def test_a_disk_that_is_full_from_the_start_is_one_line(tmp_path, recorded, stages, monkeypatch, capsys) -> None:
    def full(self, *arguments) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(BagFile, "__init__", full)
    assert _protect(recorded, tmp_path / "out") == 2
    assert "cannot be written: No space left on device" in capsys.readouterr().err.splitlines()[-1]


def test_frames_that_protection_refuses_are_not_in_the_bag(tmp_path, recorded, stages, monkeypatch, capsys) -> None:
    perceive = stages.perceive

    def sometimes(image: np.ndarray):
        percept = perceive(image)
        if image[0, 0, 0] == 11:
            percept.features[0, 0, 0] = np.nan
        return percept

    monkeypatch.setattr(stages, "perceive", sometimes)
    assert _protect(recorded, tmp_path / "out") == 0
    assert len(_contents(tmp_path / "out" / "bag")["/tx/features"][1]) == FRAMES - 1
    assert "1 frames are not in the bag" in capsys.readouterr().err


def test_nothing_released_is_a_failure_and_leaves_no_bag(tmp_path, recorded, stages, capsys) -> None:
    assert _protect(recorded, tmp_path / "out", "--epsilon-ceiling", "0.01") == 1
    assert "mission budget spent" in capsys.readouterr().err
    assert not (tmp_path / "out" / "bag").exists()


def test_no_profile_switches_protection_off_or_seeds_it(tmp_path, recorded, stages, capsys) -> None:
    profile = tmp_path / "mine.yaml"
    profile.write_text("/**:\n  ros__parameters:\n    mechanism: none\n")
    assert _protect(recorded, tmp_path / "out", "--profile", str(profile)) == 2
    assert _protect(recorded, tmp_path / "out", "--mechanism", "none") == 2
    assert "protects nothing" in capsys.readouterr().err
    profile.write_text("/**:\n  ros__parameters:\n    seed: 7\n    lattice_step: 0.0\n")
    assert _protect(recorded, tmp_path / "out", "--profile", str(profile)) == 0
    ledger = Odometer(tmp_path / "out" / "odometer.ledger", 1e-5)
    assert ledger.spent().seeded_releases == 0
    ledger.close()
    assert {message.encoding for _, message in _contents(tmp_path / "out" / "bag")["/tx/features"][1]} == {"32FC16"}


def test_ctrl_c_leaves_a_whole_bag_of_what_was_released(tmp_path, recorded, stages, monkeypatch, capsys) -> None:
    perceive = stages.perceive

    def interrupted(image: np.ndarray):
        if image[0, 0, 0] == 12:
            os.kill(os.getpid(), signal.SIGINT)
        return perceive(image)

    monkeypatch.setattr(stages, "perceive", interrupted)
    assert _protect(recorded, tmp_path / "out") == 0
    assert "interrupted after" in capsys.readouterr().err
    frames = len(_contents(tmp_path / "out" / "bag")["/tx/features"][1])
    assert 2 <= frames < FRAMES
    verify(tmp_path / "out" / "bag", (), frames)


def test_a_bag_that_was_cut_off_is_protected_as_far_as_it_goes(tmp_path, recorded, stages, capsys) -> None:
    (file,) = recorded.glob("*.mcap")
    os.truncate(file, file.stat().st_size - 40)
    assert _protect(recorded, tmp_path / "out") == 0
    assert f"0 of {FRAMES} are lost" in capsys.readouterr().err


def test_what_is_no_bag_or_would_replace_its_source_is_refused(tmp_path, recorded, capsys) -> None:
    assert _protect(tmp_path / "nothing", tmp_path / "out") == 2
    (tmp_path / "out").mkdir()
    recorded.rename(tmp_path / "out" / "bag")
    assert _protect(tmp_path / "out" / "bag", tmp_path / "out", "--force") == 2
    assert (tmp_path / "out" / "bag" / "metadata.yaml").is_file()
    assert [line.split(":")[0] for line in capsys.readouterr().err.splitlines()] == ["uav-privacy-sc"] * 2


@pytest.mark.parametrize("stranger", ["picture", "topic", "missing"])
def test_the_check_of_a_finished_bag_finds_what_does_not_belong(tmp_path: Path, stranger: str) -> None:
    head = bag_file.header(1, "camera")
    with BagFile(tmp_path / "bag") as bag:
        for topic, kind in ALLOWED.items():
            bag.add(topic, kind, offered())
        pixels = np.zeros((4, 5, 3), np.uint8)
        features = bag_file.tensor(np.zeros((16, 4, 5), np.float32), 0.5, head)
        bag.write("/tx/features", 1, bag_file.image(pixels, head) if stranger == "picture" else features)
        bag.write("/tx/objects", 1, bag_file.points(np.zeros(0), head))
        if stranger == "topic":
            bag.add("/camera/image_raw", "sensor_msgs/msg/Image", offered())
    with pytest.raises(NotProtected):
        verify(tmp_path / "bag", (), 2 if stranger == "missing" else 1)
    if stranger == "missing":
        verify(tmp_path / "bag", (), 1)
