"""Parameters of nodes: declared once, whole numbers for doubles, NaN and strings for booleans refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import pytest
from rclpy.context import Context
from rclpy.node import Node
from rclpy.parameter import Parameter

from uav_privacy_sc import graph
from uav_privacy_sc.nodes import parameters
from uav_privacy_sc.nodes.flight import CLASSES


@dataclass(frozen=True)
class Config:
    gain: float = parameters.parameter(1.5, "a gain", low=0.0, high=10.0, read_only=False)
    count: int = parameters.parameter(3, "a count", low=1, high=9)
    on: bool = parameters.parameter(False, "a switch")
    mode: str = parameters.parameter("a", "a mode", choices=("a", "b"))


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


def declared(context: Context, **overrides: Any) -> tuple[Node, Config]:
    given = [Parameter(name, value=value) for name, value in overrides.items()]
    node = Node("tested", context=context, parameter_overrides=given)
    try:
        return node, parameters.declare(node, Config)
    except ValueError:
        node.destroy_node()
        raise


def test_defaults_and_descriptions_reach_the_node(context: Context) -> None:
    node, config = declared(context)
    assert config == Config()
    descriptor = node.describe_parameter("gain")
    assert descriptor.description == "a gain"
    assert (descriptor.floating_point_range[0].from_value, descriptor.floating_point_range[0].to_value) == (0.0, 10.0)
    assert [node.describe_parameter(name).read_only for name in ("gain", "count", "on")] == [False, True, True]
    assert node.describe_parameter("mode").additional_constraints == "one of a, b"
    node.destroy_node()


def test_a_whole_number_is_taken_for_a_double(context: Context) -> None:
    node, config = declared(context, gain=2)
    assert config.gain == 2.0 and isinstance(config.gain, float)
    node.destroy_node()


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("gain", math.nan, "give a finite number from 0 to 10"),
        ("gain", math.inf, "give a finite number"),
        ("gain", 10.1, "give a number from 0 to 10"),
        ("gain", "1.0", "give a number"),
        ("gain", True, "give a number"),
        ("count", 0, "give a whole number from 1 to 9"),
        ("count", 2.0, "give a whole number"),
        ("on", "false", "give true or false"),
        ("on", 1, "give true or false"),
        ("mode", "c", "choose one of a, b"),
    ],
)
def test_a_bad_value_is_refused_by_name_in_one_line(context: Context, name: str, value: Any, remedy: str) -> None:
    with pytest.raises(ValueError, match=f"parameter {name} is .*; {remedy}") as refusal:
        declared(context, **{name: value})
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("value", [math.nan, "x", 11.0, False])
def test_a_bad_value_at_run_time_is_refused(value: Any) -> None:
    verdict = parameters.refusal(Config, [Parameter("gain", value=value)])
    assert not verdict.successful and "gain" in verdict.reason
    assert parameters.refusal(Config, [Parameter("gain", value=4)]).successful


@pytest.mark.parametrize("name", list(graph.NODES))
def test_every_parameter_has_a_description_and_a_default_within_its_range(name: str) -> None:
    config = CLASSES[name].Config
    parameters.build(config, {item.name: item.default for item in fields(config)})
    assert all(len(item.metadata["ros"].description) > 5 for item in fields(config))


@pytest.mark.parametrize("name", list(graph.NODES))
@pytest.mark.parametrize("profile", graph.PROFILES)
def test_every_profile_loads_into_every_node_and_sets_nothing_unknown(profile: str, name: str) -> None:
    values = graph.profile_parameters(profile, name)
    config = CLASSES[name].Config
    known = {item.name: values.get(item.name, item.default) for item in fields(config)}
    parameters.build(config, known)
    everything = {item.name for node in CLASSES.values() for item in fields(node.Config)}
    assert set(values) <= everything
