"""The launch files: what each starts, in which domain, and that every argument is described.

launch and launch_ros are not among the wheels; without them what needs them is skipped.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

from uav_privacy_sc import graph

ROOT = Path(__file__).parents[1]
FILES = sorted(path.name for path in (ROOT / "launch").glob("*.launch.py"))
HAS_LAUNCH = importlib.util.find_spec("launch_ros") is not None
needs_launch = pytest.mark.skipif(not HAS_LAUNCH, reason="launch and launch_ros are not among the wheels")
STARTED = {
    "uav_privacy_sc.launch.py": set(graph.NODES),
    "onboard.launch.py": {"camera", "perception", "protection", "budget_server", "link"},
    "ground.launch.py": {"ground", "eavesdropper"},
    "replay.launch.py": set(graph.NODES) - {"camera"},
    "record.launch.py": set(),
}


def test_there_are_the_launch_files_that_are_tested() -> None:
    assert set(FILES) == set(STARTED)


@pytest.mark.parametrize("name", FILES)
def test_a_launch_file_says_how_to_call_it(name: str) -> None:
    text = ast.get_docstring(ast.parse((ROOT / "launch" / name).read_text(encoding="utf-8")))
    assert text is not None and f"ros2 launch uav_privacy_sc {name}" in text


def test_no_raw_topic_is_named_where_topics_are_recorded() -> None:
    code = (ROOT / "uav_privacy_sc" / "nodes" / "launching.py").read_text(encoding="utf-8")
    assert not re.search(r'"(semantic|tx|protection)/', code)  # names come from the graph
    raw = [topic for topic in graph.TOPICS.values() if topic.name.startswith(("camera/", "semantic/", "protection/"))]
    assert raw and not any(topic.recorded for topic in raw)


class Launched:
    """A launch file with some of its arguments given."""

    def __init__(self, file: str, **given: str) -> None:
        from launch import LaunchContext
        from launch.actions import DeclareLaunchArgument, OpaqueFunction

        path = ROOT / "launch" / file
        specification = importlib.util.spec_from_file_location(path.name.partition(".")[0], path)
        assert specification is not None and specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        entities = module.generate_launch_description().entities
        self.arguments = [entity for entity in entities if isinstance(entity, DeclareLaunchArgument)]
        context = LaunchContext()
        context.launch_configurations.update(given)
        for argument in self.arguments:
            argument.visit(context)
        self.context = context
        self.actions: list[Any] = []
        for entity in entities:
            if isinstance(entity, OpaqueFunction):
                self.actions += entity.execute(context) or []

    def nodes(self) -> dict[str, Any]:
        from launch_ros.actions import Node

        return {action.node_executable: action for action in self.actions if isinstance(action, Node)}

    def commands(self) -> list[list[str]]:
        from launch.utilities import perform_substitutions
        from launch_ros.actions import Node

        others = [action for action in self.actions if not isinstance(action, Node)]
        return [[perform_substitutions(self.context, word) for word in action.cmd] for action in others]

    def environment(self, action: Any) -> dict[str, str]:
        return {key[0].text: value[0].text if value else "" for key, value in action.additional_env}


def given(file: str) -> dict[str, str]:
    return {"bag": "/flights/one"} if file.startswith(("replay", "record")) else {}


@needs_launch
@pytest.mark.parametrize("file", FILES)
def test_a_launch_file_starts_its_nodes_in_their_domains_and_describes_every_argument(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from uav_privacy_sc.nodes import launching

    monkeypatch.setenv("ROS_DOMAIN_ID", "11")
    monkeypatch.setattr(launching, "ARGUMENTS", launching._arguments())
    launched = Launched(file, **given(file))
    assert all(len(argument.description) > 5 for argument in launched.arguments)
    switches = {argument.name for argument in launched.arguments if argument.name.startswith("with_")}
    assert switches == {f"with_{name}" for name in STARTED[file]}
    nodes = launched.nodes()
    assert set(nodes) == STARTED[file]
    for name, node in nodes.items():
        domain = "12" if graph.NODES[name].domain == graph.GROUND else "11"
        assert launched.environment(node)["ROS_DOMAIN_ID"] == domain


@needs_launch
def test_switches_leave_nodes_out_and_bad_arguments_are_refused_by_name() -> None:
    assert set(Launched("ground.launch.py", with_eavesdropper="false").nodes()) == {"ground"}
    for argument, value in (("ground_domain_id", "500"), ("respawn_delay_s", "soon"), ("onboard_domain_id", "")):
        with pytest.raises(ValueError, match=f"argument {argument} is"):
            Launched("uav_privacy_sc.launch.py", **{argument: value})


@needs_launch
def test_a_replay_plays_the_pictures_alone_into_the_domain_on_board() -> None:
    launched = Launched(
        "replay.launch.py",
        bag="/flights/one",
        image_topic="/drone/image",
        transport="compressed",
        namespace="uav1",
        loop="true",
        onboard_domain_id="7",
    )
    (command,) = launched.commands()
    assert command[:4] == ["ros2", "bag", "play", "/flights/one"]
    assert command[command.index("--delay") + 1] == "5"
    assert command[command.index("--topics") + 1] == "/drone/image/compressed"
    assert command[-1] == "/drone/image/compressed:=/uav1/camera/image_raw/compressed" and "--loop" in command
    player = next(action for action in launched.actions if action not in launched.nodes().values())
    assert launched.environment(player)["ROS_DOMAIN_ID"] == "7"
    assert launched.environment(player)["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"


@needs_launch
@pytest.mark.parametrize(("party", "bags"), [("both", 2), ("onboard", 1), ("ground", 1)])
def test_a_recording_has_what_was_protected_and_nothing_raw(party: str, bags: int) -> None:
    commands = Launched("record.launch.py", bag="/flights/two", party=party, namespace="uav1").commands()
    assert len(commands) == bags
    topics = {word for command in commands for word in command if word.startswith("/uav1/")}
    assert topics and all(graph.TOPICS[topic.removeprefix("/uav1/")].recorded for topic in topics)
    if party == "both":
        assert topics == {f"/uav1/{topic.name}" for topic in graph.TOPICS.values() if topic.recorded}


@needs_launch
def test_the_recorder_is_called_as_its_distribution_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for distribution, named in (("humble", []), ("jazzy", ["--topics"]), ("kilted", ["--topics"])):
        monkeypatch.setenv("ROS_DISTRO", distribution)
        (command,) = Launched("record.launch.py", bag="/flights/two", party="ground").commands()
        topics = [
            f"/{topic.name}" for topic in graph.TOPICS.values() if topic.recorded and topic.domain == graph.GROUND
        ]
        assert command[command.index("--output") + 2 :] == [*named, *topics]


@needs_launch
def test_what_ros2_bag_play_would_refuse_is_refused_by_name_or_left_out() -> None:
    (command,) = Launched("replay.launch.py", bag="/flights/one", play_delay_s="0").commands()
    assert "--delay" not in command
    for argument, value in (("play_rate", "0"), ("play_rate", "nan"), ("play_delay_s", "inf")):
        with pytest.raises(ValueError, match=f"argument {argument} is"):
            Launched("replay.launch.py", bag="/flights/one", **{argument: value})
