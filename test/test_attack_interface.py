"""The attackers' interface: what is intercepted is checked, attackers are known by name, adding one is easy."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.attack import interface
from uav_privacy_sc.attack.interface import (
    TARGETS,
    Interception,
    PublicConfiguration,
    attackers,
    create,
    register,
)
from uav_privacy_sc.link.channel import BlockState, public_scale, transmit_features
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets


@pytest.fixture(autouse=True)
def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    attackers()  # those of the package stay
    monkeypatch.setattr(interface, "_ATTACKERS", dict(interface._ATTACKERS))


KNOWN = PublicConfiguration(ProtectionConfig(), Budgets(1.0, 1.0, 1.0))


def test_every_target_has_a_plain_or_adaptive_attacker_of_its_own() -> None:
    assert {entry.target for entry in attackers()} == set(TARGETS)
    pictures = {entry.name: entry.adaptive for entry in attackers("picture")}
    both = {name: pictures[name] for name in ("gradient", "inverter", "inverter_average")}
    assert not any(both.values()) and all(pictures[f"{name}_adaptive"] for name in both)
    assert {entry.name for entry in attackers() if entry.over_time} == {
        "location_track", "inverter_average", "inverter_average_adaptive"
    }  # fmt: skip


def test_an_attacker_is_added_by_registering_it_and_a_name_is_taken_once() -> None:
    @register("map_median_of_the_test", target="sensitive_map", adaptive=False)
    class MedianMap:
        def __call__(self, intercepted, rng):
            return tuple(None if f.features is None else np.median(np.abs(f.features), axis=0) for f in intercepted)

    heard = [Interception(np.ones((4, 2, 3), np.float32), None, KNOWN), Interception(None, None, KNOWN)]
    guesses = create("map_median_of_the_test")(heard, np.random.default_rng(0))
    assert guesses[0].shape == (2, 3) and guesses[1] is None
    with pytest.raises(ValueError, match="map_median_of_the_test.*taken"):
        register("map_median_of_the_test", target="sensitive_map", adaptive=False)(SimpleNamespace)


def test_unknown_names_and_targets_are_refused_with_the_choices() -> None:
    with pytest.raises(ValueError, match="attacker must be one of .*location_bayes.*'nobody'"):
        create("nobody")
    with pytest.raises(ValueError, match="target must be one of"):
        register("x", target="weather", adaptive=False)


def test_the_channel_noise_is_that_of_the_link_whether_the_scale_is_heard_or_estimated() -> None:
    rng = np.random.default_rng(3)
    sent = rng.normal(size=(16, 30, 40)).astype(np.float32) * 7
    received = transmit_features(sent, 1.0, BlockState.from_gain_db(3.0), rng)
    noise = (received - sent).std()
    told = Interception(received, None, KNOWN, 3.0, scale=public_scale(sent))
    assert told.channel_sigma == pytest.approx(noise, rel=0.02)
    assert Interception(received, None, KNOWN, 3.0).channel_sigma == pytest.approx(noise, rel=0.02)
    assert Interception(sent, None, KNOWN).channel_sigma == 0.0


def test_a_packet_arrives_without_channel_noise() -> None:
    reception = SimpleNamespace(features=np.ones((2, 3, 4), np.float32), objects=None, snr_db=5.0)
    assert Interception.received(reception, KNOWN, "packet").channel_sigma == 0.0
    assert Interception.received(reception, KNOWN, "analog").channel_sigma > 0.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"features": np.full((1, 2, 2), np.nan, np.float32)}, "features of shape"),
        ({"features": np.ones((2, 2), np.float32)}, "features of shape"),
        ({"objects": np.zeros(3)}, "objects are float64"),
        ({"snr_db": float("nan")}, "snr_db is nan"),
        ({"scale": float("inf")}, "scale is inf"),
        ({"objects": scene.no_objects(), "tracks": np.zeros(2)}, "tracks has 2 entries for 0"),
    ],
)
def test_what_cannot_have_been_intercepted_is_refused(values: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Interception(**{"features": None, "objects": None, "known": KNOWN, **values})


def test_attackers_on_places_maps_and_descriptors_need_no_torch() -> None:
    code = (
        "import sys; import uav_privacy_sc.attack.location_track, uav_privacy_sc.attack.sensitive_map;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
