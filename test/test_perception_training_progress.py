"""What a training says of itself where nobody watches: lines in a log, not too many."""

from __future__ import annotations

import pytest

from uav_privacy_sc.perception.training import progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich take any stream for a terminal
    return seconds


def test_a_log_gets_a_line_a_minute_and_the_last(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("detector", 500) as update:
        for step in range(1, 501):
            clock[0] += 1.0
            update(step, "box 1.50 class 1.00 " + 80 * "x")
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" box")[0] for line in told] == [f"detector: {k} of 500" for k in [*range(60, 500, 60), 500]]
    assert all(line.endswith("x") for line in told), "lines are not broken"


def test_a_log_gets_the_total_and_the_name_once_they_are_known(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    with progress.bar("reading", None, passing=True) as update:
        clock[0] += 61
        update(3)
        clock[0] += 61
        update(5, total=9, what="reading train [1]")
    assert capsys.readouterr().err.splitlines() == ["reading: 3", "reading train [1]: 5 of 9"]


def test_what_is_quick_says_how_it_ended_unless_it_was_passing(
    clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    for passing, told in ((True, ""), (False, "rendering: 3 of 3\n")):
        with progress.bar("rendering", 3, passing) as update:
            for step in range(1, 4):
                clock[0] += 10
                update(step)
        assert capsys.readouterr().err == told


def test_a_last_step_that_is_due_for_a_line_gets_one(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with progress.bar("rendering", 2) as update:
        for step in (1, 2):
            clock[0] += 100
            update(step)
    assert capsys.readouterr().err.splitlines() == ["rendering: 1 of 2", "rendering: 2 of 2"]


def test_what_is_interrupted_does_not_say_it_ended(clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), progress.bar("rendering", 3) as update:
        update(1)
        raise KeyboardInterrupt
    assert capsys.readouterr().err == ""
