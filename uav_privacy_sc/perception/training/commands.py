"""``uav-privacy-sc train``: render training flights, train the networks, write the model card.

Every step resumes where it was interrupted; the four in a row are ``make weights``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from uav_privacy_sc.perception.training.codec import CodecTrainer
    from uav_privacy_sc.perception.training.detector import DetectorTrainer

app = typer.Typer(help="Train the networks on synthetic flights or a VisDrone-DET folder.", no_args_is_help=True)

DataOption = Annotated[Path, typer.Option("--data", help="Folder with images/, annotations/ and (codec, card) masks/.")]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for weights, checkpoints and losses.")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="CPU threads that PyTorch uses.")]

#: Seeds of the flights: training and test never share one.
TRAIN_SEED, TEST_SEED = 100_000, 300_000
#: What the shipped weights were made with.
TRAIN_FLIGHTS, TEST_FLIGHTS = 320, 25
DETECTOR_STEPS, CODEC_STEPS = 1500, 4000


@contextmanager
def _bar(what: str, total: int) -> Iterator[Any]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        task = progress.add_task(what, total=total, note="")
        yield lambda done, note="": progress.update(task, completed=done, note=note)


def _train(trainer: DetectorTrainer | CodecTrainer, name: str, steps: int, losses: str) -> None:
    """Run a trainer; Ctrl-C ends it cleanly, to go on from its last checkpoint."""
    try:
        with _bar(name, steps) as update:
            trainer.run(lambda step, values: update(step, losses.format(*values)))
    except KeyboardInterrupt:
        done, every = trainer.step, trainer.config.checkpoint_every
        typer.echo(f"stopped after {done} steps; the same command goes on from step {done // every * every}", err=True)
        raise typer.Exit(1) from None


@app.command()
def flights(
    out: OutOption = Path("out/training"),
    train: Annotated[int, typer.Option(min=1, help="Training flights of 8 frames.")] = TRAIN_FLIGHTS,
    test: Annotated[int, typer.Option(min=1, help="Test flights of 4 frames.")] = TEST_FLIGHTS,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Render flights to OUT/train and OUT/test in VisDrone-DET layout, with masks."""
    from uav_privacy_sc.data.synthetic.dataset import render_dataset

    for name, count, frames, seed in (("test", test, 4, TEST_SEED), ("train", train, 8, TRAIN_SEED)):
        with _bar(f"rendering {name}", count) as update:
            render_dataset(out / name, count, frames, seed, jobs=jobs, progress=update)


@app.command()
def detector(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = DETECTOR_STEPS,
    threads: ThreadsOption = 2,
) -> None:
    """Train YOLO11n from scratch; writes detector.pt, which ultralytics opens too."""
    import torch

    from uav_privacy_sc.perception.training.detector import DetectorTrainer, DetectorTraining
    from uav_privacy_sc.perception.training.samples import load_samples

    torch.set_num_threads(threads)
    trainer = DetectorTrainer(load_samples(data, masks=False), out, DetectorTraining(steps=steps))
    _train(trainer, "detector", steps, "box {:.2f} class {:.2f}")


@app.command()
def codec(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    steps: Annotated[int, typer.Option(min=1, help="Optimizer steps.")] = CODEC_STEPS,
    threads: ThreadsOption = 2,
) -> None:
    """Train encoder, decoder and the eavesdropper's inverter on OUT/detector.pt; writes codec.pt and inverter.pt."""
    import torch

    from uav_privacy_sc.perception.detector import Detector
    from uav_privacy_sc.perception.training.codec import CodecTrainer, CodecTraining, tap_set
    from uav_privacy_sc.perception.training.samples import load_samples
    from uav_privacy_sc.perception.weights import locate

    torch.set_num_threads(threads)
    samples = load_samples(data)
    with _bar("features", len(samples)) as update:
        taps = tap_set(samples, Detector(locate("detector.pt", out)), update)
    trainer = CodecTrainer(taps, out, CodecTraining(steps=steps))
    _train(trainer, "codec", steps, "mask {:.3f} picture {:.3f}")


@app.command()
def card(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    detector_steps: Annotated[int, typer.Option(help="As trained; goes into the card.")] = DETECTOR_STEPS,
    codec_steps: Annotated[int, typer.Option(help="As trained; goes into the card.")] = CODEC_STEPS,
) -> None:
    """Measure the weights in OUT on the test pictures in DATA and write OUT/card.json."""
    from uav_privacy_sc.perception.training.card import measure, write_card
    from uav_privacy_sc.perception.training.codec import CodecTraining
    from uav_privacy_sc.perception.training.detector import DetectorTraining
    from uav_privacy_sc.perception.training.samples import load_samples

    console = Console(stderr=True)
    figures = measure(out, load_samples(data), lambda what: console.print(f"measuring {what}"))
    training = {
        "data": f"synthetic flights, seeds from {TRAIN_SEED}; test seeds from {TEST_SEED}",
        "detector": asdict(DetectorTraining(steps=detector_steps)),
        "codec": asdict(CodecTraining(steps=codec_steps)),
    }
    console.print(f"wrote {write_card(out, figures, training)}")


@app.command("all")
def everything(
    data: Annotated[Path, typer.Option(help="Folder for the rendered flights.")] = Path("out/training"),
    out: OutOption = Path("out/weights"),
    threads: ThreadsOption = 2,
) -> None:
    """Make the shipped weights again: flights, detector, codec, inverter, card. Hours; resumes where it was stopped."""
    flights(data, TRAIN_FLIGHTS, TEST_FLIGHTS, threads)
    detector(data / "train", out, DETECTOR_STEPS, threads)
    codec(data / "train", out, CODEC_STEPS, threads)
    card(data / "test", out, DETECTOR_STEPS, CODEC_STEPS)
