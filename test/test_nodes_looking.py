"""Layouts, policy and unit name topics that exist; the pages are current; what is shown on board stays there."""

from __future__ import annotations

import configparser
import json
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from conftest import CHANNELS, GRID, some_objects
from std_msgs.msg import Float32
from test_nodes_budgets import Bench

from uav_privacy_sc import graph
from uav_privacy_sc.nodes import interfaces
from uav_privacy_sc.nodes.budget_server import BudgetServerNode
from uav_privacy_sc.nodes.conversion import make_header, objects_to_message, picture_from_message, tensor_to_message
from uav_privacy_sc.nodes.looking import BADGE, BUDGET_MAP, TRUE_MARKERS, badge_to_message, budget_map_picture
from uav_privacy_sc.nodes.protection import ProtectionNode

CONFIG = Path(graph.__file__).parents[1] / "config"
#: What nodes have beside the topics of the graph.
OWN = {"diagnostics", "parameter_events", "rosout", "ground/transition_event", "eavesdropper/transition_event"}


def test_the_page_of_interfaces_is_current() -> None:
    page = (CONFIG.parent / "docs" / "interfaces.md").read_text(encoding="utf-8")
    again = "run: python -m uav_privacy_sc.nodes.interfaces docs/interfaces.md"
    assert page == interfaces.document(), again
    assert all(f"`{name}`" in page for name in (*graph.TOPICS, *graph.NODES))


def test_the_page_is_written_checked_or_printed_and_help_makes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, status in ((["--help"], 0), (["--check"], 2), (["/no/such/place/page.md"], 2)):
        with pytest.raises(SystemExit) as ended:
            interfaces.main(arguments)
        assert ended.value.code == status
    assert list(tmp_path.iterdir()) == []
    capsys.readouterr()
    assert interfaces.main([]) == 0 and capsys.readouterr().out == interfaces.document()
    assert interfaces.main(["page.md"]) == 0 == interfaces.main(["page.md", "--check"])
    (tmp_path / "page.md").write_text("old", encoding="utf-8")
    assert interfaces.main(["page.md", "--check"]) == 1


def test_every_topic_in_rviz_is_of_the_graph_and_of_the_type_that_is_displayed() -> None:
    layout = yaml.safe_load((CONFIG / "uav_privacy_sc.rviz").read_text(encoding="utf-8"))
    displays = [item for item in layout["Visualization Manager"]["Displays"] if "Topic" in item]
    shown = {item["Topic"]["Value"] for item in displays}
    assert shown >= {"ground/overlay", "eve/reconstruction", "ground/markers", TRUE_MARKERS, BUDGET_MAP, BADGE}
    for item in displays:
        topic = graph.TOPICS[item["Topic"]["Value"]]
        assert topic.type.endswith(item["Class"].split("/")[1])
        policy = graph.QOS[topic.qos]
        assert item["Topic"]["Reliability Policy"].lower() == policy.reliability


def test_every_topic_in_the_foxglove_layout_is_of_the_graph_and_every_panel_is_laid_out() -> None:
    layout = json.loads((CONFIG / "foxglove" / "uav_privacy_sc.json").read_text(encoding="utf-8"))
    text = json.dumps(layout["configById"])
    topics = {name.split(".")[0] for name in re.findall(r'"/([a-z_/]+(?:\.data)?)"', text)}
    assert len(topics) > 8 and topics - OWN <= set(graph.TOPICS)

    def panels(part: Any) -> set[str]:
        return {part} if isinstance(part, str) else panels(part["first"]) | panels(part["second"])

    assert panels(layout["layout"]) == set(layout["configById"])


def test_the_policy_lets_the_ground_read_what_was_received_and_nothing_else() -> None:
    root = ElementTree.parse(CONFIG / "security" / "policy.xml").getroot()
    allowed: dict[tuple[str, str], set[str]] = {}
    for profile in root.iter("profile"):
        for group in profile.iter("topics"):
            for way in ("subscribe", "publish"):
                if group.get(way) == "ALLOW":
                    names = {str(item.text).lstrip("/") for item in group.iter("topic")}
                    allowed.setdefault((profile.attrib["node"], way), set()).update(names)
    assert allowed["ground", "subscribe"] == set(graph.NODES["ground"].takes)
    assert allowed["eavesdropper", "subscribe"] == set(graph.NODES["eavesdropper"].takes)
    for name in ("ground", "eavesdropper"):
        assert allowed[name, "publish"] - OWN == set(graph.NODES[name].gives)
    crossing = {name for name in graph.NODES["link"].gives if graph.TOPICS[name].domain == graph.GROUND}
    assert allowed["link", "publish"] - OWN == crossing
    assert ("link", "subscribe") not in allowed


def test_the_unit_starts_a_launch_file_that_is_there_and_ends_it_as_launch_expects() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(CONFIG / "systemd" / "uav-privacy-sc.service")
    launched = re.search(r"ros2 launch uav_privacy_sc (\S+)", unit["Service"]["ExecStart"])
    assert launched and (CONFIG.parent / "launch" / launched.group(1)).is_file()
    assert unit["Service"]["KillSignal"] == "SIGINT" and unit["Service"]["KillMode"] == "mixed"


def test_nothing_that_is_shown_on_board_is_in_the_grounds_domain_or_recorded() -> None:
    for name in (BUDGET_MAP, BADGE, TRUE_MARKERS):
        topic = graph.TOPICS[name]
        assert topic.domain == graph.ONBOARD and not topic.recorded
        assert not any(name in spec.takes for spec in graph.NODES.values())


def test_a_budget_map_is_drawn_on_a_scale_and_white_where_it_is_no_number() -> None:
    picture = budget_map_picture(np.array([[0.05, 20.0], [np.nan, 1e9], [1.0, -1.0]]), 2)
    assert picture.shape == (6, 4, 3) and picture.dtype == np.uint8
    assert picture[0, 0].tolist() == [13, 8, 135] and picture[0, 2].tolist() == [240, 249, 33]
    assert picture[2, 0].tolist() == [255] * 3 == picture[4, 2].tolist()
    assert picture[2, 2].tolist() == [240, 249, 33]


def test_a_badge_says_protected_only_where_it_is_so_and_vanishes_unless_renewed() -> None:
    header = make_header(0, "camera")
    for protected, experiment, words in ((True, False, "PROTECTED"), (False, False, "NOT RELEASING: stale budget")):
        (marker,) = badge_to_message(protected, experiment, "stale budget", header).markers
        assert marker.text == words and marker.lifetime.sec == 3
    assert badge_to_message(True, True, "EXPERIMENT: x", header).markers[0].text == "EXPERIMENT: x"


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


@pytest.mark.parametrize("seed", [-1, 5])
def test_true_places_are_shown_in_experiments_only(bench: Bench, seed: int) -> None:
    options: dict[str, Any] = {"context": bench.context, "use_global_arguments": False}
    server = bench.add(BudgetServerNode(**options))
    node = bench.add(ProtectionNode(overrides={"ledger": "memory", "seed": seed}, **options))
    shown = {name: bench.listen(name) for name in (BUDGET_MAP, BADGE, TRUE_MARKERS)}
    gains, objects, features = (
        bench.publisher(name) for name in ("link/ground/gain_db", "semantic/objects", "semantic/features")
    )
    assert bench.until(lambda: gains.get_subscription_count() == 1, 20.0)
    gains.publish(Float32(data=20.0))
    assert bench.until(lambda: node.follower.budgets is not None and server.point is not None, 20.0)
    assert bench.until(lambda: all(node.wanted(name) for name in shown), 20.0)
    for stamp in range(1, 40):
        gains.publish(Float32(data=20.0))
        header = make_header(stamp, "camera")
        objects.publish(objects_to_message(some_objects(3), header))
        features.publish(tensor_to_message(np.zeros((CHANNELS, *GRID), np.float32), header))
        if bench.until(lambda: bool(shown[BUDGET_MAP] and shown[BADGE]), 0.3) and node.counts["frames"] > 2:
            break
    bench.until(lambda: False, 0.5)
    assert picture_from_message(shown[BUDGET_MAP][0]).shape == (8 * GRID[0], 8 * GRID[1], 3)
    assert bool(shown[TRUE_MARKERS]) == (seed >= 0)
    if seed >= 0:
        drawn = shown[TRUE_MARKERS][0].markers[1:]
        assert [marker.pose.position.x for marker in drawn] == pytest.approx(some_objects(3)["x"] * 10)
    assert bench.until(lambda: shown[BADGE][-1].markers[0].text.startswith("EXPERIMENT" if seed >= 0 else "PROTECTED"))
