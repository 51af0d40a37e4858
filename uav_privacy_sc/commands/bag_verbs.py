"""The verbs that make and show bags: ``convert``, ``protect``, ``view``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uav_privacy_sc.commands.options import (
    PRIVACY,
    Ceiling,
    Device,
    EpsilonL,
    EpsilonV,
    ExpectedFrames,
    Json,
    KappaBg,
    LocationMode,
    MapSource,
    Profile,
    Scenario,
    ScenariosFile,
    Topic,
    Weights,
    flight_order,
)


def convert(
    source: Annotated[
        str, typer.Argument(help="Folder of pictures, VisDrone or AU-AIR folder, video, rosbag2 or synthetic:SEED.")
    ],
    out: Annotated[Path, typer.Argument(help="Folder of the rosbag2; it must not exist.")],
    storage: Annotated[str, typer.Option(help="mcap or sqlite3.")] = "mcap",
    rate: Annotated[
        float | None,
        typer.Option(
            help="Frames a second, instead of the source's own (VisDrone: 30 for videos, 1 for a slide show)."
        ),
    ] = None,
    frames: Annotated[int | None, typer.Option(help="Convert at most so many frames.")] = None,
    compressed: Annotated[
        bool | None,
        typer.Option(
            "--compressed/--raw",
            help="CompressedImage, JPEG and PNG files byte for byte, or Image; compressed for JPEG files if left out.",
            show_default=False,
        ),
    ] = None,
    topic: Annotated[str, typer.Option(help="Topic of the pictures.")] = "/camera/image_raw",
    source_topic: Annotated[
        str | None, typer.Option(help="Image topic, where the source is a bag with several.")
    ] = None,
    frame_id: Annotated[str, typer.Option(help="frame_id of every header.")] = "camera",
    truth: Annotated[bool, typer.Option("--truth", help="Put annotated objects on truth/objects, too.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a bag that is there.")] = False,
    json: Json = False,
) -> None:
    """Write pictures, a dataset, a video or a bag to a rosbag2, with stamps and the QoS to play it with."""
    from uav_privacy_sc.commands.convert import ConvertOrder, carry_out
    from uav_privacy_sc.data.convert import ConvertConfig

    config = ConvertConfig(storage, rate, compressed, frames, topic, frame_id, truth)
    raise typer.Exit(carry_out(ConvertOrder(source, out, config, source_topic, force, json)))


def protect(
    bag: Annotated[Path, typer.Argument(help="Recorded rosbag2 with pictures: its folder, .mcap or .db3.")],
    out: Annotated[Path, typer.Argument(help="Folder for the protected bag and, beside it, the odometer's report.")],
    topic: Topic = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(help="Topic to repeat as recorded, unprotected; several times. Pictures are refused."),
    ] = None,
    storage: Annotated[str, typer.Option(help="mcap or sqlite3.")] = "mcap",
    frames: Annotated[int | None, typer.Option(help="Protect at most so many frames.")] = None,
    scenario: Scenario = "surveillance",
    scenarios_file: ScenariosFile = None,
    profile: Profile = "hardened",
    epsilon_v: EpsilonV = None,
    epsilon_l: EpsilonL = None,
    mechanism: Annotated[
        str | None, typer.Option(help="Visual mechanism: region_aware, uniform …", rich_help_panel=PRIVACY)
    ] = None,
    map_source: MapSource = None,
    kappa_bg: KappaBg = None,
    location_mode: LocationMode = None,
    epsilon_ceiling: Ceiling = None,
    expected_frames: ExpectedFrames = None,
    ledger: Annotated[
        Path | None,
        typer.Option(help="File of the odometer; OUT/odometer.ledger if left out.", rich_help_panel=PRIVACY),
    ] = None,
    device: Device = "auto",
    weights: Weights = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a protected bag that is there.")] = False,
    json: Json = False,
) -> None:
    """Turn a recorded bag with pictures into one of protected topics only, to be shared.

    Runs perception and protection as in flight. No picture, raw feature, true count or frame_id gets into the bag; any
    error removes it. What it cost is reported beside it.
    """
    from uav_privacy_sc.commands.protect import ProtectOrder
    from uav_privacy_sc.commands.protect import carry_out as protect_bag

    order = flight_order(str(bag), {**locals(), "seed": None, "no_isolate": False, "rate": None})
    raise typer.Exit(protect_bag(ProtectOrder(order, tuple(keep or ()), storage, force)))


def view(
    bag: Annotated[Path, typer.Argument(help="rosbag2 of a flight: recorded by run or demo, or made by protect.")],
    out: Annotated[Path, typer.Option(help="Folder for view.html and view.mp4.")] = Path("out/view"),
    frames: Annotated[int, typer.Option(help="So many frames on the page, evenly spread; the film has all.")] = 60,
    film: Annotated[bool, typer.Option("--film/--no-film", help="Write view.mp4, too.")] = True,
    namespace: Annotated[str | None, typer.Option(help="Aircraft, where a bag has several.")] = None,
    device: Device = "auto",
    weights: Weights = None,
    force: Annotated[bool, typer.Option("--force", help="Replace page and film that are there.")] = False,
    json: Json = False,
) -> None:
    """Show what each party of a recorded flight saw, as a page and a film."""
    from uav_privacy_sc.commands.view import ViewOrder, carry_out

    raise typer.Exit(carry_out(ViewOrder(bag, out, frames, film, namespace, weights, device, force, json)))
