"""Tracking: identities stay with their objects through motion, disorder and short losses, and are never shared."""

from __future__ import annotations

import numpy as np
import pytest

from uav_privacy_sc import scene
from uav_privacy_sc.privacy.tracking import NearestTracker, TrackingConfig


def frame(centers: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return scene.make_objects(centers, np.full((len(centers), 2), 0.05), labels)


def test_identities_follow_moving_objects_in_any_order() -> None:
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(np.linspace(0.1, 0.9, 5), np.linspace(0.1, 0.9, 5)), axis=-1).reshape(-1, 2)
    labels, tracker, owners = rng.integers(0, 3, 25), NearestTracker(), {}
    for _ in range(40):
        grid = grid + rng.normal(0, 0.004, grid.shape)
        order = rng.permutation(25)
        for owner, identity in zip(order, tracker.identify(frame(grid[order], labels[order])), strict=True):
            assert owners.setdefault(int(owner), identity) == identity
    assert len(set(owners.values())) == 25


def test_another_class_or_a_leap_is_another_track() -> None:
    tracker = NearestTracker(TrackingConfig(max_distance=0.05))
    first = tracker.identify(frame(np.array([[0.5, 0.5]]), np.array([0])))
    assert tracker.identify(frame(np.array([[0.5, 0.5]]), np.array([3]))) != first
    assert tracker.identify(frame(np.array([[0.6, 0.5]]), np.array([0]))) != first


def test_a_short_loss_is_bridged_and_a_long_one_forgotten() -> None:
    tracker = NearestTracker(TrackingConfig(forget_after=3))
    one = frame(np.array([[0.5, 0.5]]), np.array([0]))
    first = tracker.identify(one)
    for _ in range(3):
        assert len(tracker.identify(scene.no_objects())) == 0
    assert tracker.identify(one) == first
    for _ in range(5):
        tracker.identify(scene.no_objects())
    assert tracker.identify(one) != first


def test_a_crowd_in_one_place_gets_different_identities() -> None:
    tracker = NearestTracker()
    crowd = frame(np.full((8, 2), 0.5), np.zeros(8, int))
    assert len(set(tracker.identify(crowd).tolist())) == 8
    assert len(set(tracker.identify(crowd[:5]).tolist())) == 5


@pytest.mark.parametrize(("name", "value"), [("max_distance", float("nan")), ("forget_after", 0)])
def test_settings_out_of_range_are_refused(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"^{name} must"):
        TrackingConfig(**{name: value})
