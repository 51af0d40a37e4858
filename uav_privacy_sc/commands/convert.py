"""``convert``: pictures, a dataset, a video or a bag to a rosbag2."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from uav_privacy_sc.commands.console import BadInput, print_json, print_lines, progress_bar, say
from uav_privacy_sc.commands.stop_flag import stop_flag
from uav_privacy_sc.data.bag_file import STORAGES, make_room
from uav_privacy_sc.data.convert import JPEG_QUALITY, VISDRONE_RATE_HZ, Conversion, ConvertConfig, convert, open_for_bag


@dataclass(frozen=True)
class ConvertOrder:
    """What to convert, how and to where."""

    source: str
    out: Path
    config: ConvertConfig
    source_topic: str | None = None
    force: bool = False
    as_json: bool = False


def carry_out(order: ConvertOrder) -> int:
    """Convert and return the exit status, 0; a Ctrl-C ends the bag after the picture at hand.

    Raises:
        ValueError: source, bag or an option cannot be used; one line.
    """
    if order.config.storage not in STORAGES:
        raise BadInput(f"storage is {order.config.storage!r}; choose one of {', '.join(STORAGES)}")
    with open_for_bag(order.source, order.config, order.source_topic) as source:
        _not_into_itself(order)
        make_room(order.out, order.force)
        with progress_bar() as bar:
            task = bar.add_task("converting", total=source.length, note="")

            def show(done: int) -> None:
                bar.update(task, completed=done)

            try:
                with stop_flag() as stopped:
                    result = convert(source, order.out, order.config, show, stopped)
            except OSError as error:
                raise BadInput(f"the bag {order.out} cannot be written: {error.strerror or error}") from None
    _tell(order, result)
    return 0


def _not_into_itself(order: ConvertOrder) -> None:
    """Refuse to replace the source by its own conversion."""
    source, out = Path(order.source).expanduser().resolve(), order.out.resolve()
    if source == out or out in source.parents:
        raise BadInput(f"{order.out} is where the source is; give another folder")


def _tell(order: ConvertOrder, result: Conversion) -> None:
    for note in result.notes:
        say(note)
    if result.broken:
        say(f"warning: {len(result.broken)} pictures could not be read and are left out, first: {result.broken[0]}")
    if result.interrupted:
        say(f"interrupted after {result.frames} pictures; the bag holds these")
    size = sum(file.stat().st_size for file in order.out.iterdir())
    if order.as_json:
        facts: dict[str, Any] = asdict(result) | {"bag": str(order.out), "bytes": size, "duration_s": result.duration_s}
        print_json(facts | {"broken": len(result.broken)})
        return
    topics = ", ".join(f"{count} on {topic}" for topic, count in result.counts.items())
    print_lines(
        [
            ("bag", f"{order.out} ({order.config.storage}, {size / 1e6:.1f} MB)"),
            ("source", f"{result.kind}, {result.frames} pictures"),
            ("messages", topics),
            ("pixels", _pixels(result)),
            ("clock", _clock(result, order.config.rate_hz is not None)),
        ]
    )


def _pixels(result: Conversion) -> str:
    if not any(topic.endswith("/compressed") for topic in result.counts):
        return "raw rgb8, as they were decoded"
    encoded = result.frames - result.passed_through
    parts = [f"{result.passed_through} files byte for byte"] if result.passed_through else []
    return ", ".join(parts + ([f"{encoded} encoded as JPEG of quality {JPEG_QUALITY}"] if encoded else []))


def _clock(result: Conversion, given: bool) -> str:
    span = f"{result.duration_s:.1f} s"
    if result.own_clock:
        return f"the annotations' own times, taken for UTC; {span}"
    why = ""
    if not given:
        why = {
            "visdrone-vid": f" (assumed: VisDrone states no rate, whose trackers take {VISDRONE_RATE_HZ:g})",
            "visdrone-det": " (a slide show)",
        }.get(result.kind, "")
    return f"{result.rate_hz:g} Hz{why}; {span}" if result.kind != "bag" or given else f"the bag's own stamps; {span}"
