"""A fleet of three clients with small made-up pictures, for tests: a round takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from uav_privacy_sc.fleet.apps import Experiment, client_app, run_methods, simulated_party
from uav_privacy_sc.fleet.checkpoint import State
from uav_privacy_sc.fleet.data import SplitConfig
from uav_privacy_sc.fleet.learning import TrainingConfig
from uav_privacy_sc.fleet.local_grid import LocalGrid
from uav_privacy_sc.fleet.model import AutoencoderConfig
from uav_privacy_sc.fleet.server import Watch
from uav_privacy_sc.fleet.setting import FleetSetting, Method
from uav_privacy_sc.fleet.shares import Source, prepare
from uav_privacy_sc.fleet.simulation import simulate

MODEL = AutoencoderConfig(widths=(8, 8, 8, 8), kernel=3, latent=1, side=32)
SFR = Method("sfr", "FedSFR", bound=50.0)
TINY_METHODS = (SFR, Method("avg", "FedAvg", algorithm="fedavg", selection=False, bound=50.0))


def pictures_folder(folder: Path, count: int = 40) -> Path:
    """Write smooth pictures of 32x32 pixels."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(3)
    ramp = np.linspace(0, 1, 32)
    for number in range(count):
        a, b, c = rng.uniform(-1, 1, (3, 3))
        plane = 128 + 80 * (a * ramp[:, None, None] + b * ramp[None, :, None] + c * 0.5)
        Image.fromarray(plane.clip(0, 255).astype(np.uint8)).save(folder / f"{number:03}.png")
    return folder


def experiment(
    out: Path, methods: tuple[Method, ...] = (SFR,), ceiling: float | None = None, **setting: Any
) -> Experiment:
    """Return an experiment below ``out``, with its pictures shared out."""
    if not (out / "shares").is_dir():
        prepare(Source(str(pictures_folder(out / "pictures")), None, split=SplitConfig(clients=3)), out / "shares")
    plain = {"clients": 3, "per_round": 3, "rounds": 3, "seed": 5, "timeout_s": 60.0, "join_s": 60.0, "model": MODEL}
    quick = {"client": TrainingConfig(rate=0.01, epochs=1), "server": TrainingConfig(rate=0.001, epochs=1)}
    return Experiment(FleetSetting(**{**plain, **quick, **setting}), methods, out / "shares", out / "runs", ceiling)


def run(
    made: Experiment, backend: str = "local", watch: Watch | None = None, jobs: int | None = None
) -> dict[str, State]:
    """Run an experiment to its end."""
    from uav_privacy_sc.fleet.shares import server_pictures

    return simulate(made, server_pictures(made.pictures), backend, watch, jobs)


def run_over(made: Experiment, wrap: Callable[[LocalGrid], Any], watch: Watch | None = None) -> dict[str, State]:
    """Run it over a grid that is not as it should be."""
    from functools import partial

    from uav_privacy_sc.fleet.shares import server_pictures

    grid = wrap(LocalGrid(client_app(partial(simulated_party, made)), made.setting.clients))
    found: dict[str, State] = {}
    run_methods(grid, made, server_pictures(made.pictures), watch or Watch(), found.__setitem__)
    return found
