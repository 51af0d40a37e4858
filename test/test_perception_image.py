"""Pictures of every kind: loaded or refused by name, resized axis by axis, and boxes undone exactly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")

from uav_privacy_sc import scene
from uav_privacy_sc.data.images import ImageError, decode_raw, read_image
from uav_privacy_sc.perception.boxes import records
from uav_privacy_sc.perception.image import network_size, resize, stretch, to_tensor


@pytest.mark.parametrize(
    ("picture", "named"),
    [
        (np.zeros((4, 4), np.uint8), r"uint8 of shape \(4, 4\)"),
        (np.zeros((4, 4, 1), np.uint8), r"\(4, 4, 1\)"),
        (np.zeros((4, 4, 4), np.uint8), r"\(4, 4, 4\)"),
        (np.zeros((4, 4, 3), np.uint16), "uint16"),
        (np.zeros((4, 4, 3), np.float32), "float32"),
        (np.zeros((0, 4, 3), np.uint8), r"\(0, 4, 3\)"),
        (np.zeros((2, 4, 4, 3), np.uint8), r"\(2, 4, 4, 3\)"),
        ([[1, 2, 3]], "list"),
        (None, "NoneType"),
    ],
)
def test_what_is_no_rgb_picture_is_refused_with_what_it_is_and_what_to_do(picture: Any, named: str) -> None:
    with pytest.raises(ValueError, match=f"image must be .*{named}.*read_image"):
        to_tensor(picture)


@pytest.mark.parametrize("view", [lambda a: a[:, ::-1], lambda a: a[::2, ::3], lambda a: a.transpose(1, 0, 2)])
def test_a_view_is_the_picture_that_it_shows(view: Any) -> None:
    picture = np.random.default_rng(0).integers(0, 256, (48, 60, 3), np.uint8)
    shown = view(picture)
    assert np.array_equal(to_tensor(shown).numpy(), to_tensor(shown.copy()).numpy())


@pytest.mark.parametrize(
    "shape", [(540, 960), (1080, 1920), (2160, 3840), (765, 1360), (640, 640), (50, 70), (33, 1000)]
)
def test_a_box_is_where_the_network_saw_it_for_any_aspect(shape: tuple[int, int]) -> None:
    """A white rectangle, found again in the network's input by its pixels, lies where it was drawn."""
    height, width = shape
    picture = np.zeros((height, width, 3), np.uint8)
    top, bottom, left, right = height // 4, height // 2, width // 5, width // 2
    picture[top:bottom, left:right] = 255
    seen = to_tensor(picture)[0, 0].numpy()
    down, across = (seen.max(axis=axis) > 0.5 for axis in (1, 0))
    rows = np.array([[*_ends(across), *_ends(down)]])[:, [0, 2, 1, 3]]
    box = scene.corners(records(np.column_stack([rows, [0.9], [3]]), np.array([3])))[0]
    pixel = 1.0 / np.array([seen.shape[1], seen.shape[0]] * 2)
    assert (np.abs(box - [left / width, top / height, right / width, bottom / height]) <= pixel).all()


def _ends(inside: np.ndarray) -> tuple[float, float]:
    places = np.flatnonzero(inside)
    return places[0] / len(inside), (places[-1] + 1) / len(inside)


@pytest.mark.parametrize("shape", [(540, 960), (1080, 1920), (2160, 3840), (765, 1360)])
def test_shrinking_averages_so_that_fine_patterns_do_not_alias(shape: tuple[int, int]) -> None:
    rows, columns = np.indices(shape)
    checkered = np.repeat((((rows + columns) % 2) * 255).astype(np.uint8)[:, :, None], 3, axis=2)
    small = resize(checkered, network_size(shape[1], shape[0])).astype(float)
    assert abs(small.mean() - 127.5) < 2
    assert small.std() < 40


def test_halving_first_is_the_single_step_within_rounding_where_there_is_nothing_finer_to_lose() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (1080, 1920, 3), np.uint8)
    smooth = cv2.GaussianBlur(noise, (0, 0), 6)
    once = cv2.resize(smooth, (640, 352), interpolation=cv2.INTER_AREA).astype(int)
    assert np.abs(once - resize(smooth, (640, 352))).max() <= 2


def test_an_axis_that_shrinks_while_the_other_grows_is_averaged() -> None:
    striped = np.zeros((20, 4000, 3), np.uint8)
    striped[:, ::2] = 255
    small = resize(striped, network_size(4000, 20))
    assert small.shape == (32, 640, 3)
    assert np.abs(small.astype(float) - 127.5).max() < 25


@pytest.mark.parametrize(
    ("size", "factor"), [((960, 540), 1.03), ((640, 640), 1.0), ((4000, 20), 10.0), ((3, 4000), 66.7)]
)
def test_how_far_a_picture_is_stretched_is_known(size: tuple[int, int], factor: float) -> None:
    assert stretch(*size) == pytest.approx(factor, rel=0.01)


@pytest.mark.parametrize("shape", [(1, 1), (1, 100_000), (100_000, 1), (20, 4000)])
def test_an_extreme_aspect_takes_no_more_memory_than_any_picture(shape: tuple[int, int]) -> None:
    tensor = to_tensor(np.full((*shape, 3), 200, np.uint8))
    assert tensor.numel() <= 3 * 640 * 640
    assert tensor.min() == tensor.max()


GREY = np.random.default_rng(1).integers(0, 256, (12, 16), np.uint8)
COLOUR = np.random.default_rng(2).integers(0, 256, (12, 16, 3), np.uint8)


def _saved(folder: Path, kind: str) -> tuple[Path, np.ndarray]:
    """Write a picture of a kind and return the RGB that it is."""
    path, grey = folder / "picture.png", np.repeat(GREY[:, :, None], 3, axis=2)
    if kind == "grey":
        Image.fromarray(GREY).save(path)
        return path, grey
    if kind == "grey of 16 bits":
        cv2.imwrite(str(path), GREY.astype(np.uint16) * 257)
        return path, grey
    if kind == "colour of 16 bits":
        cv2.imwrite(str(path), COLOUR[:, :, ::-1].astype(np.uint16) * 257)
        return path, COLOUR
    if kind == "grey with alpha":
        Image.merge("LA", [Image.fromarray(GREY), Image.fromarray(255 - GREY)]).save(path)
        return path, grey
    if kind == "colour with alpha":
        Image.fromarray(np.dstack([COLOUR, GREY])).save(path)
        return path, COLOUR
    Image.fromarray(GREY > 127).save(path)
    return path, np.where(grey > 127, 255, 0).astype(np.uint8)


@pytest.mark.parametrize(
    "kind", ["grey", "grey of 16 bits", "colour of 16 bits", "grey with alpha", "colour with alpha", "one bit"]
)
def test_files_of_every_kind_become_the_rgb_that_they_show(tmp_path: Path, kind: str) -> None:
    path, expected = _saved(tmp_path, kind)
    picture = read_image(path)
    assert picture.dtype == np.uint8
    assert np.array_equal(picture, expected)
    assert to_tensor(picture).shape == (1, 3, 480, 640)


def test_a_picture_of_floats_is_refused_not_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "picture.tiff"
    Image.fromarray(GREY.astype(np.float32) / 255).save(path)
    with pytest.raises(ImageError, match="floating-point"):
        read_image(path)


@pytest.mark.parametrize(
    ("encoding", "pixels"),
    [
        ("mono16", (GREY.astype("<u2") * 257)[:, :, None]),
        ("rgba8", np.dstack([COLOUR, GREY])),
        ("bgra8", np.dstack([COLOUR[:, :, ::-1], GREY])),
        ("rgb16", COLOUR.astype("<u2") * 257),
    ],
)
def test_raw_messages_of_16_bits_and_alpha_become_rgb(encoding: str, pixels: np.ndarray) -> None:
    data = np.ascontiguousarray(pixels).tobytes()
    picture = decode_raw(data, pixels.shape[:2], len(data) // pixels.shape[0], encoding)
    assert np.array_equal(picture, np.repeat(GREY[:, :, None], 3, axis=2) if encoding == "mono16" else COLOUR)
