"""The published numbers that P1's own equations do not allow, or under one reading only, computed."""

from __future__ import annotations

import math

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.evaluation import contradictions as claims
from uav_privacy_sc.evaluation import published
from uav_privacy_sc.evaluation.protocols import location
from uav_privacy_sc.privacy.budget_map import budget_map
from uav_privacy_sc.privacy.calibration import gaussian_sigma


@pytest.mark.parametrize("channels", [1, 4, 16, 64])
def test_no_clipped_feature_is_as_similar_after_eq_15_as_is_published(channels: int) -> None:
    rng = np.random.default_rng(channels)
    clean = rng.standard_normal((channels, 20_000))
    clean /= np.linalg.norm(clean, axis=0)  # as long as the clip allows
    for epsilon, value in ((1.0, 0.22), (0.3, 0.18)):
        noisy = clean + gaussian_sigma(epsilon, 1e-5, 2.0, "classical") * rng.standard_normal(clean.shape)
        cosine = (clean * noisy).sum(axis=0) / np.linalg.norm(noisy, axis=0)
        bound = claims.cosine_bound(epsilon)
        assert cosine.mean() < bound + 4 / math.sqrt(20_000)  # four standard errors of a mean of numbers in [-1, 1]
        assert bound < value / 2


def test_region_aware_similarity_is_published_at_nearly_three_times_its_share_of_uniforms() -> None:
    found = claims.region_cosine()
    assert found.published == 0.18 and "0.066 of 0.22" in found.text


def test_no_cell_of_algorithm_1_has_more_budget_than_the_background() -> None:
    labels = np.arange(len(scene.OBJECT_CLASSES))
    rng = np.random.default_rng(0)
    objects = scene.make_objects(rng.random((10, 2)), rng.uniform(0.05, 0.3, (10, 2)), labels)
    assert budget_map(objects, (22, 40), 1.0).max() == pytest.approx(claims.largest_factor()) == pytest.approx(1.12)
    found = claims.region_accuracy()
    assert found.published > found.bound  # region-aware at 1 above uniform at 3, with at most 1.12 anywhere
    assert claims.largest_factor("eq11") == pytest.approx(1.95)  # below 3, too: it holds under Eq. 11 as well


def test_region_aware_ssim_is_above_uniform_noises_under_algorithm_1_and_not_under_eq_11() -> None:
    found = claims.region_ssim()
    assert "Algorithm 1" in found.title and "0.1643" in found.text and "0.1885" in found.text
    assert claims.uniform_ssim(19.5) == pytest.approx(0.1643, abs=1e-4) and claims.uniform_ssim(19.5) > 0.1571
    assert claims.uniform_ssim(39.0) == pytest.approx(0.1885, abs=1e-4) and claims.uniform_ssim(39.0) > 0.1835
    assert found.bound == pytest.approx(0.1410 + 0.1635 * 0.0242, abs=1e-4) and found.published > found.bound


def test_location_errors_follow_from_cell_to_cell_and_not_from_the_object() -> None:
    assert location.budget_for("grid", 0.0248, from_cell=True) == pytest.approx(4.39, abs=0.01)  # of 5
    assert location.budget_for("grid", 0.0584, from_cell=True) == pytest.approx(2.66, abs=0.01)  # of 3
    rng = np.random.default_rng(0)
    middles = (np.indices((16, 16)).reshape(2, -1).T + 0.5) / 16
    drawn = [location.displacement(middles, "grid", 4.39, rng) for _ in range(400)]
    assert np.mean(drawn) == pytest.approx(location.cell_error(4.39), rel=0.02)
    assert all("can follow" in item.text and "cannot" not in item.text for item in claims.location_errors())
    surveillance, limited = claims.location_errors()
    assert surveillance.published == pytest.approx(10.3, abs=0.1) and surveillance.bound == 5.0
    assert limited.published == pytest.approx(3.11, abs=0.02) and limited.bound == 3.0


def test_mean_utilities_of_two_sections_differ() -> None:
    for found in claims.utilities():
        assert abs(found.published - found.bound) > 0.05


def test_the_resource_limited_mean_has_a_negative_quality_with_all_of_the_budget() -> None:
    assert claims.resource_quality().bound == pytest.approx(-0.1404, abs=1e-3)


def test_eq_15_gives_more_than_it_claims_from_8_4_on() -> None:
    assert [round(item.bound, 2) for item in claims.classical_noise()] == [10.39, 25.44]


def test_the_context_ring_has_more_noise_than_the_global_budget() -> None:
    assert claims.context_ring().bound == pytest.approx(0.577, abs=1e-3)


def test_every_calculation_ends_up_in_words_with_its_number() -> None:
    found = claims.contradictions()
    assert len(found) == 13 and all(item.title and item.text.endswith(".") for item in found)


def test_the_published_percentages_follow_from_the_published_values() -> None:
    accuracy = [published.find("5.8", "category_accuracy", name) for name in ("region_aware", "uniform")]
    ssim = [published.find("5.8", "ssim_sensitive", name) for name in ("region_aware", "uniform")]
    assert accuracy[0] and accuracy[1] and ssim[0] and ssim[1]
    assert accuracy[0].value / accuracy[1].value - 1 == pytest.approx(0.072, abs=5e-4)
    assert 1 - ssim[0].value / ssim[1].value == pytest.approx(0.603, abs=5e-4)


def test_table_3_is_complete() -> None:
    rows = [item for item in published.PUBLISHED if item.section == "Table 3"]
    assert len(rows) == 20 and all(item.half_width is not None for item in rows)
    assert published.find("Table 3", "ssim", "uniform", epsilon_v=10.0, attacker="gradient").value == 0.0366  # type: ignore[union-attr]
