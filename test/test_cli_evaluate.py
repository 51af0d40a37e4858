"""``evaluate --protocol matrix``: P2's table with every mechanism published and tight."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from uav_privacy_sc.cli import main

QUICK = ["evaluate", "--protocol", "matrix", "--draws", "4", "--seed", "2"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("evaluate") / "new"
    assert main([*QUICK, "--out", str(folder), "--json"]) == 0
    return folder


def _rows(folder: Path) -> dict[tuple[str, str, str], dict[str, str]]:
    with (folder / "matrix.csv").open(encoding="utf-8") as file:
        return {(row["shape"], row["mechanism"], row["form"]): row for row in csv.DictReader(file)}


def test_both_shapes_hold_every_mechanism(table: Path) -> None:
    found = set(_rows(table))
    both = {(name, form) for name in ("gaussian", "udn", "idn", "mvg") for form in ("published", "tight")}
    assert found == {(shape, *one) for shape in ("120x400", "16x1600") for one in both | {("mm", "tight")}}


def test_what_the_papers_noise_costs_beyond_the_tight_mechanism(table: Path) -> None:
    rows = _rows(table)
    assert float(rows["120x400", "udn", "published"]["ratio"]) == pytest.approx(426_890, rel=1e-4)
    assert float(rows["120x400", "idn", "published"]["ratio"]) == pytest.approx(3_557, rel=1e-3)
    assert float(rows["120x400", "gaussian", "published"]["ratio"]) == pytest.approx(1.30**2, rel=0.01)
    assert float(rows["16x1600", "idn", "tight"]["ratio"]) == pytest.approx(1.0)


def test_measured_energy_is_the_theoretical_one_and_no_claim_is_broken(table: Path) -> None:
    for row in _rows(table).values():
        assert float(row["measured"]) == pytest.approx(float(row["theoretical"]), rel=0.05)
        assert float(row["actual_epsilon"]) <= 1.0 + 1e-9
        assert float(row["relative_time"]) > 0


def test_the_table_is_printed_with_the_papers_times(tmp_path: Path, capsys) -> None:
    assert main([*QUICK, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "120x400" in printed and "16x1600" in printed and "1.51" in printed and "426,890" in printed
    assert "…" not in printed


def test_the_orders_are_those_that_the_formulas_have_and_the_one_of_p2_that_is_not_is_said(table: Path) -> None:
    text = (table / "matrix-order.md").read_text()
    rows = {tuple(line.split(" | ")[:2]): line for line in text.splitlines() if line.startswith("| 1")}
    assert "m^2.00 n^2.00" in rows["| 120x400", "gaussian"] and rows["| 120x400", "gaussian"].endswith("no |")
    assert "m^3.99 n^2.99" in rows["| 120x400", "udn"] and rows["| 120x400", "udn"].endswith("yes |")
    assert "m^2.99 n^2.99" in rows["| 120x400", "idn"] and rows["| 120x400", "idn"].endswith("yes |")
    assert "not the m³ n³ it prints" in text


def test_it_is_written_as_the_other_protocols_are(table: Path) -> None:
    for name in ("matrix-energy.tex", "matrix-order.tex", "matrix-time.tex", "matrix.svg", "matrix.png", "report.html"):
        assert (table / name).stat().st_size > 300, name
    manifest = json.loads((table / "manifest.json").read_text())
    assert (
        manifest["setting"]["matrix"] == {"epsilon": 1.0, "delta": 1e-5, "draws": 4}
        and "matrix" in manifest["protocols"]
    )


def test_json_holds_the_same_rows(tmp_path: Path, capsys) -> None:
    assert main([*QUICK, "--out", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["protocol"] == "matrix" and len(found["rows"]) == len(_rows(tmp_path))


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--protocol", "magic"], "'magic'"),
        (["--epsilon", "nan"], "epsilon"),
        (["--draws", "1"], "draws"),
        (["--out", "FILE"], "cannot be written"),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(words: list[str], named: str, tmp_path: Path, capsys) -> None:
    (tmp_path / "file").write_text("in the way")
    words = [str(tmp_path / "file") if word == "FILE" else word for word in words]
    out = [] if "--out" in words else ["--out", str(tmp_path / "out")]
    assert main([*QUICK, *out, *words]) == 2
    printed = capsys.readouterr().err
    assert named in printed and printed.count("\n") == 1
