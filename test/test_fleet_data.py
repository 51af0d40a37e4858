"""Pictures for the fleet: every form of CIFAR-10, folders, rendered patches, and how they are shared out."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from uav_privacy_sc.fleet import data
from uav_privacy_sc.fleet.data import (
    DataError,
    Pictures,
    SplitConfig,
    cached_patches,
    open_pictures,
    rendered_patches,
    share_out,
)
from uav_privacy_sc.fleet.link import (
    UplinkConfig,
    feature_vectors,
    ideal_shares,
    sends_features,
    uplink_shares,
    upload_entries,
)


def _pictures(count: int, labels: int | None = 4) -> Pictures:
    images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
    return Pictures(images, None if labels is None else np.arange(count) % labels)


def _planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


def test_cifar_as_python_pickles(tmp_path: Path) -> None:
    pictures = _pictures(6)
    for number, part in enumerate((slice(0, 4), slice(4, 6)), start=1):
        batch = {
            b"data": _planes(pictures.images[part]),
            b"labels": pictures.labels[part].tolist(),
            b"batch_label": b"x",
        }
        (tmp_path / f"data_batch_{number}").write_bytes(pickle.dumps(batch, protocol=2))
    (tmp_path / "batches.meta").write_bytes(b"")
    read = open_pictures(tmp_path)
    assert np.array_equal(read.images, pictures.images) and np.array_equal(read.labels, pictures.labels)
    assert len(open_pictures(tmp_path, limit=5)) == 5


def test_cifar_as_binary(tmp_path: Path) -> None:
    pictures = _pictures(5)
    records = np.concatenate([pictures.labels[:, None].astype(np.uint8), _planes(pictures.images)], axis=1)
    (tmp_path / "data_batch_1.bin").write_bytes(records.tobytes())
    read = open_pictures(tmp_path)
    assert np.array_equal(read.images, pictures.images) and np.array_equal(read.labels, pictures.labels)
    (tmp_path / "data_batch_2.bin").write_bytes(b"short")
    with pytest.raises(DataError, match="no whole number of CIFAR-10 records"):
        open_pictures(tmp_path)


def test_a_pickle_that_would_run_code_is_refused(tmp_path: Path) -> None:
    class Runs:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Runs()}))
    with pytest.raises(DataError, match="which no CIFAR-10 batch needs"):
        open_pictures(tmp_path)
    assert not (tmp_path / "harm").exists()


def test_a_folder_of_images_with_and_without_classes(tmp_path: Path) -> None:
    for name, size in (("cat/a.png", (64, 32)), ("dog/b.png", (32, 32)), ("dog/c.jpg", (50, 70))):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        Image.new("RGB", size, (200, 10, 10)).save(tmp_path / name)
    read = open_pictures(tmp_path)
    assert read.images.shape == (3, 32, 32, 3) and read.labels.tolist() == [0, 1, 1]
    assert np.abs(read.images.astype(int) - [200, 10, 10]).max() < 6
    assert open_pictures(tmp_path / "dog", side=16).images.shape == (2, 16, 16, 3)
    assert open_pictures(tmp_path / "dog").labels is None
    (tmp_path / "dog" / "d.png").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"d\.png cannot be read.*take it out of the folder"):
        open_pictures(tmp_path)


def test_empty_and_missing_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="neither CIFAR-10 batches nor images"):
        open_pictures(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        open_pictures(tmp_path / "nowhere")


class FakeFlight:
    """Noise in place of a town, which takes seconds to build."""

    def __init__(self, seed: int, frames: int, width: int, height: int, **options: object) -> None:
        self.seed, self.frames, self.shape = seed, frames, (height, width, 3)

    def __getitem__(self, index: int) -> SimpleNamespace:
        assert index < self.frames
        rng = np.random.default_rng([self.seed, index])
        return SimpleNamespace(image=rng.integers(0, 256, self.shape, dtype=np.uint8))


def test_patches_repeat_and_know_their_town(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data, "SyntheticFlight", FakeFlight)
    patches = rendered_patches(250, seed=3, places=2)
    assert patches.images.shape == (250, 32, 32, 3) and patches.labels.tolist() == [0] * 125 + [1] * 125
    assert np.array_equal(patches.images, rendered_patches(250, seed=3, places=2).images)
    assert len(_keys(patches.images)) == 250
    assert not np.array_equal(patches.images, rendered_patches(250, seed=4, places=2).images)


def test_patches_are_kept_and_made_anew_for_another_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def fake(count: int, seed: int, places: int, side: int) -> Pictures:
        calls.append(count)
        return _pictures(count, places)

    monkeypatch.setattr(data, "rendered_patches", fake)
    path = tmp_path / "cache" / "patches.npz"
    first = cached_patches(path, 10, 1)
    assert np.array_equal(cached_patches(path, 10, 1).images, first.images) and calls == [10]
    assert len(cached_patches(path, 12, 1)) == 12 and calls == [10, 12]
    path.write_bytes(b"torn")
    with pytest.raises(DataError, match="cannot be used to keep patches"):
        cached_patches(path, 12, 1)


def _keys(images: np.ndarray) -> set[bytes]:
    return {image.tobytes() for image in images}


@pytest.mark.parametrize("split", ["iid", "dirichlet"])
def test_shares_are_apart_and_complete(split: str) -> None:
    pictures = _pictures(200)
    fleet = share_out(pictures, SplitConfig(8, split, alpha=0.2), np.random.default_rng(2))
    parts = [_keys(client.images) for client in fleet.clients]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 200 - len(fleet.test)
    assert not set().union(*parts) & _keys(fleet.test)
    assert all(1 <= len(c.public) < len(c.images) and _keys(c.public) <= _keys(c.images) for c in fleet.clients)
    assert np.array_equal(fleet.public, np.concatenate([client.public for client in fleet.clients]))
    assert fleet.weights() == pytest.approx(np.array(list(map(len, parts))) / (200 - len(fleet.test)))


def test_a_dirichlet_split_is_uneven_and_an_iid_one_is_not() -> None:
    pictures = _pictures(2000)
    label = {image.tobytes(): int(name) for image, name in zip(pictures.images, pictures.labels, strict=True)}

    def skew(split: str) -> float:
        fleet = share_out(pictures, SplitConfig(5, split, alpha=0.1), np.random.default_rng(0))
        shares = [
            np.bincount([label[i.tobytes()] for i in c.images], minlength=4) / len(c.images) for c in fleet.clients
        ]
        return float(np.mean([share.max() for share in shares]))

    assert skew("iid") < 0.35 and skew("dirichlet") > 0.5


def test_own_test_pictures_are_used() -> None:
    test = _pictures(3).images
    fleet = share_out(_pictures(40), SplitConfig(4), np.random.default_rng(0), test)
    assert np.array_equal(fleet.test, test) and sum(len(c.images) for c in fleet.clients) == 40


def test_impossible_splits_are_named() -> None:
    with pytest.raises(DataError, match="too few for 30 clients"):
        share_out(_pictures(40), SplitConfig(30), np.random.default_rng(0))
    with pytest.raises(DataError, match="needs labels"):
        share_out(_pictures(40, None), SplitConfig(4, "dirichlet"), np.random.default_rng(0))
    with pytest.raises(ValueError, match="public_share must lie strictly between 0 and 1"):
        SplitConfig(public_share=1.0)
    with pytest.raises(ValueError, match="split must be one of"):
        SplitConfig(split="random")


def test_the_uplink_is_as_published() -> None:
    config = UplinkConfig()
    shares = uplink_shares(40_000, config, np.random.default_rng(0))
    assert np.median(shares) == pytest.approx(0.15, abs=0.002)
    assert shares.min() == 0.05 and shares.max() <= 0.25
    assert np.quantile(shares, 0.95) == pytest.approx(0.218, abs=0.005)
    assert sends_features(shares, config).mean() == pytest.approx(0.5, abs=0.01)
    for threshold, share in ((0.11, 0.3), (0.19, 0.75)):  # P3 Fig. 4(c): fewer and more clients send features
        assert sends_features(shares, UplinkConfig(threshold=threshold)).mean() == pytest.approx(share, abs=0.08)


def test_entries_and_feature_vectors() -> None:
    assert upload_entries(0.15, 320_000) == 48_000 and upload_entries(0.05, 10) == 1
    assert feature_vectors(48_000, 256) == 187 and feature_vectors(255, 256) == 0
    assert ideal_shares(np.array([True, False])).tolist() == [0.1, 0.2]
    with pytest.raises(ValueError, match="share must lie within"):
        upload_entries(0.0, 10)
    with pytest.raises(ValueError, match="must rise within"):
        UplinkConfig(least=0.2)
    with pytest.raises(ValueError, match="threshold must lie within"):
        UplinkConfig(threshold=float("nan"))
