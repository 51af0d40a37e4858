"""One frame through perceive, protect, transmit, decode and attack as plain stages, without ROS.

A node wraps one of these stages, and evaluation runs the same stages in a row (:class:`Pipeline`), so what is measured
is what flies. Nothing here imports torch: perception and attack are callables that are handed in, so a release can be
made on a machine without it.
"""

from __future__ import annotations

import math
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
from uav_privacy_sc.privacy import location, visual
from uav_privacy_sc.privacy.accountant import BudgetExhausted, Expenditure, Odometer
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.randomness import RandomStreams
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
class ProtectionConfig:
    """How a frame is protected. ``max_budget_age_s`` is how old a budget may be when it is used."""

    visual: visual.VisualConfig = field(default_factory=visual.VisualConfig)
    budget_map: BudgetMapConfig = field(default_factory=BudgetMapConfig)
    max_budget_age_s: float = 2.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_budget_age_s) and self.max_budget_age_s > 0.0):
            raise ValueError(f"max_budget_age_s is {self.max_budget_age_s!r}; give a finite number of seconds above 0")


class ProtectStage:
    """Release features and objects under a budget, or nothing at all.

    What is spent is on disk, through the odometer, before the release exists for anybody else.
    """

    def __init__(self, config: ProtectionConfig, streams: RandomStreams, odometer: Odometer) -> None:
        self.config = config
        self.streams = streams
        self.odometer = odometer

    def __call__(
        self,
        features: np.ndarray,
        objects: np.ndarray,
        budgets: Budgets | None,
        stamp_ns: int,
        now_ns: int | None = None,
    ) -> Release:
        """Protect one frame: features (C, H', W') float32, objects (M,) ``scene.OBJECT_DTYPE``.

        ``now_ns`` is the monotonic time against which the age of the budgets counts; None skips that check.

        Raises:
            ProtectionError: whatever went wrong, from a stale budget to a fault in a mechanism. Nothing is released.
        """
        try:
            return self._release(features, objects, self._usable(budgets, now_ns), stamp_ns)
        except ProtectionError:
            raise
        except BudgetExhausted as error:
            raise ProtectionError(f"mission budget spent: {error}") from None
        except Exception as error:  # fail closed: no fault, of whatever kind, lets a frame through
            raise ProtectionError(f"{type(error).__name__} in the protection of a frame: {error}") from error

    def _usable(self, budgets: Budgets | None, now_ns: int | None) -> Budgets:
        if budgets is None:
            raise ProtectionError("no budget: none received yet")
        budgets.check()
        if now_ns is not None:
            age_s = (now_ns - budgets.stamp_ns) / 1e9
            if not 0.0 <= age_s <= self.config.max_budget_age_s:
                limit_s = self.config.max_budget_age_s
                raise ProtectionError(f"stale budget: {age_s:.1f} s old, at most {limit_s:g} s allowed")
        return budgets

    def _release(self, features: np.ndarray, objects: np.ndarray, budgets: Budgets, stamp_ns: int) -> Release:
        _check_percept(features, objects)
        released = self._release_objects(objects, budgets)
        boxes = released if self.config.visual.map_source == "released" else objects
        grid_shape = features.shape[1:]
        epsilon = visual.allocate(boxes, grid_shape, budgets.epsilon_v, self.config.visual, self.config.budget_map)
        private = visual.release(features, epsilon, self.config.visual, self.streams.visual)
        if not (np.isfinite(private).all() and np.isfinite(scene.corners(released)).all()):
            raise ProtectionError("a released value is NaN or infinite")
        self.odometer.spend(self._expenditure(objects, epsilon, budgets, stamp_ns))
        return Release(private, released, self._record(epsilon, len(objects), budgets, stamp_ns), epsilon)

    def _release_objects(self, objects: np.ndarray, budgets: Budgets) -> np.ndarray:
        released = objects.copy()
        centers, rng = scene.centers(objects), self.streams.location
        if budgets.location_branch == "grid":
            centers, released["cell"] = location.release_grid(centers, budgets.epsilon_l, budgets.grid_size, rng)
        else:
            centers = location.release_planar_laplace(centers, budgets.epsilon_l, budgets.location_scale, rng)
            released["cell"] = -1
        released["x"], released["y"] = np.asarray(centers, np.float32).reshape(-1, 2).T
        return released

    def _expenditure(self, objects: np.ndarray, epsilon: np.ndarray, budgets: Budgets, stamp_ns: int) -> Expenditure:
        cost = visual.cost(epsilon, objects, self.config.visual)
        return Expenditure(
            stamp_ns=stamp_ns,
            cell_mu=cost.cell,
            object_mu=cost.object,
            frame_mu=cost.frame,
            location_epsilon=budgets.epsilon_l if len(objects) else 0.0,
            mechanism=f"{self.config.visual.mechanism} + {budgets.location_branch}",
            seeded=self.streams.seeded,
        )

    def _record(self, epsilon: np.ndarray, objects: int, budgets: Budgets, stamp_ns: int) -> ReleaseRecord:
        spent, config = self.odometer.spent(), self.config.visual
        return ReleaseRecord(
            stamp_ns=stamp_ns,
            mechanism=config.mechanism,
            calibration=config.calibration,
            map_rule=self.config.budget_map.rule,
            map_source=config.map_source,
            location_branch=budgets.location_branch,
            seeded=self.streams.seeded,
            objects=objects,
            epsilon_v=budgets.epsilon_v,
            epsilon_l=budgets.epsilon_l,
            p_tx=budgets.p_tx,
            delta=config.delta,
            c_clip=config.c_clip,
            epsilon_cell_min=float(epsilon.min()),
            epsilon_cell_mean=float(epsilon.mean()),
            epsilon_cell_max=float(epsilon.max()),
            spent_cell_epsilon=spent.cell.epsilon,
            spent_object_epsilon=spent.object.epsilon,
            spent_frame_epsilon=spent.frame.epsilon,
            spent_mission_epsilon=spent.mission.epsilon,
            spent_mission_delta=spent.mission.delta,
        )


def _check_percept(features: np.ndarray, objects: np.ndarray) -> None:
    if features.ndim != 3 or not np.isfinite(features).all():
        raise ProtectionError("features are not a finite (C, rows, columns) tensor")
    if objects.dtype != scene.OBJECT_DTYPE or objects.ndim != 1:
        raise ProtectionError("objects are not a row of object records")
    if not np.isfinite(scene.corners(objects)).all():
        raise ProtectionError("an object has a NaN or infinite box")


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
