"""Protection of one frame: features and objects are released under a budget, or nothing at all is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.object_release import ObjectConfig, ObjectRelease, ReleasedObjects
from uav_privacy_sc.privacy import visual
from uav_privacy_sc.privacy.accountant import BudgetExhausted, Expenditure, LedgerError, Odometer, TrackExpenditure
from uav_privacy_sc.privacy.budget_map import BudgetMapConfig
from uav_privacy_sc.privacy.composition import mu_from_pure
from uav_privacy_sc.privacy.domain import whole
from uav_privacy_sc.privacy.pacing import Allowance, frame_allowance
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.release import Budgets, ProtectionError, Release, ReleaseRecord

#: Faults of a frame, of its surroundings, or of disk and memory, after which the next frame may be tried.
_PASSING = (ValueError, LedgerError, OSError, MemoryError)

#: Side of the smallest box that the ledger counts, in parts of the picture: less than any cell.
_LEAST_SIDE = 1e-6


@dataclass(frozen=True)
class ProtectionConfig:
    """How a frame is protected.

    Attributes:
        visual, budget_map, objects: how features and objects are released.
        max_budget_age_s: how old a budget may be when it is used.
        expected_frames: frames that the odometer's ceiling is to last for: by its released sizes, no frame costs more
            than its even share of what is left. 0 does not pace.
    """

    visual: visual.VisualConfig = field(default_factory=visual.VisualConfig)
    budget_map: BudgetMapConfig = field(default_factory=BudgetMapConfig)
    max_budget_age_s: float = 2.0
    objects: ObjectConfig = field(default_factory=ObjectConfig)
    expected_frames: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.max_budget_age_s) and self.max_budget_age_s > 0.0):
            raise ValueError(f"max_budget_age_s is {self.max_budget_age_s!r}; give a finite number of seconds above 0")
        whole("expected_frames", self.expected_frames, 0)


class ProtectStage:
    """Release features and objects under a budget, or nothing at all.

    What is spent is on disk, through the odometer, before the release exists for anybody else. A fault that nobody
    foresaw, or a guarantee that did not hold, halts the stage for good: a person has to look before it starts again.

    Raises:
        ValueError: frames are to be paced and the odometer has no ceiling.
    """

    def __init__(self, config: ProtectionConfig, streams: RandomStreams, odometer: Odometer) -> None:
        if config.expected_frames and odometer.ceiling_epsilon is None:
            raise ValueError(f"expected_frames is {config.expected_frames}, but there is no ceiling to pace; set one")
        self.config = config
        self.streams = streams
        self.odometer = odometer
        self.halted: str | None = None
        self._objects = ObjectRelease(config.objects, streams)

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
        if self.halted is not None:
            raise ProtectionError(f"halted, restart protection once this is understood: {self.halted}")
        release = None
        try:
            release = self._release(features, objects, self._usable(budgets, now_ns), stamp_ns)
        except ProtectionError:
            raise
        except Exception as error:  # fail closed: no fault, of whatever kind, lets a frame through
            raise self._refusal(error) from error
        finally:
            if release is None:
                self._objects.forget()
        return release

    def _refusal(self, error: Exception) -> ProtectionError:
        if isinstance(error, BudgetExhausted):
            return ProtectionError(f"mission budget spent: {error}")
        text = f"{type(error).__name__} in the protection of a frame: {error}"
        if not isinstance(error, _PASSING):
            self.halted = text
        return ProtectionError(text)

    def _usable(self, budgets: Budgets | None, now_ns: int | None) -> Budgets:
        if budgets is None:
            raise ProtectionError("no budget: none received yet")
        budgets.check()
        if now_ns is not None:
            if budgets.stamp_ns <= 0:  # a machine that has just started would take it for a fresh one
                raise ProtectionError("stale budget: the budget server has not confirmed it yet")
            age_s = (now_ns - budgets.stamp_ns) / 1e9
            if not 0.0 <= age_s <= self.config.max_budget_age_s:
                limit_s = self.config.max_budget_age_s
                raise ProtectionError(f"stale budget: {age_s:.1f} s old, at most {limit_s:g} s allowed")
        return budgets

    def _release(self, features: np.ndarray, objects: np.ndarray, budgets: Budgets, stamp_ns: int) -> Release:
        config = self.config
        _check_percept(features, objects, config.visual.channels)
        allowance = self._allowance()
        epsilon_l = self._location_budget(budgets, allowance)
        released = self._objects(objects, budgets, epsilon_l)
        boxes = released.objects if config.visual.map_source == "released" else objects
        grid_shape = features.shape[1:]
        epsilon = visual.allocate(boxes, grid_shape, budgets.epsilon_v, config.visual, config.budget_map)
        if allowance is not None:
            epsilon = np.minimum(epsilon, self._cell_budget(allowance, released, epsilon, epsilon_l))
        private = visual.release(features, epsilon, config.visual, self.streams.visual)
        if not (np.isfinite(private).all() and np.isfinite(scene.corners(released.objects)).all()):
            raise ArithmeticError("a released value is NaN or infinite")
        spent = self._expenditure(objects, released, epsilon, stamp_ns, budgets)
        self.odometer.spend(spent)
        record = self._record(epsilon, len(objects), budgets, spent, allowance)
        return Release(private, released.objects, record, epsilon)

    def _allowance(self) -> Allowance | None:
        """Return what this frame may cost, None where frames are not paced."""
        if not self.config.expected_frames:
            return None
        allowance = frame_allowance(self.odometer, self.config.expected_frames)
        if not allowance.mu > 0.0:
            raise ProtectionError(f"mission budget spent: nothing left below {self.odometer.ceiling_epsilon:g}")
        return allowance

    def _location_budget(self, budgets: Budgets, allowance: Allowance | None) -> float:
        """Return epsilon_l, or what half of the allowance leaves for places where that is less."""
        if allowance is None:
            return budgets.epsilon_l
        options = self.config.objects
        left = allowance.location_epsilon() - options.fixed_epsilon
        if not left > 0.0:
            raise ProtectionError(f"pace too slow: class, size and count alone cost {options.fixed_epsilon:g}")
        return min(budgets.epsilon_l, left / options.location_factor)

    def _cell_budget(
        self, allowance: Allowance, released: ReleasedObjects, epsilon: np.ndarray, epsilon_l: float
    ) -> float:
        """Return what a cell may cost so that an object's cells stay within the rest of the allowance.

        It goes by what is public, for the strength of the noise shows it: the released sizes, wherever on the grid
        such a box may lie, and, where the number of objects is hidden, a place whether or not there is an object. The
        ceiling goes by the true boxes, whatever this says.
        """
        if not np.isfinite(epsilon).all():
            return math.inf  # without a mechanism there is nothing to pace
        visual, options = self.config.visual, self.config.objects
        covered = _most_cells(released.objects, epsilon.shape, visual.reach_cells)
        cells = min(max(1, visual.missed_cells, covered), epsilon.size)
        hidden = options.descriptors.count_epsilon is not None
        place = epsilon_l if hidden else float(released.location_epsilon.max(initial=0.0))
        pure_mu = float(mu_from_pure(place + options.fixed_epsilon))
        budget = allowance.cell_epsilon(cells, 1.0 - (pure_mu / allowance.mu) ** 2)
        if not budget > 0.0:
            raise ProtectionError("pace too slow: what is left for this frame gives its features no budget")
        return budget

    def _expenditure(
        self, objects: np.ndarray, released: ReleasedObjects, epsilon: np.ndarray, stamp_ns: int, budgets: Budgets
    ) -> Expenditure:
        cost, options = visual.cost(epsilon, _charged(objects), self.config.visual), self.config.objects.descriptors
        described = (options.label_epsilon or 0.0, options.size_epsilon or 0.0) if len(objects) else (0.0, 0.0)
        tracks = {}
        if released.identities is not None:
            paid = zip(released.identities.tolist(), cost.objects, released.location_epsilon, strict=True)
            fixed = self.config.objects.fixed_epsilon
            tracks = {track: TrackExpenditure(mu, place + fixed) for track, mu, place in paid}
        return Expenditure(
            stamp_ns=stamp_ns,
            cell_mu=cost.cell,
            object_mu=cost.object,
            frame_mu=cost.frame,
            location_epsilon=float(released.location_epsilon.max(initial=0.0)),
            label_epsilon=described[0],
            size_epsilon=described[1],
            count_epsilon=options.count_epsilon or 0.0,
            tracks=tracks,
            mechanism=f"{self.config.visual.mechanism} + {budgets.location_branch}",
            seeded=self.streams.seeded,
        )

    def _record(
        self, epsilon: np.ndarray, objects: int, budgets: Budgets, paid: Expenditure, allowance: Allowance | None
    ) -> ReleaseRecord:
        spent, config, options = self.odometer.spent(), self.config.visual, self.config.objects
        return ReleaseRecord(
            stamp_ns=paid.stamp_ns,
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
            spent_track_epsilon=0.0 if spent.track is None else spent.track.epsilon,
            lattice_step=config.lattice_step or 0.0 if math.isfinite(paid.cell_mu) else 0.0,
            location_mode=options.location_mode,
            location_epsilon=paid.location_epsilon,
            label_epsilon=paid.label_epsilon,
            size_epsilon=paid.size_epsilon,
            count_epsilon=paid.count_epsilon,
            score_hidden=options.descriptors.hide_score,
            order_shuffled=options.descriptors.shuffle,
            paced=allowance is not None,
            allowance_epsilon=0.0 if allowance is None else allowance.epsilon,
            frames_left=0 if allowance is None else allowance.frames_left,
        )


def _most_cells(objects: np.ndarray, grid_shape: tuple[int, ...], reach: int) -> int:
    """Return how many cells objects of these sizes change at most, ``reach`` cells around, wherever they lie."""
    rows, columns = (
        np.minimum(np.ceil(objects[side].clip(0.0, 1.0) * cells) + 1 + 2 * reach, cells)
        for side, cells in zip("hw", grid_shape, strict=True)
    )
    return int((rows * columns).max(initial=0.0))


def _charged(objects: np.ndarray) -> np.ndarray:
    """Return the objects as the ledger counts them: a box without area, or beside the picture, has a cell all the same.

    Whatever a detector says of its size, an object that it saw is somewhere, and changes what is around it.
    """
    charged = objects.copy()
    for name in "xy":
        charged[name] = objects[name].clip(0.0, 1.0)
    for name in "wh":
        charged[name] = np.maximum(objects[name], _LEAST_SIDE)
    return charged


def _check_percept(features: np.ndarray, objects: np.ndarray, channels: int) -> None:
    if features.ndim != 3 or not features.size or not np.isfinite(features).all():
        raise ProtectionError("features are not a finite (C, rows, columns) tensor")
    if len(features) != channels:
        raise ProtectionError(f"features have {len(features)} channels, not the {channels} that are protected")
    if objects.dtype != scene.OBJECT_DTYPE or objects.ndim != 1:
        raise ProtectionError("objects are not a row of object records")
    if not np.isfinite(scene.corners(objects)).all():
        raise ProtectionError("an object has a NaN or infinite box")
    if not np.isfinite(objects["score"]).all():
        raise ProtectionError("an object has a NaN or infinite score")
    if not ((objects["label"] >= 0) & (objects["label"] < len(scene.OBJECT_CLASSES))).all():
        raise ProtectionError(f"an object has a label outside 0..{len(scene.OBJECT_CLASSES) - 1}")
