"""The benchmarks of perception: what they compare, and that growing memory is seen."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from uav_privacy_sc.bench.measure import Meter
from uav_privacy_sc.bench.perception import memory, memory_growth, perception
from uav_privacy_sc.bench.registry import benchmarks


def test_they_are_registered_and_say_what_they_are_about() -> None:
    found = {name: one for name, one in benchmarks().items() if one.part == "perception"}
    assert set(found) == {"perception", "perception_memory"}
    assert "forward pass" in found["perception"].about and "2,000 frames" in found["perception_memory"].about


def test_perception_is_held_against_its_own_network_and_the_codec_against_a_quarter_of_it() -> None:
    rows = list(perception(Meter(repeats=5, warmup=1)))
    assert [(row.limit, row.at_most) for row in rows] == [(1.15, True), (0.25, True)]
    assert 0.8 < rows[0].value < 2.0, "its network and a little more, whatever else the machine does"


def test_a_detector_holds_no_more_after_hundreds_of_frames() -> None:
    (row,) = memory(Meter(repeats=1, warmup=0))
    assert row.what == "memory, 100 frames" and row.holds


def test_memory_that_grows_with_every_frame_is_seen() -> None:
    kept: list[bytes] = []
    row = memory_growth(lambda: kept.append(b"x" * 2_000_000), 200)
    assert row.value > 1.05 and not row.holds
