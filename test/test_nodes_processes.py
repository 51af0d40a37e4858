"""All nodes as separate processes: a frame crosses the air gap, nothing else does, and all of them end cleanly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from uav_privacy_sc import graph
from uav_privacy_sc.nodes.base import message_type, qos_profile
from uav_privacy_sc.nodes.conversion import objects_from_message, stamp_ns, tensor_from_message

NETWORKS = ("perception", "ground", "eavesdropper")
#: Topics of the ground domain that do not come from the graph: what rclpy and every node of ours have.
OWN = {"/parameter_events", "/rosout", "/diagnostics", "/ground/transition_event", "/eavesdropper/transition_event"}
START_TIMEOUT_S = 120.0


class Processes:
    """The seven executables, each with its domain in its environment as a launch file would set it."""

    def __init__(self, domains: tuple[int, int], folder: Path) -> None:
        self.ids = dict(zip((graph.ONBOARD, graph.GROUND), domains, strict=True))
        self.folder, self.running = folder, {}  # type: dict[str, subprocess.Popen[str]]

    def start(self, name: str, *parameters: str, fake: bool = False, confined: bool = True) -> None:
        spec = graph.NODES[name]
        program = [str(Path(__file__).with_name("fake_node.py")), name] if fake else ["-m", spec.module]
        arguments = [item for parameter in parameters for item in ("-p", parameter)]
        environment = {**os.environ, "ROS_DOMAIN_ID": str(self.ids[spec.domain]), "HOME": str(self.folder)}
        if not confined:  # as deployed: nodes choose how far they are seen
            environment.pop("ROS_AUTOMATIC_DISCOVERY_RANGE", None)
        environment["PYTHONPATH"] = os.pathsep.join([str(Path(graph.__file__).parents[1]), *sys.path])
        self.running[name] = subprocess.Popen(
            [sys.executable, *program, "--ros-args", *arguments],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, name: str, number: signal.Signals) -> tuple[int, str]:
        """Send a signal twice and return exit status and what stood on standard error."""
        process = self.running.pop(name)
        process.send_signal(number)
        time.sleep(0.05)
        if process.poll() is None:
            process.send_signal(number)
        _, errors = process.communicate(timeout=20)
        return process.returncode, errors

    def kill(self) -> None:
        for process in self.running.values():
            process.kill()
            process.communicate()


class Listener:
    """A stranger's node in one DDS domain."""

    def __init__(self, domain_id: int) -> None:
        self.context = Context()
        self.context.init(domain_id=domain_id)
        self.node = Node("stranger", context=self.context, enable_rosout=False, start_parameter_services=False)
        self.executor = SingleThreadedExecutor(context=self.context)
        self.executor.add_node(self.node)

    def listen(self, name: str) -> list[Any]:
        topic, heard = graph.TOPICS[name], []  # type: tuple[graph.Topic, list[Any]]
        self.node.create_subscription(message_type(topic.type), name, heard.append, qos_profile(topic.qos))
        return heard

    def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not condition() and time.monotonic() < deadline:
            self.executor.spin_once(timeout_sec=0.05)
        return condition()

    def published(self) -> set[str]:
        """Topics that somebody publishes in this domain."""
        names = [name for name, _ in self.node.get_topic_names_and_types()]
        return {name for name in names if self.node.count_publishers(name)}

    def close(self) -> None:
        self.executor.shutdown(timeout_sec=2.0)
        self.node.destroy_node()
        self.context.try_shutdown()


@pytest.fixture
def processes(domains: tuple[int, int], tmp_path: Path) -> Iterator[Processes]:
    processes = Processes(domains, tmp_path)
    yield processes
    processes.kill()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    folder.mkdir()
    for index in range(10):
        cv2.imwrite(str(folder / f"{index:03d}.png"), np.full((54, 96, 3), index, np.uint8))
    return folder


@pytest.mark.parametrize("fake", [True, False], ids=["stand-ins", "shipped networks"])
def test_a_protected_frame_crosses_the_air_gap_and_nothing_else_does(
    processes: Processes, domains: tuple[int, int], pictures: Path, fake: bool
) -> None:
    ground = Listener(domains[1])
    try:
        received, objects, masks = (ground.listen(f"ground/{name}") for name in ("rx/features", "rx/objects", "mask"))
        pictured = ground.listen("eve/reconstruction")
        processes.start("link", f"ground_domain_id:={domains[1]}", "fading:=none")
        processes.start("budget_server")
        processes.start("protection")
        for name in NETWORKS:
            processes.start(name, fake=fake)
        processes.start("camera", f"source:={pictures}", "loop:=true")
        arrived = ground.until(lambda: bool(received and objects and masks and pictured), START_TIMEOUT_S)
        assert arrived, {name: process.poll() for name, process in processes.running.items()}
        crossed = {f"/{topic.name}" for topic in graph.TOPICS.values() if topic.domain == graph.GROUND}
        assert ground.published() - OWN == crossed
        _check_protected(received, objects)
        _check_onboard(domains[0])
        _check_endings(processes)
    finally:
        ground.close()


def _check_protected(received: list[Any], objects: list[Any]) -> None:
    """A frame of one grey has features without any spread; released ones have noise in every cell."""
    features = tensor_from_message(received[0])
    assert (features.std(axis=0) > 0.1).all()
    assert {stamp_ns(message.header) for message in objects} & {stamp_ns(message.header) for message in received}
    arrived = [records for records in map(objects_from_message, objects) if records is not None]
    assert arrived and all((records["cell"] >= 0).all() for records in arrived)


def _check_onboard(domain_id: int) -> None:
    """The aircraft's own domain has the raw topics, which shows that the ground's lack of them means something."""
    stranger = Listener(domain_id)
    try:
        raw = {"/camera/image_raw", "/semantic/features", "/tx/features"}
        assert stranger.until(lambda: raw <= stranger.published(), 10.0)
        assert not {name for name in stranger.published() if name.startswith(("/ground", "/eve"))}
    finally:
        stranger.close()


def _check_endings(processes: Processes) -> None:
    """Under load, every node ends on SIGINT or SIGTERM, twice sent, with exit 0 and no traceback."""
    for index, name in enumerate(list(processes.running)):
        status, errors = processes.end(name, signal.SIGINT if index % 2 else signal.SIGTERM)
        assert (status, "Traceback" in errors) == (0, False), f"{name}: {errors}"


@pytest.mark.parametrize(
    ("name", "parameter", "line"),
    [
        ("camera", "source:=/no/such/place", "camera: no such source: /no/such/place"),
        ("camera", "rate_hz:=.nan", "camera: parameter rate_hz is nan; give a finite number from 0 to 1000"),
        ("budget_server", "scenario:=nowhere", "budget_server: scenario is 'nowhere'; choose one of"),
        ("protection", "delta:=2.0", "protection: parameter delta is 2.0; give a number from 1e-12 to 0.01"),
        ("protection", "ledger:=/no/such/place/ledger", "protection: ledger /no/such/place/ledger"),
        ("link", "ground_domain_id:=500", "link: parameter ground_domain_id is 500; give a whole number from -1"),
        ("perception", "weights:=/no/such/place", "perception: weights /no/such/place"),
        ("perception", "device:=quantum", "perception: device"),
        ("ground", "weights:=/no/such/place", "ground: weights /no/such/place"),
        ("eavesdropper", "weights:=/no/such/place", "eavesdropper: weights /no/such/place"),
    ],
)
def test_what_a_user_can_put_right_is_one_line_and_exit_2(
    processes: Processes, name: str, parameter: str, line: str
) -> None:
    processes.start(name, parameter)
    process = processes.running.pop(name)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors.startswith(line) and errors.count("\n") == 1


def test_a_damaged_weights_file_is_one_line_and_exit_2(processes: Processes, tmp_path: Path) -> None:
    for name in ("detector.pt", "codec.pt", "inverter.pt"):
        (tmp_path / name).write_bytes(b"no weights")
    processes.start("eavesdropper", f"weights:={tmp_path}")
    process = processes.running.pop("eavesdropper")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 2 and "inverter.pt" in errors and errors.count("\n") == 1


SHARED = """
import os
from rclpy.context import Context
from rclpy.node import Node
from uav_privacy_sc.graph import DISCOVERY_RANGE, GROUND
from uav_privacy_sc.nodes.process import discovery, network_transport
context = Context()
with discovery(DISCOVERY_RANGE[GROUND]):
    context.init(domain_id=int(os.environ["ROS_DOMAIN_ID"]))
with network_transport(DISCOVERY_RANGE[GROUND]):
    node = Node("someone", context=context)
print(sum("/dev/shm/fast" in line for line in open("/proc/self/maps")), os.environ.get("FASTDDS_BUILTIN_TRANSPORTS"))
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_what_reaches_other_computers_shares_no_memory_that_a_killed_reader_could_take_with_it(
    domains: tuple[int, int],
) -> None:
    for given, shared in ((None, False), ("SHM", True)):
        environment = {**os.environ, "ROS_DOMAIN_ID": str(domains[1]), "PYTHONPATH": os.pathsep.join(sys.path)}
        environment.pop("ROS_AUTOMATIC_DISCOVERY_RANGE")
        environment |= {} if given is None else {"FASTDDS_BUILTIN_TRANSPORTS": given}
        done = subprocess.run(
            [sys.executable, "-c", SHARED], env=environment, capture_output=True, text=True, timeout=60
        )
        maps, left = done.stdout.split()
        assert (int(maps) > 0, left) == (shared, str(given)), done.stderr
