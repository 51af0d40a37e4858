"""Scenario policies are data: found wherever the package is, marked by source, refused by name when wrong."""

from __future__ import annotations

import dataclasses
import math

import pytest

from uav_privacy_sc.control.bcd import optimize_at_db
from uav_privacy_sc.control.policy import (
    HIGHEST,
    LEAST,
    ScenarioPolicy,
    load_policies,
    load_policy_values,
    select_policy,
)
from uav_privacy_sc.control.tracking import BudgetTracker, TrackingConfig

PUBLISHED = {
    "surveillance": (5.0, 2.0, "grid"),
    "precision": (1.5, 5.0, "planar_laplace"),
    "resource-limited": (3.0, 0.5, "grid"),
}


@pytest.fixture
def policy() -> ScenarioPolicy:
    return load_policies()["surveillance"]


def write(tmp_path, text: str):
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return path


def test_shipped_scenarios_hold_the_published_numbers_and_say_so():
    policies, values = load_policies(), load_policy_values()
    assert set(policies) == set(PUBLISHED)
    for name, (epsilon_total, p_max, branch) in PUBLISHED.items():
        policy = policies[name]
        assert (policy.epsilon_total, policy.p_max, policy.location_branch) == (epsilon_total, p_max, branch)
        assert (policy.alpha, policy.beta, policy.gamma_loc, policy.grid_size) == (0.5, 0.8, 0.8, 16)
        published = {key for key, item in values[name].items() if item.source == "published"}
        assert {"epsilon_total", "p_max", "location_branch", "alpha", "beta", "gamma_loc", "grid_size"} <= published
        assert {"lambda1", "lambda2", "a_min", "a_ref", "e_max", "scale", "p_circuit"} <= set(values[name]) - published


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon_total": 0.0}, "epsilon_total is 0.0"),
        ({"p_max": 0.0}, "p_max is 0.0"),
        ({"p_circuit": 3.0}, "circuit and processing take 3.1 W"),
        ({"a_ref": -1.0}, "a_ref is -1, not above a_min"),
        ({"epsilon_v_min": 4.9}, "below epsilon_v_min"),
        ({"location_branch": "hexagons"}, "location_branch is 'hexagons'"),
        ({"location_utility": "square"}, "location_utility is 'square'"),
        ({"grid_size": 1}, "grid_size is 1"),
        ({"lambda1": 0.0, "lambda2": 0.0}, "lambda1 and lambda2 are both 0"),
        ({"lambda1": -0.1}, "lambda1 is -0.1"),
        ({"lambda1": 1e308}, "lambda1 is 1e.308; give a number of at most 1e.06"),
        ({"beta": 1e308}, "beta is 1e.308; give a number of at most"),
        ({"a_min": -1e308}, "a_min is -1e.308; give a number of at most"),
        ({"epsilon_total": 1e308}, "epsilon_total is 1e.308; give a number of at most 1000"),
        ({"alpha": 5e-324}, "alpha is 5e-324; give a number of at least 1e-06"),
        ({"p_max": 0.3 + 1e-12}, "p_max is .* are left; raise p_max"),
        ({"a_ref": 1e-9}, "a_ref is 1e-09, within 1e-06 of a_min"),
        ({"epsilon_l_min": 1e-17}, "epsilon_l_min is 1e-17; give at least 5e-12"),
    ],
)
def test_a_policy_that_cannot_be_flown_is_refused_by_name(policy, change, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(policy, **change)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ScenarioPolicy) if f.type == "float"])
def test_what_is_let_through_can_be_solved_for_without_a_warning(policy, field):
    for value in (0.0, 5e-324, LEAST.get(field, 0.0), HIGHEST.get(field, 1.0), -HIGHEST.get(field, 1.0), 1e308):
        try:
            extreme = dataclasses.replace(policy, **{field: value})
        except ValueError as error:
            names = (field, "a_ref", "p_max", "epsilon_total")  # a_min too high: a_ref is "not above a_min"
            assert str(error).startswith(tuple(f"{name} is" for name in names))
            continue
        tracker = BudgetTracker(TrackingConfig())
        for gain_db in (14.0, -300.0, 0.0, 300.0):
            for point in (optimize_at_db(extreme, gain_db), tracker.update(extreme, gain_db)):
                assert math.isfinite(point.utility) and math.isfinite(point.violation) and point.p_tx > 0.0


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(ScenarioPolicy) if f.type == "float"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused_by_name(policy, field, value):
    with pytest.raises(ValueError, match=f"^{field} is"):
        dataclasses.replace(policy, **{field: value})


def test_own_file_may_give_plain_numbers_and_whole_ones(tmp_path):
    path = write(
        tmp_path,
        """
shared: {location_branch: grid, lambda1: 1, lambda2: 1, a_min: 0, a_ref: 1, e_max: 2e-1}
scenarios:
  mine: {p_max: 1, epsilon_total: 4, p_circuit: 1e-2}
""",
    )
    policy = load_policies(path)["mine"]
    assert policy.p_max == 1.0 and isinstance(policy.p_max, float)
    assert policy.p_circuit == 0.01 and policy.e_max == 0.2
    assert policy.alpha == 0.5  # what a file does not give of the shared values, the shipped file does


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("scenarios: {mine: {p_max: 1.0}}", "mine: lambda1, lambda2, epsilon_total"),
        ("scenarios: {mine: {p_mx: 1.0}}", "unknown parameter p_mx"),
        ("scenarios: {mine: {p_max: true}}", "p_max is True; give a number"),
        ("scenarios: {mine: {p_max: [1]}}", r"p_max is \[1\]"),
        ("scenarios: {mine: {grid_size: 2.5}}", "grid_size is 2.5; give a number \\(int\\)"),
        ("scenarios: {mine: {p_max: {value: 1.0, source: guessed}}}", "source 'guessed'"),
        ("scenarios: {mine: {p_max: {value: 1.0}}}", "source None; mark it"),
        ("scenarios: {mine: 3}", "mine: not a mapping"),
        ("scenarios: {}", "no scenarios"),
        ("- 1", "not a policy file"),
        ("a: [", "not valid YAML"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path, text, message):
    with pytest.raises(ValueError, match=message) as error:
        load_policies(write(tmp_path, text))
    assert "mine.yaml" in str(error.value) and "\n" not in str(error.value)


def test_a_policy_that_is_wrong_in_a_file_names_file_scenario_and_parameter(tmp_path):
    text = "scenarios: {mine: {lambda1: 1, lambda2: 1, p_max: .nan, epsilon_total: 1, a_min: 0, a_ref: 1, e_max: 1,\n"
    with pytest.raises(ValueError, match="mine.yaml, scenario mine: p_max is nan"):
        load_policies(write(tmp_path, text + "  location_branch: grid}}"))


def test_a_missing_file_and_an_unknown_scenario_are_named(tmp_path):
    with pytest.raises(ValueError, match="absent.yaml: cannot be read"):
        load_policies(tmp_path / "absent.yaml")
    with pytest.raises(ValueError, match="scenario is 'patrol'; choose one of surveillance, precision"):
        select_policy("patrol")
