"""The loop over units: kept, resumed, sent to processes; a dead worker; backends that are not there."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from fake_networks import FakeNetworks

from uav_privacy_sc.evaluation.evaluation import evaluate
from uav_privacy_sc.evaluation.execution import Execution, ResultStore, Unit, WorkerLost, fingerprint, run_units
from uav_privacy_sc.evaluation.measurement import Measurement
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.setting import SampleStore, Setting


def _one(name: str, log: Path) -> list[Measurement]:
    with log.open("a") as file:
        file.write(f"{name}\n")
    return [Measurement("p", "m", "x", name, 0, float(len(name)))]


def _dies(name: str, log: Path) -> list[Measurement]:
    os._exit(9)


def _raises() -> list[Measurement]:
    raise ValueError("no such thing")


def _units(names: str, log: Path) -> list[Unit]:
    return [Unit(name, partial(_one, name, log)) for name in names]


def test_finished_units_are_not_done_again(tmp_path: Path) -> None:
    log, store = tmp_path / "log", ResultStore(tmp_path / "kept", "same")
    first = run_units(_units("abc", log), store, Execution())
    done: list[int] = []
    second = run_units(_units("abcd", log), store, Execution(), done.append)
    assert log.read_text().split() == ["a", "b", "c", "d"]
    assert second[:3] == first and [item.sample for item in second] == ["a", "b", "c", "d"] and done == [1, 2, 3, 4]


def test_units_of_another_setting_or_with_a_broken_file_do_not_count(tmp_path: Path) -> None:
    log = tmp_path / "log"
    run_units(_units("ab", log), ResultStore(tmp_path / "kept", "one"), Execution())
    run_units(_units("a", log), ResultStore(tmp_path / "kept", "two"), Execution())
    for path in (tmp_path / "kept").glob("*.json"):
        path.write_text(path.read_text()[:20])
    run_units(_units("b", log), ResultStore(tmp_path / "kept", "one"), Execution())
    assert log.read_text().split() == ["a", "b", "a", "b"]


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    log, store = tmp_path / "log", ResultStore(tmp_path / "kept", "same")

    def interrupt(done: int) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_units(_units("abcd", log), store, Execution(), interrupt)
    assert len(run_units(_units("abcd", log), store, Execution())) == 4
    assert sorted(log.read_text().split()) == ["a", "b", "c", "d"]


def test_processes_give_the_same_and_a_dead_worker_is_said_and_gone_on_from(tmp_path: Path) -> None:
    log, store = tmp_path / "log", ResultStore(tmp_path / "kept", "same")
    two = Execution(jobs=2)
    names = [item.sample for item in run_units(_units("abc", log), store, two)]
    assert names == ["a", "b", "c"]
    dead = [*_units("abc", log), Unit("z", partial(_dies, "z", log))]
    with pytest.raises(WorkerLost, match="3 finished units are kept .* run the same command again") as error:
        run_units(dead, store, two)
    assert "\n" not in str(error.value)
    assert len(run_units(_units("abcz", log), store, two)) == 4


def test_a_worker_that_dies_over_a_sample_is_said_with_what_is_kept(tmp_path: Path) -> None:
    store = SampleStore(tmp_path, Setting("synthetic", 3, 1, "paper", PRESETS["quick"]), {})
    store.dataset.draws = iter([partial(os._exit, 9)])  # type: ignore[arg-type]
    with pytest.raises(WorkerLost, match="0 finished samples are kept in .* with fewer --jobs") as error:
        store.prepare(Execution(jobs=2))
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"backend": "spark"}, "choose one of loky, dask, ray"),
        ({"jobs": 0}, "jobs is 0"),
        ({"address": "tcp://one:8786"}, "loky runs on this machine"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(options: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Execution(**options)


@pytest.mark.parametrize(("backend", "package"), [("dask", "distributed"), ("ray", "ray")])
def test_a_backend_without_its_package_names_it(backend: str, package: str, monkeypatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"needs the package {package}"):
        Execution(backend)


CLUSTERS = [("dask", "distributed"), ("ray", "ray")]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("backend", "package"), CLUSTERS)
def test_a_cluster_measures_what_loky_does_and_says_what_went_wrong(backend: str, package: str, tmp_path: Path) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    folder = tmp_path / "layouts"
    (folder / "annotations").mkdir(parents=True)
    for name in ("one", "two"):
        rows = "".join(f"{40 * k},{30 * k},20,40,1,{1 + k % 10},0,0\n" for k in range(12))
        (folder / "annotations" / f"{name}.txt").write_text(rows)
    setting = Setting(str(folder), 2, 2, "hardened", PRESETS["quick"], FakeNetworks())
    found = {
        name: evaluate(("location",), setting, tmp_path / name, Execution(name, 2)).outcomes[0].results.measurements
        for name in ("loky", backend)
    }
    assert len(found["loky"]) == 88 and found[backend] == found["loky"]
    log, store = tmp_path / "log", ResultStore(tmp_path / "kept", "same")
    with pytest.raises(ValueError, match="^no such thing$"):
        run_units([Unit("r", _raises)], store, Execution(backend, 2))
    with pytest.raises(WorkerLost, match="finished units are kept .* run the same command again") as error:
        run_units([*_units("ab", log), Unit("z", partial(_dies, "z", log))], store, Execution(backend, 2))
    assert "\n" not in str(error.value)
    assert len(run_units(_units("abz", log), store, Execution(backend, 2))) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "package", "address"), [("dask", "distributed", "tcp://127.0.0.1:9"), ("ray", "ray", "127.0.0.1:9")]
)
def test_a_cluster_that_does_not_answer_is_one_line(backend: str, package: str, address: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    code = (
        "from uav_privacy_sc.evaluation.execution import Execution\n"
        f"try: list(Execution({backend!r}, 1, {address!r}).stream([int]))\n"
        "except ValueError as error: print(str(error)); raise SystemExit(3)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 3 and address in done.stdout and done.stdout.count("\n") == 1, done.stderr


def test_a_fingerprint_tells_settings_apart() -> None:
    assert fingerprint({"a": 1}) == fingerprint({"a": 1}) != fingerprint({"a": 2})
