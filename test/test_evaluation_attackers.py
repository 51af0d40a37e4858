"""The attackers' protocol: nothing of the truth is given away, controls, class frequencies, profiles, own attackers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from fake_networks import FakeNetworks, drawn_sample, fake_loaded

from uav_privacy_sc import scene
from uav_privacy_sc.attack import interface
from uav_privacy_sc.evaluation import networks, setting
from uav_privacy_sc.evaluation.attack_tables import CONTROLS, figures, tables
from uav_privacy_sc.evaluation.evaluation import evaluate
from uav_privacy_sc.evaluation.execution import Execution
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.messages import About, score_picture
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.own_attackers import built, carried, load_modules, refuse_unsendable, selected
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.protocols import attack_pictures, attackers
from uav_privacy_sc.evaluation.setting import Setting

TINY = replace(PRESETS["quick"], gradient_samples=0, track_frames=(1, 4))
SETTING = Setting("drawn", 2, 1, "hardened", TINY, FakeNetworks())


@pytest.fixture(autouse=True)
def _fakes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(networks, "Loaded", fake_loaded)
    interface.attackers()  # those that come with the package register when they are first asked for
    monkeypatch.setattr(interface, "_ATTACKERS", dict(interface._ATTACKERS))
    networks.networks_for.cache_clear()
    yield
    networks.networks_for.cache_clear()


def _about(setting: Setting = SETTING, **changes: object) -> About:
    return About("attackers", setting, replace(drawn_sample(0), **changes), 0)  # type: ignore[arg-type]


def test_the_street_map_knows_neither_the_true_mask_nor_the_true_objects() -> None:
    plain = attackers._street_map(_about())
    for changes in ({"mask": None}, {"truth": drawn_sample(0).truth[:0]}):  # type: ignore[index]
        assert (attackers._street_map(_about(**changes)).weights == plain.weights).all()
    other = drawn_sample(0).features
    assert other is not None
    assert (attackers._street_map(_about(features=np.roll(other, 7, axis=2))).weights != plain.weights).any()


def test_noise_alone_is_the_noise_of_the_uniform_case_on_features_that_are_zero() -> None:
    about = _about()
    heard, clean = attack_pictures._heard(about, None), drawn_sample(0).features
    assert clean is not None
    for epsilon in (20.0, 10.0, 1.0):
        noise, protected = heard["noise alone", epsilon].features, heard["uniform", epsilon].features
        assert noise is not None and protected is not None and noise.std() > 0.05
        np.testing.assert_allclose(protected - noise, clean, atol=2.0**-6)
    assert not heard["silence", None].features.any()


def test_controls_stay_where_nobody_is_in_the_pictures() -> None:
    """They need no people: only the PSNR of people is missing then."""
    about = _about().but(sample=drawn_sample(0, people=False))
    results = Results(attack_pictures.on_pictures(about, False, drawn_sample(1).features))
    rows = [row for row in tables(results, SETTING)[0].rows if row[0] in {name for name, _ in CONTROLS}]
    assert len(rows) == len(CONTROLS) * len({row[2] for row in rows}) > 0


def test_a_flat_picture_has_one_colour_that_of_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, np.ndarray] = {}

    def note(about: About, picture: np.ndarray) -> Iterator[object]:
        seen[about.mechanism] = picture
        return iter(())

    monkeypatch.setattr(attack_pictures, "score_picture", note)
    list(attack_pictures.on_pictures(_about(), False, None))
    flat = seen["flat picture"].reshape(-1, 3)
    assert len(np.unique(flat, axis=0)) == 1
    np.testing.assert_allclose(flat[0], seen["silence"].reshape(-1, 3).mean(axis=0), atol=0.5)


def test_controls_stand_beside_every_case() -> None:
    found = [unit.call() for unit in attackers.units(SETTING, [drawn_sample(0), drawn_sample(1)])]  # type: ignore[arg-type]
    results = Results([row for rows in found for row in rows])
    for control, epsilon in CONTROLS:
        assert len(results.values("ssim", control, epsilon, attacker="inverter")) == 2
    made = {table.name: table for table in tables(results, SETTING)}
    controls = {"silence", "flat picture", "noise alone", "another picture"}
    assert controls <= {row[0] for row in made["attackers"].rows}
    beside = {row[1] for row in made["attackers"].rows if row[0] == "noise alone"}
    assert beside == {"20", "10", "1"}, "each beside the uniform case with that very noise"
    hits = {row[1:3]: row for row in made["attackers-descriptors"].rows if row[0] == "label descriptor"}
    assert hits["in clear", "label_bayes"][3].startswith("1.000")
    assert "label_bayes, class frequencies" in {attacker for _, attacker in hits}
    assert hits["ε 1", "label_bayes"][4] != "–" and hits["ε 1", "label_bayes"][5] == "2"


def test_blind_guesses_are_of_the_most_frequent_class() -> None:
    rows = [row for row in attackers._descriptors(_about()) if row.attacker == "blind"]
    truth = drawn_sample(0).truth
    assert truth is not None
    share = float((truth["label"] == scene.OBJECT_CLASSES.index("car")).mean())
    assert {row.value for row in rows} == {share} and len(attackers.CLASS_COUNTS) == len(scene.OBJECT_CLASSES)


@pytest.mark.parametrize(("option", "missing"), [("location_mode: predictive", 2), ("count_epsilon: 1.0", 0)])
def test_profiles_that_keep_places_or_hide_the_number_are_attacked_too(
    option: str, missing: int, tmp_path: Path
) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(f"/**:\n  ros__parameters:\n    {option}\n")
    about = _about(replace(SETTING, profile=str(profile)))
    rows = [*attackers._places(about), *attackers._descriptors(about)]
    absent = [row for row in rows if row.value is None]
    assert len(absent) == missing and all("dummies" in row.reason for row in absent)


def test_own_attackers_are_imported_and_run_and_what_cannot_be_built_is_missing(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from uav_privacy_sc.attack.interface import register\n"
        "@register('grey', target='picture', adaptive=False)\n"
        "class Grey:\n"
        "    def __call__(self, intercepted, rng):\n"
        "        return tuple(np.full((88, 160, 3), 128, np.uint8) for frame in intercepted)\n"
        "@register('middle', target='location', adaptive=True)\n"
        "def middle():\n"
        "    return lambda intercepted, rng: tuple(np.full((len(f.records), 2), 0.5) for f in intercepted)\n"
        "@register('demanding', target='sensitive_map', adaptive=True)\n"
        "def demanding(power):\n"
        "    return None\n"
    )
    setting = replace(SETTING, attackers=(str(tmp_path / "mine.py"),))
    results = Results(attackers.measure(drawn_sample(0), setting, False))
    assert results.values("ssim", "none", attacker="grey")
    assert results.values("location_error", "grid", condition="1 frames", attacker="middle")
    assert "needs power" in results.reason(
        "auc", "region_aware", 1.0, attacker="demanding", condition="map of released"
    )
    entry = interface.Registered("x", "picture", False, lambda needed: None)  # type: ignore[arg-type, return-value]
    assert isinstance(built(entry), Missing)
    with pytest.raises(ValueError, match="attackers nowhere_at_all cannot be imported") as error:
        load_modules(["nowhere_at_all"])
    assert "\n" not in str(error.value)


@pytest.fixture(scope="module")
def hovering() -> Results:
    """What is measured over frames on two samples."""
    patch = pytest.MonkeyPatch()
    patch.setattr(networks, "Loaded", fake_loaded)
    networks.networks_for.cache_clear()
    changed = replace(SETTING, preset=replace(TINY, track_frames=(1, 30, 600)))
    patch.setattr(attack_pictures, "HOVERING", (("uniform", 30.0), ("region_aware", 30.0)))
    found = [
        row for k in range(2) for row in attack_pictures.over_frames(About("attackers", changed, drawn_sample(k), 0))
    ]
    patch.undo()
    networks.networks_for.cache_clear()
    return Results(found)


def _mean(results: Results, metric: str, mechanism: str, attacker: str, number: int) -> float:
    return float(np.mean(list(results.values(metric, mechanism, 30.0, None, attacker, f"{number} frames").values())))


@pytest.mark.parametrize("mechanism", ["uniform", "region_aware"])
def test_what_is_averaged_grows_with_the_frames_and_a_frame_alone_does_not(hovering: Results, mechanism: str) -> None:
    averaged = [_mean(hovering, "ssim", mechanism, "inverter_average", number) for number in (1, 30, 600)]
    alone = [_mean(hovering, "ssim", mechanism, "inverter", number) for number in (1, 30, 600)]
    assert averaged[0] == alone[0] and averaged[0] + 0.02 < averaged[1] < averaged[2] - 0.02
    assert max(alone) - min(alone) < 0.3 * (averaged[2] - averaged[0])
    masks = [_mean(hovering, "category_accuracy", mechanism, "decoder, mean", number) for number in (1, 30, 600)]
    assert masks[2] > masks[0] + 0.05


def test_without_weights_the_adaptive_inverter_is_missing_and_says_what_makes_them(hovering: Results) -> None:
    reason = hovering.reason("ssim", "uniform", 30.0, attacker="inverter_average_adaptive", condition="1 frames")
    assert "train attacker --noise adaptive" in reason


def test_one_attacker_that_is_named_is_run_alone_with_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "from uav_privacy_sc.attack.interface import register\n"
        "@register('latest', target='picture', adaptive=False, over_time=True)\n"
        "class Latest:\n"
        "    def __call__(self, intercepted, rng):\n"
        "        return tuple(np.full((88, 160, 3), len(intercepted), np.uint8) for frame in intercepted)\n"
    )
    names = (str(tmp_path / "mine.py"), "inverter")
    load_modules(names)
    assert [entry.name for entry in selected(names, "picture")] == ["inverter", "latest"]
    assert not [entry for entry in selected(names, "location") if entry.build.__module__.startswith("uav")]
    results = Results(attackers.measure(drawn_sample(0), replace(SETTING, attackers=names), True))
    assert set(results.distinct("attacker", metric="ssim", condition="")) == {"inverter"}
    assert "latest" in results.distinct("attacker", metric="ssim", condition="4 frames")
    made = [table for table in tables(results, SETTING) if table.name == "attackers-map"]
    assert not made[0].rows


def test_a_file_does_not_take_the_place_of_a_module_of_its_name(tmp_path: Path) -> None:
    import json

    (tmp_path / "json.py").write_text("import sys\nloaded = True\n")
    load_modules([str(tmp_path / "json.py")])
    import json as again

    assert again is json and not hasattr(again, "loaded")


@pytest.mark.parametrize("text", ["raise RuntimeError('two\\nlines')", "import sys; sys.exit(3)", "def broken(:"])
def test_a_module_that_fails_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(text)
    with pytest.raises(ValueError, match="bad.py cannot be imported") as error:
        load_modules([str(tmp_path / "bad.py")])
    assert "\n" not in str(error.value)


def test_the_roc_of_each_map_attacker_is_kept_and_drawn() -> None:
    results = Results(attackers._maps(_about()))
    curves = next(figure for figure in figures(results, SETTING) if figure.name == "attackers-roc")
    assert len(curves.panels) == 3
    for panel in curves.panels:
        assert {series.name for series in panel.series} == {"map_power", "map_likelihood", "map_released", "guessing"}
        for series in panel.series:
            assert list(series.y) == sorted(series.y) and series.y[-1] == 1.0
    found = {
        (row[0], row[1]): row for row in next(t for t in tables(results, SETTING) if t.name == "attackers-map").rows
    }
    assert found["map of released", "map_likelihood"][2] == found["map of released", "map_released"][2]
    assert found["no map", "map_likelihood"][2] == found["no map", "map_released"][2]


def _registered_here() -> None:
    @interface.register("of_this_process", target="picture", adaptive=False)
    class Here:
        def __call__(self, intercepted, rng):
            return tuple(np.full((88, 160, 3), 200, np.uint8) for frame in intercepted)


def _two(spec: str, number: int, nets: object):
    from functools import partial

    from uav_privacy_sc.evaluation.samples import Dataset

    return Dataset(spec, "pictures", (partial(drawn_sample, k) for k in range(number)), number)


def test_an_attacker_of_this_process_alone_goes_to_the_others_with_the_work(tmp_path: Path, monkeypatch) -> None:
    _registered_here()
    unit = next(attackers.units(SETTING, [drawn_sample(0), drawn_sample(1)]))  # type: ignore[arg-type]
    import pickle

    sent = pickle.dumps(unit.call)
    del interface._ATTACKERS["of_this_process"]
    received = pickle.loads(sent)
    rows = received()
    assert {row.value for row in rows if row.attacker == "of_this_process" and row.metric == "ssim"} != {None}
    assert "of_this_process" in {entry.name for entry in interface.attackers("picture")}


def test_one_that_cannot_be_sent_is_refused_in_one_line_where_it_would_have_to_be(tmp_path: Path, monkeypatch) -> None:
    import threading

    monkeypatch.setattr(setting, "open_dataset", _two)
    lock = threading.Lock()

    @interface.register("locked", target="label", adaptive=False)
    def locked():
        return lambda intercepted, rng: tuple(np.full((len(f.records), 10), 0.1) for f in intercepted if lock)

    assert any(entry.name == "locked" for entry in carried(()).entries)
    with pytest.raises(ValueError, match="attacker locked cannot be sent to another process .*--attackers") as error:
        evaluate(("attackers",), SETTING, tmp_path, Execution(jobs=2))
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="locked"):
        refuse_unsendable(())


def test_pictures_of_any_size_are_compared_at_eight_pixels_a_cell() -> None:
    sample = drawn_sample(1)
    rows, columns = (8 * cells for cells in sample.features.shape[1:])
    about = About("attackers", SETTING, sample, 0)
    exact = cv2.resize(sample.image, (columns, rows), interpolation=cv2.INTER_AREA)
    noise = np.random.default_rng(0).integers(0, 2, (2 * rows, 2 * columns, 3), np.uint8) * 2
    larger = np.clip(np.repeat(np.repeat(exact, 2, 0), 2, 1).astype(int) + noise - 1, 0, 255).astype(np.uint8)
    found = [{row.metric: row.value for row in score_picture(about, each)} for each in (larger, exact[::4, ::4].copy())]
    assert found[0]["psnr"] > 50.0 and all(each["ssim"] is not None for each in found)
