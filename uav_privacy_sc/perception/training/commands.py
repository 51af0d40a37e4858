"""``uav-privacy-sc train``: render training flights, train the networks, write the model card.

Every step resumes where it was interrupted; all in a row are ``make weights``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uav_privacy_sc.perception.training.progress import bar, lines, run, tell

if TYPE_CHECKING:
    from uav_privacy_sc.perception.tap import Tap
    from uav_privacy_sc.perception.training.batches import TapSet
    from uav_privacy_sc.perception.training.samples import Samples

#: What of the detector is sent, and how wide (docs/models.md says why).
CHANNELS, TAP, POOL = 16, 4, 2
#: Seeds of the flights: no two sets share one.
TRAIN_SEED, MORE_SEED, TEST_SEED = 100_000, 200_000, 300_000
#: What `train all` makes weights of; the shipped ones were trained on the same flights (card.json says how).
TRAIN_FLIGHTS, TRAIN_FRAMES, TEST_FLIGHTS, TEST_FRAMES = 640, 4, 50, 2
CODEC_STEPS, ATTACKER_STEPS = 4000, 1000
#: The detector learns as a YOLO11n first, from scratch; then the level of 4-pixel cells is added over frozen taps;
#: last, it goes on with other flights.
COARSE_STEPS, FINE_STEPS, LAST_STEPS = 3500, 5000, 4500
COARSE_RATE, FINE_RATE, LAST_RATE = 0.02, 0.01, 0.01
#: In one part, from scratch.
DETECTOR_STEPS = 8500
ABLATION_STEPS, ABLATION_PICTURES = 600, 640

app = typer.Typer(
    help="Train the networks on rendered flights, on VisDrone DET, VID or MOT, or on AU-AIR.", no_args_is_help=True
)

DataOption = Annotated[
    Path,
    typer.Option(
        "--data",
        help="VisDrone DET (images/, annotations/), VID or MOT (sequences/, annotations/), AU-AIR or own flights.",
    ),
]
OutOption = Annotated[Path, typer.Option("--out", help="Folder for weights, checkpoints, losses and card.json.")]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="CPU threads that PyTorch uses.")]
StepsOption = Annotated[int, typer.Option("--steps", min=1, help="Optimizer steps.")]
BatchOption = Annotated[int, typer.Option("--batch", min=1, help="Crops in a step.")]
RateOption = Annotated[float, typer.Option("--learning-rate", help="Highest learning rate.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of everything that is drawn.")]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="Take so many pictures at most, evenly over the folder.")
]
StrideOption = Annotated[int, typer.Option("--stride", min=1, help="Of a VID or MOT sequence take every so manieth.")]
Bfloat16Option = Annotated[
    bool,
    typer.Option("--bfloat16", help="Layers of the detector in bfloat16: faster on CPUs that have avx512_bf16."),
]
FreshOption = Annotated[bool, typer.Option("--fresh", help="Begin anew: forget the checkpoint that is in OUT.")]


@app.command()
def flights(
    out: OutOption = Path("out/training"),
    train: Annotated[
        int, typer.Option(min=1, help=f"Training flights of {TRAIN_FRAMES} frames, in OUT/train and in OUT/more each.")
    ] = TRAIN_FLIGHTS,
    test: Annotated[int, typer.Option(min=1, help=f"Test flights of {TEST_FRAMES} frames.")] = TEST_FLIGHTS,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 2,
) -> None:
    """Render flights to OUT/train, others to OUT/more, and OUT/test, in VisDrone-DET layout, with masks."""
    from uav_privacy_sc.data.synthetic.dataset import render_dataset
    from uav_privacy_sc.perception.training.samples import ORIGIN_FILE

    for name, count, frames, seed in (
        ("test", test, TEST_FRAMES, TEST_SEED),
        ("train", train, TRAIN_FRAMES, TRAIN_SEED),
        ("more", train, TRAIN_FRAMES, MORE_SEED),
    ):
        with bar(f"rendering {name}", count) as update:
            render_dataset(out / name, count, frames, seed, jobs=jobs, progress=update)
            update(count)  # also what was there already
        made = {"made_by": "uav-privacy-sc train flights", "first_seed": seed, "flights": count, "frames": frames}
        (out / name / ORIGIN_FILE).write_text(json.dumps(made) + "\n", encoding="utf-8")


@app.command()
def check(
    data: DataOption,
    limit: LimitOption = None,
    stride: StrideOption = 5,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Read a folder as a training would and say what is in it, and what its annotations have that is set aside.

    Annotation files without pictures are read, too; then boxes cannot be held against the size of their picture.
    """
    from uav_privacy_sc.perception.training.survey import holds_pictures, survey

    if holds_pictures(data):
        samples = _samples(data, limit, stride, masks=False)
        found, told = samples.describe(), lines(samples)
    else:
        found, told = survey(data)
    typer.echo(json.dumps(found) if as_json else "\n".join(told))


@app.command()
def detector(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    steps: StepsOption = DETECTOR_STEPS,
    batch: BatchOption = 16,
    crop: Annotated[int, typer.Option(help="Side of the crops in pixels, a multiple of 32.")] = 352,
    learning_rate: Annotated[
        float,
        typer.Option(
            help="Length of the filters' longest steps (Muon), from 0 to 1; biases and norms take a tenth (AdamW). "
            "About half of it from INIT."
        ),
    ] = 0.02,
    seed: SeedOption = 1,
    init: Annotated[Path | None, typer.Option(help="Ultralytics YOLO11n weights (.pt) to start from.")] = None,
    freeze: Annotated[
        int, typer.Option(min=0, help="Leave so many first layers as INIT has them; a codec that taps one still fits.")
    ] = 0,
    balance: Annotated[
        float, typer.Option(help="Share of crops around an object of a class drawn evenly, however rare it is.")
    ] = 0.5,
    architecture: Annotated[
        str, typer.Option(help="yolo11n, or yolo11n-p2, which sees in cells of 4 pixels, too.")
    ] = "yolo11n-p2",
    bfloat16: Bfloat16Option = False,
    limit: LimitOption = None,
    stride: StrideOption = 5,
    threads: ThreadsOption = 2,
    fresh: FreshOption = False,
) -> None:
    """Train a YOLO11n, with or without a level for small objects, from scratch or from INIT; writes detector.pt.

    Ultralytics opens it, too. Ignored regions and boxes of score 0 are greyed out, so that nothing unannotated is
    taught as background.
    """
    import torch

    from uav_privacy_sc.perception.training.card import history
    from uav_privacy_sc.perception.training.checkpoint import alone
    from uav_privacy_sc.perception.training.detector import DetectorTrainer, DetectorTraining

    torch.set_num_threads(threads)
    config = DetectorTraining(
        steps=steps,
        batch=batch,
        crop=crop,
        learning_rate=learning_rate,
        seed=seed,
        freeze=freeze,
        balance=balance,
        architecture=architecture,
        bfloat16=bfloat16,
    )
    with alone(out, DetectorTrainer.PART, fresh):
        samples = _samples(data, limit, stride, masks=False)
        tell(samples)
        trainer = DetectorTrainer(samples, out, config, init)
        started: dict[str, Any] = {"detector": "scratch"}
        if init is not None:
            started = {"share_taken_percent": trainer.init_share, **history(init)}
        _run(trainer, "detector.pt", "box {:.2f} class {:.2f}", samples.describe(), started)


@app.command()
def codec(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    steps: StepsOption = CODEC_STEPS,
    channels: Annotated[int, typer.Option(min=1, max=256, help="C: numbers sent for each cell.")] = CHANNELS,
    tap: Annotated[int, typer.Option(min=0, help="Layer of the detector whose output is encoded.")] = TAP,
    pool: Annotated[int, typer.Option(min=1, max=8, help="Taps a side that make one cell.")] = POOL,
    batch: BatchOption = 12,
    learning_rate: RateOption = 2e-3,
    seed: SeedOption = 2,
    weights: Annotated[Path | None, typer.Option(help="Folder with detector.pt, if it is not OUT.")] = None,
    limit: LimitOption = None,
    stride: StrideOption = 5,
    threads: ThreadsOption = 2,
    fresh: FreshOption = False,
) -> None:
    """Train encoder and decoder on detector.pt under the noise they will meet; writes codec.pt.

    Where DATA has no masks/, they are painted from the boxes: the loss then counts inside annotated boxes alone, and
    the decoder learns nothing about road, building, vegetation and ground.
    """
    import torch

    from uav_privacy_sc.perception.backends import load_yolo
    from uav_privacy_sc.perception.reach import measure_reach
    from uav_privacy_sc.perception.tap import tap_at
    from uav_privacy_sc.perception.training.checkpoint import alone
    from uav_privacy_sc.perception.training.codec import CodecTrainer, CodecTraining
    from uav_privacy_sc.perception.weights import locate

    torch.set_num_threads(threads)
    config = CodecTraining(
        steps=steps, batch=batch, learning_rate=learning_rate, seed=seed, channels=channels, pool=pool
    )
    layers = load_yolo(locate("detector.pt", weights or out)).model
    place = tap_at(layers, tap)
    reach = measure_reach(layers[: tap + 1], place.stride * pool, pool)
    with alone(out, CodecTrainer.PART, fresh):
        samples = _samples(data, limit, stride)
        tell(samples)
        taps = _taps(samples, weights or out, place)
        trainer = CodecTrainer(taps, out, config, place, reach)
        _run(trainer, "codec.pt", "mask {:.3f} picture {:.3f}", samples.describe(), {"detector_sha256": taps.detector})


@app.command()
def attacker(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    noise: Annotated[
        str, typer.Option(help="none: on unprotected codes, as P1's; adaptive: on protected ones, knowing how.")
    ] = "none",
    pictures: Annotated[
        int | None, typer.Option(min=1, help="Train on so many pictures (P1: 450); all if left out.")
    ] = None,
    steps: StepsOption = ATTACKER_STEPS,
    batch: BatchOption = 12,
    learning_rate: RateOption = 2e-3,
    seed: SeedOption = 3,
    weights: Annotated[
        Path | None, typer.Option(help="Folder with detector.pt and codec.pt, if it is not OUT.")
    ] = None,
    limit: LimitOption = None,
    stride: StrideOption = 5,
    threads: ThreadsOption = 2,
    fresh: FreshOption = False,
) -> None:
    """Train the eavesdropper's inverter on a finished codec; writes inverter.pt or inverter-adaptive.pt."""
    import torch

    from uav_privacy_sc.perception.codec import Codec
    from uav_privacy_sc.perception.tap import tap_of
    from uav_privacy_sc.perception.training.attacker import FILES, AttackerTrainer, AttackerTraining
    from uav_privacy_sc.perception.training.checkpoint import alone
    from uav_privacy_sc.perception.weights import checksum, load_module, locate

    torch.set_num_threads(threads)
    config = AttackerTraining(
        steps=steps, batch=batch, learning_rate=learning_rate, seed=seed, noise=noise, pictures=pictures
    )
    path = locate("codec.pt", weights or out)
    network = load_module(path, Codec)
    assert isinstance(network, Codec)
    name = FILES[noise]
    with alone(out, Path(name).stem, fresh):
        samples = _samples(data, limit, stride, masks=False)
        tell(samples)
        taps = _taps(samples, weights or out, tap_of(network))
        trainer = AttackerTrainer(taps, network, out, config)
        started = {"detector_sha256": taps.detector, "codec_sha256": checksum(path)}
        _run(trainer, name, "picture {:.4f}", samples.describe(), started)


@app.command()
def card(
    data: DataOption,
    out: OutOption = Path("out/weights"),
    real: Annotated[
        list[Path] | None, typer.Option(help="Folder of real pictures; out-of-domain figures. May be repeated.")
    ] = None,
    limit: LimitOption = None,
    stride: StrideOption = 5,
    threads: ThreadsOption = 2,
) -> None:
    """Measure the weights in OUT on the test pictures in DATA and write the figures to OUT/card.json."""
    import torch

    from uav_privacy_sc.perception.training.card import measure, record_figures

    torch.set_num_threads(threads)
    samples = _samples(data, limit, stride, blank=False)
    tell(samples)
    others: dict[str, Samples] = {}
    for folder in real or ():
        name = folder.resolve().name
        if name in others:
            raise typer.BadParameter(f"two folders are called {name}; rename one, the card names them so")
        others[name] = _samples(folder, None, stride, masks=False, blank=False)
        tell(others[name])
    with bar("measuring", len(samples)) as update:

        def progress(what: str, done: int) -> None:
            update(done, total=len(others[what]) if what in others else len(samples), what=f"measuring {what}")

        figures = measure(out, samples, others, progress)
    typer.echo(f"wrote {record_figures(out, figures)}", err=True)


@app.command()
def ablation(
    data: DataOption,
    test: Annotated[Path, typer.Option(help="Folder to measure on, with masks/.")],
    out: OutOption = Path("out/ablation"),
    weights: Annotated[Path | None, typer.Option(help="Folder with detector.pt; the shipped one if left out.")] = None,
    steps: StepsOption = ABLATION_STEPS,
    limit: LimitOption = ABLATION_PICTURES,
    threads: ThreadsOption = 2,
) -> None:
    """Train and measure codecs of other widths, taps and grids; writes ablation.json, .md and .png."""
    import torch

    from uav_privacy_sc.perception.training.ablation import run_ablation, write_table
    from uav_privacy_sc.perception.weights import locate

    torch.set_num_threads(threads)
    train, measured_on = _samples(data, limit, 1), _samples(test, None, 1, blank=False)
    with bar("ablation", steps) as update:
        rows = run_ablation(
            locate("detector.pt", weights),
            train,
            measured_on,
            out,
            steps,
            progress=lambda what, done, total: update(done, total=total, what=what),
        )
    typer.echo(f"wrote {write_table(rows, out)}", err=True)


@app.command()
def export(
    weights: Annotated[Path | None, typer.Option(help="Folder with detector.pt and codec.pt.")] = None,
    out: Annotated[Path, typer.Option(help="File to write, .onnx or .engine.")] = Path("detector.onnx"),
    detector: Annotated[Path | None, typer.Option(help="Another .pt file than the folder's.")] = None,
) -> None:
    """Write the detector as .onnx or .engine with the tap that the encoder needs."""
    from uav_privacy_sc.perception.export import export_detector

    typer.echo(f"wrote {export_detector(weights, out, detector)}")


@app.command()
def agree(
    out: OutOption = Path("out/weights"),
    other: Annotated[
        Path | None, typer.Option(help="Folder of the weights to compare with; the shipped ones if left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Say whether the weights in OUT are as good as the shipped ones: both cards' figures, and how far they may differ.

    Exit status 1 where a figure lies farther away than trainings with other seeds do.
    """
    from uav_privacy_sc.perception.training.agreement import WITHIN, compare
    from uav_privacy_sc.perception.weights import card_of, locate

    rows = compare(card_of(out), card_of(other or locate("codec.pt").parent))
    if as_json:
        typer.echo(json.dumps([row.as_dict() for row in rows]))
    else:
        typer.echo(f"{'':38}{'here':>8}{'there':>8}{'may differ by':>15}")
        for row in rows:
            verdict = {True: "agrees", False: "DIFFERS", None: "missing"}[row.agrees]
            typer.echo(f"{row.name:38}{row.here:8.3f}{row.there:8.3f}{WITHIN[row.name]:15.3f}  {verdict}")
    if any(row.agrees is False for row in rows):
        raise typer.Exit(1)


@app.command("all")
def everything(
    data: Annotated[Path, typer.Option(help="Folder for the rendered flights.")] = Path("out/training"),
    out: OutOption = Path("out/weights"),
    real: Annotated[list[Path] | None, typer.Option(help="Folder of real pictures for the card.")] = None,
    bfloat16: Bfloat16Option = False,
    threads: ThreadsOption = 2,
) -> None:
    """Make weights like the shipped ones: flights, detector (in three parts), codec, both attackers, card; say whether
    they are as good. Hours; resumes where stopped."""
    train, more, coarse, fine = data / "train", data / "more", out / "yolo11n", out / "yolo11n-p2"
    how: dict[str, Any] = {"bfloat16": bfloat16, "threads": threads}
    flights(data, TRAIN_FLIGHTS, TEST_FLIGHTS, threads)
    detector(train, coarse, COARSE_STEPS, learning_rate=COARSE_RATE, architecture="yolo11n", **how)
    detector(train, fine, FINE_STEPS, learning_rate=FINE_RATE, init=coarse / "detector.pt", freeze=TAP + 1, **how)
    detector(more, out, LAST_STEPS, learning_rate=LAST_RATE, init=fine / "detector.pt", freeze=TAP + 1, **how)
    codec(train, out, CODEC_STEPS, threads=threads)
    for noise in ("none", "adaptive"):
        attacker(train, out, noise, steps=ATTACKER_STEPS, threads=threads)
    card(data / "test", out, real, threads=threads)
    agree(out)


def _samples(data: Path, limit: int | None, stride: int, masks: bool = True, blank: bool = True) -> Samples:
    from uav_privacy_sc.perception.training.samples import load_samples

    with bar(f"reading {data.name}", None, passing=True) as update:
        return load_samples(data, limit, masks, stride, blank, progress=lambda done, total: update(done, total=total))


def _taps(samples: Samples, weights: Path, tap: Tap) -> TapSet:
    """Return what an encoder takes of the samples at ``tap`` of the detector in ``weights``."""
    from uav_privacy_sc.perception.detector import Detector
    from uav_privacy_sc.perception.training.batches import tap_set
    from uav_privacy_sc.perception.weights import locate

    seer = Detector(locate("detector.pt", weights), tap=tap)
    with bar("features", len(samples)) as update:
        return tap_set(samples, seer, update)


def _run(trainer: Any, name: str, losses: str, data: dict[str, Any], started_from: dict[str, Any]) -> None:
    """Train, and write the training's part of the card beside the weights."""
    from uav_privacy_sc.perception.training.card import record_training, training_entry

    def record() -> None:
        trainer.settle()  # what the card says is of the checkpoint
        record_training(trainer.out, name, training_entry(trainer.out, name, trainer, data, started_from))

    run(trainer, losses, record)
