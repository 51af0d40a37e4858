"""The samples of an evaluation: pictures with truth and what perception made of them, or boxes alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from uav_privacy_sc.data.sources import SourceError, SourceFrame, open_source
from uav_privacy_sc.evaluation.networks import Networks, networks_for
from uav_privacy_sc.scene import SENSITIVE_LABELS, no_objects

#: Seed of the first synthetic flight; the shipped networks were trained on those from 100000 and 200000 on, and tested
#: from 300000 on.
SYNTHETIC_SEED = 500_000
#: Sizes of VisDrone's pictures, for annotations that come without them: the smallest that holds all boxes is taken.
VISDRONE_SIZES = (
    (480, 360),
    (960, 540),
    (1344, 756),
    (1360, 765),
    (1400, 788),
    (1400, 1050),
    (1916, 1078),
    (2000, 1500),
)


@dataclass(frozen=True)
class Sample:
    """One picture, or one layout of boxes.

    Attributes:
        name: what the tables call it.
        truth: ``(M,)`` annotated objects, None where nobody annotated.
        image: ``(H, W, 3)`` uint8 RGB, None where there are boxes only.
        mask: ``(H, W)`` uint8 true classes, None where unknown.
        ignored: ``(K, 4)`` regions that nobody annotated.
        features: ``(C, H', W')`` float32 as perception gave them, None without a picture.
        detected: ``(M,)`` objects that the detector found.
    """

    name: str
    truth: np.ndarray | None = None
    image: np.ndarray | None = None
    mask: np.ndarray | None = None
    ignored: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    features: np.ndarray | None = None
    detected: np.ndarray = field(default_factory=no_objects)

    @property
    def boxes(self) -> np.ndarray:
        """The best that is known of objects: annotated ones, else detected ones."""
        return self.detected if self.truth is None else self.truth

    @property
    def has_people(self) -> bool:
        """Whether a sensitive object is known to be in it."""
        return bool(np.isin(self.boxes["label"], SENSITIVE_LABELS).any())

    def save(self, path: Path) -> None:
        """Write it to an ``.npz`` file, whole or not at all."""
        arrays = {name: getattr(self, name) for name in ("truth", "image", "mask", "ignored", "features", "detected")}
        partial_file = path.with_suffix(".partial.npz")
        np.savez(partial_file, name=np.array(self.name), **{k: v for k, v in arrays.items() if v is not None})
        partial_file.replace(path)

    @classmethod
    def load(cls, path: Path) -> Sample:
        """Read what :meth:`save` wrote."""
        with np.load(path) as found:
            return cls(str(found["name"]), **{name: found[name] for name in found.files if name != "name"})


@dataclass
class Dataset:
    """What is to be measured on: ``draws`` make the samples, one a call, in whatever process they are called.

    ``kind`` is ``pictures`` or ``boxes``; ``notes`` are lines that a user should read.
    """

    name: str
    kind: str
    draws: Iterator[partial[Sample]]
    length: int
    notes: list[str] = field(default_factory=list)
    oddities: Counter[str] = field(default_factory=Counter)


def open_dataset(spec: str, samples: int, networks: Networks) -> Dataset:
    """Open ``synthetic``, ``synthetic:SEED``, a folder of pictures or annotations, a video or a bag.

    A folder gives evenly spread pictures; one with fewer than asked gives what it has, and says so.

    Raises:
        SourceError: it does not exist or holds nothing that can be used; one line.
    """
    if samples < 1:
        raise SourceError(f"samples is {samples}; give a whole number of at least 1")
    if spec == "synthetic" or spec.startswith("synthetic:"):
        return _synthetic(spec, samples, networks)
    path = Path(spec).expanduser()
    if not path.exists():
        raise SourceError(f"dataset {spec} does not exist; give a folder, a video, a bag, or 'synthetic'")
    annotations = path / "annotations"
    if path.is_dir() and annotations.is_dir() and not (path / "images").is_dir() and not (path / "sequences").is_dir():
        return _boxes(path, sorted(annotations.glob("*.txt")), samples)
    return _pictures(path, samples, networks)


def _synthetic(spec: str, samples: int, networks: Networks) -> Dataset:
    text = spec.partition(":")[2]
    if text and not (text.isascii() and text.isdigit()):
        raise SourceError(f"dataset {spec!r}: what follows 'synthetic:' must be a whole number of zero or more")
    first = int(text) if text else SYNTHETIC_SEED
    calls = (partial(_render, first + number, networks) for number in range(samples))
    return Dataset(f"synthetic flights from seed {first}, one frame each", "pictures", calls, samples)


def _render(seed: int, networks: Networks) -> Sample:
    from uav_privacy_sc.data.synthetic.flight import VARIED, SyntheticFlight

    frame = SyntheticFlight(seed, frames=1, style=VARIED)[0]
    return perceived(Sample(f"flight {seed}", frame.objects, frame.image, frame.mask), networks)


def perceived(sample: Sample, networks: Networks) -> Sample:
    """Return the sample with what perception makes of its picture."""
    percept = networks_for(networks).perception(sample.image)
    given = {name: getattr(sample, name) for name in ("truth", "image", "mask", "ignored")}
    return Sample(sample.name, features=percept.features, detected=percept.objects, **given)


def _pictures(path: Path, samples: int, networks: Networks) -> Dataset:
    notes: list[str] = []
    sources, length = _spread(path, samples, notes)
    dataset = Dataset(path.name or str(path), "pictures", iter(()), min(samples, length), notes)

    def calls() -> Iterator[partial[Sample]]:
        given = 0
        for source in sources:
            try:
                for frame in source:
                    if given == samples:
                        return
                    if frame.image is None:
                        dataset.oddities["picture that cannot be read"] += 1
                        continue
                    given += 1
                    yield partial(perceived, _sample(frame, f"{source.name} {frame.index}"), networks)
            finally:  # also of the last source, which is left when there are enough
                dataset.oddities.update(source.oddities)

    dataset.draws = calls()
    return dataset


def _spread(path: Path, samples: int, notes: list[str]) -> tuple[list[Any], int]:
    """Return the sources of a path, folders thinned to evenly spread pictures, and how many pictures there are."""
    from uav_privacy_sc.data.folders import open_every
    from uav_privacy_sc.data.sources import is_bag

    if not path.is_dir() or is_bag(path):
        source = open_source(path, max_frames=samples)
        return [source], source.length or samples
    sources = open_every(path)
    lengths = [source.length or 0 for source in sources]
    total = sum(lengths)
    if total < samples:
        notes.append(f"{path} holds {total} pictures, fewer than the {samples} asked for: all of them are used")
        return list(sources), total
    chosen, start = np.unique(np.linspace(0, total - 1, samples).round().astype(int)), 0
    for source, length in zip(sources, lengths, strict=True):
        source.keep([int(n) - start for n in chosen if start <= n < start + length])
        start += length
    return list(sources), total


def _sample(frame: SourceFrame, name: str) -> Sample:
    if frame.truth is None:
        return Sample(name, image=frame.image)
    return Sample(name, frame.truth.objects, frame.image, frame.truth.mask, frame.truth.ignored)


def _boxes(path: Path, files: list[Path], samples: int) -> Dataset:
    if not files:
        raise SourceError(f"{path / 'annotations'} holds no .txt file")
    notes = [f"{path} has annotations and no pictures: sizes of pictures are guessed from the boxes"]
    if len(files) < samples:
        notes.append(f"{path} holds {len(files)} annotation files, fewer than the {samples} asked for: all are used")
    chosen = np.unique(np.linspace(0, len(files) - 1, min(samples, len(files))).round().astype(int))
    dataset = Dataset(f"{path.name} (boxes only)", "boxes", iter(()), len(chosen), notes)

    def calls() -> Iterator[partial[Sample]]:
        for number in chosen:
            dataset.oddities.update(annotation_faults(files[number]))
            yield partial(read_boxes, files[number])

    dataset.draws = calls()
    return dataset


def annotation_faults(path: Path) -> Counter[str]:
    """Return what of an annotation file is set aside or changed, by kind."""
    from uav_privacy_sc.data.visdrone import DET_FIELDS, frame_annotations, read_rows

    rows, faults = read_rows(path, DET_FIELDS)
    return faults + frame_annotations(rows, *guessed_size(rows))[1]


def read_boxes(path: Path) -> Sample:
    """Return the layout of one VisDrone DET annotation file, normalized to the guessed size of its picture."""
    from uav_privacy_sc.data.visdrone import DET_FIELDS, frame_annotations, read_rows

    rows, _ = read_rows(path, DET_FIELDS)
    width, height = guessed_size(rows)
    found, _ = frame_annotations(rows, width, height)
    return Sample(path.stem, found.objects, ignored=found.ignored, detected=found.objects)


def guessed_size(rows: np.ndarray) -> tuple[int, int]:
    """Return the smallest of VisDrone's picture sizes that holds all boxes, or what they need where none does."""
    right = int(np.ceil((rows["left"] + rows["width"]).max(initial=1)))
    bottom = int(np.ceil((rows["top"] + rows["height"]).max(initial=1)))
    fitting = (size for size in VISDRONE_SIZES if size[0] >= right and size[1] >= bottom)
    return next(fitting, (right, bottom))
