"""``view``: a recorded flight as a page and a film of what each party saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, progress_bar, say
from uav_privacy_sc.commands.stop_flag import stop_flag
from uav_privacy_sc.data.bags import Bag
from uav_privacy_sc.data.flight_bag import Badge, FlightBag, SeenFrame
from uav_privacy_sc.data.sources import is_bag

PAGE, FILM = "view.html", "view.mp4"


@dataclass(frozen=True)
class ViewOrder:
    """What to look at, and where page and film go; ``frames`` come on the page."""

    bag: Path
    out: Path
    frames: int = 60
    film: bool = True
    namespace: str | None = None
    weights: Path | None = None
    device: str = "auto"
    force: bool = False
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.frames < 1:
            raise ValueError(f"frames is {self.frames}; give a whole number of at least 1")


def carry_out(order: ViewOrder) -> int:
    """Write page and film; return the exit status: 1 when the bag holds no frame that can be seen, else 0.

    Raises:
        ValueError: the bag or an option cannot be used; one line.
    """
    if not order.bag.exists() or not is_bag(order.bag):
        raise BadInput(f"{order.bag} is no rosbag2" if order.bag.exists() else f"no such bag: {order.bag}")
    with Bag(order.bag) as bag:
        flight = FlightBag(bag, order.namespace)
        decoded = flight.decoded
        if not decoded:
            say("the bag holds releases that nobody has decoded: they are decoded, and attacked, here")
            flight = FlightBag(bag, order.namespace, *_networks(order))
        _prepare(order)
        try:
            return _look(order, bag, flight, decoded)
        except OSError as error:
            raise BadInput(f"{order.out} cannot be written: {error.strerror or error}") from None


def _networks(order: ViewOrder) -> tuple[Any, Any]:
    from uav_privacy_sc.attack.inversion import InversionAttacker
    from uav_privacy_sc.perception.stage import GroundDecoder

    return GroundDecoder(order.weights, order.device), InversionAttacker(order.weights, order.device)


def _prepare(order: ViewOrder) -> None:
    names = [PAGE, FILM] if order.film else [PAGE]
    there = [name for name in names if (order.out / name).exists()]
    if there and not order.force:
        raise BadInput(f"{order.out / there[0]} exists; give another --out, or --force to replace it")
    try:
        order.out.mkdir(parents=True, exist_ok=True)
        for name in names:
            (order.out / name).unlink(missing_ok=True)
    except OSError as error:
        raise BadInput(f"out folder {order.out} cannot be written: {error.strerror or error}") from None


def _look(order: ViewOrder, bag: Bag, flight: FlightBag, decoded: bool) -> int:
    from uav_privacy_sc.evaluation.view_page import FlightView, write_view
    from uav_privacy_sc.evaluation.view_video import FilmWriter

    chosen = set(
        np.linspace(0, max(0, flight.length - 1), min(order.frames, max(1, flight.length))).round().astype(int)
    )
    view, interrupted = FlightView(), False
    with progress_bar() as bar, stop_flag() as stopped:
        numbers = FlightView()
        for frame in FlightBag(bag, order.namespace).frames():  # numbers alone, which a film draws beforehand
            numbers.add(frame, False)
        badge = flight.badge([row.record for row in numbers.rows if row.record is not None])
        task = bar.add_task("looking", total=len(numbers.rows), note="")
        with _film(order, lambda path: FilmWriter(path, numbers, badge)) as write:
            for number, frame in enumerate(flight.frames()):
                view.add(frame, number in chosen)
                write(number, frame)
                bar.update(task, completed=number + 1)
                if stopped():
                    interrupted = True
                    break
    if not view.shown:
        (order.out / FILM).unlink(missing_ok=True)
        say(f"error: {order.bag} holds no frame that can be seen{_damage(bag, flight)}")
        return 1
    _say_oddities(order, bag, flight, len(view.rows) if interrupted else None)
    about = _about(bag, view, badge, decoded)
    write_view(order.out / PAGE, view, "/".join(order.bag.resolve().parts[-2:]), badge, about)
    _tell(order, view, badge)
    return 0


@contextmanager
def _film(order: ViewOrder, make: Callable[[Path], Any]) -> Iterator[Callable[[int, SeenFrame], None]]:
    if not order.film:
        yield lambda number, frame: None
        return
    film = make(order.out / FILM)
    try:
        yield film.write
    finally:
        film.close()


def _damage(bag: Bag, flight: FlightBag) -> str:
    return f": {flight.unread[0]}" if flight.unread else f": {bag.damage}" if bag.damage else ""


def _say_oddities(order: ViewOrder, bag: Bag, flight: FlightBag, interrupted: int | None) -> None:
    if bag.damage:
        say(f"warning: the bag {order.bag} is not whole ({bag.damage}); this is what can be read")
    if flight.unread:
        say(f"warning: {len(flight.unread)} messages could not be read, first: {flight.unread[0]}")
    if interrupted is not None:
        say(f"interrupted after {interrupted} frames; page and film hold these")


def _about(bag: Bag, view: Any, badge: Badge, decoded: bool) -> list[tuple[str, str]]:
    rows = [("frames", f"{len(view.rows)}, {len(view.shown)} of them on this page")]
    rows.append(("time", f"{view.times_s()[-1]:.1f} s" if len(view.rows) else "none"))
    record = next((row.record for row in view.rows if row.record is not None), None)
    if record is not None:
        seeded = ", seeded noise" if record.seeded else ""
        rows.append(("protection", f"{record.mechanism}, budget map from {record.map_source}{seeded}"))
    elif bag.about:
        names = ("mechanism", "map_source", "epsilon_v", "epsilon_l")
        rows.append(("protection", ", ".join(f"{name} {bag.about[name]}" for name in names if name in bag.about)))
    if not decoded:
        rows.append(
            ("seen by", "whoever has the bag: decoded and attacked with the weights at hand, without a channel")
        )
    if bag.damage:
        rows.append(("damage", bag.damage))
    return rows


def _tell(order: ViewOrder, view: Any, badge: Badge) -> None:
    files = [order.out / PAGE, *([order.out / FILM] if order.film else [])]
    if order.as_json:
        facts = {"badge": badge.text, "level": badge.level, "frames": len(view.rows), "shown": len(view.shown)}
        print_json({**facts, "files": [str(file) for file in files]})
        return
    sizes = ", ".join(f"{file} ({file.stat().st_size / 1e6:.1f} MB)" for file in files)
    print_lines([("flight", f"{len(view.rows)} frames, {badge.text}"), ("written", sizes)])
