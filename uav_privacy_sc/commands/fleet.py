"""``fleet``: P3's federated update of the codec, its curves and what they cost in privacy."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, print_table, progress_bar, say
from uav_privacy_sc.commands.stop_flag import stop_flag

if TYPE_CHECKING:
    from uav_privacy_sc.fleet.apps import Experiment
    from uav_privacy_sc.fleet.report import Results
    from uav_privacy_sc.fleet.shares import ServerPictures

AUTOENCODER, CODEC = "autoencoder", "codec"
#: The codec goes on from trained weights: smaller steps, and less that may leave.
CODEC_RATE, CODEC_BOUND = 0.001, 30.0
INSTALL = "fleet needs Flower; install it: python -m pip install -r requirements-fleet.txt -c constraints.txt"


@dataclass(frozen=True)
class FleetOrder:
    """What was asked for on the command line; None: as the preset has it."""

    preset: str
    data: str
    out: Path
    figures: tuple[str, ...] = ()
    rounds: int | None = None
    clients: int | None = None
    per_round: int | None = None
    minimum: int | None = None
    pictures: int | None = None
    split: str = "iid"
    sigma: float = 0.001
    sigma_2: float | None = None
    bound: float | None = None
    values: str = "fresh"
    threshold: float = 0.15
    snr_db: float = 20.0
    snr_per: str = "vector"
    ceiling: float | None = None
    model: str = AUTOENCODER
    weights: Path | None = None
    backend: str = "ray"
    jobs: int | None = None
    seed: int | None = None
    as_json: bool = False


def carry_out(order: FleetOrder) -> int:
    """Run the experiments, write everything below ``out``, print the tables and return the exit status.

    Raises:
        ValueError: a parameter out of its range, pictures or a folder that cannot be used; one line.
    """
    if importlib.util.find_spec("flwr") is None:
        raise BadInput(INSTALL)
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # clients work side by side
    from uav_privacy_sc.fleet.data import DataError
    from uav_privacy_sc.fleet.exchange import FleetStalled
    from uav_privacy_sc.privacy.ledger import LedgerError

    start = time.monotonic()
    experiment = _experiment(order)
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        results = _run(order, experiment)
        from uav_privacy_sc.fleet.report import write_results

        made = write_results(results, order.out, time.monotonic() - start)
        if order.model == CODEC:
            _save_codecs(results, order.out)
    except (FleetStalled, LedgerError) as error:
        return _failed(str(error))
    except KeyboardInterrupt:
        return _failed(f"interrupted; finished rounds are kept in {order.out}, run the same command to go on")
    except DataError:
        raise
    except OSError as error:
        raise BadInput(f"out folder {order.out} cannot be written: {error.strerror or error}") from None
    _print(order, results, made)
    return 0


def _failed(line: str) -> int:
    print(f"uav-privacy-sc: error: {line}", file=sys.stderr)
    return 1


def _experiment(order: FleetOrder) -> Experiment:
    """Return what is to be run, checked."""
    from uav_privacy_sc.fleet.apps import Experiment
    from uav_privacy_sc.fleet.experiments import methods, preset
    from uav_privacy_sc.fleet.setting import FleetSetting, Method
    from uav_privacy_sc.fleet.simulation import BACKENDS

    scale = preset(order.preset)
    if order.model not in (AUTOENCODER, CODEC):
        raise BadInput(f"model is {order.model!r}; choose {AUTOENCODER} or {CODEC}")
    if order.backend not in BACKENDS:
        raise BadInput(f"backend is {order.backend!r}; choose one of {', '.join(BACKENDS)}")
    if order.jobs is not None and order.jobs < 1:
        raise BadInput(f"jobs is {order.jobs}; give a whole number of at least 1")
    if order.jobs is not None and order.backend == "local":
        raise BadInput(f"jobs is {order.jobs}, and backend local works in this process alone; leave it out, or use ray")
    if order.weights is not None and order.model != CODEC:
        raise BadInput(f"weights is {order.weights}, and the model is P3's autoencoder; give --model codec, too")
    if order.model == CODEC and (order.snr_db, order.snr_per) != (20.0, "vector"):
        raise BadInput("snr and snr-per are those of P3's autoencoder; the codec draws its link as in train codec")
    clients = scale.clients if order.clients is None else order.clients
    per_round = min(scale.per_round, clients) if order.per_round is None else order.per_round
    client, bound, model = scale.client, scale.bound, replace(scale.model, snr_db=order.snr_db, snr_per=order.snr_per)
    if order.model == CODEC:
        client, bound, model = replace(client, rate=CODEC_RATE), CODEC_BOUND, _codec(order)  # type: ignore[assignment]
    setting = FleetSetting(
        clients=clients,
        per_round=per_round,
        minimum=order.minimum,
        rounds=scale.rounds if order.rounds is None else order.rounds,
        client=client,
        server=scale.server,
        model=model,
        seed=order.seed,
    )
    base = Method(
        "base",
        "base",
        sigma_1=order.sigma,
        sigma_2=order.sigma if order.sigma_2 is None else order.sigma_2,
        bound=bound if order.bound is None else order.bound,
        values=order.values,
        threshold=order.threshold,
    )
    found = methods(order.figures or scale.figures, base)
    return Experiment(setting, found, order.out / "cache" / "pictures", order.out / "runs", order.ceiling)


def _codec(order: FleetOrder) -> Any:
    from uav_privacy_sc.fleet.setting import CodecModel

    if not Path(order.data).is_dir():
        raise BadInput(f"data is {order.data}; with --model codec give a folder of pictures with annotations or masks")
    weights = None if order.weights is None else str(order.weights.resolve())
    return CodecModel(str(Path(order.data).resolve()), weights, order.pictures, str(order.out / "cache" / "taps"))


def _pictures(order: FleetOrder, experiment: Experiment) -> ServerPictures:
    from uav_privacy_sc.fleet.data import SplitConfig
    from uav_privacy_sc.fleet.experiments import preset
    from uav_privacy_sc.fleet.setting import CodecModel
    from uav_privacy_sc.fleet.shares import Source, prepare, prepare_codec

    setting, scale = experiment.setting, preset(order.preset)
    split = SplitConfig(clients=setting.clients, split=order.split)
    seed = order.seed or 0
    if isinstance(setting.model, CodecModel):
        say("reading pictures, and what the detector sees in them")
        return prepare_codec(setting.model, split, seed, experiment.pictures)
    rendered = order.data.split(":")[0] == "synthetic"
    count = (scale.pictures if rendered else None) if order.pictures is None else order.pictures
    source = Source(order.data, count, scale.places, split, seed)
    if source.rendered and not (experiment.pictures / "patches.npz").is_file():
        say(f"rendering {count} patches of flights over {scale.places} towns; some seconds for each town")
    return prepare(source, experiment.pictures)


def _run(order: FleetOrder, experiment: Experiment) -> Results:
    from uav_privacy_sc.fleet.report import Results
    from uav_privacy_sc.fleet.simulation import simulate

    pictures = _pictures(order, experiment)
    with stop_flag() as stopped, _watching(order, experiment, stopped) as watch:
        states = simulate(experiment, pictures, order.backend, watch, order.jobs)
    from uav_privacy_sc.fleet.experiments import preset

    facts = {
        "preset": f"{order.preset}: {preset(order.preset).about}",
        "data": order.data,
        "split": order.split,
        "backend": order.backend,
        "model": order.model,
    }
    return Results.of(experiment, states, pictures, facts)


@contextmanager
def _watching(order: FleetOrder, experiment: Experiment, stopped: Any) -> Iterator[Any]:
    """Give the bar over all rounds with the time left, a log on disk, and the question whether to stop."""
    from uav_privacy_sc.fleet.server import Watch

    total = experiment.setting.rounds * len(experiment.methods)
    done = {method.title: _rounds_done(experiment, method) for method in experiment.methods}
    log = order.out / "fleet.log"
    with progress_bar() as bar, log.open("a", encoding="utf-8") as file:
        task = bar.add_task("fleet", total=total, completed=sum(done.values()), note="")

        def write(line: str) -> None:
            stamp = datetime.now(timezone.utc).isoformat(timespec="seconds")
            file.write(f"{stamp} {line}\n")
            file.flush()

        def tell(line: str) -> None:
            write(line)
            say(line)

        def progress(title: str, rounds: int, of: int, record: dict[str, Any]) -> None:
            note = f"{record['psnr']:.2f} dB" if record else ""
            if rounds > done[title]:
                write(f"{title}: round {record['round']} of {of}: {note}, {len(record['uploads'])} uploads")
            done[title] = max(done[title], rounds)
            bar.update(task, description=title, completed=sum(done.values()), note=note)

        def check() -> None:
            if stopped():
                raise KeyboardInterrupt

        yield Watch(tell, progress, check)


def _rounds_done(experiment: Experiment, method: Any) -> int:
    from uav_privacy_sc.fleet.checkpoint import rounds_kept

    return min(rounds_kept(experiment.folder(method)), experiment.setting.rounds)


def _save_codecs(results: Results, out: Path) -> None:
    """Write the codec of each method with its card, so that perception and ground can load it."""
    from uav_privacy_sc.fleet.codec_card import ONESHOT, save_codec

    setting = results.experiment.setting
    for method, state in results.titles:
        trainee, spent = setting.trainee(), results.spending[method.name]
        trainee.load(state.weights)
        privacy = {
            "mechanism": ONESHOT,
            "sigma_1": method.sigma_1,
            "sigma_2": method.sigma_2,
            "bound": method.bound,
            "feature_noise": method.feature_noise,
            "epsilon_paper_round": spent.worst("paper_round"),
            "epsilon_worst_case_round": spent.worst("round_epsilon"),
            "epsilon_paper": spent.worst("paper"),
            "epsilon_worst_case": spent.worst("epsilon"),
            "method": method.title,
            "methods_on_these_data": len(results.titles),
            "epsilon_worst_case_of_all_methods": results.total.worst("epsilon"),
            "seeded": setting.seed is not None,
        }
        folder = out / "weights" / method.name
        local, count = asdict(setting.client), setting.clients
        save_codec(trainee, folder, rounds=state.round, clients=count, privacy=privacy, local=local)  # type: ignore[arg-type]


def _print(order: FleetOrder, results: Results, made: dict[str, Any]) -> None:
    from uav_privacy_sc.fleet.report import all_tables

    tables = all_tables(results)
    if order.as_json:
        print_json({"manifest": made, "tables": {table.name: asdict(table) for table in tables}})
        return
    for table in tables:
        print_lines([("", ""), (table.title, "")])
        if table.words > 1:  # sentences do not fit beside each other on a terminal
            print_lines([(row[0], f"{row[1]}: {', '.join(row[2:-1])} dB: {row[-1]}") for row in table.rows])
        else:
            print_table(table.heads, table.rows)
        for note in table.notes:
            print_lines([("", note)])
    print_lines([("", ""), ("report", str(order.out / "report.html")), ("written", str(order.out))])
