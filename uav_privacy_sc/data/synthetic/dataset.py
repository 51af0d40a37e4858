"""Render a training set of synthetic flights to disk in VisDrone-DET layout, with masks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from joblib import Parallel, delayed

from uav_privacy_sc.data.flights import write_flight
from uav_privacy_sc.data.synthetic.flight import VARIED, FlightStyle, SyntheticFlight

#: Frames of a training flight are this far apart, so that they differ.
TRAINING_RATE_HZ = 1.0


def render_dataset(
    directory: Path,
    flights: int,
    frames_per_flight: int,
    seed: int,
    style: FlightStyle = VARIED,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda done: None,
) -> int:
    """Write ``flights`` x ``frames_per_flight`` frames below ``directory`` and return how many there are.

    Flight k has seed ``seed + k``; a flight already there is not rendered again, so an interrupted call resumes.
    ``jobs`` processes share the work; ``progress`` is told the number of flights done.
    """
    last = f"{frames_per_flight:07d}.png"
    todo = [k for k in range(flights) if not (directory / "masks" / f"{_name(seed + k)}_{last}").exists()]
    done = flights - len(todo)
    calls = (delayed(_render)(directory, seed + k, frames_per_flight, style) for k in todo)
    for _ in Parallel(n_jobs=jobs, return_as="generator_unordered")(calls):
        done += 1
        progress(done)
    return flights * frames_per_flight


def _name(seed: int) -> str:
    return f"flight{seed:09d}"


def _render(directory: Path, seed: int, frames: int, style: FlightStyle) -> None:
    flight = SyntheticFlight(seed, frames, rate_hz=TRAINING_RATE_HZ, style=style)
    write_flight(directory, flight, _name(seed), layout="det")
