"""The aircraft's domain stays on its computer whatever the environment says, and is not that of the ground."""

from __future__ import annotations

import os

import pytest
from rclpy.context import Context

from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.nodes.process import discovery

RANGE, PEERS, HUMBLE = "ROS_AUTOMATIC_DISCOVERY_RANGE", "ROS_STATIC_PEERS", "ROS_LOCALHOST_ONLY"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (RANGE, PEERS, HUMBLE, "ROS_DISTRO"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize(
    ("given", "onboard", "ground"),
    [
        (None, "LOCALHOST", "SUBNET"),
        ("SUBNET", "LOCALHOST", "SUBNET"),
        ("SYSTEM_DEFAULT", "LOCALHOST", "SYSTEM_DEFAULT"),
        ("LOCALHOST", "LOCALHOST", "LOCALHOST"),
        ("OFF", "OFF", "OFF"),
    ],
)
def test_no_environment_widens_the_aircrafts_domain(
    environment: pytest.MonkeyPatch, given: str | None, onboard: str, ground: str
) -> None:
    environment.setenv(PEERS, "192.0.2.1")
    if given is not None:
        environment.setenv(RANGE, given)
    with discovery("LOCALHOST"):
        assert os.environ[RANGE] == onboard and PEERS not in os.environ and HUMBLE not in os.environ
    with discovery("SUBNET"):
        assert os.environ[RANGE] == ground and os.environ[PEERS] == "192.0.2.1"
    assert os.environ.get(RANGE) == given and os.environ[PEERS] == "192.0.2.1"


def test_humble_is_confined_in_its_own_words(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ROS_DISTRO", "humble")
    with discovery("LOCALHOST"):
        assert os.environ[HUMBLE] == "1"
    assert HUMBLE not in os.environ


def test_the_link_refuses_a_ground_in_the_domain_on_board(domains: tuple[int, int]) -> None:
    context = Context()
    context.init(domain_id=domains[0])
    try:
        with pytest.raises(ValueError, match="no air gap") as refusal:
            LinkNode(context=context, overrides={"ground_domain_id": domains[0]}, use_global_arguments=False)
        assert "\n" not in str(refusal.value)
    finally:
        context.shutdown()
