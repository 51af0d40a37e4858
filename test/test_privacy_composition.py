"""Composition: closed forms are upper bounds, the tight form agrees with dp-accounting to 1 %, no loss is
understated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from uav_privacy_sc.privacy import calibration, composition, mixture
from uav_privacy_sc.privacy.accountant import Expenditure, Odometer

CASES = [
    (0.5, {0.5: 1}),
    (1.0, {4.0: 1}),
    (2.0, {0.1: 100}),
    (0.5, {1.0: 20, 0.3: 50}),
    (0.0, {0.05: 400}),
    (3.0, {2.0: 200}),
    (1.5, {}),
]


def dp_accounting_epsilon(mu: float, pure: dict[float, int], delta: float) -> float:
    pytest.importorskip("dp_accounting")
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    parts = [pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)] if mu else []
    for epsilon, number in pure.items():
        one = pld.from_privacy_parameters(
            common.DifferentialPrivacyParameters(epsilon, 0), value_discretization_interval=1e-3
        )
        parts.append(one.self_compose(number))
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total.get_epsilon_for_delta(delta)


@pytest.mark.parametrize("delta", [1e-5, 1e-8])
@pytest.mark.parametrize(("mu", "pure"), CASES)
def test_tight_composition_agrees_with_dp_accounting(mu: float, pure: dict[float, int], delta: float) -> None:
    tight, reference = mixture.mixed_epsilon(mu, pure, delta), dp_accounting_epsilon(mu, pure, delta)
    assert tight == pytest.approx(reference, rel=0.005)


def test_odometer_agrees_with_dp_accounting_over_a_flight() -> None:
    rng = np.random.default_rng(3)
    odometer = Odometer(None, 1e-5)
    mus, pures = rng.uniform(0.02, 0.3, 80), rng.uniform(0.05, 0.5, 80)
    for mu, pure in zip(mus, pures, strict=True):
        odometer.spend(Expenditure(0, mu / 2, mu, mu, location_epsilon=pure))
    reference = dp_accounting_epsilon(composition.compose_mu(mus), dict.fromkeys(pures.tolist(), 1), 1e-5)
    assert odometer.spent(tight=True).mission.epsilon == pytest.approx(reference, rel=0.01)
    assert odometer.spent().mission.epsilon >= reference * 0.9999


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0, 4),
    st.dictionaries(st.floats(0.01, 5), st.integers(1, 50), max_size=4),
    st.sampled_from([1e-9, 1e-6, 1e-2]),
)
def test_closed_forms_bound_the_tight_value_from_above(mu: float, pure: dict[float, int], delta: float) -> None:
    tight = mixture.mixed_epsilon(mu, pure, delta)
    total = sum(epsilon * number for epsilon, number in pure.items())
    squares = sum(composition.mu_from_pure(epsilon) ** 2 * number for epsilon, number in pure.items())
    closed = composition.total_epsilon(mu, total, squares, delta)
    assert tight <= closed * (1 + 1e-9)
    assert tight >= calibration.epsilon_from_mu(mu, delta) * (1 - 1e-6), "composing made it more private"


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 10.0, 700.0, 2000.0])
def test_pure_epsilon_implies_its_gaussian_parameter_and_no_smaller_one(epsilon: float) -> None:
    mu = float(composition.mu_from_pure(epsilon))
    error = np.linspace(1e-6, 1 - 1e-6, 2001)
    if epsilon < 30:
        from scipy.special import ndtri

        pure = np.maximum(np.maximum(1 - np.exp(epsilon) * error, np.exp(-epsilon) * (1 - error)), 0)
        assert (ndtr(ndtri(1 - error) - mu) <= pure + 1e-12).all()
        fixed = 1 / (1 + np.exp(epsilon))
        assert ndtr(ndtri(1 - fixed) - mu * 0.999) > fixed
    assert 0 < mu < np.inf and mu <= epsilon * 1.2534  # sqrt(pi / 2) for small epsilon


def test_three_releases_compose_like_a_right_angle() -> None:
    assert composition.compose_mu([3.0, 4.0]) == pytest.approx(5.0)
    assert composition.compose_mu([]) == 0.0
    assert composition.total_epsilon(0.0, 0.0, 0.0, 1e-5) == 0.0
    assert composition.total_epsilon(np.inf, 0.0, 0.0, 1e-5) == np.inf


@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.37, 5.0, 1e3])
def test_rounding_budgets_up_never_understates_them(epsilon: float) -> None:
    assert epsilon <= mixture.round_up(epsilon) <= epsilon * 1.0011


def test_delta_at_negative_epsilon_follows_the_symmetry_of_the_pair() -> None:
    epsilon, mu = np.array([0.3, 2.0, 9.0]), 1.3
    exact = ndtr(mu / 2 + epsilon / mu) - np.exp(-epsilon) * ndtr(-mu / 2 + epsilon / mu)
    np.testing.assert_allclose(calibration.gaussian_delta(-epsilon, mu), exact, rtol=1e-10)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_amounts_out_of_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="^epsilon must"):
        composition.mu_from_pure(value)
    with pytest.raises(ValueError, match="^pure epsilon must"):
        mixture.mixed_epsilon(1.0, {value: 1}, 1e-5)
