"""The command line: what it writes, what it says in one line, and with which exit status."""

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
from fake_flight import fake_attacker, fake_decoder, fake_log
from PIL import Image
from typer.testing import CliRunner

from uav_privacy_sc.cli import app, main
from uav_privacy_sc.flight import FlightConfig, FlightEvent, FlightLog, FrameLog
from uav_privacy_sc.privacy.accountant import Expenditure, Odometer


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(3):
        Image.fromarray(np.full((40, 60, 3), 50 * number, np.uint8)).save(folder / f"{number}.png")
    return folder


class FakeGraph:
    """Stands in for the node graph: returns a log made up beforehand and remembers how it was called."""

    def __init__(self, log: FlightLog) -> None:
        self.log = log
        self.config = FlightConfig()
        self.stages: dict = {}

    def fly(self, source, config, observer, bag, stages) -> FlightLog:
        self.config, self.stages, self.bag = config, stages, bag
        bag.mkdir()
        (bag / "metadata.yaml").write_text("new")
        for number, frame in enumerate(self.log.frames):
            observer(FlightEvent("frame", frame, number + 1, source.length))
        return self.log


@pytest.fixture
def graph(monkeypatch: pytest.MonkeyPatch) -> FakeGraph:
    from uav_privacy_sc.attack import inversion
    from uav_privacy_sc.commands import fly
    from uav_privacy_sc.perception import stage

    fake = FakeGraph(fake_log(6))
    monkeypatch.setattr(fly, "fly", fake.fly)
    monkeypatch.setattr(inversion, "InversionAttacker", lambda weights, device: fake_attacker)
    monkeypatch.setattr(stage, "GroundDecoder", lambda weights, device: fake_decoder)
    return fake


def _run(pictures: Path, out: Path, *options: str) -> int:
    return main(["run", "--source", str(pictures), "--out", str(out), *options])


def test_run_writes_metrics_and_report_and_says_it_in_ten_lines(graph, pictures, tmp_path, capsys) -> None:
    assert _run(pictures, tmp_path / "out") == 0
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 10
    assert str(tmp_path / "out" / "report.html") in printed.out
    assert printed.err == ""
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["frames"]["in"] == 6 and metrics["source"]["kind"] == "images"
    assert "Frame by frame" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_json_prints_the_metrics_and_nothing_else(graph, pictures, tmp_path, capsys) -> None:
    assert _run(pictures, tmp_path / "out", "--json") == 0
    assert json.loads(capsys.readouterr().out) == json.loads((tmp_path / "out" / "metrics.json").read_text())


def test_options_reach_the_nodes_that_they_are_for(graph, pictures, tmp_path) -> None:
    options = ["--scenario", "precision", "--seed", "3", "--no-isolate", "--mechanism", "uniform", "--distance", "90"]
    assert _run(pictures, tmp_path / "out", *options, "--kappa-bg", "50", "--device", "cpu") == 0
    config = graph.config
    assert (config.scenario, config.seed, config.isolate, config.device) == ("precision", 3, False, "cpu")
    assert config.parameters == {"protection": {"mechanism": "uniform", "kappa_bg": 50.0}, "link": {"distance_m": 90.0}}
    assert graph.stages == {}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--epsilon-v", "3"), (3.0, 2.0)),
        (("--epsilon-l", "1.5"), (3.5, 1.5)),
        (("--epsilon-v", "9", "--epsilon-l", "4"), (9.0, 4.0)),
    ],
)
def test_fixed_budgets_hold_whatever_the_channel(graph, pictures, tmp_path, options, expected) -> None:
    assert _run(pictures, tmp_path / "out", *options) == 0
    for gain_db in (-20.0, 5.0, 14.0, 40.0):
        point = graph.stages["budget_server"](gain_db)
        assert (point.epsilon_v, point.epsilon_l) == pytest.approx(expected)
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["configuration"]["options"]


def test_the_bag_of_an_earlier_flight_is_replaced_but_nothing_else_is(graph, pictures, tmp_path, capsys) -> None:
    bag = tmp_path / "out" / "bag"
    bag.mkdir(parents=True)
    (bag / "metadata.yaml").write_text("old")
    (bag / "bag_0.mcap").write_text("old")
    assert _run(pictures, tmp_path / "out") == 0
    assert [path.name for path in bag.iterdir()] == ["metadata.yaml"] and (bag / "metadata.yaml").read_text() == "new"
    (bag / "thesis.tex").write_text("precious")
    assert _run(pictures, tmp_path / "out") == 2
    assert (bag / "thesis.tex").read_text() == "precious"
    assert "is no rosbag2" in capsys.readouterr().err


def test_an_interrupted_flight_is_written_and_is_no_failure(graph, pictures, tmp_path, capsys) -> None:
    graph.log.interrupted = True
    assert _run(pictures, tmp_path / "out") == 0
    assert "interrupted after 6 frames" in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "metrics.json").read_text())["interrupted"] is True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("moment", ["networks", "measuring", "writing"])
def test_a_signal_after_the_flight_loses_none_of_it(
    moment, number, graph, pictures, tmp_path, capsys, monkeypatch
) -> None:
    from uav_privacy_sc.attack import inversion
    from uav_privacy_sc.commands import fly
    from uav_privacy_sc.evaluation.measures import FlightMeter

    owner, name = {
        "networks": (inversion, "InversionAttacker"),
        "measuring": (FlightMeter, "measure"),
        "writing": (fly, "write_report"),
    }[moment]
    real = getattr(owner, name)

    def disturbed(*arguments, **keywords):
        os.kill(os.getpid(), number)
        return real(*arguments, **keywords)

    monkeypatch.setattr(owner, name, disturbed)
    handler = signal.getsignal(number)
    assert _run(pictures, tmp_path / "out") == 0
    assert signal.getsignal(number) == handler
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert metrics["frames"]["in"] == 6 and metrics["interrupted"] is (moment != "writing")
    assert (tmp_path / "out" / "report.html").is_file()
    assert ("interrupted after 6 frames" in capsys.readouterr().err) is (moment != "writing")


def test_ctrl_c_before_the_flight_is_one_line_and_status_1(graph, pictures, tmp_path, capsys, monkeypatch) -> None:
    from uav_privacy_sc.commands import fly

    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(fly, "open_source", interrupted)
    assert _run(pictures, tmp_path / "out") == 1
    assert capsys.readouterr().err == "uav-privacy-sc: error: interrupted before there was anything to write\n"


def test_a_flight_that_fails_does_not_stand_beside_the_results_of_another(graph, pictures, tmp_path) -> None:
    assert _run(pictures, tmp_path / "out") == 0
    graph.log.frames[0].ground_mask = "no mask"
    assert _run(pictures, tmp_path / "out") == 1
    assert not (tmp_path / "out" / "metrics.json").exists() and not (tmp_path / "out" / "report.html").exists()


def test_a_flight_that_released_nothing_is_a_failure_with_its_reason(graph, pictures, tmp_path, capsys) -> None:
    graph.log = FlightLog(FlightConfig(), "x", 10.0, [FrameLog(0, 10**9, dropped="mission budget spent")])
    assert _run(pictures, tmp_path / "out") == 1
    assert capsys.readouterr().err == "error: nothing was released: mission budget spent\n"
    assert (tmp_path / "out" / "report.html").is_file()


def test_a_fault_is_one_line_and_status_1_unless_a_traceback_is_asked_for(graph, pictures, tmp_path, capsys) -> None:
    graph.fly = None
    graph.log.frames[0].ground_mask = "no mask"
    assert _run(pictures, tmp_path / "out") == 1
    printed = capsys.readouterr().err
    assert printed.startswith("uav-privacy-sc: error: ") and printed.count("\n") == 1
    with pytest.raises(AttributeError):
        main(["--traceback", "run", "--source", str(pictures), "--out", str(tmp_path / "out")])


def _unwritable(tmp_path: Path) -> Path:
    (tmp_path / "file").write_text("in the way")
    return tmp_path / "file" / "out"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["run", "--source", "nowhere"], "nowhere"),
        (["run", "--source", "EMPTY"], "is empty"),
        (["run", "--source", "TEXT"], "notes.txt is no image"),
        (["run", "--source", "PICTURES", "--scenario", "peace"], "'peace'"),
        (["run", "--source", "PICTURES", "--profile", "soft"], "'soft'"),
        (["run", "--source", "PICTURES", "--out", "UNWRITABLE"], "cannot be written"),
        (["run", "--source", "PICTURES", "--rate", "nan"], "rate is nan"),
        (["run", "--source", "PICTURES", "--frames", "0"], "frames is 0"),
        (["run", "--source", "PICTURES", "--seed", "-1"], "seed is -1"),
        (["run", "--source", "PICTURES", "--epsilon-v", "0"], "epsilon-v is 0"),
        (["run", "--source", "PICTURES", "--epsilon-l", "inf"], "epsilon-l is inf"),
        (["run", "--source", "PICTURES", "--epsilon-v", "6"], "epsilon-v is 6"),
        (["run"], "--source"),
        (["demo", "--frames", "many"], "--frames"),
        (["fly"], "fly"),
        (["optimize", "--gain", "nan"], "nan"),
        (["optimize", "--gain", "3", "--scenario", "peace"], "'peace'"),
        (["odometer", "nowhere.ledger"], "nowhere.ledger"),
        (["odometer", "TEXT"], "notes.txt"),
    ],
)
def test_bad_calls_and_bad_input_are_one_line_and_status_2(
    arguments: list[str], named: str, graph, pictures, tmp_path, capsys
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("hello")
    places = {"PICTURES": pictures, "EMPTY": tmp_path / "empty", "TEXT": tmp_path / "notes.txt"}
    places["UNWRITABLE"] = _unwritable(tmp_path)
    words = [str(places.get(word, word)) for word in arguments]
    if arguments[0] in ("run", "demo") and "--out" not in words:
        words += ["--out", str(tmp_path / "out")]
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert named in printed.err and printed.err.count("\n") == 1, printed.err


def test_optimize_gives_the_operating_point_and_its_history(capsys) -> None:
    assert main(["optimize", "--gain", "14", "--json"]) == 0
    point = json.loads(capsys.readouterr().out)
    assert point["status"] == "converged" and point["epsilon_v"] + point["epsilon_l"] == pytest.approx(5.0)
    assert len(point["history"]) >= 6
    assert main(["optimize", "--gain", "14"]) == 0
    printed = capsys.readouterr().out
    assert "converged" in printed and "iteration" in printed
    assert main(["optimize", "--gain", "-40"]) == 1
    assert "infeasible" in capsys.readouterr().out


def test_odometer_reads_a_ledger_and_holds_it_against_a_ceiling(tmp_path, capsys) -> None:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, delta=1e-5)
    for stamp in range(3):
        odometer.spend(Expenditure(stamp, cell_mu=0.2, object_mu=0.4, frame_mu=2.0, location_epsilon=0.5, seeded=True))
    mission = odometer.spent().mission.epsilon
    odometer.close()
    assert main(["odometer", str(path), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["releases"] == 3 and report["mission"]["epsilon"] == pytest.approx(mission)
    assert main(["odometer", str(path), "--epsilon-ceiling", "1"]) == 1
    printed = capsys.readouterr().out
    assert "3 of them with seeded noise" in printed and f"{mission:.4f}" in printed


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}


def test_help_is_quick_and_loads_neither_ros_nor_torch() -> None:
    code = (
        "import sys; from uav_privacy_sc.cli import main; status = main(['run', '--help']);"
        "assert not {'rclpy', 'torch', 'cv2', 'matplotlib'} & set(sys.modules); sys.exit(status)"
    )
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--eve-distance" in done.stdout
    assert time.perf_counter() - start < 3.0


def test_training_is_one_of_the_verbs(capsys) -> None:
    assert main(["train", "--help"]) == 0
    assert "detector" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verb", "told"),
    [
        ("odometer", "File of an odometer"),
        ("view", "rosbag2 of a flight"),
        ("protect", "Recorded rosbag2"),
        ("convert", "Folder of pictures"),
    ],
)
def test_arguments_are_explained_and_not_options_alone(verb: str, told: str) -> None:
    """Some versions of click and typer, together, leave the help of arguments out."""
    shown = CliRunner().invoke(app, [verb, "--help"], env={"COLUMNS": "120"})
    assert shown.exit_code == 0 and told in shown.output


def test_without_a_verb_the_help_is_shown_and_it_counts_as_a_wrong_call(capsys) -> None:
    assert main([]) == 2
    printed = capsys.readouterr()
    assert "demo" in printed.out + printed.err and "error" not in printed.err


def test_the_module_runs_as_the_command_does() -> None:
    words = [sys.executable, "-m", "uav_privacy_sc", "--version"]
    done = subprocess.run(words, env=_environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()[0]) == (0, "uav-privacy-sc")
