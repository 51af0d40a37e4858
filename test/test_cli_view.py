"""``view``: what each party of a recorded flight saw, whether it was protected, and bags of which little is left."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from fake_flight import fake_attacker, fake_decoder, fake_frame
from rosbags.typesys import Stores, get_typestore

from uav_privacy_sc.cli import main
from uav_privacy_sc.data import bag_file
from uav_privacy_sc.data.bag_file import BagFile, offered
from uav_privacy_sc.data.bags import Bag
from uav_privacy_sc.data.flight_bag import FlightBag
from uav_privacy_sc.flight import FrameLog

STORE = get_typestore(Stores.ROS2_JAZZY)
DIAGNOSTICS = "diagnostic_msgs/msg/DiagnosticArray"
FRAMES = 8
TYPES = {
    "tx/record": DIAGNOSTICS,
    "link/record": DIAGNOSTICS,
    "ground/rx/features": bag_file.IMAGE,
    "ground/objects": bag_file.POINTS,
    "ground/mask": bag_file.IMAGE,
    "eve/reconstruction": bag_file.IMAGE,
}


def _said(head: object, values: dict[str, object]) -> object:
    pair, status = (STORE.types[f"diagnostic_msgs/msg/{name}"] for name in ("KeyValue", "DiagnosticStatus"))
    pairs = [pair(key=key, value=str(value)) for key, value in values.items()]
    line = status(level=0, name="release", message="", hardware_id="", values=pairs)
    return STORE.types[DIAGNOSTICS](header=head, status=[line])


def _mono(mask: np.ndarray, head: object) -> object:
    return bag_file._image(mask, mask.shape, "8UC1", mask.shape[1], head)


def _messages(frame: FrameLog, lost: bool, **changes: object) -> dict[str, object]:
    head = bag_file.header(frame.stamp_ns, "camera")
    record = replace(frame.record, **changes)
    features = bag_file.tensor(frame.raw_features, 0.0, head)
    objects = bag_file.points(frame.ground_objects, head)
    if lost:
        features.step, features.data = 0, np.zeros(0, np.uint8)
        objects = bag_file.points(frame.ground_objects[:0], head)
        objects.is_dense = False
    return {
        "tx/record": _said(head, record.as_text()),
        "link/record": _said(head, {"gain_db": 12.5, "distance_m": 300.0}),
        "ground/rx/features": features,
        "ground/objects": objects,
        "ground/mask": _mono(frame.ground_mask, head),
        "eve/reconstruction": bag_file.image(frame.eve_reconstruction, head),
    }


def _flight(
    path: Path,
    namespace: str = "",
    lost: tuple[int, ...] = (),
    extra: str = "",
    without: tuple[str, ...] = (),
    **changes,
) -> Path:
    rng = np.random.default_rng(3)
    types = {name: kind for name, kind in TYPES.items() if name not in without}
    with BagFile(path) as bag:
        for name, kind in types.items():
            bag.add(f"{namespace}/{name}", kind, offered())
        if extra:
            bag.add(extra, bag_file.IMAGE, offered())
        for number in range(FRAMES):
            frame = fake_frame(number, rng)
            messages = _messages(frame, number in lost, **{"seeded": False, **changes})
            for place, name in enumerate(types):
                bag.write(f"{namespace}/{name}", frame.stamp_ns + 1000 * place, messages[name])
    return path


def _view(bag: Path, out: Path, *options: str) -> int:
    return main(["view", str(bag), "--out", str(out), *options])


def _frames_on(page: str) -> list[dict]:
    return json.loads(re.search(r"const frames = (\[.*?\]);\n", page, re.DOTALL).group(1))


def test_a_flight_becomes_a_page_and_a_film_of_every_frame(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _view(_flight(tmp_path / "bag"), tmp_path / "out", "--frames", "5") == 0
    assert "8 frames, PROTECTED" in capsys.readouterr().out
    page = (tmp_path / "out" / "view.html").read_text(encoding="utf-8")
    frames = _frames_on(page)
    assert len(frames) == 5 and (frames[0]["index"], frames[-1]["index"]) == (0, FRAMES - 1)
    assert all(frame["ground"].startswith("data:image/png") for frame in frames)
    assert all(frame["eve"].startswith("data:image/jpeg") for frame in frames)
    assert frames[0]["facts"][0] == "ε_v 3.00" and "gain 12.5 dB" in frames[0]["facts"]
    assert 'class="protection good"' in page and page.count("<svg") == 5
    assert "http" not in re.sub(r"http://www.w3.org/\S+", "", page)  # nothing is fetched
    film = cv2.VideoCapture(str(tmp_path / "out" / "view.mp4"))
    assert film.get(cv2.CAP_PROP_FPS) == pytest.approx(10.0)
    seen = []
    while (read := film.read())[0]:
        seen.append(read[1])
    assert len(seen) == FRAMES and seen[0].shape[1] == 1328
    assert np.abs(seen[0].astype(int) - seen[-1]).mean() > 1.0


@pytest.mark.parametrize(
    ("options", "level", "word"),
    [
        ({}, "good", "PROTECTED"),
        ({"seeded": True}, "alert", "EXPERIMENT"),
        ({"mechanism": "none"}, "bad", "NOT PROTECTED"),
        ({"extra": "/camera/image_raw"}, "bad", "NOT PROTECTED: the bag holds /camera/image_raw"),
        ({"without": ("tx/record",)}, "unknown", "UNKNOWN"),
    ],
)
def test_the_badge_says_whether_the_flight_was_protected(tmp_path, capsys, options, level, word) -> None:
    assert _view(_flight(tmp_path / "bag", **options), tmp_path / "out", "--json", "--no-film") == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["level"] == level and facts["badge"].startswith(word)
    assert f'class="protection {level}"' in (tmp_path / "out" / "view.html").read_text(encoding="utf-8")


def test_packets_that_were_lost_are_said_to_be(tmp_path: Path) -> None:
    with Bag(_flight(tmp_path / "bag", lost=(2,))) as bag:
        frames = list(FlightBag(bag).frames())
    assert [frame.objects_lost for frame in frames] == [number == 2 for number in range(FRAMES)]
    assert _view(tmp_path / "bag", tmp_path / "out", "--no-film") == 0
    notes = [frame["ground_note"] for frame in _frames_on((tmp_path / "out" / "view.html").read_text(encoding="utf-8"))]
    assert notes[2] == "object packet lost; feature packet lost"
    assert notes[1] == "3 objects, where they were released"


def test_several_aircraft_are_looked_at_one_at_a_time(tmp_path: Path, capsys) -> None:
    both = tmp_path / "both"
    rng = np.random.default_rng(1)
    with BagFile(both) as bag:
        for name in ("/a", "/b"):
            bag.add(f"{name}/ground/mask", bag_file.IMAGE, offered())
        for number in range(3):
            frame = fake_frame(number, rng)
            mask = _mono(frame.ground_mask, bag_file.header(frame.stamp_ns, "camera"))
            bag.write("/a/ground/mask", frame.stamp_ns, mask)
    assert _view(both, tmp_path / "out") == 2
    assert "--namespace: /a, /b" in capsys.readouterr().err
    assert _view(both, tmp_path / "out", "--namespace", "a", "--json") == 0
    assert json.loads(capsys.readouterr().out)["frames"] == 3
    assert _view(both, tmp_path / "out", "--namespace", "c", "--force") == 2
    assert _view(both, tmp_path / "none", "--namespace", "b") == 1


def test_a_bag_of_releases_is_decoded_and_attacked_here(tmp_path: Path, monkeypatch, capsys) -> None:
    from uav_privacy_sc.attack import inversion
    from uav_privacy_sc.data.protected_bag import ProtectedBag
    from uav_privacy_sc.perception import stage

    monkeypatch.setattr(stage, "GroundDecoder", lambda weights, device: fake_decoder)
    monkeypatch.setattr(inversion, "InversionAttacker", lambda weights, device: fake_attacker)
    bag, rng = ProtectedBag(tmp_path / "bag", "mcap", "0.1.0"), np.random.default_rng(1)
    frames = [fake_frame(number, rng) for number in range(3)]
    for frame in frames:
        codes = (np.round(frame.raw_features / 0.25) * 0.25).astype(np.float32)
        bag.write(codes, frame.ground_objects, 0.25, frame.stamp_ns, frame.stamp_ns)
    bag.note([frames[0].record])
    bag.close()
    with Bag(tmp_path / "bag") as opened:
        seen = list(FlightBag(opened, None, fake_decoder, fake_attacker).frames())
    expected = fake_attacker((np.round(frames[1].raw_features / 0.25) * 0.25).astype(np.float32))
    np.testing.assert_array_equal(seen[1].picture, expected)
    assert _view(tmp_path / "bag", tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out)["level"] == "good"
    assert "mechanism region_aware" in (tmp_path / "out" / "view.html").read_text(encoding="utf-8")


def test_a_flight_that_was_cut_off_is_shown_as_far_as_it_goes(tmp_path: Path, capsys) -> None:
    bag = _flight(tmp_path / "bag")
    (file,) = bag.glob("*.mcap")
    os.truncate(file, file.stat().st_size // 2)
    assert _view(bag, tmp_path / "out", "--json", "--no-film") == 0
    printed = capsys.readouterr()
    assert 2 <= json.loads(printed.out)["frames"] < FRAMES
    assert "is not whole" in printed.err


def test_what_holds_no_flight_is_refused_in_one_line(tmp_path: Path, capsys) -> None:
    with BagFile(tmp_path / "pictures") as bag:
        bag.add("/camera/image_raw", bag_file.IMAGE, offered())
    assert _view(tmp_path / "pictures", tmp_path / "out") == 2
    assert _view(tmp_path / "nothing", tmp_path / "out") == 2
    assert _view(tmp_path, tmp_path / "out") == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and "it holds /camera/image_raw" in lines[0] and "no such bag" in lines[1]
    assert not (tmp_path / "out").exists()


def test_page_and_film_are_not_replaced_without_force(tmp_path: Path) -> None:
    bag, out = _flight(tmp_path / "bag"), tmp_path / "out"
    assert _view(bag, out, "--no-film") == 0
    (out / "view.html").write_text("mine")
    assert _view(bag, out, "--no-film") == 2
    assert (out / "view.html").read_text() == "mine"
    assert _view(bag, out, "--no-film", "--force") == 0


def test_names_in_a_bag_cannot_put_script_on_the_page(tmp_path: Path) -> None:
    bag = _flight(tmp_path / "<script>alert(1)<")
    assert _view(bag, tmp_path / "out", "--no-film") == 0
    assert "<script>alert(1)" not in (tmp_path / "out" / "view.html").read_text(encoding="utf-8")
