"""Folders of pictures: plain ones, VisDrone DET, VID and MOT, and AU-AIR, with the truth their annotations hold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from uav_privacy_sc.data.images import IMAGE_SUFFIXES, ImageError, read_image, read_mask
from uav_privacy_sc.data.sources import DEFAULT_RATE_HZ, Source, SourceError, SourceFrame, Truth
from uav_privacy_sc.data.visdrone import (
    DET_FIELDS,
    VID_FIELDS,
    AnnotationError,
    frame_annotations,
    parse_rows,
    read_rows,
)
from uav_privacy_sc.scene import OBJECT_CLASSES

#: ``(picture, height, width) -> Truth`` or None where the annotations say nothing of the picture.
TruthReader = Callable[[Path, int, int], Truth | None]

#: AU-AIR's classes as VisDrone's; a trailer is none of these and counts as category 11. AU-AIR does not tell people who
#: walk or stand from others: all are pedestrians.
AUAIR_CLASSES = {
    "human": "pedestrian",
    "car": "car",
    "truck": "truck",
    "van": "van",
    "motorbike": "motor",
    "bicycle": "bicycle",
    "bus": "bus",
}


class FolderSource(Source):
    """Pictures of one folder in natural order (``2.jpg`` before ``10.jpg``)."""

    def __init__(self, name: str, kind: str, pictures: list[Path], rate_hz: float, max_frames: int | None) -> None:
        super().__init__(name, rate_hz, len(pictures), max_frames)
        self.kind = kind
        self._pictures = pictures
        self.read_truth: TruthReader | None = None

    @property
    def pictures(self) -> tuple[Path, ...]:
        """The files, in the order in which they are read."""
        return tuple(self._pictures)

    def keep(self, numbers: Iterable[int]) -> None:
        """Keep the pictures of these numbers alone, in the order given."""
        self._pictures = [self._pictures[number] for number in numbers]
        self.length = len(self._pictures)

    def _frames(self) -> Iterator[SourceFrame]:
        for index, path in enumerate(self._pictures):
            try:
                image = read_image(path)
            except ImageError as error:
                yield SourceFrame(index, self.stamp_ns(index), None, f"{path.name}: {error}")
                continue
            yield SourceFrame(index, self.stamp_ns(index), image, truth=self._truth(path, image))

    def _truth(self, path: Path, image: np.ndarray) -> Truth | None:
        if self.read_truth is None:
            return None
        try:
            truth = self.read_truth(path, *image.shape[:2])
        except (AnnotationError, ImageError):
            self.oddities["unreadable annotations"] += 1
            return None
        if truth is None:
            self.oddities["picture without annotations"] += 1
        return truth


def open_folder(path: Path, rate_hz: float, max_frames: int | None, masks: bool = True) -> FolderSource:
    """Open a folder as what it is: VisDrone VID or MOT, VisDrone DET, AU-AIR, or pictures without truth.

    ``masks`` says whether masks beside the annotations are read.

    Raises:
        SourceError: if it cannot be listed or holds no readable picture.
    """
    if (path / "sequences").is_dir():
        return _open_sequences(path, rate_hz, max_frames, masks)
    pictures = path / "images" if (path / "images").is_dir() else path
    root = pictures.parent
    if pictures.parent.name == "sequences":
        return _open_sequence(pictures, rate_hz, max_frames, masks)
    if (root / "annotations.json").is_file():
        source = _folder(pictures, "au-air", rate_hz, max_frames)
        source.read_truth = _auair_truth(root / "annotations.json", source.oddities)
    elif pictures.name == "images" and (root / "annotations").is_dir():
        source = _folder(pictures, "visdrone-det", rate_hz, max_frames)
        source.read_truth = _det_truth(root, source.oddities, masks)
    else:
        source = _folder(pictures, "images", rate_hz, max_frames)
    return source


def open_picture(path: Path, rate_hz: float, max_frames: int | None) -> Source:
    """Open one picture as a flight of one frame.

    Raises:
        SourceError: if it is no image.
    """
    try:
        read_image(path)
    except ImageError as error:
        raise SourceError(f"{path} is no picture that can be read: {error}") from None
    return FolderSource(path.name, "images", [path], rate_hz, max_frames)


def open_every(path: Path, masks: bool = True) -> list[FolderSource]:
    """Open all of a folder: every sequence of VisDrone VID or MOT, one source for any other layout.

    Raises:
        SourceError: if it cannot be listed, or it or a sequence holds no readable picture.
    """
    sequences = _sequences(path) if (path / "sequences").is_dir() else [path]
    return [open_folder(sequence, DEFAULT_RATE_HZ, None, masks) for sequence in sequences]


def _sequences(root: Path) -> list[Path]:
    sequences = sorted(child for child in (root / "sequences").iterdir() if child.is_dir())
    if not sequences:
        raise SourceError(f"{root / 'sequences'} holds no sequence")
    return sequences


def _open_sequences(root: Path, rate_hz: float, max_frames: int | None, masks: bool) -> FolderSource:
    sequences = _sequences(root)
    source = _open_sequence(sequences[0], rate_hz, max_frames, masks)
    if len(sequences) > 1:
        source.notes.append(
            f"{root} holds {len(sequences)} sequences; this is {sequences[0].name}. "
            f"Give {root}/sequences/NAME for another."
        )
    return source


def _open_sequence(pictures: Path, rate_hz: float, max_frames: int | None, masks: bool) -> FolderSource:
    source = _folder(pictures, "visdrone-vid", rate_hz, max_frames)
    root = pictures.parents[1]
    annotations = root / "annotations" / f"{pictures.name}.txt"
    if annotations.is_file():
        drawn = root / "masks" / pictures.name if masks else None
        source.read_truth = _vid_truth(annotations, drawn, source.oddities)
    return source


def _folder(path: Path, kind: str, rate_hz: float, max_frames: int | None) -> FolderSource:
    try:
        children = [child for child in path.iterdir() if child.is_file()]
    except OSError as error:
        raise SourceError(f"cannot list {path}: {error.strerror}") from None
    pictures = sorted((child for child in children if child.suffix.lower() in IMAGE_SUFFIXES), key=_natural)
    if not pictures:
        holds = "is empty" if not any(path.iterdir()) else f"holds no picture ({', '.join(sorted(IMAGE_SUFFIXES))})"
        raise SourceError(f"the folder {path} {holds}")
    _require_one_readable(path, pictures)
    name = path.parent.name if path.name == "images" else path.name
    return FolderSource(name or str(path), kind, pictures, rate_hz, max_frames)


def _require_one_readable(path: Path, pictures: list[Path]) -> None:
    first = ""
    for picture in pictures:
        try:
            read_image(picture)
        except ImageError as error:
            first = first or f"{picture.name}: {error}"
        else:
            return
    raise SourceError(f"none of the {len(pictures)} pictures in {path} can be read ({first})")


def _natural(path: Path) -> tuple[list[tuple[bool, int, str]], str]:
    parts = re.split(r"(\d+)", path.name.lower())
    return [(part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts], path.name


def _det_truth(root: Path, oddities: Counter[str], masks: bool) -> TruthReader:
    def read(picture: Path, height: int, width: int) -> Truth | None:
        path = root / "annotations" / f"{picture.stem}.txt"
        if not path.is_file():
            return None
        rows, found = read_rows(path, DET_FIELDS)
        oddities.update(found)
        mask = root / "masks" / f"{picture.stem}.png" if masks else None
        return _visdrone_truth(rows, mask, (height, width), oddities)

    return read


def _vid_truth(annotations: Path, masks: Path | None, oddities: Counter[str]) -> TruthReader:
    try:
        rows, found = read_rows(annotations, VID_FIELDS)
    except AnnotationError as error:
        raise SourceError(str(error)) from None
    oddities.update(found)

    def read(picture: Path, height: int, width: int) -> Truth | None:
        if not picture.stem.isdigit():
            return None
        here = rows[rows["frame"] == int(picture.stem)]
        return _visdrone_truth(here, masks and masks / f"{picture.stem}.png", (height, width), oddities)

    return read


def _visdrone_truth(rows: np.ndarray, mask: Path | None, shape: tuple[int, int], oddities: Counter[str]) -> Truth:
    height, width = shape
    annotations, aside = frame_annotations(rows, width, height)
    oddities.update(aside)
    pixels = read_mask(mask) if mask is not None and mask.is_file() else None
    if pixels is not None and pixels.shape != shape:
        oddities["mask of another size than its picture"] += 1
        pixels = None
    return Truth(annotations.objects, pixels, annotations.ignored)


def _auair_truth(path: Path, oddities: Counter[str]) -> TruthReader:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        classes = [str(name) for name in content["categories"]]
        entries = {str(entry["image_name"]): entry for entry in content["annotations"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(f"cannot read the AU-AIR annotations {path}: {type(error).__name__}: {error}") from None

    def read(picture: Path, height: int, width: int) -> Truth | None:
        entry = entries.get(picture.name)
        return None if entry is None else _auair_boxes(entry, classes, (height, width), oddities)

    return read


def _auair_boxes(entry: dict, classes: list[str], shape: tuple[int, int], oddities: Counter[str]) -> Truth:
    """Return the boxes of one AU-AIR entry; a trailer, which VisDrone does not know, counts as category 11."""
    try:
        lines = [_as_det_line(box, classes) for box in entry["bbox"]]
        size = (float(entry["image_width"]), float(entry["image_height"]))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise AnnotationError(f"an AU-AIR entry cannot be read: {error}") from None
    rows, found = parse_rows(lines, DET_FIELDS)
    annotations, aside = frame_annotations(rows, *(round(side) for side in size))
    oddities.update(found + aside)
    return Truth(annotations.objects)


def _as_det_line(box: dict, classes: list[str]) -> str:
    name = AUAIR_CLASSES.get(classes[int(box["class"])].lower())
    category = len(OBJECT_CLASSES) + 1 if name is None else OBJECT_CLASSES.index(name) + 1
    return f"{box['left']},{box['top']},{box['width']},{box['height']},1,{category},0,0"
