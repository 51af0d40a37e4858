"""Means, intervals and paired tests against SciPy, and what is missing."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from uav_privacy_sc.evaluation.measurement import Measurement, Results, measured, read_csv, write_csv
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.result_tables import with_test, with_tests
from uav_privacy_sc.evaluation.statistics import Estimate, PairedTest, crossing, estimate, holm, paired, rising


def test_the_interval_is_students() -> None:
    values = np.random.default_rng(1).normal(3.0, 2.0, 12)
    found = estimate(values)
    assert isinstance(found, Estimate)
    low, high = stats.t.interval(0.95, 11, values.mean(), stats.sem(values))
    assert (found.low, found.high, found.n) == (pytest.approx(low), pytest.approx(high), 12)


def test_one_value_has_no_interval_and_none_a_reason() -> None:
    assert estimate([2.0]) == Estimate(2.0, None, 1)
    assert estimate([], "nobody in it") == Missing("nobody in it")


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    rng = np.random.default_rng(5)
    draws = [estimate(rng.normal(0.0, 1.0, 6)) for _ in range(2000)]
    covered = np.mean([item.low <= 0.0 <= item.high for item in draws if isinstance(item, Estimate)])
    assert covered == pytest.approx(0.95, abs=0.02)  # four standard errors


def test_the_paired_test_is_scipys_over_common_samples() -> None:
    rng = np.random.default_rng(2)
    first = {f"s{k}": float(rng.normal(1.0)) for k in range(9)}
    second = {name: value - float(rng.normal(0.5, 0.3)) for name, value in first.items()}
    found = paired({**first, "alone": 7.0}, second)
    assert isinstance(found, PairedTest)
    expected = stats.ttest_rel(list(first.values()), list(second.values()))
    assert found.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.difference.low, found.difference.high) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert found.verdict == "higher"


def test_a_paired_test_needs_two_samples_and_says_so() -> None:
    found = paired({"a": 1.0}, {"a": 2.0, "b": 1.0})
    assert isinstance(found, Missing) and "there are 1" in found.reason


def test_a_difference_without_spread_is_not_tested() -> None:
    same, other = {"a": 1.0, "b": 2.0}, {"a": 0.5, "b": 1.5}
    for second, cell in ((same, "+0.000 ± 0.000"), (other, "+0.500 ± 0.000")):
        found = paired(same, second)
        assert isinstance(found, PairedTest) and found.p is None and found.verdict == "not tested"
        assert with_test(found) == f"{cell} (no spread, not tested, n = 2)"


def test_holms_correction_is_that_of_his_paper() -> None:
    tests = [PairedTest(Estimate(1.0, 1.0, 5), p) for p in (0.01, 0.04, 0.03, 0.005, None)]
    assert [item.p for item in holm(tests)] == [pytest.approx(p) for p in (0.03, 0.06, 0.06, 0.02)] + [None]


def test_a_table_of_tests_is_corrected_as_a_whole_and_says_what_is_missing() -> None:
    one = PairedTest(Estimate(1.0, 0.5, 7), 0.03)
    rows, notes = with_tests(("of", "x", "y"), [("a", (one, 1), (one, 1)), ("b", (Missing("too few"), 1), "–")])
    assert rows[0][1] == "+1.0 ± 0.5 (p = 0.060, n = 7)" and rows[1] == ("b", "–", "–")
    assert "Holm" in notes[0] and "2 tests" in notes[0] and notes[1] == "b, x: too few"


def test_rising_pools_what_falls_and_keeps_the_mean() -> None:
    assert rising([1.0, 3.0, 2.0, 2.0, 5.0]).tolist() == pytest.approx([1.0, 7 / 3, 7 / 3, 7 / 3, 5.0])
    assert rising([3.0, 2.0, 1.0]).tolist() == [2.0, 2.0, 2.0]


def test_a_curve_is_crossed_in_log_x_or_never() -> None:
    x, y = np.array([1.0, 10.0, 100.0]), np.array([0.0, 0.5, 1.0])
    assert crossing(x, y, 0.25) == pytest.approx(10**0.5)
    assert crossing(x, y, 1.5) is None and crossing(x, y, 0.0) == 1.0


def test_seeds_are_averaged_within_a_sample_before_anything_is_counted() -> None:
    rows = [Measurement("p", "m", "ssim", "a", seed, value) for seed, value in enumerate((1.0, 3.0))]
    rows.append(Measurement("p", "m", "ssim", "b", 0, 5.0))
    assert Results(rows).values("ssim", "m") == {"a": 2.0, "b": 5.0}


def test_what_cannot_be_measured_is_missing_with_its_reason_and_in_no_mean() -> None:
    rows = [measured(Missing("no people"), protocol="p", mechanism="m", metric="ssim", sample="a", seed=0)]
    rows.append(measured(float("nan"), protocol="p", mechanism="m", metric="ssim", sample="b", seed=0))
    rows.append(measured(0.5, protocol="p", mechanism="m", metric="ssim", sample="c", seed=0))
    results = Results(rows)
    assert results.values("ssim", "m") == {"c": 0.5}
    assert results.missing() == {("ssim", "no people"): 1, ("ssim", "not finite here"): 1}


def test_a_measurement_has_a_finite_value_or_a_reason_and_not_both() -> None:
    for value, reason in ((float("nan"), ""), (float("inf"), ""), (None, ""), (1.0, "why")):
        with pytest.raises(ValueError, match="value|reason"):
            Measurement("p", "m", "ssim", "a", 0, value, reason)


def test_measurements_survive_their_csv(tmp_path) -> None:
    rows = [
        Measurement("p", "m", "ssim", "a, b", 0, 0.1 + 0.2, epsilon_v=0.3, condition="x"),
        Measurement("p", "m", "ssim", "c", 1, None, "no people"),
    ]
    write_csv(tmp_path / "m.csv", rows)
    assert read_csv(tmp_path / "m.csv") == rows
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="no measurements"):
        read_csv(tmp_path / "other.csv")
