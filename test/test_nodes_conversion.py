"""Messages to NumPy and back, and the faults that public software has shown there."""

from __future__ import annotations

import array
import time
from typing import Any

import numpy as np
import pytest
from conftest import CHANNELS, GRID, some_objects
from hypothesis import given, settings
from hypothesis import strategies as st
from sensor_msgs.msg import CompressedImage, Image, PointCloud2, PointField

from uav_privacy_sc import scene
from uav_privacy_sc.nodes import conversion
from uav_privacy_sc.nodes.conversion import MalformedMessage
from uav_privacy_sc.release import ReleaseRecord

HEADER = conversion.make_header(1_234_567_890_123, "camera")
RNG = np.random.default_rng(3)
PICTURE = RNG.integers(0, 256, (7, 10, 3), np.uint8)


def raw_image(pixels: np.ndarray, encoding: str, padding: int = 0, big_endian: bool = False) -> Image:
    """An Image with ``padding`` bytes of rubbish after every row."""
    height, width = pixels.shape[:2]
    rows = np.ascontiguousarray(pixels).view(np.uint8).reshape(height, -1)
    padded = np.concatenate([rows, np.full((height, padding), 77, np.uint8)], axis=1)
    image = Image(header=HEADER, height=height, width=width, encoding=encoding, step=padded.shape[1])
    image.is_bigendian, image.data = int(big_endian), array.array("B", padded.tobytes())
    return image


def encoded_pictures() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """By encoding: the pixels that go into a message and the RGB that must come out."""
    grey = PICTURE[:, :, 0]
    grey16 = grey.astype(np.uint16) * 256 + 91
    alpha = np.full((7, 10, 1), 200, np.uint8)
    grey_rgb = np.repeat(grey[:, :, None], 3, axis=2)
    return {
        "rgb8": (PICTURE, PICTURE),
        "bgr8": (PICTURE[:, :, ::-1], PICTURE),
        "rgba8": (np.concatenate([PICTURE, alpha], axis=2), PICTURE),
        "bgra8": (np.concatenate([PICTURE[:, :, ::-1], alpha], axis=2), PICTURE),
        "mono8": (grey, grey_rgb),
        "mono16": (grey16, grey_rgb),
    }


@pytest.mark.parametrize("padding", [0, 6])
@pytest.mark.parametrize("encoding", list(encoded_pictures()))
def test_pictures_of_every_encoding_come_out_as_rgb_with_and_without_padded_rows(encoding: str, padding: int) -> None:
    pixels, expected = encoded_pictures()[encoding]
    assert np.array_equal(conversion.picture_from_message(raw_image(pixels, encoding, padding)), expected)


def test_big_endian_mono16_keeps_its_upper_byte() -> None:
    pixels, expected = encoded_pictures()["mono16"]
    image = raw_image(pixels.astype(">u2"), "mono16", big_endian=True)
    assert np.array_equal(conversion.picture_from_message(image), expected)


@pytest.mark.parametrize("encoding", ["bayer_rggb8", "bayer_bggr8", "bayer_gbrg8", "bayer_grbg8"])
def test_a_bayer_mosaic_of_one_colour_comes_out_in_that_colour(encoding: str) -> None:
    colour = {"r": 200, "g": 120, "b": 40}
    pattern = encoding.split("_")[1][:4]
    tile = np.array([[colour[pattern[0]], colour[pattern[1]]], [colour[pattern[2]], colour[pattern[3]]]], np.uint8)
    picture = conversion.picture_from_message(raw_image(np.tile(tile, (8, 8)), encoding))
    assert np.array_equal(np.median(picture.reshape(-1, 3), axis=0), [200, 120, 40])


@pytest.mark.parametrize("big_endian", [False, True])
@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_a_bayer_mosaic_of_16_bits_is_that_of_its_upper_bytes(pattern: str, big_endian: bool) -> None:
    mosaic = RNG.integers(0, 2**16, (8, 10)).astype(">u2" if big_endian else "<u2")
    image = raw_image(mosaic, f"bayer_{pattern}16", 6, big_endian)
    expected = conversion.picture_from_message(raw_image((mosaic >> 8).astype(np.uint8), f"bayer_{pattern}8"))
    assert np.array_equal(conversion.picture_from_message(image), expected)
    image.step = 19
    with pytest.raises(MalformedMessage, match="image refused"):
        conversion.picture_from_message(image)


@pytest.mark.parametrize("padding", [0, 5])
def test_mosaics_and_yuv_come_out_the_same_with_padded_rows(padding: int) -> None:
    for encoding, channels in (("bayer_rggb8", 1), ("yuv422", 2), ("yuyv", 2), ("uyvy", 2), ("yuv422_yuy2", 2)):
        pixels = RNG.integers(0, 256, (8, 10, channels), np.uint8)
        expected = conversion.picture_from_message(raw_image(pixels, encoding))
        assert np.array_equal(conversion.picture_from_message(raw_image(pixels, encoding, padding)), expected)


@pytest.mark.parametrize(("encoding", "luma"), [("yuv422", 1), ("yuv422_yuy2", 0)])
def test_grey_yuv422_comes_out_grey(encoding: str, luma: int) -> None:
    pixels = np.full((6, 8, 2), 128, np.uint8)
    pixels[:, :, luma] = 126
    picture = conversion.picture_from_message(raw_image(pixels, encoding)).astype(int)
    assert np.ptp(picture, axis=2).max() <= 2
    assert abs(picture.mean() - 128) < 3


@pytest.mark.parametrize("encoding", ["rgb8", "bgr8", "mono8", "rgba8", "bgra8"])
def test_cv_bridge_agrees_where_it_can(encoding: str) -> None:
    bridge = pytest.importorskip("cv_bridge", reason="cv_bridge is not installed")
    image = raw_image(encoded_pictures()[encoding][0], encoding)
    expected = bridge.CvBridge().imgmsg_to_cv2(image, "rgb8")
    assert np.array_equal(conversion.picture_from_message(image), expected)


def broken_image(**changes: Any) -> Image:
    image = raw_image(PICTURE, "rgb8")
    for name, value in changes.items():
        setattr(image, name, value)
    return image


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 29},
        {"step": 0},
        {"height": 8},
        {"height": 0},
        {"width": 0},
        {"encoding": "32FC16"},
        {"encoding": ""},
        {"data": array.array("B")},
        {"height": 2**32 - 1, "step": 2**32 - 1, "width": 2**32 - 1},
    ],
)
def test_an_image_that_does_not_hold_what_it_says_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(MalformedMessage, match="image refused"):
        conversion.picture_from_message(broken_image(**changes))


def test_a_compressed_image_is_decoded_and_half_of_one_refused() -> None:
    import cv2

    data = cv2.imencode(".png", PICTURE[:, :, ::-1])[1].tobytes()
    message = CompressedImage(header=HEADER, format="png", data=array.array("B", data))
    assert np.array_equal(conversion.picture_from_message(message), PICTURE)
    message.data = array.array("B", data[: len(data) // 2])
    with pytest.raises(MalformedMessage):
        conversion.picture_from_message(message)


def test_a_tensor_survives_with_stamp_and_frame() -> None:
    features = RNG.standard_normal((CHANNELS, *GRID)).astype(np.float32)
    message = conversion.tensor_to_message(features, HEADER)
    assert (message.encoding, message.height, message.width) == ("32FC16", *GRID)
    assert conversion.stamp_ns(message.header) == 1_234_567_890_123
    assert message.header.frame_id == "camera"
    assert np.array_equal(conversion.tensor_from_message(message), features)


def test_a_tensor_with_padded_rows_or_of_big_endian_is_read_right() -> None:
    features = RNG.standard_normal((3, 4, 5)).astype(np.float32)
    pixels = np.ascontiguousarray(np.moveaxis(features, 0, 2))
    assert np.array_equal(conversion.tensor_from_message(raw_image(pixels, "32FC3", padding=9)), features)
    image = raw_image(pixels.astype(">f4"), "32FC3", big_endian=True)
    assert np.array_equal(conversion.tensor_from_message(image), features)


@pytest.mark.parametrize(
    "changes",
    [
        {"step": 8},
        {"encoding": "32FC"},
        {"encoding": "32FC0"},
        {"encoding": "16SC3"},
        {"encoding": "rgb8"},
        {"height": 100},
        {"width": 2**31},
        {"data": array.array("B")},
    ],
)
def test_a_tensor_that_does_not_hold_what_it_says_is_refused(changes: dict[str, Any]) -> None:
    message = conversion.tensor_to_message(np.zeros((3, 4, 5), np.float32), HEADER)
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(MalformedMessage, match="refused"):
        conversion.tensor_from_message(message)


@pytest.mark.parametrize("count", [0, 1, 50])
def test_objects_survive(count: int) -> None:
    objects = some_objects(count)
    message = conversion.objects_to_message(objects, HEADER)
    assert [item.name for item in message.fields][:3] == ["x", "y", "z"]
    back = conversion.objects_from_message(message)
    assert back is not None and np.array_equal(back, objects)


def test_a_lost_packet_is_not_an_empty_scene() -> None:
    assert conversion.objects_from_message(conversion.objects_to_message(None, HEADER)) is None
    empty = conversion.objects_from_message(conversion.objects_to_message(scene.no_objects(), HEADER))
    assert empty is not None and len(empty) == 0


def test_objects_of_another_publisher_with_other_order_and_fields_are_read() -> None:
    objects = some_objects(5)
    names = ["label", "cell", "w", "x", "extra", "y", "h", "score", "z"]
    formats = ["<i4", "<i4", "<f4", "<f4", "<f8", "<f4", "<f4", "<f4", "<f4"]
    dtype = np.dtype({"names": names, "formats": formats, "offsets": [0, 4, 8, 12, 16, 24, 28, 32, 36], "itemsize": 48})
    points = np.zeros(5, dtype)
    for name in scene.OBJECT_DTYPE.names or ():
        points[name] = objects[name]
    kinds = {"<i4": PointField.INT32, "<f4": PointField.FLOAT32, "<f8": PointField.FLOAT64}
    fields = [
        PointField(name=name, offset=dtype.fields[name][1], datatype=kinds[dtype[name].str], count=1)  # type: ignore[index]
        for name in names
    ]
    message = PointCloud2(header=HEADER, height=1, width=5, fields=fields, point_step=48, row_step=240, is_dense=True)
    message.data = array.array("B", points.tobytes())
    back = conversion.objects_from_message(message)
    assert back is not None and np.array_equal(back, objects)


def without(name: str) -> list[PointField]:
    return [item for item in conversion.objects_to_message(some_objects(1), HEADER).fields if item.name != name]


@pytest.mark.parametrize(
    "changes",
    [
        {"fields": []},
        {"fields": without("label")},
        {"fields": [*without("x"), PointField(name="x", offset=0, datatype=PointField.FLOAT64, count=1)]},
        {"fields": [*without("x"), PointField(name="x", offset=0, datatype=99, count=1)]},
        {"fields": [*without("x"), PointField(name="x", offset=4000, datatype=PointField.FLOAT32, count=1)]},
        {"point_step": 0},
        {"point_step": 8},
        {"width": 4},
        {"width": 2**32 - 1, "height": 2**32 - 1},
        {"height": 2, "width": 1, "row_step": 5},
        {"data": array.array("B")},
    ],
)
def test_objects_that_do_not_hold_what_they_say_are_refused(changes: dict[str, Any]) -> None:
    message = conversion.objects_to_message(some_objects(3), HEADER)
    for name, value in changes.items():
        setattr(message, name, value)
    with pytest.raises(MalformedMessage, match="objects refused"):
        conversion.objects_from_message(message)


ENCODINGS = st.sampled_from(["rgb8", "mono16", "bayer_rggb8", "yuv422", "32FC2", "8UC1", "x"])
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 2**32 - 1))


@settings(max_examples=150, deadline=None)
@given(SIZES, SIZES, SIZES, st.binary(max_size=400), ENCODINGS)
def test_no_image_of_any_shape_raises_anything_but_a_refusal(
    height: int, width: int, step: int, data: bytes, encoding: str
) -> None:
    image = Image(header=HEADER, height=height, width=width, step=step, encoding=encoding, data=array.array("B", data))
    for reader in (conversion.picture_from_message, conversion.tensor_from_message, conversion.mask_from_message):
        try:
            assert reader(image).size > 0
        except MalformedMessage as refusal:
            assert "\n" not in str(refusal)


@settings(max_examples=150, deadline=None)
@given(SIZES, SIZES, SIZES, st.binary(max_size=400), st.lists(st.integers(0, 2**32 - 1), min_size=8, max_size=8))
def test_no_cloud_of_any_shape_raises_anything_but_a_refusal(
    height: int, width: int, step: int, data: bytes, offsets: list[int]
) -> None:
    message = conversion.objects_to_message(some_objects(1), HEADER)
    message.height, message.width, message.point_step, message.data = height, width, step, array.array("B", data)
    for item, offset in zip(message.fields, offsets, strict=True):
        item.offset = min(offset, 2**32 - 1)
    try:
        objects = conversion.objects_from_message(message)
        assert objects is None or objects.dtype == scene.OBJECT_DTYPE
    except MalformedMessage as refusal:
        assert "\n" not in str(refusal)


def test_masks_survive_and_other_images_are_no_masks() -> None:
    mask = RNG.integers(0, 14, (88, 160), np.uint8)
    assert np.array_equal(conversion.mask_from_message(conversion.picture_to_message(mask, HEADER)), mask)
    with pytest.raises(MalformedMessage, match="mask refused"):
        conversion.mask_from_message(conversion.picture_to_message(PICTURE, HEADER))


def test_a_full_hd_image_is_filled_in_milliseconds() -> None:
    picture = np.zeros((1080, 1920, 3), np.uint8)
    best = min(_seconds(lambda: conversion.picture_to_message(picture, HEADER)) for _ in range(3))
    assert best < 0.1  # element by element it takes about a second


def _seconds(call: Any) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def test_a_record_survives_and_marks_an_experiment() -> None:
    record = ReleaseRecord(
        5, "region_aware", "analytic", "algorithm1", "released", "grid", True, 2, 1.5, 3.5, 0.7, 1e-5, 1.0,
        0.45, 1.6, 1.68, 3.2, 9.0, float("inf"), 20.0, 1e-5,
    )  # fmt: skip
    message = conversion.record_to_message(record, HEADER, "/protection")
    assert conversion.record_from_message(message) == record
    assert message.status[0].level == b"\x01" and "experiment" in message.status[0].message
    message.status = []
    with pytest.raises(MalformedMessage, match="record refused"):
        conversion.record_from_message(message)


def test_markers_clear_the_last_frame_and_stand_where_objects_are() -> None:
    objects = some_objects(3)
    markers = conversion.markers_to_message(objects, HEADER).markers
    assert markers[0].action == markers[0].DELETEALL
    assert [marker.pose.position.x for marker in markers[1:]] == pytest.approx(objects["x"] * 10.0)
    assert len(conversion.markers_to_message(None, HEADER).markers) == 1
