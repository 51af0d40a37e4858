"""Positions, fixes and trajectories: right where they can be checked by hand, refused by row where wrong."""

from __future__ import annotations

import numpy as np
import pytest

from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.geometry import LiveRoute, Trajectory, east_north_up, view
from uav_privacy_sc.link.process import FlightLinks
from uav_privacy_sc.link.trajectory import load_trajectory


def trajectory(time_s, **changes) -> Trajectory:
    count = len(time_s)
    values = {"position_m": np.zeros((count, 3)), "blockage_db": np.zeros(count), **changes}
    return Trajectory(np.array(time_s, float), **values)


def test_view_gives_slant_range_and_elevation():
    seen = view((30.0, 40.0, 50.0), (0.0, 0.0, 0.0))
    assert seen.distance_m == pytest.approx(np.sqrt(5000)) and seen.elevation_deg == pytest.approx(45.0)


@pytest.mark.parametrize("bad", [(0, 0), (0, 0, float("nan"))])
def test_view_refuses_what_is_no_position(bad):
    with pytest.raises(ValueError, match="^receiver is"):
        view((0, 0, 0), bad)


def test_fixes_become_metres():
    """One minute of latitude is 1,856.9 m at 60 degrees north, one of longitude 930.0 m."""
    east, north, up = east_north_up(60.0 + 1 / 60, 10.0 + 1 / 60, 120.0, (60.0, 10.0, 20.0))
    assert (east, north, up) == pytest.approx((930.0, 1856.9, 100.0), abs=2.0)


def test_fixes_cross_the_date_line():
    assert east_north_up(0.0, -179.999, 0.0, (0.0, 179.999, 0.0))[0] == pytest.approx(222.6, abs=0.5)


@pytest.mark.parametrize(
    ("fix", "name"),
    [
        ((float("nan"), 0, 0), "latitude"),
        ((91, 0, 0), "latitude"),
        ((0, -181, 0), "longitude"),
        ((0, 0, np.inf), "altitude"),
    ],
)
def test_a_fix_that_is_none_is_refused_by_name(fix, name):
    with pytest.raises(ValueError, match=f"^{name} is"):
        east_north_up(*fix, (0.0, 0.0, 0.0))


def test_positions_are_linear_between_points_and_held_outside():
    path = trajectory([0.0, 2.0], position_m=np.array([[0.0, 0, 10], [20, 0, 10]]))
    assert path.position(1.0) == pytest.approx([10, 0, 10]) and path.way(1.0) == pytest.approx(10)
    assert path.position(9.0) == pytest.approx([20, 0, 10]) and path.way(-1.0) == 0.0


@pytest.mark.parametrize(
    ("time_s", "message"),
    [
        ([0.0, 1.0, 0.5], "does not grow in row 3 .1 s, then 0.5 s"),
        ([0.0, 1.0, 1.0], "does not grow in row 3"),
        ([0.0, 1.0, 60.0], "gap of 59 s after row 2"),
        ([0.0, np.nan], "time_s that is not finite in row 2"),
        ([], "has 0 times"),
    ],
)
def test_time_that_jumps_is_refused_by_row(time_s, message):
    with pytest.raises(ValueError, match=message):
        trajectory(time_s)


def test_values_that_are_none_are_refused_by_row():
    with pytest.raises(ValueError, match="position_m that is not finite in row 2"):
        trajectory([0, 1], position_m=np.array([[0.0, 0, 0], [0, np.inf, 0]]))
    with pytest.raises(ValueError, match="negative blockage_db in row 1"):
        trajectory([0, 1], blockage_db=np.array([-1.0, 0.0]))


def test_files_in_metres_and_in_degrees_give_the_same_way(tmp_path):
    metres, degrees = tmp_path / "metres.csv", tmp_path / "degrees.csv"
    metres.write_text("time_s,x_m,y_m,z_m,blockage_db\n0,0,0,50,0\n1,11.13,0,50,20\n")
    degrees.write_text("time_s, latitude, longitude, altitude\n0, 0, 0, 50\n1, 0, 0.0001, 50\n")
    first, second = load_trajectory(metres), load_trajectory(degrees, origin=(0.0, 0.0, 0.0))
    assert first.position(1.0) == pytest.approx(second.position(1.0), abs=0.01)
    assert first.blockage(0.5) == 10.0 and second.blockage(0.5) == 0.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time_s,x_m,y_m,z_m\n0,0,0,50\n1,0,,50\n", "y_m in line 3 is ''"),
        ("time_s,x_m,y_m,z_m\n0,0,0,fifty\n", "z_m in line 2 is 'fifty'"),
        ("time_s,x_m,y_m,z_m\n0,0,0\n", "line 2 has 3 cells for a header of 4"),
        ("time_s,x_m,y_m,z_m\n0,0,0,50,7\n", "line 2 has 5 cells for a header of 4"),
        ("time_s,x_m,y_m,z_m,x_m\n0,0,0,50,7\n", "column x_m is there 2 times"),
        ("time_s,x_m,y_m,z_m\n0,0,0,50\n1,1e200,0,50\n", "x_m in line 3 is 1e200; give a number from -1e.06 to"),
        ("time_s,x_m,y_m,z_m,blockage_db\n0,0,0,50,1e5\n", "blockage_db in line 2 is 1e5; give a number from 0 to 200"),
        ("time_s,x_m,y_m,z_m\n1e300,0,0,50\n", "time_s in line 2 is 1e300"),
        ("time_s;x_m;y_m;z_m\n0;0;0;50\n", "separated by commas; the header is 'time_s;x_m;y_m;z_m'"),
        ("# flown today\ntime_s,x_m,y_m,z_m\n0,0,0,50\n", "the header is '# flown today'"),
        ("time_s,latitude,longitude,altitude\n0,0,181,50\n", "longitude in line 2 is 181; give a number from -180"),
        ("time_s,latitude,longitude,altitude\n0,0,0,50\n1,0,90,50\n", "line 3 lies .* m from the origin"),
        ("time_s,x_m,y_m,z_m\n1,0,0,50\n0,0,0,50\n", "does not grow in line 3 .1 s, then 0 s.; .*remove the line"),
        ("time_s,x_m,y_m,z_m\n\n0,0,0,50\n\n,,,\n99,0,0,50\n", "gap of 99 s after line 3"),
        ("time_s,x_m,y_m,z_m\n\n0,0,0,50\n\n1,0,0,inf\n", "z_m in line 5 is inf; give a number"),
        ("time_s,x_m,y_m,z_m\n0,0,0,50\n\n1,0,x,50\n", "y_m in line 4 is 'x'"),
        (
            "time_s,x_m,y_m,z_m,blockage_db\n0,0,0,50,0\n\n1,0,0,50,-3\n",
            "blockage_db in line 4 is -3; give a number from 0",
        ),
        (
            "time_s,latitude,longitude,altitude\n0,0,0,50\n\n1,91,0,50\n",
            "latitude in line 4 is 91; give a number from -90 to 90",
        ),
        ("time,x,y,z\n0,0,0,0\n", "no columns time_s, x_m"),
        ("", "no rows"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line_that_names_it(tmp_path, text, message):
    path = tmp_path / "flight.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as error:
        load_trajectory(path)
    assert str(error.value).startswith(str(path)) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "\ufefftime_s,x_m,y_m,z_m\n0,1,2,50\n",
        " Time_S , X_M,y_m ,Z_M\n0,1,2,50\n",
        "time_s,note,x_m,y_m,z_m\n0,a,1,2,50\n",
    ],
)
def test_a_byte_order_mark_spaces_upper_case_and_further_columns_do_not_matter(tmp_path, text):
    (tmp_path / "flight.csv").write_text(text, encoding="utf-8")
    assert load_trajectory(tmp_path / "flight.csv").position(0.0) == pytest.approx([1.0, 2.0, 50.0])


def test_a_file_that_is_accepted_has_a_gain_everywhere(tmp_path):
    path = tmp_path / "far.csv"
    path.write_text("time_s,x_m,y_m,z_m,blockage_db\n0,1e6,-1e6,1e6,200\n1,0,0,0,0\n")
    links = FlightLinks(LinkConfig(), np.random.default_rng(0), np.random.default_rng(1), load_trajectory(path))
    for time_s in np.linspace(0.0, 1.0, 50):
        assert all(-390.0 < state.gain_db < 390.0 for state in links.states(float(time_s)))


def test_positions_out_of_range_are_refused_by_name():
    with pytest.raises(ValueError, match="position_m beyond 1e.06 in row 2"):
        trajectory([0, 1], position_m=np.array([[0.0, 0, 0], [0, 1e200, 0]]))
    with pytest.raises(ValueError, match="blockage_db beyond 200 in row 1"):
        trajectory([0, 1], blockage_db=np.array([1e5, 0.0]))
    with pytest.raises(ValueError, match="^position is .*1e.200"):
        LiveRoute().move((1e200, 0.0, 0.0))
    with pytest.raises(ValueError, match="^receiver is"):
        FlightLinks(LinkConfig(), np.random.default_rng(0), np.random.default_rng(1), ground=(0.0, 1e9, 0.0))


def test_the_way_flown_is_summed_once(monkeypatch):
    path = trajectory(np.arange(50.0), position_m=np.cumsum(np.ones((50, 3)), axis=0))
    first = path.way(20.0)
    monkeypatch.setattr(np, "cumsum", None)
    assert path.way(20.0) == first == pytest.approx(20.0 * np.sqrt(3.0))


def flown_m(true: np.ndarray, noise_m: float, least_leg_m: float) -> float:
    """The way that a route makes of noisy fixes of a flight."""
    route, noise = LiveRoute(least_leg_m), np.random.default_rng(3).normal(0.0, noise_m, true.shape)
    for fix in true + noise:
        route.move(fix)
    assert route.position(0.0) == pytest.approx((true + noise)[-1])
    return route.way(0.0)


def test_the_noise_of_a_hovering_receiver_is_no_way_flown():
    hover = np.tile([100.0, 0.0, 50.0], (1000, 1))
    assert flown_m(hover, 0.5, 0.0) > 1000.0 > 20.0 > flown_m(hover, 0.5, 3.0)


def test_a_way_in_legs_is_the_way_flown():
    straight = np.stack([np.arange(1000.0), np.zeros(1000), np.full(1000, 50.0)], axis=1)
    turn = np.linspace(0.0, 4 * np.pi, 1000)
    circle = np.stack([80 * np.cos(turn), 80 * np.sin(turn), np.full(1000, 50.0)], axis=1)
    assert flown_m(straight, 0.0, 3.0) == pytest.approx(999.0, abs=3.0)
    assert flown_m(straight, 0.5, 3.0) == pytest.approx(999.0, rel=0.06)
    assert flown_m(circle, 0.0, 3.0) == pytest.approx(4 * np.pi * 80, abs=4.0)


@pytest.mark.parametrize("bad", [-1.0, float("nan"), float("inf")])
def test_a_leg_that_is_none_is_refused(bad):
    with pytest.raises(ValueError, match="^least_leg_m is"):
        LiveRoute(bad)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ValueError, match="absent.csv: cannot be read"):
        load_trajectory(tmp_path / "absent.csv")
