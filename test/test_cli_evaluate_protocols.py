"""``evaluate`` of P1's protocols from the command line: what it prints and writes, and what it refuses in one line."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from uav_privacy_sc.cli import main
from uav_privacy_sc.commands.console import results
from uav_privacy_sc.commands.evaluate import EvaluationOrder, _print
from uav_privacy_sc.evaluation.evaluation import Evaluation
from uav_privacy_sc.evaluation.result_tables import ResultTable

BASE = ["evaluate", "--protocol", "location", "--jobs", "1"]


@pytest.fixture
def layouts(tmp_path: Path) -> Path:
    """Return a folder with annotations of two pictures, one without an object."""
    folder = tmp_path / "layouts"
    (folder / "annotations").mkdir(parents=True)
    rows = "".join(f"{40 * k},{30 * k},20,40,1,{1 + k % 10},0,0\n" for k in range(12))
    (folder / "annotations" / "full.txt").write_text(rows)
    (folder / "annotations" / "empty.txt").write_text("")
    return folder


def test_a_protocol_on_boxes_alone_prints_and_writes_its_tables(layouts: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "out"
    assert main([*BASE, "--dataset", str(layouts), "--samples", "5", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "Location error over its budget" in printed.out and "10.32" in printed.out and str(out) in printed.out
    assert "fewer than the 5 asked for" in " ".join(printed.err.split())
    with (out / "measurements-location.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert {row["sample"] for row in rows} == {"full", "empty"}
    assert all(bool(row["value"]) != bool(row["reason"]) for row in rows)
    assert (out / "report.html").is_file() and (out / "location.png").is_file() and (out / "location.tex").is_file()


def test_json_has_manifest_and_tables_and_nothing_else(layouts: Path, tmp_path: Path, capsys) -> None:
    words = ["--dataset", str(layouts), "--samples", "2", "--out", str(tmp_path / "out"), "--json", "--seed", "3"]
    assert main([*BASE, *words]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["manifest"]["setting"]["base_seed"] == 3 and "location" in found["tables"]


def test_interrupted_is_one_line_and_the_same_command_goes_on(
    layouts: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    from uav_privacy_sc.evaluation.protocols import location

    real, calls = location.measure, []

    def once(sample, setting):
        calls.append(sample.name)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(sample, setting)

    words = [*BASE, "--dataset", str(layouts), "--samples", "2", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(location, "measure", once)
    assert main(words) == 1
    printed = capsys.readouterr().err
    assert "interrupted" in printed and "same command" in printed and "Traceback" not in printed
    assert main(words) == 0
    assert calls == ["empty", "full", "full"]


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--protocol", "magic"], "'magic'"),
        (["--dataset", "/nowhere"], "/nowhere does not exist"),
        (["--samples", "0"], "samples is 0"),
        (["--seeds", "0"], "seeds is 0"),
        (["--preset", "huge"], "preset"),
        (["--profile", "nobody"], "nobody"),
        (["--backend", "spark"], "spark"),
        (["--jobs", "-1"], "jobs is -1"),
        (["--out", "FILE"], "cannot be written"),
        (["--protocol", "tradeoff"], "needs pictures"),
        (["--weights", "/nowhere"], "/nowhere"),
        (["--attackers", "gradient"], "attackers play no part in protocol location"),
        (["--protocol", "attackers", "--attackers", "nobody"], "no attacker is called so; give a module"),
        (["--protocol", "attackers", "--attackers", "/nowhere/mine.py"], "mine.py cannot be imported"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(
    words: list[str], named: str, layouts: Path, tmp_path: Path, capsys
) -> None:
    (tmp_path / "file").write_text("in the way")
    words = [str(tmp_path / "file") if word == "FILE" else word for word in words]
    base = [*BASE, "--dataset", str(layouts), "--out", str(tmp_path / "out")]
    assert main([*base, *words]) == 2
    printed = capsys.readouterr().err
    assert named in printed and printed.count("\n") == 1, printed


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_folder_without_permission_is_one_line(layouts: Path, tmp_path: Path, capsys) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o500)
    assert main([*BASE, "--dataset", str(layouts), "--out", str(locked)]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_no_cell_of_a_wide_table_is_cut_short(capsys: pytest.CaptureFixture[str]) -> None:
    row = tuple(f"{place:+.4f} ± 0.{place:04d} (p = 1.000, n = 20)" for place in range(8))
    table = ResultTable("t", "wide", tuple("abcdefgh"), [row])
    found = Evaluation(None, [SimpleNamespace(notes=[], tables=[table])], {}, {}, [])  # type: ignore[list-item,arg-type]
    before = results.width
    _print(EvaluationOrder("tradeoff", Path("out")), found)
    printed = capsys.readouterr().out
    assert "…" not in printed and all(cell in printed for cell in row) and results.width == before
