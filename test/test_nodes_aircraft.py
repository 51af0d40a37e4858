"""Whole aircraft in one process: two of them side by side, simulated time, and time that jumps."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from aircraft import Aircraft, Contexts, until
from builtin_interfaces.msg import Time
from rclpy.node import Node
from rosgraph_msgs.msg import Clock

from uav_privacy_sc import graph


@pytest.fixture
def contexts(domains: tuple[int, int]) -> Iterator[Contexts]:
    contexts = Contexts(domains)
    yield contexts
    contexts.close()


def test_two_aircraft_in_two_namespaces_share_domains_and_nothing_else(contexts: Contexts) -> None:
    one = Aircraft(contexts, "/uav1")
    two = Aircraft(contexts, "/uav2", budget_server={"scenario": "precision"})
    try:
        assert one.arrives(1, 60.0) and two.arrives(200, 60.0)
        for _ in range(5):
            assert one.arrives(2) and two.arrives(201)
        assert set(one.stages.perceived) == {1, 2} and set(two.stages.perceived) == {200, 201}
        held = [aircraft.nodes["protection"].follower.budgets for aircraft in (one, two)]
        chosen = [aircraft.nodes["budget_server"].point for aircraft in (one, two)]
        assert [budgets.epsilon_v for budgets in held] == [point.epsilon_v for point in chosen]
        assert held[0].location_branch != held[1].location_branch
        _check_names(contexts)
        one.kill("protection")  # the other one flies on, and nothing of this one leaves it
        before = one.told["link sent"]
        assert two.arrives(202) and not one.arrives(3, 1.5)
        assert one.told["link sent"] == before
    finally:
        two.close()
        one.close()
    assert one.errors == two.errors == []


def _check_names(contexts: Contexts) -> None:
    for domain, context in contexts.by_domain.items():
        stranger = Node("stranger", context=context, enable_rosout=False, start_parameter_services=False)
        try:
            here = {f"/{topic.name}" for topic in graph.TOPICS.values() if topic.domain == domain}
            wanted = {f"/{uav}{name}" for uav in ("uav1", "uav2") for name in here}

            assert until(lambda node=stranger, names=wanted: names <= _seen(node), 20.0)  # type: ignore[misc]
            assert all(
                name.startswith(("/uav1/", "/uav2/")) for name in _seen(stranger) - {"/parameter_events", "/rosout"}
            )
        finally:
            stranger.destroy_node()


def _seen(node: Node) -> set[str]:
    return {name for name, _ in node.get_topic_names_and_types()}


def test_time_that_jumps_or_stands_still_breaks_nothing_and_budgets_age_by_the_real_one(contexts: Contexts) -> None:
    aircraft = Aircraft(contexts, every={"use_sim_time": True}, protection={"max_budget_age_s": 1.5})
    clocks = [
        (node := Node("clock", context=context), node.create_publisher(Clock, "/clock", 10))
        for context in contexts.by_domain.values()
    ]
    camera = aircraft.nodes["camera"]

    def tell(seconds: int) -> None:
        for _, publisher in clocks:
            publisher.publish(Clock(clock=Time(sec=seconds)))
        assert until(lambda: camera.get_clock().now().nanoseconds == seconds * 10**9, 10.0)

    try:
        assert until(lambda: clocks[0][1].get_subscription_count() >= 5, 30.0)
        tell(1000)
        assert aircraft.arrives(1, 60.0)
        for seconds in (1001, 2_000_000, 5, 6, 5):  # on, far ahead, back, on, back
            tell(seconds)
            for stamp in (seconds * 10**9, seconds * 10**9 + 1, seconds * 10**9):  # a looped bag repeats its stamps
                assert aircraft.arrives(2, stamp=stamp), (seconds, stamp)
        time.sleep(2.0)  # simulated time stands still; budgets are still confirmed
        assert aircraft.arrives(3)
        aircraft.kill("budget_server")
        time.sleep(2.0)  # it still stands, and a budget that nobody confirms is stale all the same
        before = aircraft.told["protection released"]
        assert not aircraft.arrives(4, 1.5) and aircraft.told["protection released"] == before
        aircraft.start("budget_server")
        assert aircraft.arrives(5, 30.0)
        rates = [node._rates()["rate_hz"] for node in aircraft.nodes.values()]
        assert min(rates) >= 0.0
    finally:
        for node, _ in clocks:
            node.destroy_node()
        aircraft.close()
    assert aircraft.errors == []
