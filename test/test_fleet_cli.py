"""``fleet``: curves, tables and manifest from one command; faults are one line, an interrupted run goes on."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from uav_privacy_sc.cli import main

pytest.importorskip("flwr")

from fleet_of_three import pictures_folder

SMALL = ["fleet", "--clients", "2", "--per-round", "2", "--rounds", "2", "--seed", "3", "--backend", "local"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pictures_folder(tmp_path_factory.mktemp("pictures"), 24)


@pytest.fixture(scope="module")
def done(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fleet") / "new"
    assert main([*SMALL, "--data", str(pictures), "--out", str(out), "--json"]) == 0
    return out


def test_everything_is_written(done: Path) -> None:
    names = {path.name for path in done.iterdir()}
    plots = {f"{name}.{suffix}" for name in ("curves", "test-snr") for suffix in ("png", "svg")}
    tables = {f"{name}.{suffix}" for name in ("outcome", "privacy", "ordering") for suffix in ("csv", "md", "tex")}
    assert plots | tables | {"rounds.csv", "manifest.json", "report.html", "fleet.log"} <= names
    with (done / "rounds.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5 * 2 and len({row["method"] for row in rows}) == 5
    assert "<script" not in (done / "report.html").read_text(encoding="utf-8")


def test_the_manifest_says_what_it_was_made_with(done: Path) -> None:
    found = json.loads((done / "manifest.json").read_text(encoding="utf-8"))
    assert found["setting"]["seed"] == 3 and "seeded" in found["noise"]
    assert found["packages"]["flwr"] and len(found["pictures_sha256"]) == 64
    power, privacy = (found["methods"][f"fedsfr-ms-{name}"] for name in ("power", "privacy"))
    assert power["feature_noise"] == 1.0 and privacy["feature_noise"] == 0.5
    everything = found["privacy_of_all_methods"]["fleet"]["epsilon"]
    assert everything == pytest.approx(
        sum(m["privacy"]["fleet"]["epsilon"] for m in found["methods"].values()), rel=0.2
    )
    assert everything > max(m["privacy"]["fleet"]["epsilon"] for m in found["methods"].values())
    assert "all 5 on the same data" in (done / "privacy.md").read_text(encoding="utf-8")
    for method in found["methods"].values():
        spent = method["privacy"]["fleet"]
        assert 0 < spent["paper"] < spent["epsilon"] and spent["round_epsilon"] <= spent["epsilon"]


def test_the_same_command_does_nothing_again_and_another_is_refused(done: Path, pictures: Path, capsys) -> None:
    before = (done / "rounds.csv").read_text(encoding="utf-8")
    start = time.process_time()
    assert main([*SMALL, "--data", str(pictures), "--out", str(done)]) == 0
    printed = capsys.readouterr().out
    assert "FedSFR+OL+MS (privacy)" in printed and "…" not in printed
    assert time.process_time() - start < 20 and (done / "rounds.csv").read_text(encoding="utf-8") == before
    capsys.readouterr()
    assert main([*SMALL, "--data", str(pictures), "--out", str(done), "--sigma", "0.01"]) == 2
    told = capsys.readouterr().err
    assert "was begun with sigma_1 0.001 (now 0.01)" in told and "--out" in told and told.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--preset", "huge"], "preset is 'huge'; choose one of smoke, paper"),
        (["--sigma", "nan"], "sigma_1"),
        (["--sigma-2", "-1"], "sigma_2"),
        (["--bound", "0"], "bound"),
        (["--values", "old"], "values"),
        (["--rounds", "0"], "rounds"),
        (["--clients", "0"], "clients"),
        (["--per-round", "9"], "per_round is 9, but there are 2 clients"),
        (["--minimum", "3"], "minimum is 3"),
        (["--threshold", "2"], "threshold"),
        (["--snr", "inf"], "snr_db"),
        (["--snr-per", "bit"], "snr_per"),
        (["--split", "odd"], "split"),
        (["--split", "dirichlet"], "needs labels"),
        (["--figure", "9"], "figure is '9'"),
        (["--model", "gpt"], "model is 'gpt'"),
        (["--model", "codec"], "--model codec"),
        (["--backend", "dask"], "backend is 'dask'; choose one of ray, local"),
        (["--jobs", "0"], "jobs is 0"),
        (["--jobs", "2"], "backend local works in this process"),
        (["--weights", "nowhere"], "give --model codec, too"),
        (["--model", "codec", "--snr", "10"], "are those of P3's autoencoder"),
        (["--seed", "-1"], "seed"),
        (["--epsilon-ceiling", "0"], "ceiling"),
        (["--data", "/nowhere"], "no such folder: /nowhere"),
        (["--data", "synthetic:x"], "synthetic:SEED"),
        (["--pictures", "3"], "too few"),
        (["--out", "FILE"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_one_line(words: list[str], named: str, pictures: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    words = [str(tmp_path / "file") if word == "FILE" else word for word in words]
    plain = {"--data": "synthetic" if "codec" in words else str(pictures), "--out": str(tmp_path / "out")}
    rest = [word for name, value in plain.items() if name not in words for word in (name, value)]
    assert main([*SMALL, *rest, *words]) == 2
    told = capsys.readouterr().err
    assert named in told and told.count("\n") == 1 and "Traceback" not in told


def test_without_flower_it_says_what_to_install(tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "flwr" else real(name, *rest))
    assert main([*SMALL, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "pip install -r requirements-fleet.txt" in told and told.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("number", "backend"), [(signal.SIGINT, "local"), (signal.SIGTERM, "ray")])
def test_a_signal_keeps_finished_rounds_and_the_same_command_goes_on(
    number: signal.Signals, backend: str, done: Path, pictures: Path, tmp_path: Path
) -> None:
    """Ray brings handlers of its own, which would abort with a trace of the stack."""
    if backend == "ray":
        pytest.importorskip("ray")
    command = [sys.executable, "-m", "uav_privacy_sc", *SMALL, "--data", str(pictures), "--out", str(tmp_path / "out")]
    command += ["--backend", backend]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    log, deadline = tmp_path / "out" / "fleet.log", time.monotonic() + 200
    while not (log.is_file() and "round 0 of" in log.read_text(encoding="utf-8")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(running.pid, number)
    _, told = running.communicate(timeout=200)
    if running.returncode:  # it may have been quicker
        assert running.returncode == 1 and "interrupted; finished rounds are kept" in told and "Traceback" not in told
    if backend == "local":  # that both give the same bits is tested elsewhere
        assert main(command[3:]) == 0
        assert (tmp_path / "out" / "rounds.csv").read_bytes() == (done / "rounds.csv").read_bytes()
