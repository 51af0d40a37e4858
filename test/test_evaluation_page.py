"""The page of an evaluation: one file, figures first, and no error in a browser's console."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from uav_privacy_sc.evaluation.evaluation import Evaluation, Outcome
from uav_privacy_sc.evaluation.evaluation_report import render, table_html
from uav_privacy_sc.evaluation.figures import Figure, Panel, Series, draw
from uav_privacy_sc.evaluation.measurement import Measurement, Results
from uav_privacy_sc.evaluation.presets import preset
from uav_privacy_sc.evaluation.protocols import find_protocol
from uav_privacy_sc.evaluation.result_tables import ResultTable
from uav_privacy_sc.evaluation.setting import Setting

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def page() -> str:
    lines = Panel("one", "ε_v", "accuracy", [Series("a", [1, 10], [0.2, 0.4], [0.1, 0.3], [0.3, 0.5])], log_x=True)
    bars = Panel("two", "", "dB", [Series("a", [0, 1], [1, -2])], "bars", ("x", "y"), flat=(("level", 0.5),))
    pictures = Figure("p", "pictures", pictures=[[np.zeros((18, 32, 3), np.uint8)] * 2], column_names=("a", "b"))
    table = ResultTable("t", "A < B & C", ("head", "number"), (("<script>", "1 ± 2"), ("  P1 5.8", "3")), ("a note",))
    rows = [Measurement("location", "grid", "ssim", "s", 0, None, "no people")]
    made = Outcome(
        find_protocol("location"), Results(rows), [table], [Figure("f", "both", [lines, bars]), pictures], 1.5
    )
    setting = Setting("drawn", 1, 1, "paper", preset("quick"))
    manifest = {"version": "0", "python": "3", "machine": "m", "weights_sha256": {"codec.pt": "ab" * 32}}
    return render(Evaluation(setting, [made], {"runtime": "left"}, manifest, ["a note of the dataset"]))


def test_figures_come_before_tables_and_reasons_after_them(page: str) -> None:
    places = [page.index(part) for part in ("<svg", "data:image/png;base64", "<table", "no people")]
    assert places == sorted(places)


def test_what_a_table_says_is_text_and_not_markup(page: str) -> None:
    assert "&lt;script&gt;" in page and "<script" not in page and "A &lt; B &amp; C" in page


def test_the_p_of_a_test_stands_below_its_difference_so_that_wide_tables_fit() -> None:
    cells = ("+0.1 ± 0.2 (p = 0.300, n = 4)", "grid (P1)", "0.5 (n = 1)")
    written = table_html(ResultTable("t", "title", ("a", "b", "c"), [cells]))
    assert "+0.1 ± 0.2<br><small>p = 0.300, n = 4</small>" in written
    assert ">grid (P1)<" in written and ">0.5 (n = 1)<" in written


def test_nothing_is_fetched_from_elsewhere(page: str) -> None:
    links = re.findall(r'(?:src|href)="([^"]*)"', page)
    assert links and all(link.startswith(("data:", "#")) for link in links if "w3.org" not in link)
    assert "@import" not in page and "url(http" not in page


def test_names_of_lines_and_levels_are_outside_the_data() -> None:
    panel = Panel("", "x", "y", [Series("a", [1, 2], [0, 1])], flat=(("low", 0.5), ("close by", 0.51)))
    canvas = draw(Figure("f", "title", [panel]))
    texts = {text.get_text(): text for text in canvas.axes[0].texts}
    places = [texts[name].get_position() for name in ("low", "close by")]
    assert all(x > 1.0 for x, _ in places) and places[1][1] - places[0][1] >= 0.05


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
def test_a_browser_shows_it_without_an_error(page: str, tmp_path: Path) -> None:
    path, picture = tmp_path / "report.html", tmp_path / "report.png"
    path.write_text(page, encoding="utf-8")
    words = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    words += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0", f"--screenshot={picture}"]
    run = subprocess.run([str(CHROMIUM), *words, f"file://{path}"], capture_output=True, text=True, timeout=240)
    assert picture.stat().st_size > 5000, run.stderr[-300:]
    assert not [line for line in run.stderr.splitlines() if "CONSOLE" in line]
