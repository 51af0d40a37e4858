"""One frame through perceive, protect, transmit, decode and attack as plain stages, without ROS.

A node wraps one of these stages, and evaluation runs the same stages in a row (:class:`Pipeline`), so what is measured
is what flies. Nothing here imports torch: perception and attack are callables that are handed in, so a release can be
made on a machine without it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.control.bcd import OperatingPoint, optimize_at_db
from uav_privacy_sc.control.policy import ScenarioPolicy
from uav_privacy_sc.link.channel import BlockState, LinkConfig, draw_fading, transmit_features, transmit_objects
from uav_privacy_sc.protection import ProtectionConfig, ProtectStage
from uav_privacy_sc.release import Budgets, ProtectionError, Release, ReleaseRecord

__all__ = [
    "BudgetStage",
    "Budgets",
    "FrameResult",
    "LinkStage",
    "Pipeline",
    "ProtectStage",
    "ProtectionConfig",
    "ProtectionError",
    "Reception",
    "Release",
    "ReleaseRecord",
    "Transmission",
]


@dataclass(frozen=True)
class Reception:
    """What one party received: features as equalized, objects or None when the packet was lost, and its SNR in dB."""

    features: np.ndarray
    objects: np.ndarray | None
    snr_db: float

    @property
    def prior(self) -> np.ndarray:
        """The objects as a decoder takes them: none where their packet was lost."""
        return scene.no_objects() if self.objects is None else self.objects


@dataclass(frozen=True)
class Transmission:
    """One frame on the air; ``ground_gain_db`` is the gain that it met (``link.channel.BlockState.gain_db``)."""

    ground: Reception
    eve: Reception
    ground_gain_db: float


class LinkStage:
    """Send one frame a block to the ground and, unasked, to the eavesdropper, who fade independently.

    The block that the next frame will meet is drawn beforehand, and its gain to the ground is known on board
    (:attr:`gain_db`), as P1's controller needs it (section 4.2).
    """

    def __init__(self, config: LinkConfig, rng_ground: np.random.Generator, rng_eve: np.random.Generator) -> None:
        self.config = config
        self._rngs = (rng_ground, rng_eve)
        self._draw()

    @property
    def gain_db(self) -> float:
        """Gain to the ground of the block that the next transmission meets, as exact as a Float32 carries it."""
        return float(np.float32(self._states[0].gain_db))

    def __call__(self, features: np.ndarray, objects: np.ndarray, p_tx: float) -> Transmission:
        """Send features (C, H', W') and objects with ``p_tx`` watts, then draw the next block.

        Raises:
            ValueError: a feature is not finite, or ``p_tx`` is not above 0; nothing is sent and the block stays.
        """
        configs = (self.config, self.config.eavesdropper)
        ground, eve = (
            _receive(features, objects, p_tx, state, rng, config)
            for state, rng, config in zip(self._states, self._rngs, configs, strict=True)
        )
        gain_db = self.gain_db
        self._draw()
        return Transmission(ground, eve, gain_db)

    def _draw(self) -> None:
        rng_ground, rng_eve = self._rngs
        self._states = (draw_fading(self.config, rng_ground), draw_fading(self.config.eavesdropper, rng_eve))


def _receive(
    features: np.ndarray,
    objects: np.ndarray,
    p_tx: float,
    state: BlockState,
    rng: np.random.Generator,
    config: LinkConfig,
) -> Reception:
    received = transmit_features(features, p_tx, state, rng)
    return Reception(received, transmit_objects(objects, p_tx, state, rng, config), state.snr_db(p_tx))


class BudgetStage:
    """Choose the operating point for the gain that the next block will have (P1 section 4.2)."""

    def __init__(self, policy: ScenarioPolicy) -> None:
        self.policy = policy

    def __call__(self, gain_db: float) -> OperatingPoint:
        """Return the operating point at ``gain_db``; one that is infeasible says so in its status.

        Raises:
            ValueError: ``gain_db`` is not finite.
        """
        return optimize_at_db(self.policy, gain_db)

    def budgets(self, point: OperatingPoint, stamp_ns: int) -> Budgets:
        """Return the budgets of an operating point under this policy."""
        return Budgets.from_point(point, self.policy, stamp_ns)


@dataclass
class FrameResult:
    """What every stage made of one frame. With ``dropped`` set, nothing left the aircraft and the rest is None."""

    stamp_ns: int
    features: np.ndarray | None = None
    objects: np.ndarray | None = None
    budgets: Budgets | None = None
    utility: float | None = None
    release: Release | None = None
    transmission: Transmission | None = None
    mask: np.ndarray | None = None
    reconstruction: np.ndarray | None = None
    dropped: str | None = None
    stage_ms: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Note how long a stage took."""
        start = time.perf_counter()
        yield
        self.stage_ms[stage] = (time.perf_counter() - start) * 1e3


@dataclass
class Pipeline:
    """All stages in a row for one frame, as the nodes run them.

    ``perceive`` maps an image to an object with ``features`` and ``objects``; ``decode`` maps features and objects
    (none where their packet was lost) to a mask; ``attack`` maps features to a picture. The latter two may be left out.
    """

    perceive: Callable[[np.ndarray], Any]
    protect: ProtectStage
    link: LinkStage
    budget: BudgetStage
    decode: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    attack: Callable[[np.ndarray], np.ndarray] | None = None

    def __call__(self, image: np.ndarray, stamp_ns: int) -> FrameResult:
        """Fly one image (H, W, 3) uint8 RGB through all stages."""
        result = FrameResult(stamp_ns)
        with result.timed("perceive"):
            percept = self.perceive(image)
        result.features, result.objects = percept.features, percept.objects
        with result.timed("budget"):
            point = self.budget(self.link.gain_db)
        result.budgets, result.utility = self.budget.budgets(point, stamp_ns), float(point.utility)
        try:
            with result.timed("protect"):
                result.release = self.protect(percept.features, percept.objects, result.budgets, stamp_ns)
        except ProtectionError as error:
            result.dropped = str(error)
            return result
        self._on_the_air(result, result.release, result.budgets.p_tx)
        return result

    def _on_the_air(self, result: FrameResult, release: Release, p_tx: float) -> None:
        with result.timed("link"):
            sent = self.link(release.features, release.objects, p_tx)
        result.transmission = sent
        if self.decode is not None:
            with result.timed("decode"):
                result.mask = self.decode(sent.ground.features, sent.ground.prior)
        if self.attack is not None:
            with result.timed("attack"):
                result.reconstruction = self.attack(sent.eve.features)
