"""What a training says of itself where nobody watches: lines in a log, not too many."""

from __future__ import annotations

import pytest

from uav_privacy_sc.perception.training import progress


@pytest.fixture
def clock(monkeypatch):
    seconds = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: seconds[0])
    return seconds


def test_a_log_gets_a_line_a_minute(clock, capsys):
    with progress.bar("detector", 500) as update:
        for step in range(1, 501):
            clock[0] += 1.0
            update(step, "box 1.50 class 1.00 " + 80 * "x")
    told = capsys.readouterr().err.splitlines()
    assert [line.split(" box")[0] for line in told] == [f"detector: {60 * k} of 500" for k in range(1, 9)]
    assert all(line.endswith("x") for line in told), "lines are not broken"


def test_a_log_gets_the_total_and_the_name_once_they_are_known(clock, capsys):
    with progress.bar("reading", None) as update:
        clock[0] += 61
        update(3)
        clock[0] += 61
        update(5, total=9, what="reading train [1]")
    assert capsys.readouterr().err.splitlines() == ["reading: 3", "reading train [1]: 5 of 9"]


def test_what_is_quick_says_nothing_in_a_log(clock, capsys):
    with progress.bar("rendering", 3) as update:
        for step in range(1, 4):
            clock[0] += 10
            update(step)
    assert capsys.readouterr().err == ""
