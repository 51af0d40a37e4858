"""Audit: sound mechanisms stay below their claim, broken ones are caught, the bounds are valid and not empty."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from uav_privacy_sc.privacy import audit
from uav_privacy_sc.privacy.randomness import RandomStreams

SOUND = [name for name in audit.subjects() if name != "classical"]


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("mechanism", SOUND)
def test_no_sound_mechanism_exceeds_its_claim(mechanism: str, epsilon: float) -> None:
    result = audit.audit(mechanism, epsilon, samples=20000, streams=RandomStreams(seed=17))
    assert result.holds
    assert max(result.lower_epsilon, result.gaussian_epsilon or 0) > 0.02 * epsilon, "the audit sees nothing"


def test_the_sharp_bound_comes_close_to_the_claim_of_a_gaussian() -> None:
    result = audit.audit("region_aware", 4.0, samples=60000, streams=RandomStreams(seed=1))
    assert result.gaussian_epsilon is not None
    assert 0.9 * 4.0 < result.gaussian_epsilon <= 4.0


def test_classical_at_twenty_breaks_its_claim() -> None:
    result = audit.audit("classical", 20.0, samples=60000, streams=RandomStreams(seed=1))
    assert not result.holds
    assert result.gaussian_epsilon is not None
    assert 22.0 < result.gaussian_epsilon <= audit.expected_epsilon("classical", 20.0, 1e-5)
    assert audit.expected_epsilon("classical", 20.0, 1e-5) == pytest.approx(25.44, abs=0.01)
    assert audit.audit("classical", 0.9, samples=20000, streams=RandomStreams(seed=1)).holds


@pytest.mark.parametrize("mechanism", ["label", "planar_laplace", "count", "size", "uniform"])
def test_a_mechanism_with_twice_its_budget_is_caught(mechanism: str) -> None:
    honest = audit._SUBJECTS[mechanism](4.0, 1e-5)
    lying = dataclasses.replace(honest, epsilon=2.0)
    assert not audit.audit_subject(mechanism, lying, 40000, streams=RandomStreams(seed=5)).holds


def test_a_mechanism_without_noise_is_caught() -> None:
    subject = audit.Subject(
        lambda count, streams: np.zeros((count, 3)), lambda count, streams: np.ones((count, 3)), 5.0, 1e-5, True, "all"
    )
    result = audit.audit_subject("silent", subject, 20000, streams=RandomStreams(seed=5))
    assert result.lower_epsilon > 5.0 and not result.holds


def test_equal_inputs_give_no_evidence() -> None:
    def same(count: int, streams: RandomStreams) -> np.ndarray:
        return streams.visual.standard_normal((count, 2))

    result = audit.audit_subject("same", audit.Subject(same, same, 0.01, 0.0, True, "none"), 20000)
    assert result.lower_epsilon <= 0.01


@pytest.mark.parametrize(("hits", "trials"), [(0, 10), (10, 10), (3, 50), (499, 1000)])
def test_clopper_pearson_agrees_with_scipy(hits: int, trials: int) -> None:
    interval = stats.binomtest(hits, trials).proportion_ci(0.98, method="exact")
    assert audit.clopper_pearson(hits, trials, 0.01) == pytest.approx((interval.low, interval.high), abs=1e-12)


def test_the_noise_of_a_map_from_detections_shows_where_people_are() -> None:
    assert audit.map_leak(1.0, streams=RandomStreams(seed=1)) == pytest.approx(0.99998, abs=3e-5)


def test_progress_is_reported_to_the_last_output() -> None:
    seen: list[int] = []
    audit.audit("label", 1.0, samples=25000, streams=RandomStreams(seed=1), progress=seen.append)
    assert sum(seen) == 50000 and len(seen) == 4


def test_wrong_calls_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="^mechanism must be one of uniform, region_aware"):
        audit.audit("magic")
    with pytest.raises(ValueError, match="^samples must be a whole number of at least 1000"):
        audit.audit("label", samples=10)
    with pytest.raises(ValueError, match="^epsilon must"):
        audit.audit("label", float("nan"))
