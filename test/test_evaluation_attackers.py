"""The attackers' protocol: nothing of the truth is given away, controls, class frequencies, profiles, own attackers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_networks import FakeNetworks, drawn_sample, fake_loaded

from uav_privacy_sc import scene
from uav_privacy_sc.attack import interface
from uav_privacy_sc.evaluation import networks
from uav_privacy_sc.evaluation.attack_tables import tables
from uav_privacy_sc.evaluation.measurement import Results
from uav_privacy_sc.evaluation.messages import About
from uav_privacy_sc.evaluation.metrics import Missing
from uav_privacy_sc.evaluation.own_attackers import built, load_modules
from uav_privacy_sc.evaluation.presets import PRESETS
from uav_privacy_sc.evaluation.protocols import attackers
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


def test_silence_and_another_picture_stand_beside_every_case() -> None:
    found = [unit.call() for unit in attackers.units(SETTING, [drawn_sample(0), drawn_sample(1)])]  # type: ignore[arg-type]
    results = Results([row for rows in found for row in rows])
    for control in (attackers.SILENCE, attackers.ANOTHER):
        assert len(results.values("ssim", control, attacker="inverter")) == 2
    made = {table.name: table for table in tables(results, SETTING)}
    assert {"silence", "another picture"} <= {row[0] for row in made["attackers"].rows}
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
