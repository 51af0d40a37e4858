"""The node graph, once: used by the launch files, the in-process runner, the nodes themselves and the tests.

Importing this module needs neither rclpy nor torch; what runs nodes imports them when it is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from uav_privacy_sc.flight import FlightConfig, FlightEvent, FlightLog

if TYPE_CHECKING:
    from uav_privacy_sc.data.sources import Source
    from uav_privacy_sc.nodes.cruise import CruiseLog

PACKAGE = "uav_privacy_sc"
#: The two DDS domains. The first is confined to the aircraft's computer.
ONBOARD, GROUND = "onboard", "ground"
DISCOVERY_RANGE = {ONBOARD: "LOCALHOST", GROUND: "SUBNET"}
#: First segments of the topics that live in the ground domain.
GROUND_SEGMENTS = ("ground", "eve")
#: First segments of the topics that a flight recorder may keep: nothing from before protection.
RECORDED_SEGMENTS = ("tx", "ground", "eve", "link", "budget")
PROFILES = ("hardened", "paper")
#: Parameters of protection that the budget server has, too, to pace by; what is set for one is set for both.
PACING = ("enforce_ceiling", "epsilon_ceiling", "expected_frames", "delta")


@dataclass(frozen=True)
class QoS:
    """Quality of service of a kind of topic, in rclpy's words; the values are defaults of each topic's parameters."""

    reliability: str
    durability: str
    depth: int


#: ``image``: newest wins. ``frame``: tensors and objects, which are joined by stamp. ``state``: the last value is there
#: for late joiners. ``record``: none may be lost.
QOS = {
    "image": QoS("best_effort", "volatile", 1),
    "frame": QoS("reliable", "volatile", 5),
    "state": QoS("reliable", "transient_local", 1),
    "record": QoS("reliable", "volatile", 100),
}


@dataclass(frozen=True)
class Topic:
    """A topic by its relative name, its message type and its kind of :data:`QOS`."""

    name: str
    type: str
    qos: str

    @property
    def domain(self) -> str:
        """The DDS domain in which the topic lives when the air gap is closed."""
        return GROUND if self.name.split("/")[0] in GROUND_SEGMENTS else ONBOARD

    @property
    def recorded(self) -> bool:
        """Whether a flight recorder keeps it."""
        return self.name.split("/")[0] in RECORDED_SEGMENTS


IMAGE, POINTS, FLOAT = "sensor_msgs/msg/Image", "sensor_msgs/msg/PointCloud2", "std_msgs/msg/Float32"
MARKERS, DIAGNOSTICS = "visualization_msgs/msg/MarkerArray", "diagnostic_msgs/msg/DiagnosticArray"

TOPICS = {
    topic.name: topic
    for topic in (
        Topic("camera/image_raw", IMAGE, "image"),
        Topic("camera/image_raw/compressed", "sensor_msgs/msg/CompressedImage", "image"),
        Topic("camera/camera_info", "sensor_msgs/msg/CameraInfo", "image"),
        Topic("semantic/features", IMAGE, "frame"),
        Topic("semantic/objects", POINTS, "frame"),
        Topic("semantic/networks", DIAGNOSTICS, "state"),
        Topic("tx/lattice_step", FLOAT, "state"),
        Topic("tx/features", IMAGE, "frame"),
        Topic("tx/objects", POINTS, "frame"),
        Topic("tx/record", DIAGNOSTICS, "record"),
        Topic("protection/budget_map", IMAGE, "frame"),
        Topic("protection/badge", MARKERS, "frame"),
        Topic("protection/true_markers", MARKERS, "frame"),
        Topic("link/ground/gain_db", FLOAT, "state"),
        Topic("link/ground/snr_db", FLOAT, "state"),
        Topic("link/eve/snr_db", FLOAT, "state"),
        Topic("link/record", DIAGNOSTICS, "record"),
        Topic("budget/utility", FLOAT, "state"),
        Topic("ground/rx/lattice_step", FLOAT, "state"),
        Topic("ground/rx/features", IMAGE, "frame"),
        Topic("ground/rx/objects", POINTS, "frame"),
        Topic("eve/rx/lattice_step", FLOAT, "state"),
        Topic("eve/rx/features", IMAGE, "frame"),
        Topic("eve/rx/objects", POINTS, "frame"),
        Topic("ground/mask", IMAGE, "frame"),
        Topic("ground/overlay", IMAGE, "frame"),
        Topic("ground/objects", POINTS, "frame"),
        Topic("ground/markers", MARKERS, "frame"),
        Topic("eve/reconstruction", IMAGE, "frame"),
        Topic("eve/markers", MARKERS, "frame"),
    )
}


@dataclass(frozen=True)
class NodeSpec:
    """One node, which is also one executable: where it lives, what it takes and what it gives.

    ``link`` lives on board and reaches into the ground domain; it is the only one that does.
    """

    name: str
    domain: str
    takes: tuple[str, ...]
    gives: tuple[str, ...]
    about: str

    @property
    def module(self) -> str:
        """The Python module of the node; its ``main`` is the executable."""
        return f"{PACKAGE}.nodes.{self.name}"


NODES = {
    spec.name: spec
    for spec in (
        NodeSpec(
            "camera",
            ONBOARD,
            (),
            ("camera/image_raw", "camera/image_raw/compressed", "camera/camera_info"),
            "plays a folder, dataset, video, device, bag or synthetic flight",
        ),
        NodeSpec(
            "perception",
            ONBOARD,
            ("camera/image_raw", "camera/image_raw/compressed"),
            ("semantic/features", "semantic/objects", "semantic/networks"),
            "detects objects and encodes features",
        ),
        NodeSpec(
            "protection",
            ONBOARD,
            ("semantic/objects", "semantic/features", "semantic/networks"),
            (
                "tx/lattice_step",
                "tx/objects",
                "tx/features",
                "tx/record",
                "protection/budget_map",
                "protection/badge",
                "protection/true_markers",
            ),
            "releases features and objects with differential privacy, or nothing",
        ),
        NodeSpec(
            "budget_server",
            ONBOARD,
            ("link/ground/gain_db",),
            ("budget/utility",),
            "chooses privacy budgets and transmit power; its parameters are what it chose",
        ),
        NodeSpec(
            "link",
            ONBOARD,
            ("tx/lattice_step", "tx/objects", "tx/features"),
            (
                "ground/rx/lattice_step",
                "ground/rx/objects",
                "ground/rx/features",
                "eve/rx/lattice_step",
                "eve/rx/objects",
                "eve/rx/features",
                "link/ground/gain_db",
                "link/ground/snr_db",
                "link/eve/snr_db",
                "link/record",
            ),
            "is the air: carries what was released, faded and noisy, across the air gap",
        ),
        NodeSpec(
            "ground",
            GROUND,
            ("ground/rx/lattice_step", "ground/rx/objects", "ground/rx/features"),
            ("ground/mask", "ground/overlay", "ground/objects", "ground/markers"),
            "decodes what it received into a semantic mask",
        ),
        NodeSpec(
            "eavesdropper",
            GROUND,
            ("eve/rx/lattice_step", "eve/rx/objects", "eve/rx/features"),
            ("eve/reconstruction", "eve/markers"),
            "tries to see the picture in what it overhears",
        ),
    )
}


def config_file(name: str | Path) -> Path:
    """Return a profile's parameter file: ``hardened`` or ``paper`` as shipped, else the path itself.

    Raises:
        ValueError: there is no such file.
    """
    if str(name) not in PROFILES:
        if not Path(name).is_file():
            raise ValueError(f"profile {str(name)!r} is neither {' nor '.join(PROFILES)} nor a parameter file")
        return Path(name)
    return shipped_config(f"{name}.yaml")


def shipped_config(name: str) -> Path:
    """Return a file of ``config/``, by its path below it.

    Found in the source tree and where colcon or pip have put ``share/uav_privacy_sc``.

    Raises:
        ValueError: it is not installed.
    """
    for parent in Path(__file__).resolve().parents:
        for folder in (parent / "share" / PACKAGE / "config", parent / "config"):
            if (folder / name).is_file():
                return folder / name
    raise ValueError(f"config/{name} is not installed; reinstall {PACKAGE}")


def profile_parameters(profile: str | Path, node: str) -> dict[str, Any]:
    """Return what a ROS parameter file sets for one of our nodes, the more particular entry last.

    Raises:
        ValueError: the file is missing or is not a ROS parameter file.
    """
    path = config_file(profile)
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ValueError(f"{path}: not a parameter file ({' '.join(str(error).split())})") from None
    if not isinstance(document, dict):
        raise ValueError(f"{path}: not a parameter file; give a mapping such as `/**: ros__parameters:`")
    parameters: dict[str, Any] = {}
    for key in ("/**", f"/**/{node}", f"/{node}", node):
        section = document.get(key) or {}
        if not isinstance(section, dict) or not isinstance(section.get("ros__parameters", {}), dict):
            raise ValueError(f"{path}: {key} lacks `ros__parameters:` with a mapping")
        parameters.update(section.get("ros__parameters", {}))
    return parameters


def flight_parameters(config: FlightConfig, ground_domain_id: int | None) -> dict[str, dict[str, Any]]:
    """Return by node what the settings of a flight mean as parameters.

    ``ground_domain_id`` is the DDS domain of the ground, None when the air gap is open.
    """
    seed = -1 if config.seed is None else config.seed
    protection = config.parameters.get("protection", {})
    pace = {name: protection[name] for name in PACING if name in protection}
    policy = {"scenario": config.scenario, "scenarios_file": _text(config.scenarios_file)}
    networks = {"weights": _text(config.weights), "device": config.device}
    return {
        "camera": {},
        "perception": networks,
        "protection": {"seed": seed, "ledger": _text(config.ledger)},
        "budget_server": {**policy, **pace},
        "link": {"link_seed": seed, "ground_domain_id": -1 if ground_domain_id is None else ground_domain_id},
        "ground": networks,
        "eavesdropper": networks,
    }


def _text(path: Path | None) -> str:
    return "" if path is None else str(path)


def fly(
    source: Source,
    config: FlightConfig | None = None,
    observer: Callable[[FlightEvent], None] | None = None,
    bag: Path | None = None,
    should_stop: Callable[[], bool] | None = None,
    stages: Mapping[str, Any] | None = None,
) -> FlightLog:
    """Fly a source through all seven nodes in this process, over real topics in two DDS domains.

    The camera publishes the next frame once the budget for it is known and at most ``config.in_flight`` - 1 others are
    on their way to the decoder; so nothing is lost for want of speed, and a seeded flight repeats.

    Args:
        source: what to fly; closed at the end.
        config: how to fly it.
        observer: told of every finished frame, in the calling thread.
        bag: folder of the rosbag2 (MCAP) to record; it must not exist.
        should_stop: asked between frames; the flight ends when it says True.
        stages: replacements of a node's stage by node name, for tests and experiments.

    Returns:
        The log; ``interrupted`` is set when Ctrl-C, SIGTERM or ``should_stop`` ended the flight early.

    Raises:
        ValueError: a parameter, a scenario, weights or a profile cannot be used; the message is one line.
        FileExistsError: ``bag`` exists.
    """
    from uav_privacy_sc.nodes.flight import Flight

    return Flight(source, config or FlightConfig(), observer, bag, should_stop, stages or {}).fly()


def cruise(
    source: Source, rate_hz: float, config: FlightConfig | None = None, stages: Mapping[str, Any] | None = None
) -> CruiseLog:
    """Fly a source as :func:`fly` does, with its frames at ``rate_hz`` whatever becomes of those before: newest wins.

    Returns:
        The log of the flight, and how old each frame was, from its stamp to the ground's mask.

    Raises:
        ValueError: as :func:`fly`.
    """
    from uav_privacy_sc.nodes.cruise import Cruise

    return Cruise(rate_hz, source, config or FlightConfig(), None, None, None, stages or {}).cruise()
