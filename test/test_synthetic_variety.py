"""Flights for training: every weather, every height, the horizon, and as many objects as VisDrone's pictures show."""

from __future__ import annotations

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.data.synthetic import VARIED, FlightStyle, SyntheticFlight
from uav_privacy_sc.data.synthetic.atmosphere import WEATHERS, draw_light
from uav_privacy_sc.data.synthetic.blocks import Block
from uav_privacy_sc.data.synthetic.camera import Camera
from uav_privacy_sc.data.synthetic.clutter import FIXTURES
from uav_privacy_sc.data.synthetic.ground import Ground
from uav_privacy_sc.data.synthetic.town import build_town
from uav_privacy_sc.data.synthetic.traffic import VISDRONE_COUNTS, populate

SMALL = {"frames": 1, "width": 480, "height": 270}
GROUND = scene.MASK_CLASSES.index("ground")


def _frame(seed: int, **style):
    return SyntheticFlight(seed=seed, style=FlightStyle(**style), **SMALL)[0]


def test_each_weather_makes_another_picture() -> None:
    frames = {weather: _frame(31, weathers=(weather,)) for weather in WEATHERS}
    brightness = {weather: frame.image.mean() for weather, frame in frames.items()}
    assert brightness["night"] < 0.6 * brightness["overcast"]
    assert len({frame.image.tobytes() for frame in frames.values()}) == len(WEATHERS)
    assert all(len(frame.objects) for frame in frames.values())


def test_haze_takes_contrast_from_what_is_far() -> None:
    low = {"pitch_deg": (22.0, 22.0), "altitude_m": (60.0, 60.0)}
    clear, hazy = (_frame(33, weathers=(w,), **low).image.astype(float) for w in ("clear", "haze"))
    far, near = np.s_[10:60], np.s_[200:]
    kept = [hazy[part].std() / clear[part].std() for part in (far, near)]
    assert kept[0] < 0.8 * kept[1]


def test_lamps_light_the_street_at_night() -> None:
    light = draw_light(np.random.default_rng(1), "night")
    assert light.lamps > 0 and light.cast.max() < 0.6
    image = _frame(35, weathers=("night",), altitude_m=(40.0, 40.0)).image.max(axis=2)
    assert np.percentile(image, 99.5) > 1.9 * np.median(image)


def test_above_the_horizon_is_sky() -> None:
    frame = _frame(37, pitch_deg=(20.0, 20.0), hfov_deg=(84.0, 84.0), weathers=("overcast",))
    camera = Camera(np.array([0, 0, 30.0]), 0.0, np.radians(20), 0.0, 240 / np.tan(np.radians(42)), 480, 270)
    horizon = int(np.isinf(camera.ground_distance()).all(axis=1).sum())
    assert horizon > 8
    assert (frame.mask[: horizon - 6] == GROUND).mean() > 0.9
    assert frame.image[: horizon - 6].std(axis=(0, 1)).max() < 10
    assert not len(frame.objects) or scene.corners(frame.objects)[:, 3].min() > (horizon - 8) / 270


def test_ground_distance_agrees_with_projection() -> None:
    camera = Camera(np.array([3.0, -4.0, 25.0]), 0.4, np.radians(35), 0.03, 700.0, 960, 540)
    point = np.array([30.0, 8.0, 0.0])
    pixel, _ = camera.project(point)
    column, row = np.round(pixel).astype(int)
    assert camera.ground_distance()[row, column] == pytest.approx(np.linalg.norm(point - camera.position), rel=5e-3)
    assert camera.ground_distance(8).shape == (68, 120)


def test_far_copies_of_the_town_have_identities_of_their_own() -> None:
    frame = SyntheticFlight(
        seed=41, style=FlightStyle((110.0, 110.0), (30.0, 30.0), density=(0.6, 0.6)), frames=1, width=960, height=540
    )[0]
    assert len(frame.objects) > 60
    assert len(np.unique(frame.ids)) == len(frame.ids)


def test_training_flights_show_as_many_objects_as_real_ones() -> None:
    counts = [len(SyntheticFlight(seed=seed, style=VARIED, frames=1)[0].objects) for seed in range(700, 712)]
    assert 30 <= np.median(counts) <= 110  # VisDrone-DET validation: 65
    assert min(counts) < 40 and max(counts) > 80


def test_shares_move_towards_those_of_visdrone() -> None:
    town = build_town(np.random.default_rng(2), 20.0)

    def share(realism: float) -> np.ndarray:
        agents = populate(town, np.random.default_rng(3), 1.0, realism)
        counts = np.bincount([a.label for a in agents], minlength=10)
        return counts[3:9] / counts[3:9].sum()

    real = np.array(VISDRONE_COUNTS[3:9]) / sum(VISDRONE_COUNTS[3:9])
    assert np.abs(share(0.9) - real).sum() < 0.6 * np.abs(share(0.0) - real).sum()
    assert sum(VISDRONE_COUNTS) == 38_759


@pytest.mark.parametrize("kind", ["built", "park", "parking", "square", "market", "yard", "field"])
def test_every_kind_of_block_stays_inside_its_bounds(kind: str) -> None:
    ground = Ground(np.random.default_rng(5))
    block = Block(ground, (20.0, 20.0, 90.0, 80.0), 15.0)
    getattr(block, f"_{kind}")((23.0, 23.0, 87.0, 77.0))
    places = [
        *(t.position for t in block.trees),
        *(f.position for f in block.fixtures),
        *(lot.center for lot in block.lots),
    ]
    places += [np.array(s[:2]) for s in [*block.stalls, *block.berths, *block.plazas]]
    assert places
    assert all(20 <= x <= 90 and 20 <= y <= 80 for x, y in places)


def test_clutter_stands_on_the_ground_and_below_the_lamps() -> None:
    rng = np.random.default_rng(6)
    for name, make in FIXTURES.items():
        corners = make(rng).corners
        assert corners[..., 2].min() == pytest.approx(0.0), name
        assert corners[..., 2].max() < 10.5, name


@pytest.mark.parametrize(
    ("style", "name"),
    [
        ({"weathers": ("snow",)}, "weathers"),
        ({"weathers": ()}, "weathers"),
        ({"altitude_m": (120.0, 15.0)}, "altitude_m"),
        ({"hfov_deg": (5.0, 60.0)}, "hfov_deg"),
        ({"objects": (0.0, 10.0)}, "objects"),
        ({"realism": (0.0, float("nan"))}, "realism"),
    ],
)
def test_a_style_out_of_range_is_named(style: dict, name: str) -> None:
    with pytest.raises(ValueError, match=name):
        FlightStyle(**style)


def test_another_weather_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="snow"):
        draw_light(np.random.default_rng(1), "snow")
