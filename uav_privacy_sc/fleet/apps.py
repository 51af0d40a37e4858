"""Flower's two apps: the server's and the client's. The same code runs in one process, on Ray, and across machines.

:func:`server_app` and :func:`client_app` are made for an :class:`Experiment` that is at hand. Across machines Flower
loads ``server`` and ``client`` of :mod:`uav_privacy_sc.fleet.deployment` instead, which read theirs from the run's
configuration and from that of each node.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from uav_privacy_sc.fleet.accounting import CeilingReached, UploadLost
from uav_privacy_sc.fleet.checkpoint import Checkpoint, State
from uav_privacy_sc.fleet.client import FleetClient, OrderRefused
from uav_privacy_sc.fleet.data import ClientData
from uav_privacy_sc.fleet.exchange import Exchange
from uav_privacy_sc.fleet.messages import Malformed, Order
from uav_privacy_sc.fleet.server import FleetServer, Watch
from uav_privacy_sc.fleet.setting import CodecModel, FleetSetting, Method
from uav_privacy_sc.fleet.shares import ServerPictures, client_pictures
from uav_privacy_sc.privacy.domain import positive
from uav_privacy_sc.privacy.ledger import LedgerError

log = logging.getLogger("uav_privacy_sc.fleet")
#: What the server may be told in words: these speak of orders, agreements and accounts, never of pictures.
TOLD = (OrderRefused, CeilingReached, UploadLost, LedgerError, Malformed)


class Withheld(RuntimeError):
    """Something failed at a client. What, may depend on its pictures: its own log says it, the server is not told."""


@dataclass(frozen=True)
class Experiment:
    """Methods that are run one after the other with the same setting, pictures and folder.

    Attributes:
        pictures: folder of :mod:`uav_privacy_sc.fleet.shares`.
        runs: folder below which every method has its own.
        ceiling: worst-case epsilon of each client, None for none.

    Raises:
        ValueError: a ceiling that is not above 0.
    """

    setting: FleetSetting
    methods: tuple[Method, ...]
    pictures: Path
    runs: Path
    ceiling: float | None = None

    def __post_init__(self) -> None:
        if self.ceiling is not None:
            positive("epsilon_ceiling", self.ceiling)

    def method(self, name: str) -> Method:
        """Return a method by its name.

        Raises:
            OrderRefused: there is none.
        """
        for found in self.methods:
            if found.name == name:
                return found
        raise OrderRefused(f"method {name!r} is not known here; known are {', '.join(m.name for m in self.methods)}")

    def folder(self, method: Method) -> Path:
        """Return where a method has its checkpoint and, in a simulation, its clients' ledgers and uploads."""
        return self.runs / method.name


@dataclass(frozen=True)
class Party:
    """What a client app works with: its number, its pictures, and where it keeps its account.

    ``runs``: folder of all runs on these pictures, where the ceiling is over all of them (:class:`FleetClient`).
    """

    experiment: Experiment
    number: int
    data: ClientData
    folder: Callable[[Method], Path]
    runs: Path | None = None

    def client(self, method: Method) -> FleetClient:
        """Return the client of a method."""
        setting, ceiling = self.experiment.setting, self.experiment.ceiling
        trainee, folder = setting.trainee(), self.folder(method)
        return FleetClient(self.number, setting, method, trainee, self.data, folder, ceiling, self.runs)


def simulated_party(experiment: Experiment, context: Context) -> Party:
    """Return a client of a simulation: Flower numbers them, all lies below the experiment's folders."""
    number = int(context.node_config["partition-id"])
    data = client_pictures(experiment.pictures, number)
    return Party(experiment, number, data, experiment.folder)


@contextmanager
def withholding(simulated: bool) -> Iterator[None]:
    """Let no words out that may be about a client's pictures: Flower sends the text of whatever an app raises."""
    try:
        yield
    except TOLD:
        raise
    except Exception as error:
        if simulated:
            raise
        log.warning("%s: %s", type(error).__name__, error)
        raise Withheld("it failed for a reason that its own log gives") from None


def client_app(party: Callable[[Context], Party], simulated: bool = False) -> ClientApp:
    """Return the client's app.

    Args:
        party: says who it is, from Flower's context.
        simulated: server and clients are one machine's, so errors may be told in full.
    """
    app = ClientApp()

    @app.query()
    def introduce(message: Message, context: Context) -> Message:
        with withholding(simulated):
            found = party(context)
        about = ConfigRecord({"client": found.number, "samples": len(found.data.images)})
        return Message(RecordDict({"about": about}), reply_to=message)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)  # sums in one order, so that every backend gives the same bits
        with withholding(simulated):
            order = Order.read(message.content)
            found = party(context)
            upload = found.client(found.experiment.method(order.method)).carry_out(order)
        return Message(upload.record(), reply_to=message)

    return app


def server_app(
    experiment: Experiment,
    pictures: ServerPictures,
    watch: Watch,
    done: Callable[[str, State], None],
    failed: Callable[[BaseException], None],
) -> ServerApp:
    """Return the server's app: it runs all methods and hands the state of each to ``done``.

    What ends it before its time goes to ``failed``: Flower runs it in a thread of its own.
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        try:
            run_methods(grid, experiment, pictures, watch, done)
        except BaseException as error:
            failed(error)

    return app


def run_methods(
    grid: Grid,
    experiment: Experiment,
    pictures: ServerPictures,
    watch: Watch,
    done: Callable[[str, State], None],
    poll_s: float = 0.05,
) -> None:
    """Run all methods over a grid, each from its checkpoint on.

    Raises:
        FleetStalled: too few clients answer.
        CheckpointError: a checkpoint is of something else.
    """
    torch.set_num_threads(1)
    setting = experiment.setting
    exchange = Exchange(grid, setting.timeout_s, watch.tell, poll_s, watch.check)
    gathered = False
    for method in experiment.methods:
        made_of = {"setting": setting.as_dict(), "method": vars(method), "pictures": pictures.digest}
        checkpoint = Checkpoint(experiment.folder(method), made_of)
        trainee = setting.trainee()
        if isinstance(setting.model, CodecModel):
            trainee.public = pictures.public  # type: ignore[attr-defined]
        server = FleetServer(setting, method, trainee, pictures.public, pictures.test, exchange, checkpoint, watch)
        if not gathered and not server.finished():
            exchange.gather(setting.clients, setting.join_s)
            gathered = True
        done(method.name, server.run())
