"""What an eavesdropper holds, and what an attacker is: the one interface that all attackers share.

An attacker maps the frames that it intercepted, in order, to one guess a frame. Its name, its target and whether it
uses what Kerckhoffs grants it (:attr:`adaptive`) are registered, and evaluation knows it by its name only. To add one::

    @register("map_median", target="sensitive_map", adaptive=False)
    class MedianMap:
        def __call__(self, intercepted, rng):
            return tuple(None if frame.features is None else np.median(np.abs(frame.features), axis=0)
                         for frame in intercepted)

Guesses by target, one a frame, None where nothing was received to guess from:

=============  =========================================================================
picture        ``(h, w, 3)`` uint8 RGB
location       ``(M, 2)`` float64 normalized centres of the received records, in their order
sensitive_map  ``(H', W')`` float64, higher where sensitive objects are thought to be
label          ``(M, 10)`` float64 posterior over ``scene.OBJECT_CLASSES`` of every record
count          ``(K,)`` float64 posterior over 0, 1, .., K - 1 objects
=============  =========================================================================
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.link.channel import public_scale
from uav_privacy_sc.privacy.domain import choice
from uav_privacy_sc.protection import ProtectionConfig
from uav_privacy_sc.release import Budgets

if TYPE_CHECKING:
    from uav_privacy_sc.pipeline import Reception

TARGETS = ("picture", "location", "sensitive_map", "label", "count")

#: Modules of this package that register attackers; those with torch are imported when somebody asks for attackers.
_BUILT_IN = ("location", "location_track", "sensitive_map", "inference", "inversion", "averaging", "gradient")


@dataclass(frozen=True)
class PublicConfiguration:
    """What Kerckhoffs' principle grants the eavesdropper: everything but pictures, detections, noise and ledger.

    Attributes:
        protection: mechanism, calibration, map rule and source, lattice, descriptor options, location mode.
        budgets: epsilon_v, epsilon_l, power, branch, grid and scale of this frame, and when they were confirmed.
        profile: name of the profile, for tables.
    """

    protection: ProtectionConfig
    budgets: Budgets
    profile: str = "hardened"


@dataclass(frozen=True)
class Interception:
    """One frame as the eavesdropper has it.

    Attributes:
        features: ``(C, H', W')`` float32 as equalized, None where the packet was lost.
        objects: ``(M,)`` ``scene.OBJECT_DTYPE`` records, None where the packet was lost.
        known: the public configuration.
        snr_db: of analog features; infinity for a packet, which arrives as it was sent, and for direct interception.
        scale: the public root mean square of the block as sent (in the object packet); None estimates it.
        stamp_ns: of the frame.
        tracks: ``(M,)`` which object each record belongs to, from frame to frame. The evaluation may grant it, as the
            worst case: nobody sends it, but box sizes, classes and places often let it be guessed.

    Raises:
        ValueError: arrays of another kind or size, NaN or infinity.
    """

    features: np.ndarray | None
    objects: np.ndarray | None
    known: PublicConfiguration
    snr_db: float = math.inf
    scale: float | None = None
    stamp_ns: int = 0
    tracks: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.features is not None and (self.features.ndim != 3 or not np.isfinite(self.features).all()):
            raise ValueError(f"features of shape {self.features.shape} must be finite (C, H', W'); drop the frame")
        if self.objects is not None and self.objects.dtype != scene.OBJECT_DTYPE:
            raise ValueError(f"objects are {self.objects.dtype}; give scene.OBJECT_DTYPE records or None")
        if math.isnan(self.snr_db) or self.snr_db == -math.inf:
            raise ValueError(f"snr_db is {self.snr_db}; give a number of dB, or infinity without channel noise")
        if self.scale is not None and not (math.isfinite(self.scale) and self.scale >= 0.0):
            raise ValueError(f"scale is {self.scale}; give a finite root mean square, or None to have it estimated")
        if self.tracks is not None and len(self.tracks) != len(self.records):
            raise ValueError(f"tracks has {len(self.tracks)} entries for {len(self.records)} records; give one each")

    @classmethod
    def received(cls, reception: Reception, known: PublicConfiguration, coding: str = "analog", **more: Any) -> Any:
        """Return what a party of the pipeline received; ``more`` are scale, stamp_ns and tracks."""
        snr_db = math.inf if coding == "packet" else reception.snr_db
        return cls(reception.features, reception.objects, known, snr_db, **more)

    @property
    def records(self) -> np.ndarray:
        """The records, none where their packet was lost."""
        return scene.no_objects() if self.objects is None else self.objects

    @property
    def channel_sigma(self) -> float:
        """Deviation of the channel's noise on a feature value: ``scale / sqrt(SNR)``, 0 without such noise."""
        if self.features is None or math.isinf(self.snr_db):
            return 0.0
        snr = 10.0 ** (self.snr_db / 10)
        scale = public_scale(self.features) / math.sqrt(1 + 1 / snr) if self.scale is None else self.scale
        return scale / math.sqrt(snr)


Guesses = tuple[np.ndarray | None, ...]


class Attacker(Protocol):
    """Anything that turns intercepted frames into one guess a frame."""

    def __call__(self, intercepted: Sequence[Interception], rng: np.random.Generator) -> Guesses:
        """Return one guess for each frame, None where nothing was received to guess from."""


@dataclass(frozen=True)
class Registered:
    """A registered attacker: its name, what it attacks, whether it is adaptive, and what builds it.

    ``over_time``: whether it makes more of several frames than of the latest alone.
    """

    name: str
    target: str
    adaptive: bool
    build: Callable[..., Attacker]
    over_time: bool = False


_ATTACKERS: dict[str, Registered] = {}


def register(name: str, *, target: str, adaptive: bool, over_time: bool = False) -> Callable[[Any], Any]:
    """Decorator of a class or function that builds an attacker: make it known under ``name``.

    ``over_time``: its guess at a frame also rests on those before, so that it is measured over several.

    Raises:
        ValueError: an unknown target, or a name that another attacker has.
    """
    choice("target", target, TARGETS)

    def add(build: Any) -> Any:
        taken = _ATTACKERS.get(name)
        if taken is not None and (taken.build.__module__, taken.build.__name__) != (build.__module__, build.__name__):
            raise ValueError(f"name {name!r} is taken by {taken.build.__module__}; register under another")
        _ATTACKERS[name] = Registered(name, target, adaptive, build, over_time)
        return build

    return add


def attackers(target: str | None = None) -> tuple[Registered, ...]:
    """Return all registered attackers, or those of one target."""
    for module in _BUILT_IN:
        importlib.import_module(f"uav_privacy_sc.attack.{module}")
    return tuple(entry for entry in _ATTACKERS.values() if target in (None, entry.target))


def adopt(entry: Registered) -> None:
    """Make an attacker known that another process registered, unless its name is known here already."""
    _ATTACKERS.setdefault(entry.name, entry)


def create(name: str, **options: Any) -> Attacker:
    """Return a new attacker by its name; ``options`` are those of its class.

    Raises:
        ValueError: nobody has registered that name.
    """
    if name not in _ATTACKERS:
        choice("attacker", name, tuple(entry.name for entry in attackers()))
    return _ATTACKERS[name].build(**options)
