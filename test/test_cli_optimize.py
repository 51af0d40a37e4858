"""``optimize``: pictures of one solve and of a flight, what following gains, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from uav_privacy_sc.cli import main
from uav_privacy_sc.commands import fly

TRAJECTORIES = Path(__file__).parents[1] / "config" / "trajectories"


@pytest.mark.parametrize("gain", ["8", "-40"])
def test_a_solve_is_drawn_feasible_or_not(tmp_path: Path, gain: str) -> None:
    path = tmp_path / "solve.png"
    assert main(["optimize", "--gain-db", gain, "--plot", str(path)]) == (1 if gain == "-40" else 0)
    picture = cv2.imread(str(path))
    assert picture.shape[1] > 1000 and picture.std() > 5
    red = (np.abs(picture.astype(int) - (38, 38, 220)) < 12).all(axis=2)
    assert red.sum() > 50  # the chosen point


@pytest.mark.parametrize("suffix", [".png", ".svg", ".pdf"])
def test_a_flight_is_drawn(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"flight{suffix}"
    words = ["optimize", "--trajectory", str(TRAJECTORIES / "demo.csv"), "--plot", str(path)]
    assert main(words) == 0
    assert path.stat().st_size > 10_000


@pytest.mark.parametrize("scenario", ["surveillance", "precision", "resource-limited"])
def test_following_the_channel_beats_what_is_fixed_at_equal_cost(scenario: str, capsys) -> None:
    words = ["optimize", "--trajectory", str(TRAJECTORIES / "minute.csv"), "--scenario", scenario, "--json"]
    assert main(words) == 0
    found = json.loads(capsys.readouterr().out)
    adaptive, fixed = found["adaptive"], found["fixed"]
    assert found["blocks"] == 601 and found["utility_gain"] > 0.03
    assert adaptive["mission_epsilon"] == pytest.approx(fixed["mission_epsilon"], rel=1e-6)
    assert adaptive["energy_j"] == pytest.approx(fixed["energy_j"])
    assert adaptive["constraints_held"] > fixed["constraints_held"]


@pytest.mark.parametrize(("distance", "code"), [("350", 0), ("90000", 1)])
def test_how_many_blocks_miss_a_constraint_is_printed_and_all_of_them_is_a_failure(distance, code, tmp_path, capsys):
    (tmp_path / "way.csv").write_text(f"time_s,x_m,y_m,z_m\n0,{distance},0,50\n5,{distance},0,50\n")
    words = ["optimize", "--trajectory", str(tmp_path / "way.csv"), "--scenario", "precision", "--seed", "1"]
    assert main([*words, "--json"]) == code
    found = json.loads(capsys.readouterr().out)
    assert found["infeasible_blocks"] == round((1 - found["adaptive"]["constraints_held"]) * found["blocks"])
    assert found["infeasible_blocks"] == (51 if code else pytest.approx(2, abs=2))
    assert main(words) == code
    assert f"{found['infeasible_blocks']} of 51 blocks miss a constraint" in capsys.readouterr().out


def test_what_a_policy_file_leaves_out_is_printed_with_its_source(tmp_path, capsys) -> None:
    path = tmp_path / "mine.yaml"
    given = "lambda1: 0.5, lambda2: 0.5, p_max: 2.0, epsilon_total: 5.0, a_min: 0.0, a_ref: 1.2, e_max: 0.15"
    path.write_text(f"scenarios:\n  mine: {{{given}, location_branch: grid, epsilon_l_min: 0.5}}\n")
    assert main(["optimize", "--gain", "12", "--scenario", "mine", "--scenarios-file", str(path), "--json"]) == 0
    printed = capsys.readouterr()
    assert "epsilon_v_min 0.08 (ours)" in printed.err and "alpha 0.5 (published)" in printed.err
    assert "epsilon_l_min" not in printed.err and json.loads(printed.out)["status"] == "converged"
    assert main(["optimize", "--gain", "12"]) == 0
    assert "as shipped" not in capsys.readouterr().err


def test_a_flight_repeats_with_its_seed(capsys) -> None:
    words = ["optimize", "--trajectory", str(TRAJECTORIES / "demo.csv"), "--json", "--seed"]
    found = []
    for seed in ("3", "3", "4"):
        assert main([*words, seed]) == 0
        found.append(json.loads(capsys.readouterr().out)["adaptive"]["utility"])
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("", [], "--gain and --trajectory: give one of them"),
        ("", ["--gain", "3", "--fading", "foo"], "--fading says something about a --trajectory only"),
        ("", ["--gain", "3", "--rate", "3"], "--rate says something about a --trajectory only"),
        ("", ["--gain", "3", "--seed", "3"], "--seed says something about a --trajectory only"),
        ("0,0,0,50\n5,100,0,50\n", ["--gain", "3"], "give one of them, not both"),
        ("0,0,0,50\n50,100,0,50\n", [], "gap of 50 s after line 2, longer than 10 s; fill it\n"),
        ("0,0,0,50,\n1,0,0,50,3\n", [], "line 3 has 5 cells"),
        ("0,0,0,50\n5,100,0,50\n", ["--rate", "1e308"], "lower --rate"),
        ("0,0,0,50\n5,100,0,50\n", ["--rate", "1e-320"], "rate is 1e-320"),
        ("0,0,0,50\n-1,100,0,50\n", [], "does not grow in line 3"),
        ("0,0,0,50\n1,nan,0,50\n", [], "x_m in line 3 is nan; give a number"),
        ("0,0,0,50\n5,100,0,50\n", ["--fading", "fog"], "fading is 'fog'"),
        ("0,0,0,50\n5,100,0,50\n", ["--rate", "0"], "rate is 0.0"),
        ("0,0,0,50\n5,100,0,50\n", ["--rate", "1e9"], "lower --rate"),
        ("0,0,0,50\n5,100,0,50\n", ["--seed", "-1"], "seed is -1"),
        ("0,0,0,50\n5,100,0,50\n", ["--plot", "flight.doc"], "no known ending"),
        ("0,0,0,50\n5,100,0,50\n", ["--plot", "/no/such/place/flight.png"], "cannot be written"),
    ],
)
def test_what_is_wrong_is_one_line_and_status_2(text, words, message, tmp_path, capsys) -> None:
    call = ["optimize", *words]
    if text:
        (tmp_path / "way.csv").write_text(f"time_s,x_m,y_m,z_m\n{text}")
        call += ["--trajectory", str(tmp_path / "way.csv")]
    assert main(call) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""


@pytest.mark.parametrize("gain", ["nan", "inf", "-inf", "1000"])
def test_a_gain_that_is_none_is_refused_by_name(gain: str, capsys) -> None:
    assert main(["optimize", "--gain", gain]) == 2
    assert "gain_db is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("epsilon_total: 0", "epsilon_total is 0"),
        ("p_max: 0", "p_max is 0"),
        ("p_circuit: 9", "circuit and processing take"),
        ("a_min: .nan", "a_min is nan"),
        ("a_min: 99", "a_ref is 1.2, not above a_min 99"),
        ("e_max: 0", "e_max is 0"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_by_file_scenario_and_name(changes, message, tmp_path, capsys) -> None:
    path = tmp_path / "mine.yaml"
    values = {"lambda1": 0.5, "lambda2": 0.5, "p_max": 2.0, "epsilon_total": 5.0, "a_min": 0.0, "a_ref": 1.2}
    values |= {"e_max": 0.15, "location_branch": "grid"}
    name = changes.split(":")[0]
    lines = [f"    {key}: {value}" for key, value in values.items() if key != name]
    path.write_text("\n".join(["scenarios:", "  mine:", *lines, f"    {changes}"]) + "\n")
    assert main(["optimize", "--gain", "3", "--scenario", "mine", "--scenarios-file", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error and "mine.yaml, scenario mine" in error and error.count("\n") == 1


def test_an_a_min_out_of_reach_is_infeasible_with_its_violation(tmp_path, capsys) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "scenarios:\n  mine: {lambda1: 0.5, lambda2: 0.5, p_max: 2.0, epsilon_total: 5.0, a_min: 50.0, a_ref: 51.0, "
        "e_max: 0.15, location_branch: grid}\n"
    )
    assert main(["optimize", "--gain", "30", "--scenario", "mine", "--scenarios-file", str(path), "--json"]) == 1
    point = json.loads(capsys.readouterr().out)
    assert point["status"] == "infeasible" and point["violation"] > 10


def test_trajectory_and_coding_reach_the_link(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[fly.FlightOrder] = []
    monkeypatch.setattr(fly, "carry_out", lambda order: orders.append(order) or 0)
    assert main(["demo", "--trajectory", "way.csv", "--coding", "packet"]) == 0
    assert orders[0].config.parameters == {"link": {"trajectory": "way.csv", "coding": "packet"}}
