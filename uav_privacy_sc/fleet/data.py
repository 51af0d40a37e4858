"""What the fleet learns from: small pictures from CIFAR-10, a folder or rendered flights, split over the clients."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from uav_privacy_sc.data.images import IMAGE_SUFFIXES, ImageError, read_image
from uav_privacy_sc.data.synthetic import FlightStyle, SyntheticFlight
from uav_privacy_sc.fleet.model import Images
from uav_privacy_sc.privacy.domain import choice, positive, whole

SIDE = 32
_RECORD = 1 + 3 * SIDE * SIDE  # CIFAR-10's binary form: one label byte and the picture, plane by plane


class DataError(ValueError):
    """Pictures that cannot be read; the message says which and why in one line."""


@dataclass(frozen=True)
class Pictures:
    """``images`` ``(n, side, side, 3)`` uint8 RGB; ``labels`` ``(n,)`` int64, or None where nothing tells them."""

    images: Images
    labels: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        images = self.images
        if images.ndim != 4 or images.shape[3] != 3 or images.dtype != np.uint8 or images.shape[1] != images.shape[2]:
            raise ValueError(f"images must be (n, side, side, 3) uint8, got {images.shape} {images.dtype}")
        if self.labels is not None and self.labels.shape != (len(images),):
            raise ValueError(f"labels must be ({len(images)},), got {self.labels.shape}")

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: NDArray) -> Pictures:
        """Return the pictures at ``index``."""
        return Pictures(self.images[index], None if self.labels is None else self.labels[index])


@dataclass(frozen=True)
class ClientData:
    """A client's pictures: it trains on all ``images``; the ``public`` ones are among them (P3: P_k within D_k)."""

    images: Images
    public: Images


@dataclass(frozen=True)
class FleetData:
    """Every client's pictures, the server's ``public`` ones (the union of the clients') and ``test`` pictures."""

    clients: tuple[ClientData, ...]
    public: Images
    test: Images

    def weights(self) -> NDArray[np.float64]:
        """Return p_k = |D_k| / |D|."""
        sizes = np.array([len(client.images) for client in self.clients], np.float64)
        return sizes / sizes.sum()


def open_pictures(folder: Path, side: int = SIDE, limit: int | None = None) -> Pictures:
    """Read CIFAR-10 (Python pickles or binary) or any folder of images, as it is found.

    An image folder with one sub-folder a class gives labels; pictures are cut to their middle square and resized.

    Raises:
        DataError: no such folder, nothing in it, or a file that cannot be read.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise DataError(f"no such folder: {folder}; give a CIFAR-10 folder or one with images")
    binary, batches = sorted(folder.glob("*_batch*.bin")), _pickle_files(folder)
    if binary:
        pictures = _join([_read_binary(path) for path in binary])
    elif batches:
        pictures = _join([_read_pickle(path) for path in batches])
    else:
        return _read_folder(folder, side, limit)
    if limit is not None:
        pictures = pictures.take(np.arange(min(whole("limit", limit), len(pictures))))
    if side == SIDE:
        return pictures
    return Pictures(np.stack([_fit(image, side) for image in pictures.images]), pictures.labels)


def rendered_patches(
    count: int, seed: int, places: int = 4, side: int = SIDE, style: FlightStyle | None = None
) -> Pictures:
    """Return ``count`` patches cut from rendered flights over ``places`` towns; a patch's label is its town.

    A town takes some seconds to build. Frames are 480x270; from each up to 96 patches at random places, flat ones too.

    Raises:
        ValueError: a parameter out of range.
    """
    count, places = whole("count", count), whole("places", places)
    rng = np.random.default_rng([whole("seed", seed, 0), 11])
    images, labels = [], []
    for place, share in enumerate(np.diff(np.linspace(0, count, places + 1).astype(int))):
        frames = -(-int(share) // 96)
        flight = SyntheticFlight(
            seed * 1000 + place, max(frames, 1), 480, 270, rate_hz=0.5, style=style or FlightStyle()
        )
        for index in range(frames):
            wanted = min(96, int(share) - 96 * index)
            images.append(_patches(flight[index].image, wanted, side, rng))
            labels += [place] * wanted
    return Pictures(np.concatenate(images), np.array(labels, np.int64))


def cached_patches(path: Path, count: int, seed: int, places: int = 4, side: int = SIDE) -> Pictures:
    """Return :func:`rendered_patches`, kept in the ``.npz`` file ``path``; one made for other parameters is made anew.

    Raises:
        DataError: the file cannot be read or written.
    """
    path, request = Path(path), np.array([count, seed, places, side], np.int64)
    try:
        if path.is_file():
            with np.load(path, allow_pickle=False) as stored:
                if np.array_equal(stored["request"], request):
                    return Pictures(stored["images"], stored["labels"])
        pictures = rendered_patches(count, seed, places, side)
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f"{path.name}.part.npz")
        np.savez(partial, request=request, images=pictures.images, labels=np.asarray(pictures.labels))
        partial.replace(path)
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise DataError(f"{path} cannot be used to keep patches: {error}; remove it or give another folder") from None
    return pictures


@dataclass(frozen=True)
class SplitConfig:
    """How pictures are shared out.

    Attributes:
        clients: K.
        split: "iid" (equal parts) or "dirichlet" (every label's pictures shared by a Dirichlet draw; needs labels).
        alpha: of the Dirichlet distribution; small is very uneven.
        public_share: part of each client's pictures that is public, P_k.
        test_share: part of all pictures kept for the test, no client's.

    Raises:
        ValueError: a value out of range.
    """

    clients: int = 10
    split: str = "iid"
    alpha: float = 0.5
    public_share: float = 0.2
    test_share: float = 0.15

    def __post_init__(self) -> None:
        object.__setattr__(self, "clients", whole("clients", self.clients))
        object.__setattr__(self, "alpha", float(positive("alpha", self.alpha)))
        choice("split", self.split, ("iid", "dirichlet"))
        for name in ("public_share", "test_share"):
            if not 0 < getattr(self, name) < 1:
                raise ValueError(f"{name} must lie strictly between 0 and 1, got {getattr(self, name)}; use 0.2")


def share_out(
    pictures: Pictures, config: SplitConfig, rng: np.random.Generator, test: Images | None = None
) -> FleetData:
    """Split pictures over the clients; every client has at least two, one of them public.

    Args:
        pictures: all of them.
        config: how.
        rng: of the split.
        test: pictures to test on; otherwise ``test_share`` of ``pictures`` is set aside.

    Raises:
        DataError: too few pictures, or a Dirichlet split without labels.
    """
    order = rng.permutation(len(pictures))
    if test is None:
        held = max(1, int(config.test_share * len(order)))
        test, order = pictures.images[order[:held]], order[held:]
    if len(order) < 2 * config.clients:
        raise DataError(f"{len(order)} pictures are too few for {config.clients} clients; give at least two for each")
    parts = np.array_split(order, config.clients) if config.split == "iid" else _skewed(pictures, order, config, rng)
    clients = []
    for part in parts:
        images = pictures.images[rng.permutation(part)]
        clients.append(ClientData(images, images[: max(1, int(config.public_share * len(images)))]))
    return FleetData(tuple(clients), np.concatenate([client.public for client in clients]), test)


def _skewed(
    pictures: Pictures, order: NDArray[np.int64], config: SplitConfig, rng: np.random.Generator
) -> list[NDArray[np.int64]]:
    if pictures.labels is None:
        raise DataError(
            "split=dirichlet needs labels, and these pictures have none; use iid or a folder for each class"
        )
    parts: list[list[int]] = [[] for _ in range(config.clients)]
    for label in np.unique(pictures.labels[order]):
        members = order[pictures.labels[order] == label]
        shares = rng.dirichlet(np.full(config.clients, config.alpha))
        cuts = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(int)
        for part, chosen in zip(parts, np.split(members, cuts), strict=True):
            part += chosen.tolist()
    while len(poorest := min(parts, key=len)) < 2:  # P3 has no client without data
        poorest.append(max(parts, key=len).pop())
    return [np.array(part, np.int64) for part in parts]


def _patches(frame: NDArray[np.uint8], count: int, side: int, rng: np.random.Generator) -> Images:
    height, width = frame.shape[:2]
    rows, columns = rng.integers(0, height - side + 1, count), rng.integers(0, width - side + 1, count)
    return np.stack([frame[y : y + side, x : x + side] for y, x in zip(rows, columns, strict=True)])


def _pickle_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob("*_batch*") if path.is_file() and not path.suffix)


def _read_binary(path: Path) -> Pictures:
    data = np.frombuffer(path.read_bytes(), np.uint8)
    if not data.size or data.size % _RECORD:
        raise DataError(f"{path} has {data.size} bytes, which is no whole number of CIFAR-10 records of {_RECORD}")
    records = data.reshape(-1, _RECORD)
    return Pictures(_from_planes(records[:, 1:]), records[:, 0].astype(np.int64))


class _ArraysOnly(pickle.Unpickler):
    """Reads pickled arrays, lists and strings; anything else in a pickle could run code."""

    _ALLOWED = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self._ALLOWED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no CIFAR-10 batch needs")
        return super().find_class(module, name)


def _read_pickle(path: Path) -> Pictures:
    try:
        with path.open("rb") as file:
            batch = _ArraysOnly(file, encoding="bytes").load()
        data = np.asarray(batch[b"data"], np.uint8)
        labels = np.asarray(batch[b"labels"], np.int64)
        return Pictures(_from_planes(data), labels)
    except Exception as error:  # a broken pickle may raise anything
        raise DataError(f"{path} is no CIFAR-10 batch: {error}; download it again") from None


def _from_planes(rows: NDArray[np.uint8]) -> Images:
    return np.ascontiguousarray(rows.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1))


def _read_folder(folder: Path, side: int, limit: int | None) -> Pictures:
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in IMAGE_SUFFIXES)[:limit]
    if not paths:
        raise DataError(f"{folder} holds neither CIFAR-10 batches nor images")
    images = []
    for path in paths:
        try:
            images.append(_fit(read_image(path), side))
        except ImageError as error:
            raise DataError(f"{path} cannot be read: {error}; repair it, or take it out of the folder") from None
    if any(path.parent == folder for path in paths):
        return Pictures(np.stack(images))
    classes = sorted({path.relative_to(folder).parts[0] for path in paths})
    return Pictures(
        np.stack(images), np.array([classes.index(path.relative_to(folder).parts[0]) for path in paths], np.int64)
    )


def _fit(image: NDArray[np.uint8], side: int) -> NDArray[np.uint8]:
    height, width = image.shape[:2]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    square = image[top : top + edge, left : left + edge]
    return square if edge == side else np.asarray(Image.fromarray(square).resize((side, side), Image.Resampling.BOX))


def _join(parts: list[Pictures]) -> Pictures:
    labels = [part.labels for part in parts if part.labels is not None]
    return Pictures(np.concatenate([part.images for part in parts]), np.concatenate(labels))
