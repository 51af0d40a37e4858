"""Clients that drop out, lag, answer nonsense or twice; too small rounds; a server that is killed: each is named."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from fleet_of_three import SFR, experiment, run, run_over
from flwr.app import Error, Message

from uav_privacy_sc.fleet.accounting import fleet_spending
from uav_privacy_sc.fleet.checkpoint import CheckpointError
from uav_privacy_sc.fleet.client import LEDGERS, FleetClient, OrderRefused
from uav_privacy_sc.fleet.exchange import FleetStalled
from uav_privacy_sc.fleet.messages import Order, Upload
from uav_privacy_sc.fleet.server import Watch
from uav_privacy_sc.fleet.shares import client_pictures

AVG = replace(SFR, name="avg", title="FedAvg", algorithm="fedavg", selection=False)


class Wrong:
    """A grid on which the answer of one client in one round, first attempt or all, is made wrong by ``change``."""

    def __init__(
        self, grid: Any, change: Callable[[Any, Message], list[Message]], client: int = 1, always: bool = False
    ):
        self._grid, self._change, self._client, self._always = grid, change, client, always
        self.hit, self.kept = 0, []  # type: ignore[var-annotated]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._grid, name)

    def pull_messages(self, identities: Iterable[str]) -> list[Message]:
        found = list(self.kept)
        self.kept = []
        for reply in self._grid.pull_messages(identities):
            wanted = reply.has_content() and "upload" in reply.content.config_records
            if wanted and reply.content["upload"]["client"] == self._client and self._due(reply):
                self.hit += 1
                found += self._change(self, reply)
            else:
                found.append(reply)
        return found

    def _due(self, reply: Message) -> bool:
        return self._always or (reply.content["upload"]["round"] == 1 and not self.hit)


def changed(reply: Message, **values: Any) -> list[Message]:
    """Return a reply with other values in its upload."""
    upload = replace(Upload.read(reply.content), **values)
    reply.content = upload.record()
    return [reply]


def broken(_: Any, reply: Message) -> list[Message]:
    return [failed(reply)]


def failed(reply: Message) -> Message:
    """Return what Flower makes of a client app that raises."""
    found = Message(reply.content, reply_to=reply)
    found.__dict__.update(
        _metadata=reply.metadata, _content=None, _error=Error(2, "RuntimeError: the battery\nis empty")
    )
    return found


def nan(_: Any, reply: Message) -> list[Message]:
    values = Upload.read(reply.content).values.copy()
    values[0] = np.nan
    return changed(reply, values=values)


def other_size(_: Any, reply: Message) -> list[Message]:
    return changed(reply, size=17)


def fewer_values(_: Any, reply: Message) -> list[Message]:
    return changed(reply, values=Upload.read(reply.content).values[:-1])


def too_many(_: Any, reply: Message) -> list[Message]:
    size = Upload.read(reply.content).size
    return changed(reply, indices=np.arange(size), values=np.zeros(size, np.float32))


def loud(_: Any, reply: Message) -> list[Message]:
    return changed(reply, values=1e3 * Upload.read(reply.content).values)


def other_bound(_: Any, reply: Message) -> list[Message]:
    return changed(reply, bound=1e6)


def less_noise(_: Any, reply: Message) -> list[Message]:
    return changed(reply, sigma_2=1e-9)


def another_client(_: Any, reply: Message) -> list[Message]:
    return changed(reply, client=2)


def older(_: Any, reply: Message) -> list[Message]:
    return changed(reply, round=0)


def empty(_: Any, reply: Message) -> list[Message]:
    del reply.content["arrays"]
    return [reply]


@pytest.mark.parametrize(
    ("change", "kind", "why"),
    [
        (broken, "dropped out", "the battery is empty"),
        (nan, "not finite", "1 of"),
        (other_size, "another shape", "made of 17 entries"),
        (fewer_values, "another shape", "with values"),
        (too_many, "another shape", "were ordered"),
        (loud, "unclipped", "an L1 norm of"),
        (other_bound, "unclipped", "bound is 1e+06"),
        (less_noise, "unclipped", "sigma_2 is 1e-09"),
        (another_client, "stranger", "client 2"),
        (older, "late", "an upload for round 0"),
        (empty, "malformed", "without arrays"),
    ],
)
def test_a_wrong_answer_is_named_and_left_out_and_the_round_goes_on(
    change: Any, kind: str, why: str, tmp_path: Path
) -> None:
    made, lines = experiment(tmp_path, methods=(AVG,), minimum=2), []
    state = run_over(made, lambda grid: Wrong(grid, change), Watch(lines.append))["avg"]
    assert state.history[1]["faults"] == {kind: 1}
    assert sorted(state.history[1]["uploads"]) == ["0", "2"]
    assert len(state.history[0]["uploads"]) == len(state.history[2]["uploads"]) == 3
    (line,) = [line for line in lines if "round 1, client 1" in line]
    assert kind in line and why in line and "\n" not in line and state.faults == [line.removeprefix("FedAvg: ")]


def test_what_is_left_out_changes_nothing(tmp_path: Path) -> None:
    """The model is that of the clients that answered: the same whatever was wrong with the third."""
    found = [
        run_over(experiment(tmp_path / name, methods=(AVG,), minimum=2), lambda grid, c=change: Wrong(grid, c))["avg"]
        for name, change in (("a", nan), ("b", broken), ("c", loud))
    ]
    assert np.array_equal(found[0].weights, found[1].weights) and np.array_equal(found[0].weights, found[2].weights)
    whole = run(experiment(tmp_path / "d", methods=(AVG,)))["avg"]
    assert not np.array_equal(found[0].weights, whole.weights)


def test_a_client_that_lags_is_named_when_its_answer_comes(tmp_path: Path) -> None:
    def later(grid: Wrong, reply: Message) -> list[Message]:
        held.append(reply)
        return []

    class Slow(Wrong):
        def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
            found = list(messages)
            if held and found[0].metadata.group_id == "2":
                self.kept, held[:] = list(held), []
            return self._grid.push_messages(found)

    held: list[Message] = []
    made, lines = experiment(tmp_path, methods=(AVG,), minimum=2, timeout_s=3.0), []
    state = run_over(made, lambda grid: Slow(grid, later), Watch(lines.append))["avg"]
    assert state.history[1]["faults"] == {"dropped out": 1} and "no answer within 3 s" in state.faults[0]
    assert state.history[2]["faults"] == {"late": 1} and "an answer to round 1 has come now" in state.faults[1]
    assert len(state.history[2]["uploads"]) == 3


def test_an_upload_that_comes_twice_counts_once(tmp_path: Path) -> None:
    class Echo(Wrong):
        def pull_messages(self, identities: Iterable[str]) -> list[Message]:
            found = list(self._grid.pull_messages(identities))
            return found + found if found and found[0].metadata.group_id == "1" else found

    made = experiment(tmp_path, methods=(AVG,))
    state = run_over(made, lambda grid: Echo(grid, nan))["avg"]
    plain = run(experiment(tmp_path / "plain", methods=(AVG,)))["avg"]
    assert state.history[1]["faults"]["twice"] >= 2 and "its upload for this round has been taken" in state.faults[0]
    assert np.array_equal(state.weights, plain.weights)


def test_a_round_under_the_minimum_is_asked_for_again_and_spends_nothing_more(tmp_path: Path) -> None:
    made, lines = experiment(tmp_path, methods=(AVG,), minimum=3), []
    state = run_over(made, lambda grid: Wrong(grid, broken), Watch(lines.append))["avg"]
    assert any("round 1: 2 uploads, 3 are needed; asks again" in line for line in lines)
    assert len(state.history[1]["uploads"]) == 3
    whole = run(experiment(tmp_path / "whole", methods=(AVG,)))["avg"]
    assert np.array_equal(state.weights, whole.weights)
    for client in fleet_spending(made.folder(AVG) / LEDGERS, 1e-5).clients:
        assert client.uploads == 3  # one a round; that of round 1 was sent twice by client 1, and paid for once


def test_a_fleet_that_stalls_says_why_and_keeps_what_it_has(tmp_path: Path) -> None:
    made = experiment(tmp_path, methods=(AVG,), minimum=3)
    with pytest.raises(FleetStalled, match=r"round 0 has 2 of at least 3 uploads after 3 attempts.*battery.*lower the"):
        run_over(made, lambda grid: Wrong(grid, broken, always=True))
    whole = run(experiment(tmp_path / "whole", methods=(AVG,)))["avg"]
    assert np.array_equal(run(made)["avg"].weights, whole.weights)  # the same command, now with the client back


class Killed(BaseException):
    """What comes between."""


@pytest.mark.parametrize("after", [1, 4, 5])
def test_a_server_that_is_killed_goes_on_to_the_same_result(after: int, tmp_path: Path) -> None:
    def check() -> None:
        asked.append(1)
        if len(asked) > stop_at:
            raise Killed

    asked: list[int] = []
    stop_at = 2 + after * 2
    made = experiment(tmp_path)
    with pytest.raises(Killed):
        run(made, watch=Watch(check=check))
    resumed = run(made)["sfr"]
    whole = run(experiment(tmp_path / "whole"))["sfr"]
    assert np.array_equal(resumed.weights, whole.weights) and resumed.history == whole.history
    assert all(c.uploads == 3 for c in fleet_spending(made.folder(SFR) / LEDGERS, 1e-5).clients)


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    run(experiment(tmp_path, rounds=1))
    with pytest.raises(CheckpointError, match=r"was begun with sigma_1 0.001 \(now 0.002\); go on as it was begun"):
        run(experiment(tmp_path, methods=(replace(SFR, sigma_1=0.002),), rounds=1))
    (tmp_path / "runs" / "sfr" / "checkpoint.npz").write_bytes(b"torn")
    with pytest.raises(CheckpointError, match="cannot read .* give another folder by --out to begin anew"):
        run(experiment(tmp_path, rounds=1))


def test_more_rounds_go_on_from_fewer(tmp_path: Path) -> None:
    run(experiment(tmp_path, rounds=1))
    longer, whole = run(experiment(tmp_path, rounds=3))["sfr"], run(experiment(tmp_path / "whole", rounds=3))["sfr"]
    assert np.array_equal(longer.weights, whole.weights)


def client(made: Any, number: int = 0, ceiling: float | None = None) -> FleetClient:
    """Return a client of an experiment."""
    setting, method = made.setting, made.methods[0]
    return FleetClient(
        number, setting, method, setting.trainee(), client_pictures(made.pictures, number), made.folder(method), ceiling
    )


def order(made: Any, **values: Any) -> Order:
    """Return an order for its client 0."""
    plain = {"method": "sfr", "round": 0, "attempt": 0, "client": 0, "strategy": "gradient", "entries": 50}
    return Order(**{**plain, "weights": made.setting.trainee().parameters(), **values})


def test_the_client_clips_whatever_training_gives(tmp_path: Path) -> None:
    made = experiment(tmp_path, methods=(replace(SFR, bound=0.5, sigma_1=1e-5, sigma_2=1e-5),))
    upload = client(made).carry_out(order(made, entries=made.setting.trainee().size))
    assert np.abs(upload.values).sum() < 0.5 + 3e-5 * upload.size


@pytest.mark.parametrize("seed", [7, None])
def test_a_repeated_order_gets_the_stored_upload_for_nothing(seed: int | None, tmp_path: Path) -> None:
    made = experiment(tmp_path, seed=seed)
    first = client(made).carry_out(order(made))
    again = client(made).carry_out(order(made, attempt=1))
    assert not first.again and again.again
    assert np.array_equal(first.values, again.values) and np.array_equal(first.indices, again.indices)
    (spent,) = fleet_spending(made.folder(SFR) / LEDGERS, 1e-5).clients
    assert spent.uploads == 1 and spent.epsilon == pytest.approx(SFR.mechanism("gradient").worst_case_epsilon)


def test_another_model_for_the_same_round_is_refused(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    client(made).carry_out(order(made))
    with pytest.raises(OrderRefused, match="round 0 was uploaded from another model"):
        client(made).carry_out(order(made, weights=made.setting.trainee().parameters() + 1))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"client": 2}, "an order for client 2"),
        ({"method": "other"}, "method other"),
        ({"weights": np.zeros(3, np.float32)}, r"a model of shape \(3,\)"),
        ({"entries": 0}, "entries is 0"),
    ],
)
def test_orders_that_are_refused_spend_nothing(values: dict[str, Any], says: str, tmp_path: Path) -> None:
    made = experiment(tmp_path)
    with pytest.raises(OrderRefused, match=says):
        client(made).carry_out(order(made, **values))
    assert not list(made.folder(SFR).rglob("*.ledger"))


def test_a_ceiling_refuses_and_the_server_names_it(tmp_path: Path) -> None:
    once = AVG.mechanism("gradient").worst_case_epsilon
    made, lines = experiment(tmp_path, methods=(AVG,), ceiling=1.5 * once), []
    with pytest.raises(FleetStalled, match="round 1 has 0 .* ceiling"):
        run(made, watch=Watch(lines.append))
    assert all(c.uploads == 1 for c in fleet_spending(made.folder(AVG) / LEDGERS, 1e-5).clients)
    assert any("client 2: dropped out: CeilingReached" in line for line in lines)
