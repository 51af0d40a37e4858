"""Calibration: inverse pairs, an independent accountant, high precision, what the classical formula really gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from uav_privacy_sc.privacy import calibration

EPSILONS = np.logspace(-6, 3, 37)
DELTAS = np.logspace(-15, -1, 29)
BAD = [0.0, -1.0, float("nan"), float("inf"), "none"]


def test_sigma_and_epsilon_are_inverse_over_the_whole_domain() -> None:
    sigma = calibration.gaussian_sigma(EPSILONS[:, None], DELTAS, 2.0)
    epsilon = calibration.gaussian_epsilon(sigma, DELTAS, 2.0)
    np.testing.assert_allclose(epsilon, np.broadcast_to(EPSILONS[:, None], epsilon.shape), rtol=1e-9, atol=1e-12)


def test_no_sigma_exceeds_its_claim() -> None:
    sigma = calibration.gaussian_sigma(EPSILONS[:, None], DELTAS, 1.0)
    delta = calibration.gaussian_delta(EPSILONS[:, None], 1 / sigma)
    assert (delta <= DELTAS * (1 + 1e-9)).all()
    less = calibration.gaussian_delta(EPSILONS[:, None], 1 / (sigma * (1 - 1e-6)))
    assert (less > DELTAS).all(), "a slightly smaller sigma would have done: the calibration is not tight"


def test_delta_agrees_with_fifty_digit_arithmetic() -> None:
    mpmath = pytest.importorskip("mpmath")
    with mpmath.workdps(60):
        for epsilon, delta in [(1e-6, 1e-15), (1e-6, 0.1), (1e-3, 1e-9), (1.0, 1e-5), (30.0, 1e-15), (1e3, 0.1)]:
            mu = 1 / mpmath.mpf(float(calibration.gaussian_sigma(epsilon, delta, 1.0)))
            exact = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
            assert abs(exact / delta - 1) < 2e-8, (epsilon, delta)


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 1e-2])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0, 20.0])
def test_sigma_agrees_with_dp_accounting(epsilon: float, delta: float) -> None:
    reference = pytest.importorskip("dp_accounting.gaussian_mechanism")
    ours = calibration.gaussian_sigma(epsilon, delta, 1.0)
    assert ours == pytest.approx(reference.get_sigma_gaussian(epsilon, delta), rel=1e-6)
    assert calibration.gaussian_epsilon(ours, delta, 1.0) == pytest.approx(
        reference.get_epsilon_gaussian(ours, delta), rel=1e-6
    )


def test_classical_reports_the_epsilon_it_really_gives() -> None:
    claims = np.array([1.0, 8.3, 8.5, 10.0, 20.0])
    actual = calibration.actual_epsilon(claims, 1e-5, "classical")
    np.testing.assert_allclose(actual[[0, 3, 4]], [0.75098, 10.39388, 25.44261], rtol=1e-5)
    assert (actual < claims).tolist() == [True, True, False, False, False]


def test_the_figures_of_the_design() -> None:
    assert calibration.gaussian_sigma(1.0, 1e-5, 2.0) == pytest.approx(7.4613, abs=1e-4)
    assert calibration.gaussian_sigma(1.0, 1e-5, 2.0, "classical") == pytest.approx(9.6896, abs=1e-4)


@given(st.floats(1e-6, 1e3), st.floats(1e-15, 0.1), st.floats(1e-3, 1e3), st.floats(1.01, 10))
def test_sigma_scales_with_sensitivity_and_falls_with_epsilon(
    epsilon: float, delta: float, sensitivity: float, factor: float
) -> None:
    sigma = calibration.gaussian_sigma(epsilon, delta, sensitivity)
    assert sigma == pytest.approx(sensitivity * calibration.gaussian_sigma(epsilon, delta, 1.0), rel=1e-12)
    assert calibration.gaussian_sigma(epsilon * factor, delta, sensitivity) < sigma
    assert calibration.gaussian_sigma(epsilon, delta / factor, sensitivity) > sigma


def test_noise_that_is_within_delta_alone_costs_no_epsilon() -> None:
    assert calibration.gaussian_epsilon(1e9, 1e-5, 1.0) == 0.0
    np.testing.assert_array_equal(calibration.epsilon_from_mu([0.0, np.inf], 1e-5), [0.0, np.inf])


def test_scalars_give_scalars_and_arrays_broadcast() -> None:
    assert isinstance(calibration.gaussian_sigma(1, 1e-5, 2), float)
    assert calibration.gaussian_sigma(np.ones((3, 1)), np.full(4, 1e-5), 2.0).shape == (3, 4)
    assert calibration.gaussian_sigma(np.ones(0), 1e-5, 2.0).shape == (0,)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", ["epsilon", "delta", "sensitivity"])
def test_a_parameter_out_of_range_is_refused_by_name(name: str, value: object) -> None:
    arguments = {"epsilon": 1.0, "delta": 1e-5, "sensitivity": 2.0, name: value}
    with pytest.raises(ValueError, match=f"^{name} must"):
        calibration.gaussian_sigma(**arguments)
    with pytest.raises(ValueError, match=f"^{'sigma' if name == 'epsilon' else name} must"):
        calibration.gaussian_epsilon(arguments["epsilon"], arguments["delta"], arguments["sensitivity"])


def test_delta_of_one_and_an_unknown_method_are_refused() -> None:
    with pytest.raises(ValueError, match="^delta must lie strictly between 0 and 1, got 1.0"):
        calibration.gaussian_sigma(1.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="^method must be one of analytic, classical"):
        calibration.gaussian_sigma(1.0, 1e-5, 1.0, "exact")
    with pytest.raises(ValueError, match="^epsilon must .* got nan"):
        calibration.gaussian_sigma([1.0, float("nan")], 1e-5, 1.0)
