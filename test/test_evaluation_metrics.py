"""Metrics against values worked out by hand, and what they say when there is nothing to measure."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.metrics import structural_similarity

from uav_privacy_sc.evaluation.metrics import (
    UNLABELLED,
    Missing,
    box_labels,
    category_accuracy,
    confusion,
    mean_iou,
    mean_of,
    object_accuracy,
    psnr,
    resize_labels,
    sensitive_pixels,
    similarity,
)
from uav_privacy_sc.scene import MASK_CLASSES, make_objects

RNG = np.random.default_rng(5)
ORIGINAL = RNG.integers(0, 255, (40, 60, 3), np.uint8)


def test_psnr_of_a_known_difference() -> None:
    picture = np.full((8, 8, 3), 100, np.uint8)
    assert psnr(picture, picture + np.uint8(10)) == pytest.approx(28.1308, abs=1e-4)
    half = np.zeros((8, 8), bool)
    half[:4] = True
    other = picture.copy()
    other[:4] += 10
    assert psnr(picture, other, half) == pytest.approx(28.1308, abs=1e-4)
    assert psnr(picture, other) == pytest.approx(28.1308 + 10 * np.log10(2), abs=1e-4)


def test_identical_pictures_have_no_psnr_but_an_ssim_of_one() -> None:
    assert isinstance(psnr(ORIGINAL, ORIGINAL), Missing)
    assert similarity(ORIGINAL, ORIGINAL).mean() == pytest.approx(1.0)


def test_ssim_is_that_of_scikit_image_and_local_where_asked() -> None:
    noisy = np.clip(ORIGINAL + RNG.normal(0, 40, ORIGINAL.shape), 0, 255).astype(np.uint8)
    half_noisy = ORIGINAL.copy()
    half_noisy[:, 30:] = noisy[:, 30:]
    left = np.zeros((40, 60), bool)
    left[:, :20] = True
    assert similarity(half_noisy, ORIGINAL).mean(left) == pytest.approx(1.0)
    assert similarity(half_noisy, ORIGINAL).mean(~left) < 0.95
    _, full = structural_similarity(ORIGINAL, noisy, channel_axis=2, data_range=255, full=True)
    assert similarity(noisy, ORIGINAL).mean() == pytest.approx(full.mean())


def test_what_cannot_be_measured_says_why() -> None:
    tiny = np.zeros((5, 60, 3), np.uint8)
    assert "window" in similarity(tiny, tiny).reason
    nowhere = np.zeros((40, 60), bool)
    assert "no pixel" in psnr(ORIGINAL[::-1], ORIGINAL, nowhere).reason
    assert "no pixel" in similarity(ORIGINAL[::-1], ORIGINAL).mean(nowhere).reason


@pytest.mark.parametrize("wrong", [ORIGINAL[:-1], ORIGINAL.astype(np.float32) / 255, ORIGINAL[..., 0]])
def test_pictures_of_another_kind_are_refused(wrong: np.ndarray) -> None:
    for metric in (psnr, similarity):
        with pytest.raises(ValueError, match="shape"):
            metric(wrong, ORIGINAL)


def _object(label: int, center: tuple[float, float], size: tuple[float, float]) -> np.ndarray:
    return make_objects(np.array([center]), np.array([size]), np.array([label]))


def test_only_people_are_sensitive() -> None:
    objects = np.concatenate([_object(1, (0.25, 0.5), (0.09, 0.19)), _object(3, (0.75, 0.5), (0.2, 0.2))])
    pixels = sensitive_pixels(objects, (10, 20))
    assert pixels.sum() == 2 * 2 and pixels[4:6, 4:6].all()


def test_the_smallest_box_wins_in_labels_from_boxes() -> None:
    objects = np.concatenate([_object(0, (0.5, 0.5), (0.19, 0.19)), _object(3, (0.5, 0.5), (0.79, 0.79))])
    labels = box_labels(objects, (10, 10))
    assert labels[5, 5] == 0 and labels[2, 2] == 3 and labels[0, 0] == UNLABELLED


def test_a_mask_is_sampled_at_cell_centres() -> None:
    mask = np.arange(36, dtype=np.uint8).reshape(6, 6)
    np.testing.assert_array_equal(resize_labels(mask, (2, 2)), [[7, 10], [25, 28]])
    np.testing.assert_array_equal(resize_labels(mask, (6, 6)), mask)


def test_accuracy_and_iou_of_a_small_mask() -> None:
    road, car = MASK_CLASSES.index("road"), MASK_CLASSES.index("car")
    truth = np.array([[road, road, car, UNLABELLED]], np.uint8)
    predicted = np.array([[road, car, car, road]], np.uint8)
    counts = confusion(predicted, truth)
    assert counts.sum() == 3
    assert category_accuracy(counts) == pytest.approx(2 / 3)
    assert object_accuracy(counts) == pytest.approx(1.0)
    assert mean_iou(counts) == pytest.approx((1 / 2 + 1 / 2) / 2)


def test_a_mask_without_known_pixels_has_no_accuracy() -> None:
    counts = confusion(np.zeros((2, 2), np.uint8), np.full((2, 2), UNLABELLED, np.uint8))
    for metric in (category_accuracy, object_accuracy, mean_iou):
        assert isinstance(metric(counts), Missing)
    with pytest.raises(ValueError, match="classes end"):
        confusion(np.full((2, 2), 14, np.uint8), np.zeros((2, 2), np.uint8))


def test_a_mean_leaves_out_what_is_missing_and_keeps_the_reason() -> None:
    assert mean_of([1.0, Missing("x"), None, 2.0]) == pytest.approx(1.5)
    assert mean_of([Missing("x"), Missing("y"), Missing("y")]) == Missing("y")
    assert isinstance(mean_of([]), Missing)
