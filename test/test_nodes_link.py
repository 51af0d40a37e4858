"""The link node: its parameters, positions from topics, lattice codes as a packet, its record, and lost features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, FakeSource, FakeStages, some_objects
from geometry_msgs.msg import PoseStamped
from sensor_msgs.msg import NavSatFix, NavSatStatus
from std_msgs.msg import Float32
from test_graph_fly import fly
from test_nodes_budgets import Bench, server

from uav_privacy_sc.link.config import LinkConfig
from uav_privacy_sc.link.path_loss import path_loss_db
from uav_privacy_sc.nodes.conversion import (
    lost_tensor_shape,
    lost_tensor_to_message,
    make_header,
    objects_to_message,
    tensor_from_message,
    tensor_to_message,
)
from uav_privacy_sc.nodes.eavesdropper import EavesdropperNode
from uav_privacy_sc.nodes.ground import GroundNode
from uav_privacy_sc.nodes.link import LinkNode
from uav_privacy_sc.privacy.lattice import STEP

SHAPE = (CHANNELS, *GRID)
HEADER = make_header(5, "camera")


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def link_node(bench: Bench, **overrides: Any) -> LinkNode:
    overrides = {"link_seed": 1, "fading": "none", **overrides}
    return bench.add(LinkNode(context=bench.context, overrides=overrides, use_global_arguments=False))


def whole_steps() -> np.ndarray:
    return np.random.default_rng(0).integers(-500, 501, SHAPE).astype(np.float32) * np.float32(STEP)


class Sender:
    """Plays protection: sends frames in whole steps."""

    def __init__(self, bench: Bench) -> None:
        self._topics = [bench.publisher(f"tx/{name}") for name in ("lattice_step", "objects", "features")]
        assert bench.until(lambda: all(topic.get_subscription_count() for topic in self._topics))
        self._topics[0].publish(Float32(data=STEP))
        bench.until(lambda: False, timeout_s=0.2)

    def __call__(self, stamp: int) -> None:
        header = make_header(stamp, "camera")
        self._topics[1].publish(objects_to_message(some_objects(2), header))
        self._topics[2].publish(tensor_to_message(whole_steps(), header, STEP))


@pytest.mark.parametrize("kind", ["NavSatFix", "PoseStamped"])
def test_the_gain_follows_the_aircrafts_own_position(bench: Bench, kind: str) -> None:
    server(bench)
    node = link_node(bench, position_topic="where", position_type=kind, origin=[0.0, 0.0, 0.0])
    far, config = node.stage.gain_db, LinkConfig()
    assert not node.status()[0] and "no position on where yet" in node.status()[1]
    if kind == "NavSatFix":
        message: Any = NavSatFix(status=NavSatStatus(status=NavSatStatus.STATUS_FIX), altitude=100.0)
    else:
        message = PoseStamped()
        message.pose.position.z = 100.0
    where = bench.node.create_publisher(type(message), "where", 1)
    assert bench.until(lambda: where.get_subscription_count() > 0)
    where.publish(message)
    assert bench.until(lambda: node.status()[0])
    assert bench.until(lambda: node.follower.budgets is not None)
    records, send = bench.listen("link/record"), Sender(bench)
    for stamp in (1, 2):
        send(stamp)
        assert bench.until(lambda stamp=stamp: len(records) == stamp)
    assert node.stage.gain_db == pytest.approx(far + path_loss_db(config) - path_loss_db(config, 100.0), abs=1e-3)
    values = [{item.key: item.value for item in record.status[0].values} for record in records]
    assert [float(value["distance_m"]) for value in values] == pytest.approx([100.0, 100.0])
    assert values[0]["coding"] == "analog" and int(values[0]["feature_bits"]) == 0
    assert int(values[0]["payload_bits"]) == int(values[0]["object_bits"]) > 2 * 96
    assert float(values[0]["energy_j"]) > 0


def test_every_block_of_a_still_channel_is_told_apart_from_those_near_it(bench: Bench) -> None:
    server(bench)
    node = link_node(bench)
    assert bench.until(lambda: node.follower.budgets is not None)
    heard, records, send = bench.listen("link/ground/gain_db"), bench.listen("link/record"), Sender(bench)
    for stamp in range(1, 6):
        send(stamp)
        assert bench.until(lambda stamp=stamp: len(records) == stamp)
    assert bench.until(lambda: len({float(message.data) for message in heard}) >= 5)
    values = [{item.key: item.value for item in record.status[0].values} for record in records]
    flown = [float(value["gain_db"]) for value in values]
    assert flown[1:] == pytest.approx([flown[0]] * 4, abs=1e-4)
    assert float(heard[-1].data) == node.stage.gain_db


def test_a_receiver_without_a_fix_moves_nobody(bench: Bench) -> None:
    node = link_node(bench, position_topic="where")
    where = bench.node.create_publisher(NavSatFix, "where", 1)
    assert bench.until(lambda: where.get_subscription_count() > 0)
    for message in (
        NavSatFix(latitude=float("nan")),
        NavSatFix(status=NavSatStatus(status=NavSatStatus.STATUS_NO_FIX)),
    ):
        before = node.drops["no position"]
        where.publish(message)
        assert bench.until(lambda before=before: node.drops["no position"] == before + 1)
    assert not node.status()[0]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"ground_position_m": [1.0, 2.0]}, "ground_position_m is .*; give 3 finite numbers"),
        ({"eavesdropper_position_m": [1.0, 2.0, float("nan")]}, "eavesdropper_position_m is .*; give 3 finite"),
        ({"origin": [1.0]}, "origin is .*; give 0 or 3 finite numbers"),
        ({"trajectory": "/no/such/file.csv"}, "/no/such/file.csv: cannot be read as a trajectory"),
        ({"fading": "nakagami"}, "fading is 'nakagami'; choose one of"),
        ({"k_factor_db": float("inf")}, "k_factor_db is inf"),
        ({"line_of_sight": "sometimes"}, "line_of_sight is 'sometimes'"),
    ],
)
def test_what_is_wrong_is_named(bench: Bench, overrides: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as refusal:
        link_node(bench, **overrides)
    assert "\n" not in str(refusal.value)


def test_codes_as_a_packet_reach_the_ground_whole_or_as_lost(bench: Bench) -> None:
    server(bench)
    node = link_node(bench, coding="packet", feature_airtime_s=0.05)
    assert bench.until(lambda: node.follower.budgets is not None)
    received, records, send = bench.listen("ground/rx/features"), bench.listen("link/record"), Sender(bench)
    send(1)
    assert bench.until(lambda: len(received) == 1 and len(records) == 1)
    assert received[0].encoding == "16SC16"
    assert np.array_equal(tensor_from_message(received[0], STEP), whole_steps())
    values = {item.key: item.value for item in records[0].status[0].values}
    assert int(values["feature_bits"]) > 10 * whole_steps().size
    assert int(values["payload_bits"]) == int(values["feature_bits"]) + int(values["object_bits"])


def test_a_packet_above_the_rate_limit_is_lost_and_said_to_be(bench: Bench) -> None:
    server(bench)
    node = link_node(bench, coding="packet", feature_airtime_s=1e-4)
    assert bench.until(lambda: node.follower.budgets is not None)
    received, send = bench.listen("ground/rx/features"), Sender(bench)
    send(1)
    assert bench.until(lambda: len(received) == 1)
    assert lost_tensor_shape(received[0]) == SHAPE and not len(received[0].data)
    assert (received[0].header.stamp.nanosec, received[0].header.frame_id) == (1, "camera")


def test_lost_features_come_through_a_message_and_nobody_takes_them_for_features() -> None:
    message = lost_tensor_to_message(SHAPE, HEADER, STEP)
    assert lost_tensor_shape(message) == SHAPE
    assert lost_tensor_shape(tensor_to_message(whole_steps(), HEADER, STEP)) is None
    with pytest.raises(ValueError, match="do not hold"):
        tensor_from_message(message, STEP)


@pytest.mark.parametrize(("policy", "expected"), [("prior", [31, 20]), ("last", [31, 31])])
def test_the_ground_decodes_lost_features_by_its_policy(bench: Bench, policy: str, expected: list[int]) -> None:
    def decode(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
        assert features.shape == SHAPE
        return np.full((88, 160), 10 * len(objects) + int(features.any()), np.uint8)

    options: dict[str, Any] = {"overrides": {"lost_features": policy}, "use_global_arguments": False}
    node = bench.add(GroundNode(stage=decode, context=bench.context, **options))
    silent: list[np.ndarray] = []

    def attack(features: np.ndarray) -> np.ndarray:
        silent.append(features)
        return np.zeros((8, 8, 3), np.uint8)

    bench.add(EavesdropperNode(stage=attack, context=bench.context, use_global_arguments=False))
    topics = [bench.publisher(f"{party}/rx/{kind}") for party in ("ground", "eve") for kind in ("objects", "features")]
    assert bench.until(lambda: all(topic.get_subscription_count() for topic in topics))
    masks = bench.listen("ground/mask")
    for stamp, count, message in (
        (1, 3, tensor_to_message(np.ones(SHAPE, np.float32), make_header(1, "camera"))),
        (2, 2, lost_tensor_to_message(SHAPE, make_header(2, "camera"))),
    ):
        topics[0].publish(objects_to_message(some_objects(count), make_header(stamp, "camera")))
        topics[1].publish(message)
        topics[3].publish(message)
        assert bench.until(lambda stamp=stamp: len(masks) == stamp)
    assert [mask.data[0] for mask in masks] == expected
    assert masks[1].header.stamp.nanosec == 2
    assert node.status()[2]["feature packets lost"] == 1
    assert bench.until(lambda: len(silent) == 2) and not silent[1].any()


def test_a_flight_with_codes_as_a_packet_loses_features_but_no_frame() -> None:
    log = fly(FakeStages(), FakeSource(12), parameters={"link": {"coding": "packet", "feature_airtime_s": 0.006}})
    assert log.counts["decoded"] == 12 and log.dropped == {}
    heard = [frame.ground_heard for frame in log.frames]
    assert any(heard) and not all(heard)
    assert all(frame.payload.feature_bits > 0 for frame in log.frames)
    assert all((frame.eve_reconstruction is not None) for frame in log.frames)


def test_a_flight_with_analog_features_loses_those_whose_scale_was_lost_and_no_frame() -> None:
    log = fly(FakeStages(), FakeSource(12), parameters={"link": {"object_rate": 4.0}})
    assert log.counts["decoded"] == 12 and log.dropped == {}
    heard = [frame.ground_heard for frame in log.frames]
    assert any(heard) and not all(heard)
    assert all((frame.eve_features is None) == (frame.eve_objects is None) for frame in log.frames)


def test_a_flight_along_a_trajectory_meets_its_distances(tmp_path: Any) -> None:
    path = tmp_path / "way.csv"
    path.write_text("time_s,x_m,y_m,z_m,blockage_db\n0,0,0,50,0\n1,200,0,50,0\n")
    log = fly(FakeStages(), FakeSource(6), parameters={"link": {"trajectory": str(path)}})
    assert [frame.distance_m for frame in log.frames] == pytest.approx([np.hypot(20 * i, 50) for i in range(6)])


@pytest.mark.parametrize(
    ("rows", "message"),
    [("0,0,0,50\n99,9,0,50\n", "gap of 99 s"), ("0,0,0,50\n-1,9,0,50\n", "does not grow"), ("", "no rows")],
)
def test_a_flight_along_a_way_that_is_none_does_not_take_off(tmp_path: Any, rows: str, message: str) -> None:
    path = tmp_path / "way.csv"
    path.write_text("time_s,x_m,y_m,z_m\n" + rows)
    with pytest.raises(ValueError, match=message) as refusal:
        fly(FakeStages(), FakeSource(2), parameters={"link": {"trajectory": str(path)}})
    assert str(refusal.value).startswith(str(path)) and "\n" not in str(refusal.value)


def test_codes_as_a_packet_need_the_lattice_and_the_log_says_so() -> None:
    log = fly(FakeStages(), FakeSource(3), profile="paper", parameters={"link": {"coding": "packet"}})
    assert log.counts["decoded"] == 0 and all("set protection's lattice_step" in reason for reason in log.dropped)
