"""Flower's apps: one loop for Ray and for one process, with the same bits; nothing is reported to anyone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from fleet_of_three import TINY_METHODS, experiment, run

from uav_privacy_sc.fleet import QUIET
from uav_privacy_sc.fleet.accounting import fleet_spending
from uav_privacy_sc.fleet.client import LEDGERS


def test_every_method_learns_and_features_are_used(tmp_path: Path) -> None:
    made = experiment(tmp_path, methods=TINY_METHODS)
    states = run(made)
    for method in TINY_METHODS:
        history = states[method.name].history
        assert len(history) == made.setting.rounds
        assert history[-1]["psnr"] > history[0]["psnr"] - 0.5
        sent = {upload["strategy"] for record in history for upload in record["uploads"].values()}
        assert sent == ({"gradient"} if method.algorithm == "fedavg" else {"gradient", "features"})


def test_ledgers_hold_what_the_records_say(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    state = run(made)["sfr"]
    spent = fleet_spending(made.folder(made.methods[0]) / LEDGERS, 1e-5)
    for client in spent.clients:
        uploads = [record["uploads"].get(str(client.client)) for record in state.history]
        told = [upload for upload in uploads if upload is not None]
        assert client.uploads == len(told)
        assert client.epsilon == pytest.approx(sum(upload["worst"] for upload in told))
        assert client.paper == pytest.approx(sum(upload["paper"] for upload in told))


def test_without_a_seed_the_noise_differs_and_the_ledger_says_so(tmp_path: Path) -> None:
    first, second = (run(experiment(tmp_path / name, seed=None, rounds=1))["sfr"] for name in "ab")
    assert not np.array_equal(first.weights, second.weights)
    made = experiment(tmp_path / "a", seed=None, rounds=1)
    assert all(c.seeded == 0 for c in fleet_spending(made.folder(made.methods[0]) / LEDGERS, 1e-5).clients)


@pytest.mark.slow
def test_ray_and_one_process_give_the_same_bits(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    local = run(experiment(tmp_path / "local"))["sfr"]
    ray = run(experiment(tmp_path / "ray"), "ray", jobs=1)["sfr"]
    assert np.array_equal(local.weights, ray.weights)
    assert local.history == ray.history and local.faults == ray.faults == []


def test_telemetry_is_off_before_flower_or_ray_are_there() -> None:
    code = (
        "import os, sys\n"
        "import uav_privacy_sc.fleet\n"
        "assert not {'flwr', 'ray'} & set(sys.modules)\n"
        "import uav_privacy_sc.fleet.apps\n"
        "from flwr.supercore import telemetry\n"
        "print(telemetry.FLWR_TELEMETRY_ENABLED, os.environ['RAY_USAGE_STATS_ENABLED'])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name not in QUIET}
    environment["FLWR_TELEMETRY_ENABLED"] = "1"  # even where someone has asked for it
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.split() == ["0", "0"], done.stderr
