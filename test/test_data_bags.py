"""Pictures from a rosbag2 without ROS, in every encoding that cameras publish."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys import Stores, get_typestore

from uav_privacy_sc.data.images import ImageError, decode_raw
from uav_privacy_sc.data.sources import SourceError, open_source

STORE = get_typestore(Stores.ROS2_JAZZY)
RGB = np.random.default_rng(3).integers(0, 255, (6, 8, 3), np.uint8)


def _header(nanoseconds: int) -> object:
    time = STORE.types["builtin_interfaces/msg/Time"](sec=nanoseconds // 10**9, nanosec=nanoseconds % 10**9)
    return STORE.types["std_msgs/msg/Header"](stamp=time, frame_id="camera")


def _raw(pixels: np.ndarray, encoding: str = "rgb8", stamp_ns: int = 0) -> object:
    height, width = pixels.shape[:2]
    data = np.frombuffer(pixels.tobytes(), np.uint8)
    return STORE.types["sensor_msgs/msg/Image"](
        header=_header(stamp_ns),
        height=height,
        width=width,
        encoding=encoding,
        is_bigendian=0,
        step=len(data) // height,
        data=data,
    )


def _jpeg(pixels: np.ndarray) -> object:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    data = np.frombuffer(buffer.getvalue(), np.uint8)
    return STORE.types["sensor_msgs/msg/CompressedImage"](header=_header(5), format="png", data=data)


def _bag(path: Path, topics: dict[str, list[object]], storage: StoragePlugin = StoragePlugin.MCAP) -> Path:
    with Writer(path, version=9, storage_plugin=storage) as writer:
        for topic, messages in topics.items():
            kind = messages[0].__msgtype__
            connection = writer.add_connection(topic, kind, typestore=STORE)
            for number, message in enumerate(messages):
                writer.write(connection, 10**9 + number * 10**8, STORE.serialize_cdr(message, kind))
    return path


@pytest.mark.parametrize("storage", [StoragePlugin.MCAP, StoragePlugin.SQLITE3])
def test_a_bag_gives_its_pictures_with_the_stamps_of_their_headers(tmp_path: Path, storage: StoragePlugin) -> None:
    messages = [_raw(RGB, stamp_ns=77), _raw(RGB, stamp_ns=99), _raw(RGB, stamp_ns=0)]
    with open_source(_bag(tmp_path / "bag", {"/camera/image_raw": messages}, storage)) as source:
        frames = list(source)
    source.close()
    assert (source.length, source.kind) == (3, "bag")
    assert source.rate_hz == pytest.approx(10.0, rel=0.01)
    assert [frame.stamp_ns for frame in frames] == [77, 99, 10**9 + 2 * 10**8]
    np.testing.assert_array_equal(frames[1].image, RGB)


def test_a_single_storage_file_and_a_folder_without_metadata_open(tmp_path: Path) -> None:
    bag = _bag(tmp_path / "bag", {"/image": [_raw(RGB)]})
    (storage,) = bag.glob("*.mcap")
    assert len(list(open_source(storage))) == 1
    (bag / "metadata.yaml").unlink()
    assert len(list(open_source(bag))) == 1


def test_compressed_pictures_are_decoded_and_raw_ones_preferred(tmp_path: Path) -> None:
    only = open_source(_bag(tmp_path / "a", {"/camera/image_raw/compressed": [_jpeg(RGB)]}))
    np.testing.assert_array_equal(next(iter(only)).image, RGB)
    both = {"/camera/image_raw": [_raw(RGB)], "/camera/image_raw/compressed": [_jpeg(RGB)]}
    assert open_source(_bag(tmp_path / "b", both)).name.endswith("/camera/image_raw")


def test_a_broken_message_in_the_middle_is_yielded_with_its_reason(tmp_path: Path) -> None:
    short = _raw(RGB)
    short.step = 5
    frames = list(open_source(_bag(tmp_path / "bag", {"/image": [_raw(RGB), short, _raw(RGB)]})))
    assert [frame.image is None for frame in frames] == [False, True, False]
    assert "rows of 5" in frames[1].error


def _refusal(path: Path, **options: object) -> str:
    with pytest.raises(SourceError) as caught:
        open_source(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_bags_that_cannot_be_flown_are_refused_in_one_line(tmp_path: Path) -> None:
    tensor = _raw(np.zeros((4, 5, 16), np.float32), "32FC16")
    assert "32FC16" in _refusal(_bag(tmp_path / "tensors", {"/tx/features": [tensor] * 3}))
    text = STORE.types["std_msgs/msg/String"](data="x")
    assert "no topic of images" in _refusal(_bag(tmp_path / "words", {"/words": [text]}))
    two = _bag(tmp_path / "two", {"/left/image_raw": [_raw(RGB)], "/right/image_raw": [_raw(RGB)]})
    assert "--topic: /left/image_raw, /right/image_raw" in _refusal(two)
    assert "no image topic /up" in _refusal(two, topic="/up")
    assert open_source(two, topic="right/image_raw").name.endswith("/right/image_raw")


def test_a_bag_whose_recorder_was_killed_says_what_to_do(tmp_path: Path) -> None:
    bag = _bag(tmp_path / "bag", {"/image": [_raw(RGB)]})
    (storage,) = bag.glob("*.mcap")
    storage.write_bytes(storage.read_bytes()[:60])
    (bag / "metadata.yaml").unlink()
    assert "recorder killed" in _refusal(bag)
    (bag / "second.mcap").write_bytes(b"")
    assert "recorder killed" in _refusal(bag)
    (bag / "metadata.yaml").write_text("rosbag2_bagfile_information: {version: 9, storage_identifier: zip}")
    assert "cannot be read" in _refusal(bag)


def _mosaic(first: str) -> np.ndarray:
    """A Bayer mosaic of a scene that is red 200, green 100, blue 50 everywhere; ``first`` names its 2x2 corner."""
    value = {"r": 200, "g": 100, "b": 50}
    tile = np.array([value[letter] for letter in first], np.uint8).reshape(2, 2)
    return np.tile(tile, (4, 4))


@pytest.mark.parametrize("pattern", ["rggb", "bggr", "gbrg", "grbg"])
def test_each_bayer_pattern_keeps_red_red(pattern: str) -> None:
    mosaic = _mosaic(pattern)
    picture = decode_raw(mosaic.tobytes(), (8, 8), 8, f"bayer_{pattern}8")
    assert picture[3:5, 3:5].reshape(-1, 3).tolist() == [[200, 100, 50]] * 4


def test_every_plain_encoding_is_the_same_picture() -> None:
    alpha = np.full((6, 8, 1), 255, np.uint8)
    wide = RGB.astype(np.uint16) << 8
    variants = {
        "rgb8": RGB,
        "bgr8": RGB[..., ::-1],
        "8UC3": RGB[..., ::-1],
        "rgba8": np.concatenate([RGB, alpha], 2),
        "bgra8": np.concatenate([RGB[..., ::-1], alpha], 2),
        "rgb16": wide,
        "bgr16": wide[..., ::-1],
    }
    for encoding, pixels in variants.items():
        data = pixels.tobytes()
        np.testing.assert_array_equal(decode_raw(data, (6, 8), len(data) // 6, encoding), RGB, err_msg=encoding)
    big = decode_raw(wide.astype(">u2").tobytes(), (6, 8), 48, "rgb16", big_endian=True)
    np.testing.assert_array_equal(big, RGB)


@pytest.mark.parametrize("order", ["<", ">"])
def test_sixteen_bits_of_either_byte_order_are_their_upper_eight_with_padded_rows(order: str) -> None:
    rng = np.random.default_rng(4)
    for encoding, channels, plain in (
        *((f"bayer_{corner}16", 1, f"bayer_{corner}8") for corner in ("rggb", "bggr", "gbrg", "grbg")),
        ("mono16", 1, "mono8"),
        ("16UC3", 3, "bgr8"),
        ("rgba16", 4, "rgba8"),
    ):
        wide = rng.integers(0, 2**16, (6, 8 * channels)).astype(f"{order}u2")
        padded = np.concatenate([wide.view(np.uint8), np.full((6, 5), 9, np.uint8)], axis=1)
        picture = decode_raw(padded.tobytes(), (6, 8), padded.shape[1], encoding, big_endian=order == ">")
        upper = decode_raw((wide >> 8).astype(np.uint8).tobytes(), (6, 8), 8 * channels, plain)
        np.testing.assert_array_equal(picture, upper, err_msg=encoding)


def test_a_bag_of_16_bit_bayer_pictures_from_a_big_endian_camera_is_read(tmp_path: Path) -> None:
    wide = (_mosaic("gbrg").astype(np.uint16) << 8).astype(">u2")
    message = _raw(wide, "bayer_gbrg16")
    message.is_bigendian, message.step = 1, 16
    (frame,) = open_source(_bag(tmp_path / "sixteen", {"/camera/image_raw": [message]}))
    assert frame.image is not None and frame.image[3:5, 3:5].reshape(-1, 3).tolist() == [[200, 100, 50]] * 4


def test_row_padding_is_left_out() -> None:
    padded = np.concatenate([RGB.reshape(6, 24), np.full((6, 5), 9, np.uint8)], axis=1)
    np.testing.assert_array_equal(decode_raw(padded.tobytes(), (6, 8), 29, "rgb8"), RGB)
    grey = decode_raw(padded.tobytes(), (6, 8), 29, "mono8")
    np.testing.assert_array_equal(grey[..., 2], padded[:, :8])


def test_yuv422_grey_is_grey_in_both_orders() -> None:
    for encoding, luma in (("yuv422", 1), ("yuv422_yuy2", 0)):
        pixels = np.full((4, 6, 2), 128, np.uint8)
        pixels[..., luma] = 180
        picture = decode_raw(pixels.tobytes(), (4, 6), 12, encoding)
        assert np.ptp(picture) == 0 and picture[0, 0, 0] > 170


@pytest.mark.parametrize(("step", "length"), [(23, 144), (24, 143), (0, 144)])
def test_rows_that_do_not_hold_the_picture_are_refused(step: int, length: int) -> None:
    with pytest.raises(ImageError, match="do not hold"):
        decode_raw(b"x" * length, (6, 8), step, "rgb8")
