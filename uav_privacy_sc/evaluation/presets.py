"""How much an evaluation does: named presets, so that every table can say at what scale it was made."""

from __future__ import annotations

from dataclasses import dataclass

from uav_privacy_sc.privacy.domain import choice


@dataclass(frozen=True)
class Preset:
    """The scale of an evaluation.

    Attributes:
        epsilons: visual budgets of the sweep.
        kappas: background factors of the sweep.
        gradient_steps, gradient_pixels: of the gradient attacker: steps, and of the plain one pixels for each cell and
            side (16 is the encoder's input; the adaptive one has 16).
        gradient_samples: on how many samples at most it is run.
        draws: channel draws a scenario in the convergence protocol.
        releases: releases of every object in the location protocol.
        track_frames: frames over which the track attacker listens.
        repeats: samples of every time.
    """

    name: str
    epsilons: tuple[float, ...]
    kappas: tuple[float, ...]
    gradient_steps: int
    gradient_pixels: int
    gradient_samples: int
    draws: int
    releases: int
    track_frames: tuple[int, ...]
    repeats: int

    @property
    def about(self) -> str:
        """The scale in one line, for tables."""
        attack = f"gradient attack of {self.gradient_steps} steps at {self.gradient_pixels}/16 of the resolution"
        return f"preset {self.name}: {attack} on at most {self.gradient_samples} samples"


PRESETS = {
    "quick": Preset(
        "quick",
        (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0),
        (1.12, 10.0, 100.0, 1000.0),
        40,
        2,
        4,
        40,
        4,
        (1, 10, 30),
        30,
    ),
    "standard": Preset(
        "standard",
        (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0),
        (1.12, 3.0, 10.0, 30.0, 100.0, 1000.0),
        150,
        2,
        20,
        200,
        10,
        (1, 3, 10, 30, 100),
        100,
    ),
    "paper": Preset(
        "paper",
        (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 10.0, 20.0, 50.0, 100.0, 300.0, 1000.0),
        (1.12, 3.0, 10.0, 30.0, 100.0, 1000.0),
        300,
        2,
        10_000,
        500,
        10,
        (1, 3, 10, 30, 100),
        200,
    ),
}


def preset(name: str) -> Preset:
    """Return a preset by name.

    Raises:
        ValueError: there is none of that name.
    """
    return PRESETS[choice("preset", name, tuple(PRESETS))]
