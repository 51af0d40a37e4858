"""``uav-privacy-sc train``: every verb on tiny pictures, interruptions, and folders that are wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from test_perception_training_data import det, frame  # noqa: E402

from uav_privacy_sc.cli import main  # noqa: E402
from uav_privacy_sc.data.flights import write_flight  # noqa: E402
from uav_privacy_sc.perception.training import commands  # noqa: E402
from uav_privacy_sc.perception.training import samples as samples_module  # noqa: E402
from uav_privacy_sc.perception.training.checkpoint import alone  # noqa: E402
from uav_privacy_sc.perception.training.detector import DetectorTrainer  # noqa: E402

TINY = ["--batch", "1", "--crop", "64", "--threads", "1"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples_module, "LONG_SIDE", 64)


@pytest.fixture
def data(tmp_path: Path) -> str:
    write_flight(tmp_path / "street", [frame(k, label=k) for k in range(3)], "street", "det")
    return str(tmp_path / "street")


def test_flights_are_rendered_with_a_note_of_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from uav_privacy_sc.data.synthetic import dataset

    def render(directory: Path, flights: int, frames: int, seed: int, jobs: int, progress: object) -> int:
        return write_flight(directory, [frame(seed % 7)] * frames, "street", "det")

    monkeypatch.setattr(dataset, "render_dataset", render)
    assert main(["train", "flights", "--out", str(tmp_path), "--train", "2", "--test", "1"]) == 0
    made = [json.loads((tmp_path / name / "flights.json").read_text()) for name in ("train", "more", "test")]
    assert [one["flights"] for one in made] == [2, 2, 1] and len({one["first_seed"] for one in made}) == 3
    made = samples_module.load_samples(tmp_path / "test").describe()["made"]
    assert made == {"made_by": "uav-privacy-sc train flights", "first_seed": 300_000, "flights": 1, "frames": 2}


def test_the_weights_can_be_made_again_step_by_step(data: str, tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    out = ["--data", data, "--out", str(weights)]
    assert main(["train", "detector", *out, "--steps", "1", *TINY]) == 0
    few = ["--steps", "1", "--batch", "1", "--threads", "1"]
    assert main(["train", "codec", *out, *few]) == 0
    assert main(["train", "attacker", *out, *few, "--pictures", "2"]) == 0
    assert main(["train", "attacker", *out, *few, "--noise", "adaptive"]) == 0
    files = {path.name for path in weights.iterdir()}
    for name in ("detector", "codec", "inverter", "inverter-adaptive"):
        assert {f"{name}.pt", f"{name}-losses.png", f"{name}-losses.json", f"{name}-checkpoint.pt"} <= files
    card = json.loads((weights / "card.json").read_text())
    assert set(card["training"]) == {"detector", "codec", "inverter", "inverter-adaptive"}
    entry = card["training"]["detector"]
    assert (
        entry["steps"] == 1 and entry["data"]["name"] == "street" and entry["started_from"] == {"detector": "scratch"}
    )
    detector = card["files"]["detector.pt"]["sha256"]
    assert card["training"]["codec"]["started_from"] == {"detector_sha256": detector}
    assert card["training"]["inverter"]["settings"]["pictures"] == 2
    assert str(tmp_path) not in (weights / "card.json").read_text()

    assert main(["train", "card", *out, "--real", data, "--threads", "1"]) == 0
    card = json.loads((weights / "card.json").read_text())
    detectors = {"detector", "detector_with_tiles", "out_of_domain"}
    assert set(card["figures"]) == {"data", *detectors, "codec", "inverter", "measured_on"}
    assert card["figures"]["detector"]["pictures"] == 3 and set(card["figures"]["inverter"]) == {"plain", "adaptive"}
    assert card["figures"]["out_of_domain"]["street"]["layout"] == "visdrone-det"


def test_all_is_every_step_in_its_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple] = []
    for name in ("flights", "detector", "codec", "attacker", "card", "agree"):
        monkeypatch.setattr(commands, name, lambda *given, name=name, **_: done.append((name, *given)))
    assert main(["train", "all", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]) == 0
    assert [step[0] for step in done] == [
        "flights",
        *["detector"] * 3,
        "codec",
        "attacker",
        "attacker",
        "card",
        "agree",
    ]
    assert [step[3] for step in done if step[0] == "attacker"] == ["none", "adaptive"]
    train, more, test = (tmp_path / "data" / name for name in ("train", "more", "test"))
    assert [step[1] for step in done[1:]] == [train] * 2 + [more] + [train] * 3 + [test, tmp_path / "out"]


def test_the_detector_is_made_in_three_parts_two_of_them_on_frozen_taps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts: list[tuple] = []
    for name in ("flights", "codec", "attacker", "card", "agree"):
        monkeypatch.setattr(commands, name, lambda *given, **_: None)
    monkeypatch.setattr(commands, "detector", lambda data, out, steps, **options: parts.append((out, options)))
    assert main(["train", "all", "--out", str(tmp_path), "--bfloat16"]) == 0
    (first, coarse), (second, fine), (third, last) = parts
    assert len({first, second, third}) == 3 and third == tmp_path
    assert coarse["architecture"] == "yolo11n" and "init" not in coarse
    assert fine["init"] == first / "detector.pt" and fine["freeze"] == commands.TAP + 1 and "architecture" not in fine
    assert last["init"] == second / "detector.pt" and last["freeze"] == fine["freeze"] and "architecture" not in last
    assert all(part["bfloat16"] for _, part in parts)


def test_two_trainings_do_not_write_into_one_folder(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["train", "detector", "--data", data, "--out", str(tmp_path), "--steps", "1", *TINY]
    assert main(call) == 0
    before = {path.name: path.read_bytes() for path in tmp_path.glob("detector*")}
    capsys.readouterr()
    with alone(tmp_path, "detector"):
        for more in ([], ["--fresh"]):
            assert main([*call, *more]) == 2
            assert "another process is training detector in" in capsys.readouterr().err.strip().splitlines()[-1]
    assert before == {path.name: path.read_bytes() for path in tmp_path.glob("detector*")} and len(before) == 4
    assert main([*call, "--fresh"]) == 0


def test_a_folder_that_cannot_be_written_to_is_named_at_once(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["train", "detector", "--data", data, "--out", str(tmp_path / "file"), *TINY]) == 2
    assert "cannot write to " in capsys.readouterr().err.strip().splitlines()[-1]


def test_the_card_of_a_second_part_tells_of_the_first(data: str, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    call = ["train", "detector", "--data", data, "--steps", "1", *TINY]
    assert main([*call, "--out", str(first), "--architecture", "yolo11n"]) == 0
    assert main([*call, "--out", str(second), "--init", str(first / "detector.pt"), "--freeze", "5"]) == 0
    entry = json.loads((second / "card.json").read_text())["training"]["detector"]["started_from"]["entry"]
    assert entry == json.loads((first / "card.json").read_text())["training"]["detector"]
    assert entry["settings"]["architecture"] == "yolo11n"


def test_two_real_folders_of_one_name_are_refused(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "card", "--data", data, "--out", str(tmp_path), "--real", data, "--real", data]) == 2
    assert "two folders are called street" in capsys.readouterr().err


def test_a_training_begun_otherwise_is_not_resumed_but_can_begin_anew(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["train", "detector", "--data", data, "--out", str(tmp_path / "out"), "--steps", "1", *TINY]
    assert main(call) == 0
    capsys.readouterr()
    assert main([*call, "--seed", "7"]) == 2
    assert "begun with seed=1 (now 7); go on as it was begun" in capsys.readouterr().err
    assert main([*call, "--seed", "7", "--fresh", "--init", str(tmp_path / "out" / "detector.pt")]) == 0
    entry = json.loads((tmp_path / "out" / "card.json").read_text())["training"]["detector"]
    assert entry["seed"] == 7 and entry["started_from"]["share_taken_percent"] == 100


def test_an_interrupted_training_says_where_it_goes_on(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: DetectorTrainer, progress: object) -> None:
        self.step, self.losses = 200, [[1.0, 1.0, 1.0]] * 200
        self.save()
        self.step = 250
        raise KeyboardInterrupt

    monkeypatch.setattr(DetectorTrainer, "run", interrupted)
    assert main(["train", "detector", "--data", data, "--out", str(tmp_path / "out"), *TINY]) == 1
    assert "stopped after 250 steps; the same command goes on from step 200" in capsys.readouterr().err
    entry = json.loads((tmp_path / "out" / "card.json").read_text())["training"]["detector"]
    assert entry["steps"] == 200 and not entry["complete"]


def test_a_folder_can_be_checked_before_it_is_trained_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = det(tmp_path / "odd", {"a": "8,8,16,16,1,4,0,0,\n1,2,3"})
    assert main(["train", "check", "--data", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "odd: visdrone-det, 1 pictures at 64x64, 1 objects (car 1)" in told
    assert "too few fields 1, trailing comma 1" in told
    assert main(["train", "check", "--data", str(folder / "annotations"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["set_aside"] == {"too few fields": 1, "trailing comma": 1}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["detector"], "is empty"),
        (["detector", "--steps", "0"], "--steps"),
        (["detector", "--crop", "100"], "crop=100 must be a multiple of 32"),
        (["attacker", "--noise", "loud"], "noise='loud' is unknown; use none or adaptive"),
        (["attacker"], "has no codec.pt"),
        (["card"], "is empty"),
        (["check"], "holds neither pictures nor annotation files"),
    ],
)
def test_wrong_calls_are_said_in_one_line(
    call: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, weights = tmp_path / "data", tmp_path / "weights"
    folder.mkdir()
    weights.mkdir()
    out = [] if call[0] == "check" else ["--out", str(weights)]
    assert main(["train", *call, "--data", str(folder), *out]) == 2
    assert said in capsys.readouterr().err.strip().splitlines()[-1]


def test_a_codec_needs_a_detector_and_something_to_paint(
    data: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "codec", "--data", data, "--out", str(tmp_path / "none")]) == 2
    assert "none is no folder" in capsys.readouterr().err


def _card(folder: Path, map50: float | None, digest: str = "pictures") -> str:
    folder.mkdir(exist_ok=True)
    detector = {} if map50 is None else {"map50": map50, "map50_all_sizes": 0.4}
    (folder / "card.json").write_text(json.dumps({"figures": {"data": {"digest": digest}, "detector": detector}}))
    return str(folder)


def test_weights_agree_within_the_spread_and_not_beyond(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from uav_privacy_sc.perception.training.agreement import WITHIN

    within = WITHIN["detector mAP50"]
    there = ["--other", _card(tmp_path / "there", 0.6)]
    assert main(["train", "agree", "--out", _card(tmp_path / "near", 0.6 - 0.9 * within), *there]) == 0
    assert "agrees" in capsys.readouterr().out
    assert main(["train", "agree", "--out", _card(tmp_path / "far", 0.6 - 1.1 * within), *there]) == 1
    assert "DIFFERS" in capsys.readouterr().out
    assert main(["train", "agree", "--out", _card(tmp_path / "none", None), *there, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == list(WITHIN) and rows[0]["here"] is None and rows[0]["agrees"] is None


def test_cards_that_cannot_be_compared_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = ["--other", _card(tmp_path / "there", 0.6)]
    assert main(["train", "agree", "--out", _card(tmp_path / "else", 0.6, "other pictures"), *there]) == 2
    assert "different test pictures" in capsys.readouterr().err
    assert main(["train", "agree", "--out", str(tmp_path / "nothing"), *there]) == 2
    assert "has no figures" in capsys.readouterr().err


@pytest.mark.parametrize(("flights", "compared"), [(50, True), (49, False)])
def test_cards_of_the_same_flights_rendered_elsewhere_are_compared(
    flights: int, compared: bool, tmp_path: Path
) -> None:
    """Rendered on another machine, pictures differ by roundings, and their digest with them."""
    cards = [_card(tmp_path / name, 0.6, digest=name) for name in ("here", "there")]
    for folder, count in zip(cards, (50, flights), strict=True):
        path = Path(folder) / "card.json"
        card = json.loads(path.read_text())
        card["figures"]["data"] |= {"made": {"first_seed": 300_000, "flights": count}, "pictures": 100}
        path.write_text(json.dumps(card))
    assert main(["train", "agree", "--out", cards[0], "--other", cards[1]]) == (0 if compared else 2)


def test_the_shipped_weights_agree_with_themselves(capsys: pytest.CaptureFixture[str]) -> None:
    from uav_privacy_sc.perception.weights import shipped

    assert main(["train", "agree", "--out", str(shipped("codec.pt").parent), "--json"]) == 0
    assert all(row["agrees"] for row in json.loads(capsys.readouterr().out)), "and no figure is missing"
