"""``protect``: a recorded bag with pictures in, a bag of protected topics out, and what that has cost beside it."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from uav_privacy_sc import __version__
from uav_privacy_sc.commands import odometer
from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, progress_bar, say
from uav_privacy_sc.commands.fly import FlightOrder, fixed_policy
from uav_privacy_sc.commands.interrupts import undisturbed
from uav_privacy_sc.data.bag_file import STORAGES, make_room
from uav_privacy_sc.data.bags import Bag, BagSource, BagTopic, header_ns, open_bag
from uav_privacy_sc.data.protected_bag import NotProtected, ProtectedBag, refusal, verify, warning
from uav_privacy_sc.data.sources import is_bag
from uav_privacy_sc.flight import FlightEvent, FlightLog
from uav_privacy_sc.graph import fly, profile_parameters
from uav_privacy_sc.link.channel import LinkConfig
from uav_privacy_sc.pipeline import BudgetStage, LinkStage, Transmission
from uav_privacy_sc.privacy.ledger import LedgerError
from uav_privacy_sc.release import ReleaseRecord

BAG, LEDGER = "bag", "odometer.ledger"
REPORTS = ("odometer.txt", "odometer.json", "odometer.png")
UNPROTECTED = "none"
#: How long a frame may take, and a budget that never changes may be old, where nobody flies.
_PATIENCE_S = 120.0
#: Over whatever a profile says: no seed.
_OFFLINE = {"seed": -1, "max_budget_age_s": _PATIENCE_S}


@dataclass(frozen=True)
class ProtectOrder:
    """What to protect, how, and where the results go; the flight's options are those of ``run``."""

    flight: FlightOrder
    keep: Sequence[str] = ()
    storage: str = "mcap"
    force: bool = False

    @property
    def source(self) -> Path:
        """The recorded bag."""
        return Path(self.flight.source).expanduser()

    @property
    def bag(self) -> Path:
        """The protected bag."""
        return self.flight.out / BAG

    @property
    def ledger(self) -> Path:
        """Where the odometer counts; one that is there is continued."""
        return self.flight.config.ledger or self.flight.out / LEDGER


class ReleaseTap(LinkStage):
    """Stands where the radio does: holds what protection has published, and whatever came before it never gets here.

    The channel does not fade, so that budgets and power stay those of one operating point.
    """

    def __init__(self) -> None:
        rng = np.random.default_rng(0)  # of a reception that nobody looks at
        super().__init__(LinkConfig(fading="none"), rng, rng)
        self._releases: SimpleQueue[tuple[np.ndarray, np.ndarray, float, int]] = SimpleQueue()

    def __call__(
        self, features: np.ndarray, objects: np.ndarray, p_tx: float, stamp_ns: int = 0, lattice_step: float = 0.0
    ) -> Transmission:
        """Take one release, then go on as the radio would."""
        self._releases.put((features, objects, lattice_step, stamp_ns))
        return super().__call__(features, objects, p_tx, stamp_ns, lattice_step)

    def empty_into(self, bag: ProtectedBag, times_ns: Mapping[int, int]) -> None:
        """Write what has come, recorded at ``times_ns`` by stamp; SQLite wants the thread that made the bag."""
        while not self._releases.empty():
            features, objects, step, stamp_ns = self._releases.get()
            bag.write(features, objects, step, stamp_ns, times_ns.get(stamp_ns, stamp_ns))


def carry_out(order: ProtectOrder) -> int:
    """Protect; return the exit status: 1 when nothing was released or the result is not sound, else 0.

    Raises:
        ValueError: bag, profile or an option cannot be used; one line.
    """
    _check(order)
    with Bag(order.source) as recorded:
        kept = [_kept(name, recorded) for name in order.keep]
        with open_bag(order.source, None, order.flight.frames, order.flight.topic) as source:
            for note in source.notes:
                say(note)
            _prepare(order)
            for topic in kept:
                say(f"warning: {warning(topic)}")
            return _protect(order, source, recorded, kept)


def _check(order: ProtectOrder) -> None:
    source, out = order.source, order.flight.out
    if not source.exists() or not is_bag(source):
        raise BadInput(f"{source} is no rosbag2" if source.exists() else f"no such bag: {source}")
    if order.storage not in STORAGES:
        raise BadInput(f"storage is {order.storage!r}; choose one of {', '.join(STORAGES)}")
    if order.bag.resolve() in (source.resolve(), *source.resolve().parents):
        raise BadInput(f"{order.bag} is where the recorded bag is; give another folder")
    given = order.flight.config.parameters.get("protection", {})
    settings = {**profile_parameters(order.flight.config.profile, "protection"), **given}
    if settings.get("mechanism") == UNPROTECTED:
        raise BadInput("mechanism is 'none', which protects nothing; choose another")
    if settings.get("map_source") == "detections":
        say("warning: map_source is 'detections': the strength of the noise shows where people are (threat model, 1)")
    if out.exists() and not out.is_dir():
        raise BadInput(f"{out} is a file; give a folder")


def _kept(name: str, recorded: Bag) -> BagTopic:
    found = [topic for topic in recorded.topics if topic.name.strip("/") == name.strip("/")]
    if not found:
        raise BadInput(f"keep is {name!r}, which the bag does not have; it has {_names(recorded.topics)}")
    reason = refusal(found[0], recorded)
    if reason is not None:
        raise BadInput(f"keep: {reason}")
    return found[0]


def _names(topics: Sequence[BagTopic]) -> str:
    return ", ".join(sorted(topic.name for topic in topics)) or "none"


def _prepare(order: ProtectOrder) -> None:
    """Make room for the results; a ledger that is there stays, for what was spent stays spent."""
    make_room(order.bag, order.force)
    try:
        order.flight.out.mkdir(parents=True, exist_ok=True)
        for name in REPORTS:
            (order.flight.out / name).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"out folder {order.flight.out} cannot be written: {error.strerror or error}") from None


def _fault(error: Exception, order: ProtectOrder) -> str:
    """Say in one line what went wrong, and of a disk what to do."""
    if isinstance(error, OSError):
        why = error.strerror or str(error)
        return f"{order.flight.out} cannot be written: {why}; make room or give another folder"
    return f"{type(error).__name__}: {error}"


def _protect(order: ProtectOrder, source: BagSource, recorded: Bag, kept: Sequence[BagTopic]) -> int:
    times_ns = _recording_times(recorded, source.topic) if kept else {}
    try:
        bag = ProtectedBag(order.bag, order.storage, __version__, [(item, recorded) for item in kept])
    except OSError as error:
        raise BadInput(f"the bag {order.bag} cannot be written: {error.strerror or error}") from None
    try:
        log, fault = _fly(order, source, bag, times_ns)
        with undisturbed():
            records = [frame.record for frame in log.frames if frame.record is not None]
            if fault is None and bag.frames:
                repeated = {item.name: bag.keep(item, recorded) for item in kept}
                bag.note(records)
                bag.close()
                verify(order.bag, repeated, bag.frames)
                return _tell(order, log, bag.frames, repeated, _dropped(recorded, kept), records)
    except NotProtected as error:
        bag.discard()
        say(f"error: nothing is left in {order.bag}: {error}")
        return 1
    except OSError as error:
        bag.discard()
        say(f"error: nothing is left in {order.bag}: {_fault(error, order)}")
        return 1
    except BaseException:
        bag.discard()
        raise
    bag.discard()
    reason = fault or ("interrupted" if log.interrupted else next(iter(log.dropped), "it holds no picture"))
    say(f"error: nothing was released, and nothing is left in {order.bag}: {reason}")
    return 1


def _recording_times(recorded: Bag, topic: BagTopic) -> dict[int, int]:
    """Return, by the stamp of each picture, when it was recorded: kept topics are laid out by that clock."""
    return {header_ns(recorded.read(raw)): raw.time_ns for raw in recorded.messages([topic.name])}


def _fly(
    order: ProtectOrder, source: BagSource, bag: ProtectedBag, times_ns: Mapping[int, int]
) -> tuple[FlightLog, str | None]:
    """Fly the recorded pictures through camera, perception, budget server and protection, and write what comes out.

    Returns the log, and what went wrong, None if nothing did.
    """
    tap = ReleaseTap()
    faults: list[str] = []
    policy = fixed_policy(order.flight)
    fixed = order.flight.epsilon_v is not None or order.flight.epsilon_l is not None
    stages: dict[str, Any] = {"link": tap, "ground": _nothing, "eavesdropper": _nothing_seen}
    stages |= {"budget_server": BudgetStage(policy)} if fixed else {}
    given = dict(order.flight.config.parameters)
    given["protection"] = {**given.get("protection", {}), **_OFFLINE}
    config = replace(
        order.flight.config,
        parameters=given,
        ledger=order.ledger,
        seed=None,
        keep_frames=2,
        frame_timeout_s=_PATIENCE_S,
    )
    with progress_bar() as bar:
        task = bar.add_task("starting", total=source.length, note="")

        def observe(event: FlightEvent) -> None:
            record = None if event.frame is None else event.frame.record
            if record is not None and (record.seeded or record.mechanism == UNPROTECTED):
                faults.append("a release was not protected")
            try:
                tap.empty_into(bag, times_ns)
            except Exception as error:  # whatever it is, it ends the flight and removes the bag
                faults.append(_fault(error, order))
            dropped = "" if event.frame is None or event.frame.dropped is None else event.frame.dropped
            bar.update(task, description="protecting", completed=event.done, note=dropped[:60])

        try:
            log = fly(source, config, observe, should_stop=lambda: bool(faults), stages=stages)
        except LedgerError as error:
            raise BadInput(str(error)) from None
    return log, next(iter(faults), None)


def _nothing(features: np.ndarray, objects: np.ndarray) -> np.ndarray:
    return np.zeros((1, 1), np.uint8)


def _nothing_seen(features: np.ndarray) -> np.ndarray:
    return np.zeros((1, 1, 3), np.uint8)


def _dropped(recorded: Bag, kept: Sequence[BagTopic]) -> list[str]:
    return sorted({topic.name for topic in recorded.topics} - {topic.name for topic in kept})


def _tell(
    order: ProtectOrder,
    log: FlightLog,
    frames: int,
    repeated: dict[str, int],
    dropped: list[str],
    records: Sequence[ReleaseRecord],
) -> int:
    settings = profile_parameters(order.flight.config.profile, "protection")
    report = _write_reports(order, float(settings.get("delta", 1e-5)))
    refused = log.dropped
    for reason, count in sorted(refused.items(), key=lambda item: -item[1])[:3]:
        say(f"warning: {count} frames are not in the bag: {reason}")
    if log.interrupted:
        say(f"interrupted after {len(log.frames)} frames; the bag holds those that were released")
    facts = {
        "bag": str(order.bag),
        "frames": {"in": len(log.frames), "protected": frames, "not_released": refused},
        "kept": repeated,
        "left_out": [*dropped, "tx/record"],
        "odometer": report,
        "ledger": str(order.ledger),
        "interrupted": log.interrupted,
    }
    if order.flight.as_json:
        print_json(facts)
        return 0
    mission = report["mission"]["epsilon"]
    spent = "unbounded" if mission is None else f"epsilon {mission:.4g}"
    budgets = f"epsilon_v {records[-1].epsilon_v:.3g}, epsilon_l {records[-1].epsilon_l:.3g} a frame"
    print_lines(
        [
            ("bag", f"{order.bag}: tx/features, tx/objects and tx/lattice_step; this is what to share"),
            ("frames", f"{frames} of {len(log.frames)} protected, {budgets}"),
            ("kept", ", ".join(f"{count} on {name}" for name, count in repeated.items()) or "nothing"),
            ("left out", f"{', '.join(dropped) or 'nothing'}; and tx/record, which counts true objects"),
            ("spent", f"{spent} for one object in all {report['releases']} releases of the ledger"),
            ("odometer", f"{order.flight.out / REPORTS[0]}, json, png and {order.ledger}: these stay with you"),
        ]
    )
    return 0


def _write_reports(order: ProtectOrder, delta: float) -> dict[str, Any]:
    """Write what the ledger says as text, JSON and a plot, and return it."""
    out, texts = order.flight.out, {}
    for name, as_json, plot in (("odometer.json", True, None), ("odometer.txt", False, out / REPORTS[2])):
        with redirect_stdout(io.StringIO()) as printed:
            odometer.carry_out(order.ledger, delta, None, as_json, plot)
        texts[name] = printed.getvalue()
        (out / name).write_text(printed.getvalue(), encoding="utf-8")
    return json.loads(texts["odometer.json"])
