"""``odometer --plot``: what the picture shows agrees with the ledger and with pacing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from uav_privacy_sc.cli import main
from uav_privacy_sc.evaluation.odometer_plot import SpendingHistory
from uav_privacy_sc.privacy.accountant import Expenditure, Odometer
from uav_privacy_sc.privacy.pacing import frame_allowance

CEILING, FRAMES = 20.0, 12


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, 1e-5)
    for stamp in range(5):
        odometer.spend(Expenditure(stamp, 0.2, 0.1 + 0.1 * stamp, 2.0, location_epsilon=0.5, seeded=stamp == 3))
    odometer.close()
    return path


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_a_plot_is_written_beside_the_table(ledger: Path, ending: str, tmp_path: Path, capsys) -> None:
    plot = tmp_path / f"flight.{ending}"
    words = ["odometer", str(ledger), "--plot", str(plot), "--epsilon-ceiling", "20", "--expected-frames", "12"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert "mission" in printed.out and "plotted 5 releases" in printed.err
    if ending == "png":
        assert np.asarray(Image.open(plot)).std() > 5
    elif ending == "svg":
        assert "<svg" in plot.read_text(encoding="utf-8")
    else:
        assert plot.read_bytes().startswith(b"%PDF")


def test_the_curves_are_those_of_the_odometer_and_of_pacing(ledger: Path) -> None:
    whole = Odometer(ledger, 1e-5, CEILING)
    history = SpendingHistory.from_ledger(whole.history(), 1e-5)
    assert history.mission[-1] == pytest.approx(whole.spent().mission.epsilon)
    assert history.object.max() == pytest.approx(whole.spent().object.epsilon)
    assert history.seeded.tolist() == [False, False, False, True, False]
    partial = Odometer(None, 1e-5, CEILING)
    for (row, _), allowed in zip(whole.history(), history.allowances(CEILING, FRAMES), strict=True):
        assert allowed == pytest.approx(frame_allowance(partial, FRAMES).epsilon)
        partial.spend(row)
    for frames in (FRAMES, 10**9):
        shown, plan = history.planned(CEILING, frames)
        assert shown[0] == 1 and shown[-1] == frames and len(shown) == len(plan) == min(frames, 2000)
        assert plan[-1] == pytest.approx(CEILING) and (np.diff(plan) > 0).all() and (np.diff(shown) > 0).all()


def test_an_unprotected_flight_can_be_plotted(tmp_path: Path) -> None:
    path = tmp_path / "flight.ledger"
    odometer = Odometer(path, 1e-5)
    for stamp, mu in enumerate((0.2, np.inf, 0.2)):
        odometer.spend(Expenditure(stamp, mu, mu, mu))
    odometer.close()
    assert main(["odometer", str(path), "--plot", str(tmp_path / "flight.png")]) == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--plot", "flight.exe"), "no known ending"),
        (("--plot", "nowhere/flight.png"), "cannot be written"),
        (("--expected-frames", "9"), "needs a ceiling"),
        (("--expected-frames", "0", "--epsilon-ceiling", "9"), "expected-frames is 0"),
    ],
)
def test_what_cannot_be_plotted_is_one_line(ledger: Path, words: tuple[str, ...], named: str, capsys) -> None:
    assert main(["odometer", str(ledger), *words]) == 2
    printed = capsys.readouterr().err
    assert named in printed and printed.count("\n") == 1


def test_an_empty_ledger_has_nothing_to_plot(tmp_path: Path, capsys) -> None:
    path = tmp_path / "empty.ledger"
    Odometer(path, 1e-5).close()
    assert main(["odometer", str(path), "--plot", str(tmp_path / "flight.png")]) == 2
    assert "no release" in capsys.readouterr().err


def test_an_empty_file_is_no_ledger_and_stays_as_it_is(tmp_path: Path, capsys) -> None:
    path = tmp_path / "notes.txt"
    path.touch()
    assert main(["odometer", str(path)]) == 2
    printed = capsys.readouterr().err
    assert "empty" in printed and printed.count("\n") == 1
    assert path.read_bytes() == b"" and list(tmp_path.iterdir()) == [path]
