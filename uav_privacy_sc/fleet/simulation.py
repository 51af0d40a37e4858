"""A whole fleet on one machine: Flower's simulation on Ray, or client after client in this process; the bits agree."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from uav_privacy_sc.fleet.apps import Experiment, client_app, run_methods, server_app, simulated_party
from uav_privacy_sc.fleet.checkpoint import State
from uav_privacy_sc.fleet.local_grid import LocalGrid
from uav_privacy_sc.fleet.server import Watch
from uav_privacy_sc.fleet.shares import ServerPictures

RAY, LOCAL = "ray", "local"
BACKENDS = (RAY, LOCAL)


def simulate(
    experiment: Experiment,
    pictures: ServerPictures,
    backend: str = LOCAL,
    watch: Watch | None = None,
    jobs: int | None = None,
) -> dict[str, State]:
    """Run all methods to their last round and return their states.

    Args:
        backend: ``ray``: clients in ``jobs`` processes (all cores if None); ``local``: one after the other, here.

    Raises:
        ValueError: no such backend, or Ray is not installed.
        FleetStalled: too few clients answer; what was finished is kept.
        CheckpointError: a checkpoint is of something else.
    """
    if backend not in BACKENDS:
        raise ValueError(f"backend is {backend!r}; choose one of {', '.join(BACKENDS)}")
    found: dict[str, State] = {}
    watch = watch or Watch()
    if backend == LOCAL:
        app = client_app(partial(simulated_party, experiment), simulated=True)
        run_methods(LocalGrid(app, experiment.setting.clients), experiment, pictures, watch, found.__setitem__)
    else:
        _on_ray(experiment, pictures, watch, found.__setitem__, jobs)
    return found


def _on_ray(
    experiment: Experiment,
    pictures: ServerPictures,
    watch: Watch,
    done: Callable[[str, State], None],
    jobs: int | None,
) -> None:
    if importlib.util.find_spec("ray") is None:
        raise ValueError("backend ray needs the package ray; install it (requirements-fleet.txt), or use local")
    import ray
    from flwr.simulation import run_simulation

    from uav_privacy_sc.evaluation.execution import own_signals

    # What goes wrong at a client reaches the server, which tells it in one line; Flower would add a traceback.
    logging.getLogger("flwr").setLevel(logging.CRITICAL)
    failures: list[BaseException] = []
    server = server_app(experiment, pictures, watch, done, failures.append)
    resources = {"num_cpus": 1, "num_gpus": 0.0}
    start: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    if jobs is not None:
        start["num_cpus"] = jobs
    paths = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}  # clients find modules where this process does
    if not ray.is_initialized():
        with own_signals():  # started here and not by Flower, so that signals are ours again before the first round
            ray.init(runtime_env=paths, **start)
    run_simulation(
        server,
        client_app(partial(simulated_party, experiment), simulated=True),
        experiment.setting.clients,
        backend_config={"client_resources": resources},
    )
    if failures:
        raise failures[0]
