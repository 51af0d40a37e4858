"""The page about a flight: complete, self-contained, honest, and without errors in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from fake_flight import fake_attacker, fake_decoder, fake_log

from uav_privacy_sc.evaluation import headline
from uav_privacy_sc.evaluation.charts import Curve, draw, flight_charts
from uav_privacy_sc.evaluation.measures import FlightMeasures, FlightMeter, frames_to_show
from uav_privacy_sc.evaluation.pictures import PANEL_WIDTH, boxed, class_legend, class_picture, css, heat_picture
from uav_privacy_sc.evaluation.report import render_report, write_report
from uav_privacy_sc.evaluation.summary import SourceFacts, summarize
from uav_privacy_sc.flight import FlightConfig, FlightLog, FrameLog
from uav_privacy_sc.palette import COLOURS
from uav_privacy_sc.scene import MASK_CLASSES

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)


def _evaluate(log: FlightLog) -> tuple[FlightLog, FlightMeasures, dict]:
    keep = [frame.index for frame in frames_to_show(log)]
    measures = FlightMeter(fake_attacker, fake_decoder, np.random.default_rng(0), keep).measure(log)
    return log, measures, summarize(log, measures, SourceFacts("images", {}, ("a note of the source",)))


@pytest.fixture(scope="module")
def flight() -> tuple[FlightLog, FlightMeasures, dict]:
    return _evaluate(fake_log(16))


@pytest.fixture(scope="module")
def page(flight: tuple[FlightLog, FlightMeasures, dict]) -> str:
    return render_report(*flight)


class _Outline(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []

    def handle_startendtag(self, tag: str, attributes: list) -> None:
        self._note(attributes)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self._note(attributes)
        if tag not in ("meta", "link", "img", "br"):
            self.open.append(tag)

    def _note(self, attributes: list) -> None:
        values = dict(attributes)
        self.references += [values[name] for name in ("src", "href", "xlink:href", "data") if values.get(name)]
        self.ids += [values["id"]] if "id" in values else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def _outline(page: str) -> _Outline:
    outline = _Outline()
    outline.feed(page)
    assert outline.open == []
    return outline


def test_the_page_needs_nothing_but_itself(page: str) -> None:
    outline = _outline(page)
    assert all(reference.startswith(("data:", "#")) for reference in outline.references)
    assert "url(" not in re.sub(r"url\(#[^)]+\)", "", page) and "@import" not in page
    assert len(page) < 4_000_000


def test_no_identifier_occurs_twice(page: str) -> None:
    ids = _outline(page).ids
    assert len(ids) == len(set(ids))


def test_every_frame_shown_has_its_six_pictures(flight: tuple, page: str) -> None:
    shown = frames_to_show(flight[0])
    assert page.count("<article") == len(shown) == 5
    assert page.count("<figcaption><strong>Eavesdropper, with protection") == 5
    assert page.count('<img src="data:image/') == 6 * 5


def test_no_number_is_nan_or_none_and_missing_ones_are_explained(page: str) -> None:
    text = re.sub(r"<(style|script|svg).*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL)
    assert not re.search(r"\b(nan|inf|None|Missing)\b", text)


def test_the_page_says_that_it_shows_originals_and_that_seeded_noise_is_no_privacy(page: str) -> None:
    assert "as sensitive as they are" in page
    assert "seeded noise: an experiment, not private" in page


def test_names_from_outside_are_escaped() -> None:
    log = fake_log(2, lost=())
    log.source_name = "<script>alert(1)</script>"
    assert "<script>alert" not in render_report(*_evaluate(log))


@pytest.mark.parametrize(
    "frames", [[], [FrameLog(0, 10**9, image=np.zeros((54, 96, 3), np.uint8), dropped="no budget")]]
)
def test_a_flight_that_came_to_nothing_has_a_page_that_says_so(frames: list[FrameLog], tmp_path: Path) -> None:
    log = FlightLog(FlightConfig(), "held back", 10.0, frames=frames)
    log.counts.update(frames_in=len(frames), wall_s=1.0)
    write_report(tmp_path / "report.html", *_evaluate(log))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    _outline(page)
    assert "Nothing left the aircraft" in page
    assert "Why some numbers are missing" in page


def test_boxes_stand_in_for_class_masks_where_a_source_has_only_boxes() -> None:
    log = fake_log(2, lost=())
    log.frames[0].truth_mask = None
    log.frames[1].truth_mask = log.frames[1].truth_objects = None
    page = render_report(*_evaluate(log))
    assert "Annotated objects" in page and "this source has no annotations" in page
    assert "3 objects detected, 3 annotated" in page


def test_an_interrupted_flight_says_after_how_many_frames() -> None:
    log = fake_log(4)
    log.interrupted = True
    assert "interrupted after 4 frames" in render_report(*_evaluate(log))


def test_the_headline_follows_the_numbers(flight: tuple) -> None:
    summary = flight[2]
    eve = summary["eavesdropper"]
    said = headline.eavesdropper_learned(summary)
    assert f"SSIM of {eve['with_protection']['ssim']:.2f}" in said
    assert f"instead of {eve['without_protection']['ssim_sensitive']:.2f}" in said
    assert "did not lower" not in said
    assert "15 of 16 frames" in headline.left_the_aircraft(summary, (16, 22, 40), 3.0)
    assert f"ε = {summary['privacy']['spent']['mission']['epsilon']:.1f}" in headline.what_it_cost(summary)


def test_a_flight_without_detections_does_not_claim_that_nobody_lost_privacy(flight: tuple) -> None:
    spent = {**flight[2]["privacy"]["spent"], "mission": {"epsilon": 0.0, "delta": 1e-5}}
    summary = {**flight[2], "privacy": {**flight[2]["privacy"], "spent": spent}}
    assert "no object was detected, so none's privacy was counted" in headline.what_it_cost(summary)


def test_protection_that_does_not_protect_is_not_praised(flight: tuple) -> None:
    summary = {**flight[2], "eavesdropper": {**flight[2]["eavesdropper"]}}
    summary["eavesdropper"]["with_protection"] = summary["eavesdropper"]["without_protection"]
    assert "did not lower this likeness for the whole picture and people" in headline.eavesdropper_learned(summary)


def test_the_terminal_says_it_in_nine_lines_and_the_report_is_the_tenth(flight: tuple) -> None:
    lines = headline.terminal_lines(flight[2])
    assert len(lines) == 9
    assert all(len(f"{name:12}{line}") < 140 and "\n" not in line and "nan" not in line for name, line in lines)


def test_each_chart_is_drawn_and_a_lost_frame_is_a_gap(flight: tuple) -> None:
    charts = flight_charts(*flight[:2])
    assert len(charts) == 10 and all(chart.svg.startswith("<svg") for chart in charts)
    utility = next(chart.svg for chart in charts if chart.title == "Utility")
    line = re.search(r'<path d="(M[^"]+)"[^>]*stroke: #7c3aed', utility).group(1)
    assert line.count("M ") == 2


def test_a_thinned_flight_still_has_lines_between_measured_frames() -> None:
    log = fake_log(40, lost=())
    for frame in log.frames:
        if frame.index % 4:
            frame.lighten()
    _, measures, _ = _evaluate(log)
    likeness = next(chart.svg for chart in flight_charts(log, measures) if chart.title.startswith("Likeness"))
    line = re.search(r'<path d="(M[^"]+)"[^>]*stroke: #dc2626', likeness).group(1)
    assert line.count("L ") == 9


def test_a_distance_that_never_changes_is_no_chart(flight: tuple) -> None:
    log = fake_log(6)
    for frame in log.frames:
        frame.distance_m = 350.0
    assert not any(chart.title.startswith("Distance") for chart in flight_charts(log, flight[1]))


def test_nothing_to_draw_is_no_chart() -> None:
    assert draw([Curve("x", np.arange(3.0), np.full(3, np.nan), "#000000")], "m", "empty") == ""


def test_pictures_have_the_width_of_a_panel_and_the_colours_of_the_legend(flight: tuple) -> None:
    frame = flight[0].frames[0]
    drawn = boxed(frame.image, frame.percept_objects)
    assert drawn.shape == (360, PANEL_WIDTH, 3) and (drawn == (220, 38, 38)).all(axis=2).any()
    road = MASK_CLASSES.index("road")
    assert (class_picture(np.full((88, 160), road, np.uint8)) == COLOURS["road"]).all()
    assert class_legend({road}) == [("road", css(COLOURS["road"]))]


def test_the_heat_map_is_dark_where_protection_is_strong() -> None:
    picture = heat_picture(np.array([[0.1, 1.0], [1.0, 10.0]]), 0.1, 10.0, width=2)
    brightness = picture.astype(int).sum(axis=2)
    assert brightness[0, 0] < brightness[0, 1] == brightness[1, 0] < brightness[1, 1]
    assert np.isfinite(heat_picture(np.full((2, 2), 3.0), 3.0, 3.0, width=2)).all()


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_the_page_without_a_complaint(page: str, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    options += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--v=0", "--dump-dom"]
    browser = [CHROMIUM, *options, (tmp_path / "report.html").as_uri()]
    done = subprocess.run(browser, capture_output=True, text=True, timeout=120, check=False)
    assert "Frame by frame" in done.stdout
    assert not re.findall(r".*(?:CONSOLE|Uncaught).*", done.stderr)
