"""The detector's taps of a folder of pictures, computed once and kept memory-mapped for all clients on a machine."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from uav_privacy_sc.perception.detector import Detector
from uav_privacy_sc.perception.tap import Tap
from uav_privacy_sc.perception.training.batches import TapSet, tap_set
from uav_privacy_sc.perception.training.samples import STRIDE, load_samples
from uav_privacy_sc.perception.weights import checksum

_ARRAYS = ("taps", "pictures", "masks", "objects", "counts")


def open_taps(
    data: Path,
    detector: Path,
    tap: Tap,
    limit: int | None = None,
    cache: Path | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> TapSet:
    """Return the taps of the pictures in ``data``, with their masks and objects.

    Args:
        data: folder that ``train codec`` takes: VisDrone DET, VID or MOT, AU-AIR, or rendered flights.
        detector: weights of the frozen detector.
        tap: where it is tapped.
        limit: take so many pictures at most, evenly over the folder.
        cache: folder where they are kept; None keeps them in memory. A changed folder or detector is computed anew.
            It holds taps and pictures of the client: as private as ``data``.

    Raises:
        DatasetError: a folder that cannot be used.
        WeightsError: a detector that cannot be read.
    """
    held = None if cache is None else cache / _key(data, detector, tap, limit)
    if held is not None and (found := _load(held)) is not None:
        return found
    samples = load_samples(data, limit, stride=STRIDE)
    made = tap_set(samples, Detector(detector, tap=tap), progress)
    if held is not None:
        _keep(held, made)
    return made


def _key(data: Path, detector: Path, tap: Tap, limit: int | None) -> str:
    digest = hashlib.blake2b(f"{checksum(detector)} {tap} {limit}".encode(), digest_size=12)
    for path in sorted(path for path in data.rglob("*") if path.is_file()):
        known = path.stat()
        digest.update(f"{path.relative_to(data)} {known.st_size} {known.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def _load(held: Path) -> TapSet | None:
    """Return what is kept, None where it is not there or not whole."""
    try:
        arrays = {name: np.load(held / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in _ARRAYS}
        detector, data = (held / "made-of.txt").read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        return None
    objects = np.split(np.array(arrays["objects"]), np.cumsum(arrays["counts"])[:-1])
    return TapSet(arrays["taps"], arrays["pictures"], arrays["masks"], objects, detector, data)


def _keep(held: Path, made: TapSet) -> None:
    """Write it as a whole; where another process was faster, its is taken."""
    partial = held.with_name(f"{held.name}.part{os.getpid()}")
    partial.mkdir(parents=True, exist_ok=True)
    counts = np.array([len(objects) for objects in made.objects])
    arrays = (made.taps, made.pictures, made.masks, np.concatenate(made.objects), counts)
    for name, array in zip(_ARRAYS, arrays, strict=True):
        np.save(partial / f"{name}.npy", array, allow_pickle=False)
    (partial / "made-of.txt").write_text(f"{made.detector} {made.data}\n", encoding="utf-8")
    try:
        partial.rename(held)
    except OSError:
        shutil.rmtree(partial, ignore_errors=True)
