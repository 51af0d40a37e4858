"""The benchmarks: that the meter measures, that rows judge, and that what is compared does the same thing."""

from __future__ import annotations

import json
import os
import time

import numpy as np
import pytest

from uav_privacy_sc.bench import registry
from uav_privacy_sc.bench.algorithm2 import grid_loop, planar_laplace_loop
from uav_privacy_sc.bench.measure import Meter, Row, Timing
from uav_privacy_sc.cli import main
from uav_privacy_sc.privacy import location


def _busy(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_ratio_is_that_of_the_times_that_the_calls_take() -> None:
    timing = Meter(repeats=9, warmup=1).compare(lambda: _busy(3e-3), lambda: _busy(1e-3))
    assert timing.slowdown == pytest.approx(3.0, rel=0.2)
    assert timing.speedup == pytest.approx(1 / timing.slowdown)


def test_waiting_for_others_is_not_counted() -> None:
    assert Meter(repeats=3, warmup=0).seconds(lambda: (time.sleep(0.02), _busy(1e-3))) < 5e-3


def test_memory_is_the_peak_beyond_what_was_held_before() -> None:
    held = np.zeros(1_000_000)

    def call() -> np.ndarray:
        return (held + 1.0)[:10].copy()

    assert Meter(warmup=1).peak_bytes(call) == pytest.approx(held.nbytes, rel=0.01)


@pytest.mark.parametrize(("value", "at_most", "holds"), [(1.2, True, True), (1.4, True, False), (1.4, False, True)])
def test_a_row_holds_within_its_limit(value: float, at_most: bool, holds: bool) -> None:
    assert Row("x", value, "x", 1.3, at_most).holds is holds
    assert Row("x", value, "x").holds


@pytest.mark.parametrize("meter", [{"repeats": 0}, {"warmup": -1}])
def test_a_meter_that_measures_nothing_is_refused(meter: dict) -> None:
    with pytest.raises(ValueError, match="whole number"):
        Meter(**meter)


def test_the_loop_over_cells_draws_from_the_same_distribution_as_the_mechanism() -> None:
    rng, size, epsilon = np.random.default_rng(3), 4, 1.0
    centers = np.tile([0.4, 0.9], (20_000, 1))
    fast = np.bincount(location.release_grid(centers, epsilon, size, rng)[1], minlength=size**2)
    slow = np.bincount([cell for *_, cell in grid_loop(centers[:4000], epsilon, size, rng)], minlength=size**2)
    assert np.abs(fast / fast.sum() - slow / slow.sum()).max() < 0.03


def test_the_loop_over_objects_has_the_error_of_the_mechanism() -> None:
    rng, center = np.random.default_rng(3), np.array([[0.5, 0.5]] * 4000)
    error = np.linalg.norm(np.array(planar_laplace_loop(center, 2.0, 100.0, rng)) - 0.5, axis=1).mean()
    assert error == pytest.approx(location.planar_laplace_expected_error(2.0, 100.0), rel=0.05)


def test_every_line_of_the_issue_is_there_and_prints_the_papers_figures(capsys) -> None:
    status = main(["bench", "--json", "--repeats", "3"])
    found = json.loads(capsys.readouterr().out)
    limits = {(row["benchmark"], row["limit"], row["limit_kind"]) for row in found["rows"] if row["limit"] is not None}
    wanted = {
        ("region_aware", 1.3, "at_most"),
        ("region_aware", 2.5, "at_most"),
        ("location", 20.0, "at_least"),
        ("matrix", 1.2, "at_most"),
        ("link", 1.5, "at_most"),
        ("control", 1.0, "at_most"),
        ("control", 15.0, "at_least"),
    }
    assert wanted <= limits
    assert {"P1 1.41 ms", "P1 505 KB", "P2 1.51x", "P2 1.37x", "P1 19.0 ms"} <= {
        row["published"] for row in found["rows"]
    }
    assert status == (0 if all(row["holds"] for row in found["rows"]) else 1)


def test_a_benchmark_that_others_register_is_run_and_a_missed_limit_is_a_failure(capsys, monkeypatch) -> None:
    monkeypatch.setattr(registry, "_BENCHMARKS", {})
    monkeypatch.setattr(registry, "MODULES", ())

    @registry.benchmark("mine", "perception")
    def mine(meter: Meter):
        """Mine."""
        yield Row.slowdown("mine / theirs", Timing(2.0, 1.0), at_most=1.5)

    assert main(["bench"]) == 1
    printed = capsys.readouterr().out
    assert "mine / theirs" in printed and "FAIL" in printed


def test_figures_fit_a_terminal_of_eighty_columns(capsys) -> None:
    main(["bench", "--repeats", "1", "--only", "region_aware", "--only", "control"])
    assert "…" not in capsys.readouterr().out


def test_an_unknown_benchmark_is_refused_by_name(capsys) -> None:
    assert main(["bench", "--only", "nope"]) == 2
    assert "'nope'" in capsys.readouterr().err


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity on this system")
def test_measuring_leaves_the_process_its_cores(capsys) -> None:
    before = os.sched_getaffinity(0)
    main(["bench", "--repeats", "1", "--only", "link"])
    assert os.sched_getaffinity(0) == before
