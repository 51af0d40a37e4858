"""The graph as it is described, against the nodes as they are and against the rules of the house."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import FakeSource, FakeStages
from rclpy.context import Context

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.flight import CLASSES
from uav_privacy_sc.nodes.link import SAME_DOMAIN

#: What rclpy gives to every node, and what every node of ours has.
OWN = {"/parameter_events", "/rosout", "/diagnostics"}


def test_describing_the_graph_needs_neither_rclpy_nor_torch() -> None:
    code = "import sys, uav_privacy_sc.graph; sys.exit(any(m in sys.modules for m in ('rclpy', 'torch', 'cv2')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_protecting_needs_no_torch() -> None:
    code = "import sys, uav_privacy_sc.nodes.protection, uav_privacy_sc.nodes.link; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_topic_has_one_giver_and_raw_topics_are_not_recorded() -> None:
    givers = [name for spec in graph.NODES.values() for name in spec.gives]
    assert sorted(givers) == sorted(graph.TOPICS)
    taken = {name for spec in graph.NODES.values() for name in spec.takes}
    assert taken <= set(givers)
    recorded = {topic.name for topic in graph.TOPICS.values() if topic.recorded}
    assert not any(name.startswith(("camera/", "semantic/")) for name in recorded)


def test_only_protection_gives_what_is_sent_and_only_the_link_gives_what_is_received() -> None:
    for spec in graph.NODES.values():
        for name in spec.gives:
            if name.startswith("tx/"):
                assert spec.name == "protection"
            if "/rx/" in name:
                assert spec.name == "link"
            if graph.TOPICS[name].domain != spec.domain:
                assert spec.name == "link"


def test_all_names_are_relative() -> None:
    assert not any(name.startswith(("/", "~")) for name in graph.TOPICS)


@pytest.fixture
def context(domains: tuple[int, int]) -> Iterator[Context]:
    context = Context()
    context.init(domain_id=domains[0])
    yield context
    context.try_shutdown()


@pytest.mark.parametrize("name", list(graph.NODES))
def test_a_node_has_exactly_the_topics_of_the_graph(name: str, context: Context, stages: FakeStages) -> None:
    options: dict[str, Any] = {"source": FakeSource()} if name == "camera" else {"stage": stages.by_node().get(name)}
    overrides = {"ledger": "memory"} if name == "protection" else {}
    node = CLASSES[name](context=context, namespace="/a", overrides=overrides, use_global_arguments=False, **options)
    try:
        spec = graph.NODES[name]
        given = {topic for topic, _ in node.get_publisher_names_and_types_by_node(name, "/a")}
        taken = {topic for topic, _ in node.get_subscriber_names_and_types_by_node(name, "/a")}
        assert given - OWN - {"/a/diagnostics", f"/a/{name}/transition_event"} == {
            f"/a/{topic}" for topic in spec.gives
        }
        unused = {"camera/image_raw/compressed"}  # perception takes one of the two transports
        assert taken - OWN == {f"/a/{topic}" for topic in spec.takes if topic not in unused}
    finally:
        node.end()


def test_every_node_is_an_executable_of_the_package() -> None:
    setup = (Path(graph.__file__).parents[1] / "setup.py").read_text(encoding="utf-8")
    for name, spec in graph.NODES.items():
        assert f'"{name}"' in setup
        assert (Path(graph.__file__).parent / "nodes" / f"{spec.module.rsplit('.', 1)[1]}.py").is_file()


def test_profiles_are_found_and_others_refused_by_name(tmp_path: Path) -> None:
    assert graph.config_file("hardened").is_file()
    with pytest.raises(ValueError, match="'soft' is neither hardened nor paper"):
        graph.config_file("soft")
    broken = tmp_path / "broken.yaml"
    for text in ("- 1", "a: [", "/**: 3", "/**: {ros__parameters: 3}"):
        broken.write_text(text)
        with pytest.raises(ValueError, match="broken.yaml"):
            graph.profile_parameters(broken, "link")


def test_the_more_particular_entry_of_a_parameter_file_wins(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("/**: {ros__parameters: {delta: 1.0e-6, seed: 3}}\nprotection: {ros__parameters: {seed: 4}}\n")
    assert graph.profile_parameters(path, "protection") == {"delta": 1e-6, "seed": 4}
    assert graph.profile_parameters(path, "link")["seed"] == 3


def test_an_open_air_gap_is_one_domain_for_the_link() -> None:
    from uav_privacy_sc.flight import FlightConfig

    assert graph.flight_parameters(FlightConfig(), None)["link"]["ground_domain_id"] == SAME_DOMAIN
    assert graph.flight_parameters(FlightConfig(), 7)["link"]["ground_domain_id"] == 7


@pytest.mark.parametrize(
    "changes", [{"frame_timeout_s": float("nan")}, {"in_flight": 0}, {"keep_frames": 1}, {"seed": -1}]
)
def test_a_flight_configuration_out_of_range_is_refused_by_name(changes: dict[str, Any]) -> None:
    from uav_privacy_sc.flight import FlightConfig

    with pytest.raises(ValueError, match=f"{next(iter(changes))} is"):
        FlightConfig(**changes)


def test_a_long_flight_keeps_pictures_of_evenly_spread_frames_only() -> None:
    from uav_privacy_sc.flight import FrameLog, FrameThinner

    frames = [FrameLog(index, index, image=np.zeros(1), gain_db=1.0) for index in range(1000)]
    thinner = FrameThinner(10)
    for frame in frames:
        thinner.add(frame)
    kept = [frame.index for frame in frames if not frame.is_light]
    assert 5 <= len(kept) <= 10
    assert len(set(np.diff(kept))) == 1 and kept[0] == 0
    assert all(frame.gain_db == 1.0 for frame in frames)
