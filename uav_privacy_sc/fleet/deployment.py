"""The fleet across machines: Flower's SuperLink loads :data:`server`, each SuperNode :data:`client`.

What all agree on is the configuration of the run (``config/fleet/pyproject.toml``, ``flwr run --run-config``). What is
an aircraft's own is the configuration of its node (``flower-supernode --node-config``): ``partition-id``, its number;
``state``, a folder for ledger and stored uploads; ``data``, a folder of its own pictures (else its part of the rendered
ones), with ``public-data``, a folder of pictures whose features may be sent; ``epsilon-ceiling``, beyond which it
uploads nothing, over all runs of any name; and ``experiment``, without which a run with a seed is refused: the run's
configuration comes from whoever starts the run, and who knows the seed can take the noise off.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from uav_privacy_sc.fleet.apps import Experiment, Party, client_app, run_methods
from uav_privacy_sc.fleet.client import OrderRefused
from uav_privacy_sc.fleet.data import SplitConfig
from uav_privacy_sc.fleet.experiments import preset
from uav_privacy_sc.fleet.server import Watch
from uav_privacy_sc.fleet.setting import FEDSFR, FleetSetting, Method
from uav_privacy_sc.fleet.shares import ServerPictures, Source, own_pictures, prepare

log = logging.getLogger("uav_privacy_sc.fleet")
#: How often the SuperLink is asked for answers: each time costs a request or two.
POLL_S = 1.0


def experiment(run: Mapping[str, Any], folder: Path, ceiling: float | None = None) -> Experiment:
    """Return what a run's configuration says, the same at server and clients.

    Raises:
        ValueError: a value that is missing or out of range; one line that names it.
    """
    try:
        scale = preset(str(run["preset"]))
        setting = FleetSetting(
            clients=run["clients"],
            per_round=run["per-round"],
            minimum=run["minimum"],
            rounds=run["rounds"],
            client=scale.client,
            server=scale.server,
            model=scale.model,
            seed=None if int(run["seed"]) < 0 else int(run["seed"]),
            timeout_s=float(run["timeout-s"]),
            join_s=float(run["join-s"]),
        )
        method = Method(
            str(run["name"]),
            str(run["name"]),
            algorithm=str(run["algorithm"]),
            selection=bool(run["selection"]),
            sigma_1=float(run["sigma-1"]),
            sigma_2=float(run["sigma-2"]),
            feature_noise=float(run["feature-noise"]),
            bound=float(run["bound"]),
            values=str(run["values"]),
            threshold=float(run["threshold"]),
        )
    except KeyError as error:
        raise ValueError(
            f"run configuration has no {error.args[0]}; take config/fleet/pyproject.toml as it is"
        ) from None
    return Experiment(setting, (method,), folder / "pictures", folder / "runs", ceiling)


def source(run: Mapping[str, Any], data: str | None = None) -> Source:
    """Return where pictures come from: a party's own folder, or flights rendered as the run's configuration says."""
    rendered = data is None
    split = SplitConfig(clients=int(run["clients"]))
    return Source(
        "synthetic" if data is None else data, int(run["pictures"]) if rendered else None, int(run["places"]), split
    )


def party(context: Context) -> Party:
    """Return the aircraft of a SuperNode.

    Raises:
        OrderRefused: its node configuration lacks something, or the run asks for what it does not do; one line.
        ValueError: a value out of range, or pictures that cannot be used.
    """
    node, run = context.node_config, context.run_config
    for name in ("partition-id", "state"):
        if name not in node:
            raise OrderRefused(f"node configuration has no {name}; give --node-config '{name}=…' to flower-supernode")
    number, folder = int(node["partition-id"]), Path(str(node["state"])).expanduser()
    ceiling = float(node["epsilon-ceiling"]) if "epsilon-ceiling" in node else None
    made = experiment(run, folder, ceiling)
    if not 0 <= number < made.setting.clients:
        raise OrderRefused(f"partition-id is {number}; give 0 to {made.setting.clients - 1}, one for each aircraft")
    if made.setting.seed is not None and not node.get("experiment", False):
        raise OrderRefused(
            f"the run has seed={made.setting.seed}, so its noise is known; start it with seed=-1, or an aircraft whose "
            "pictures need no protection with --node-config 'experiment=true'"
        )
    if "data" in node and "public-data" not in node and made.methods[0].algorithm == FEDSFR:
        raise OrderRefused(
            "fedsfr sends features of public pictures, and of the aircraft's own folder none is public; give "
            "--node-config \"public-data='…'\" to flower-supernode, or run algorithm='fedavg'"
        )
    if "data" in node and ceiling is None and not node.get("experiment", False):
        raise OrderRefused(
            "sigma and the bound are the run's; an aircraft with pictures of its own sets a limit to what they may "
            "cost: give --node-config 'epsilon-ceiling=…' to flower-supernode"
        )
    own = source(run, str(node["data"]) if "data" in node else None)
    public = source(run, str(node["public-data"])) if "public-data" in node else None
    return Party(made, number, own_pictures(own, number, made.pictures, public), made.folder, made.runs)


def server_pictures(run: Mapping[str, Any], folder: Path) -> ServerPictures:
    """Return the server's pictures: of ``server-data``, half public and half for the test, or of the rendered ones."""
    data = str(run["server-data"])
    if not data:
        return prepare(source(run), folder)
    images = source(run, data).pictures(folder).images
    images = images[np.random.default_rng(13).permutation(len(images))]
    half = len(images) // 2
    return ServerPictures(images[:half], images[half:], data)


server = ServerApp()
client = client_app(party)


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run the method that the configuration names, from its checkpoint on; the model lies there in the end."""
    run = context.run_config
    folder = Path(str(run["out"])).expanduser()
    made = experiment(run, folder)
    pictures = server_pictures(run, made.pictures)
    _show_log()

    def progress(title: str, done: int, total: int, record: dict[str, Any]) -> None:
        if record:
            uploads = len(record["uploads"])
            log.info("%s: round %d of %d: %.2f dB, %d uploads", title, record["round"], total, record["psnr"], uploads)

    run_methods(grid, made, pictures, Watch(log.warning, progress), lambda name, state: None, POLL_S)
    log.info("%s: done; the model is in %s", made.methods[0].title, made.folder(made.methods[0]) / "checkpoint.npz")


def _show_log() -> None:
    """Show our own lines alone; the libraries under Flower tell of every request."""
    log.setLevel(logging.INFO)
    if not log.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(message)s"))
        log.addHandler(handler)
