"""Release of the objects of a frame: their number, places, classes, sizes, scores and order, and what that costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from uav_privacy_sc import scene
from uav_privacy_sc.privacy import descriptors, location
from uav_privacy_sc.privacy.descriptors import DescriptorConfig
from uav_privacy_sc.privacy.domain import FloatArray, choice
from uav_privacy_sc.privacy.predictive import PredictiveConfig, PredictiveLocation
from uav_privacy_sc.privacy.randomness import RandomStreams
from uav_privacy_sc.privacy.tracking import NearestTracker
from uav_privacy_sc.release import Budgets

LOCATION_MODES = ("independent", "predictive")


@dataclass(frozen=True)
class ObjectConfig:
    """How objects are released.

    Attributes:
        descriptors: options for class, size, number, score and order.
        location_mode: ``independent`` draws a place for every frame (P1); ``predictive`` keeps a track's place until a
            private test says that it has moved too far, and pays only then.
        test_ratio, threshold: of the private test (``privacy.predictive.PredictiveConfig``).
    """

    descriptors: DescriptorConfig = DescriptorConfig()
    location_mode: str = "independent"
    test_ratio: float = 0.5
    threshold: float = 8.0

    def __post_init__(self) -> None:
        choice("location_mode", self.location_mode, LOCATION_MODES)
        PredictiveConfig(test_ratio=self.test_ratio, threshold=self.threshold)
        if self.predictive and self.descriptors.count_epsilon is not None:
            raise ValueError(
                "count_epsilon needs location_mode 'independent': a dummy has no track, so a place that stays would "
                "tell objects from dummies"
            )

    @property
    def predictive(self) -> bool:
        """Whether places follow tracks."""
        return self.location_mode == "predictive"

    @property
    def location_factor(self) -> float:
        """What a fresh place costs at most, in epsilon_l."""
        return 1.0 + self.test_ratio if self.predictive else 1.0

    @property
    def fixed_epsilon(self) -> float:
        """Pure epsilon of everything but the place."""
        options = self.descriptors
        return sum(value or 0.0 for value in (options.label_epsilon, options.size_epsilon, options.count_epsilon))


@dataclass(frozen=True)
class ReleasedObjects:
    """Released records, and what each of the true objects paid.

    Attributes:
        objects: ``(N,)`` records; N is not the number of true objects where that is padded.
        location_epsilon: ``(M,)`` pure epsilon of the place of each true object, in their order.
        identities: ``(M,)`` tracks of the true objects, None without tracking. For the ledger on board only.
    """

    objects: np.ndarray
    location_epsilon: np.ndarray
    identities: np.ndarray | None = None


class ObjectRelease:
    """Releases the objects of one frame after another; keeps tracks and released places in predictive mode."""

    def __init__(self, config: ObjectConfig, streams: RandomStreams) -> None:
        self.config = config
        self.streams = streams
        self._tracker = NearestTracker()
        self._places: PredictiveLocation | None = None

    def __call__(self, objects: np.ndarray, budgets: Budgets, epsilon_l: float) -> ReleasedObjects:
        """Release ``(M,)`` records at ``epsilon_l``; branch, grid and scale are those of ``budgets``.

        Raises:
            ValueError: a parameter, a label or a box is out of range.
        """
        options, streams = self.config.descriptors, self.streams
        padded = descriptors.pad_objects(objects, options, streams.count)
        released, identities = padded.copy(), None
        cost: FloatArray = np.full(len(objects), epsilon_l, np.float64)
        if self.config.predictive:
            identities = self._tracker.identify(objects)
            kept = self._predictive(budgets).release(scene.centers(objects), identities, epsilon_l, streams.location)
            centers, cells, cost = kept.centers, kept.cells, kept.epsilon
        else:
            centers, cells = _independent(scene.centers(padded), budgets, epsilon_l, streams.location)
        released["x"], released["y"] = np.asarray(centers, np.float32).reshape(-1, 2).T
        released["w"], released["h"] = released["w"].clip(0, 1), released["h"].clip(0, 1)
        released["cell"] = cells
        return ReleasedObjects(descriptors.release_descriptors(released, options, streams), cost, identities)

    def forget(self) -> None:
        """Let go of released places: after a frame that was refused nobody has paid for what it drew."""
        self._places = None

    def _predictive(self, budgets: Budgets) -> PredictiveLocation:
        """Return the places; another branch, grid or scale starts them anew."""
        config = PredictiveConfig(
            branch=budgets.location_branch,
            grid_size=budgets.grid_size,
            scale=budgets.location_scale,
            test_ratio=self.config.test_ratio,
            threshold=self.config.threshold,
        )
        if self._places is None or self._places.config != config:
            self._places = PredictiveLocation(config)
        return self._places


def _independent(
    centers: FloatArray, budgets: Budgets, epsilon_l: float, rng: np.random.Generator
) -> tuple[FloatArray, np.ndarray]:
    """Return ``(M, 2)`` places drawn afresh, and their ``(M,)`` cells, -1 for planar Laplace."""
    if budgets.location_branch == "grid":
        return location.release_grid(centers, epsilon_l, budgets.grid_size, rng)
    places = location.release_planar_laplace(centers, epsilon_l, budgets.location_scale, rng)
    return places, np.full(len(places), -1, np.int32)
