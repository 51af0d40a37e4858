"""What must not leave a client: words about its pictures, a diverged training, noise that the server knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from fleet_of_three import SFR, experiment, pictures_folder, run, run_over
from flwr.app import Context, RecordDict

from uav_privacy_sc.fleet import apps, client, deployment
from uav_privacy_sc.fleet.accounting import CeilingReached, fleet_spending, together
from uav_privacy_sc.fleet.client import LEDGERS, FleetClient, OrderRefused
from uav_privacy_sc.fleet.data import DataError
from uav_privacy_sc.fleet.exchange import FleetStalled
from uav_privacy_sc.fleet.learning import NotFiniteError
from uav_privacy_sc.fleet.messages import FEATURES, Order
from uav_privacy_sc.fleet.setting import Method
from uav_privacy_sc.fleet.shares import client_pictures

AVG = replace(SFR, name="avg", title="FedAvg", algorithm="fedavg", selection=False)


def one(made: Any, method: Method | None = None, **more: Any) -> FleetClient:
    """Return client 0 of an experiment."""
    method, setting = method or made.methods[0], made.setting
    data, folder = client_pictures(made.pictures, 0), made.folder(method)
    return FleetClient(0, setting, method, setting.trainee(), data, folder, **more)


def order(made: Any, **values: Any) -> Order:
    """Return an order for client 0."""
    plain = {"method": made.methods[0].name, "round": 0, "attempt": 0, "client": 0, "strategy": "gradient"}
    return Order(**{"entries": 600, "weights": made.setting.trainee().parameters(), **plain, **values})


def test_words_about_pictures_stay_at_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def fails(experiment: Any, context: Any) -> Any:
        raise DataError("/home/anna/at the doctor's/7.png cannot be read")

    made, whole = experiment(tmp_path, methods=(AVG,), rounds=1), apps.simulated_party
    calls: list[int] = []

    def later(experiment: Any, context: Any) -> Any:
        calls.append(1)
        return whole(experiment, context) if len(calls) <= 3 else fails(experiment, context)

    monkeypatch.setattr("fleet_of_three.simulated_party", later)
    with pytest.raises(FleetStalled, match="Withheld: it failed for a reason that its own log gives") as stalled:
        run_over(made, lambda grid: grid)
    assert "doctor" not in str(stalled.value)
    assert "doctor" in caplog.text  # the client's own log
    assert not list(made.folder(AVG).rglob("*.upload"))


@pytest.mark.parametrize("strategy", ["gradient", FEATURES])
def test_a_diverged_training_is_not_told_but_made_private_as_no_change(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverges(*_: Any) -> None:
        raise NotFiniteError("update holds 17 values of NaN or infinity")

    made = experiment(tmp_path)
    monkeypatch.setattr(client, "local_update", diverges)
    upload = one(made).carry_out(order(made, strategy=strategy))
    assert len(upload.values) == (600 if strategy == "gradient" else 0)
    assert np.abs(upload.values).max(initial=0) < 50 * SFR.sigma_2  # noise alone
    (spent,) = fleet_spending(made.folder(SFR) / LEDGERS, 1e-5).clients
    assert spent.uploads == 1


def test_which_public_pictures_are_sent_does_not_depend_on_the_private_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many numbers training draws depends on its pictures (the codec draws for every object)."""
    sent: list[np.ndarray] = []
    real = client.private_features

    def watched(trainee: Any, start: Any, update: Any, public: np.ndarray, *rest: Any) -> Any:
        sent.append(public.copy())
        return real(trainee, start, update, public, *rest)

    monkeypatch.setattr(client, "private_features", watched)
    for name, used in (("a", 30), ("b", 3)):
        made = experiment(tmp_path / name)
        found = one(made)
        object.__setattr__(found, "data", replace(found.data, images=found.data.images[:used]))
        found.carry_out(order(made, strategy=FEATURES))
    assert len(sent[0]) > 1 and np.array_equal(sent[0], sent[1])


def test_features_are_refused_where_nothing_is_public(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    found = one(made)
    object.__setattr__(found, "data", replace(found.data, public=found.data.public[:0]))
    with pytest.raises(OrderRefused, match="no public pictures"):
        found.carry_out(order(made, strategy=FEATURES))


def test_a_ceiling_over_all_runs_is_not_passed_under_another_name(tmp_path: Path) -> None:
    once = SFR.mechanism("gradient").worst_case_epsilon
    made = experiment(tmp_path)
    first = one(made, ceiling=1.5 * once, runs=made.runs)
    first.carry_out(order(made))
    other = replace(SFR, name="sfr-2")
    again = one(made, other, ceiling=1.5 * once, runs=made.runs)
    with pytest.raises(CeilingReached):
        again.carry_out(order(made, method="sfr-2"))
    assert first.carry_out(order(made, attempt=1)).again  # what is paid for is given again
    alone = one(made, other, ceiling=1.5 * once)
    assert not alone.carry_out(order(made, method="sfr-2")).again  # a simulation's curves are apart


def test_what_all_methods_spend_is_added_by_client(tmp_path: Path) -> None:
    made = experiment(tmp_path, methods=(SFR, AVG), rounds=2)
    run(made)
    folders = [made.folder(method) / LEDGERS for method in made.methods]
    each = [fleet_spending(folder, 1e-5) for folder in folders]
    total = together(folders, 1e-5)
    for client_ in total.clients:
        parts = [c for spent in each for c in spent.clients if c.client == client_.client]
        assert len(parts) == 2 and client_.epsilon == pytest.approx(sum(part.epsilon for part in parts))
    assert total.worst("epsilon") > max(spent.worst("epsilon") for spent in each)


@pytest.mark.parametrize("name", ["../../elsewhere", "/tmp/x", "", ".hidden", "a b", "a" * 65])
def test_a_method_from_elsewhere_names_no_other_folder(name: str) -> None:
    with pytest.raises(ValueError, match="names a folder"):
        replace(SFR, name=name)


RUN = {
    "preset": "smoke",
    "name": "fedsfr",
    "algorithm": "fedsfr",
    "selection": True,
    "clients": 2,
    "per-round": 2,
    "minimum": 1,
    "rounds": 1,
    "sigma-1": 0.001,
    "sigma-2": 0.001,
    "feature-noise": 1.0,
    "bound": 300.0,
    "values": "fresh",
    "threshold": 0.15,
    "seed": -1,
    "pictures": 300,
    "places": 1,
    "timeout-s": 60.0,
    "join-s": 60.0,
}


def aircraft(tmp_path: Path, run_config: dict[str, Any] | None = None, **node: Any) -> apps.Party:
    """Return what a SuperNode with this configuration makes of a run."""
    known = {"partition-id": 0, "state": str(tmp_path / "state"), "data": str(tmp_path / "own")}
    config = {**known, **{name.replace("_", "-"): value for name, value in node.items()}}
    return deployment.party(Context(1, 2, config, RecordDict(), {**RUN, **(run_config or {})}))


def test_an_aircraft_says_what_is_public_and_what_it_may_cost(tmp_path: Path) -> None:
    pictures_folder(tmp_path / "own", 6)
    public = str(pictures_folder(tmp_path / "public", 3))
    with pytest.raises(OrderRefused, match="of the aircraft's own folder none is public"):
        aircraft(tmp_path, epsilon_ceiling=1e6)
    with pytest.raises(OrderRefused, match="epsilon-ceiling"):
        aircraft(tmp_path, public_data=public)
    found = aircraft(tmp_path, epsilon_ceiling=1e6, public_data=public)
    assert len(found.data.images) == 6 and len(found.data.public) == 3
    assert found.runs is not None and found.client(found.experiment.methods[0]).runs == found.runs
    plain = aircraft(tmp_path, {"algorithm": "fedavg"}, epsilon_ceiling=1e6)
    assert not len(plain.data.public)


def test_a_seed_from_the_server_is_refused(tmp_path: Path) -> None:
    pictures_folder(tmp_path / "own", 6)
    with pytest.raises(OrderRefused, match="seed=5, so its noise is known"):
        aircraft(tmp_path, {"seed": 5, "algorithm": "fedavg"}, epsilon_ceiling=1e6)
    assert aircraft(tmp_path, {"seed": 5, "algorithm": "fedavg"}, experiment=True).experiment.setting.seed == 5
