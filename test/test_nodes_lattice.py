"""Features in whole steps: on the wire, across the link, and to whoever reads them."""

from __future__ import annotations

import array
from collections.abc import Iterator

import numpy as np
import pytest
from conftest import CHANNELS, GRID, some_objects
from std_msgs.msg import Float32
from test_nodes_budgets import Bench, protection, sender, server

from uav_privacy_sc.nodes import conversion
from uav_privacy_sc.nodes.conversion import MalformedMessage, make_header, tensor_from_message, tensor_to_message
from uav_privacy_sc.nodes.ground import GroundNode
from uav_privacy_sc.nodes.link import LinkNode

STEP = 2.0**-6
HEADER = make_header(5, "camera")


def whole_steps(seed: int = 0) -> np.ndarray:
    counts = np.random.default_rng(seed).integers(-32767, 32768, (CHANNELS, *GRID))
    return counts.astype(np.float32) * np.float32(STEP)


@pytest.fixture
def bench(domains: tuple[int, int]) -> Iterator[Bench]:
    bench = Bench(domains[0])
    yield bench
    bench.close()


def test_whole_steps_survive_exactly_in_half_the_bytes() -> None:
    message = tensor_to_message(whole_steps(), HEADER, STEP)
    assert message.encoding == "16SC16" and message.step == 2 * CHANNELS * GRID[1]
    assert len(message.data) == 2 * CHANNELS * GRID[0] * GRID[1]
    read = tensor_from_message(message, STEP)
    assert read.dtype == np.float32 and np.array_equal(read, whole_steps())


def test_whole_steps_with_padded_rows_or_of_big_endian_are_read_right() -> None:
    message = tensor_to_message(whole_steps(), HEADER, STEP)
    pixels = np.frombuffer(message.data, "<i2").reshape(GRID[0], -1)
    message.data = array.array("B", pixels.astype(">i2").tobytes())
    message.is_bigendian = 1
    assert np.array_equal(tensor_from_message(message, STEP), whole_steps())
    padded = np.pad(pixels.astype(">i2").view(np.uint8).reshape(GRID[0], -1), ((0, 0), (0, 6)))
    message.step, message.data = message.step + 6, array.array("B", padded.tobytes())
    assert np.array_equal(tensor_from_message(message, STEP), whole_steps())


def test_whole_steps_of_unknown_length_are_refused() -> None:
    with pytest.raises(MalformedMessage, match="nobody has told"):
        tensor_from_message(tensor_to_message(whole_steps(), HEADER, STEP))


def test_features_beside_the_lattice_are_not_sent_as_if_they_were_on_it() -> None:
    with pytest.raises(ValueError, match="multiples"):
        tensor_to_message(whole_steps() + np.float32(STEP / 2), HEADER, STEP)


def test_protection_sends_whole_steps_and_tells_their_length(bench: Bench) -> None:
    server(bench)
    node = protection(bench)
    features, steps = bench.listen("tx/features"), bench.listen("tx/lattice_step")
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    send(1)
    assert bench.until(lambda: bool(features and steps))
    assert (features[0].encoding, steps[0].data) == ("16SC16", STEP)


def test_floats_are_sent_where_no_step_is_set(bench: Bench) -> None:
    server(bench)
    node = protection(bench, lattice_step=0.0)
    features, steps = bench.listen("tx/features"), bench.listen("tx/lattice_step")
    send = sender(bench)
    bench.publisher("link/ground/gain_db").publish(Float32(data=12.0))
    assert bench.until(lambda: node.follower.budgets is not None)
    send(1)
    assert bench.until(lambda: bool(features and steps))
    assert (features[0].encoding, steps[0].data) == ("32FC16", 0.0)


@pytest.mark.parametrize("step", [0.01, 2.0])
def test_a_step_that_is_none_is_refused_at_the_start(bench: Bench, step: float) -> None:
    with pytest.raises(ValueError, match="lattice_step"):
        protection(bench, lattice_step=step)


def test_the_link_needs_the_step_passes_it_on_and_nothing_else_that_is_private(bench: Bench) -> None:
    server(bench)
    node = bench.add(LinkNode(context=bench.context, overrides={"link_seed": 1}, use_global_arguments=False))
    received = {party: bench.listen(f"{party}/rx/features") for party in ("ground", "eve")}
    told = {party: bench.listen(f"{party}/rx/lattice_step") for party in ("ground", "eve")}
    assert bench.until(lambda: node.follower.budgets is not None)
    objects, features, step = (bench.publisher(f"tx/{name}") for name in ("objects", "features", "lattice_step"))
    assert bench.until(lambda: all(one.get_subscription_count() for one in (objects, features, step)))

    def send(stamp: int) -> None:
        header = make_header(stamp, "camera")
        objects.publish(conversion.objects_to_message(some_objects(2), header))
        features.publish(tensor_to_message(whole_steps(), header, STEP))

    send(1)
    assert bench.until(lambda: node.drops["MalformedMessage"] == 1)
    step.publish(Float32(data=STEP))
    assert bench.until(lambda: node.lattice.step == STEP)
    send(2)
    assert bench.until(lambda: all((*received.values(), *told.values())))
    assert {messages[0].data for messages in told.values()} == {STEP}
    heard = tensor_from_message(received["ground"][0])
    assert np.corrcoef(heard.ravel(), whole_steps().ravel())[0, 1] > 0.5


def test_a_bad_step_is_not_believed(bench: Bench) -> None:
    node = bench.add(LinkNode(context=bench.context, use_global_arguments=False))
    step = bench.publisher("tx/lattice_step")
    assert bench.until(lambda: step.get_subscription_count() > 0)
    for value in (0.3, float("nan"), -1.0):
        step.publish(Float32(data=value))
    assert bench.until(lambda: node.drops["ValueError"] >= 1)
    assert node.lattice.step == 0.0


def test_the_ground_reads_whole_steps_once_it_knows_their_length(bench: Bench) -> None:
    seen: list[np.ndarray] = []

    def decode(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
        seen.append(features)
        return np.zeros((88, 160), np.uint8)

    bench.add(GroundNode(stage=decode, context=bench.context, use_global_arguments=False))
    objects, features, step = (bench.publisher(f"ground/rx/{name}") for name in ("objects", "features", "lattice_step"))
    assert bench.until(lambda: all(one.get_subscription_count() for one in (objects, features, step)))
    step.publish(Float32(data=STEP))
    bench.until(lambda: False, timeout_s=0.3)
    objects.publish(conversion.objects_to_message(some_objects(1), HEADER))
    features.publish(tensor_to_message(whole_steps(), HEADER, STEP))
    assert bench.until(lambda: bool(seen))
    assert np.array_equal(seen[0], whole_steps())
