"""Every party's pictures on disk: a file for each client and one for the server, so that nobody reads another's."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from uav_privacy_sc.fleet.data import (
    SIDE,
    ClientData,
    DataError,
    FleetData,
    Pictures,
    SplitConfig,
    cached_patches,
    open_pictures,
    share_out,
)
from uav_privacy_sc.fleet.model import Images
from uav_privacy_sc.fleet.setting import CodecModel
from uav_privacy_sc.privacy.domain import whole

if TYPE_CHECKING:
    from uav_privacy_sc.fleet.codec import CodecTrainee

SYNTHETIC = "synthetic"
_SERVER, _MADE_OF = "server.npz", "made-of.json"


@dataclass(frozen=True)
class Source:
    """Where pictures come from and how they are shared out.

    Attributes:
        data: ``synthetic``, ``synthetic:SEED`` (patches of rendered flights), or a folder: CIFAR-10 or images.
        count: of patches to render, or of pictures to take from a folder at most (all if None).
        places: towns over which patches are rendered.
        split: over how many clients, and how.
        seed: of the split, and of the flights where ``data`` names none.

    Raises:
        ValueError: a value out of range.
    """

    data: str = SYNTHETIC
    count: int | None = 2000
    places: int = 4
    split: SplitConfig = field(default_factory=SplitConfig)
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count is not None:
            object.__setattr__(self, "count", whole("pictures", self.count))
        if self.rendered and self.count is None:
            raise ValueError("pictures must be a number where they are rendered; use 2000")
        _ = self.flight_seed

    @property
    def rendered(self) -> bool:
        """Whether pictures are rendered instead of read."""
        return self.data.split(":")[0] == SYNTHETIC

    @property
    def flight_seed(self) -> int:
        """Seed of the rendered flights."""
        _, colon, seed = self.data.partition(":")
        if not self.rendered or not colon:
            return self.seed
        if not seed.isdecimal():
            raise ValueError(f"data is {self.data!r}; give synthetic, synthetic:SEED with a whole number, or a folder")
        return int(seed)

    def pictures(self, folder: Path) -> Pictures:
        """Return all pictures; rendered ones are kept in ``folder``.

        Raises:
            DataError: they cannot be read or kept.
        """
        if self.rendered:
            assert self.count is not None
            return cached_patches(folder / "patches.npz", self.count, self.flight_seed, self.places)
        found = open_pictures(Path(self.data).expanduser(), SIDE)
        if self.count is None or self.count >= len(found):
            return found
        chosen = np.random.default_rng([self.seed, 12]).permutation(len(found))[: self.count]
        return found.take(np.sort(chosen))


@dataclass(frozen=True)
class ServerPictures:
    """What the server holds: the union of public pictures, those of the test, and |D_k| of all clients."""

    public: Images
    test: Images
    digest: str


def prepare(source: Source, folder: Path) -> ServerPictures:
    """Share pictures out below ``folder``, unless that was done from the same source, and return the server's.

    Raises:
        DataError: they cannot be read, are too few, or ``folder`` cannot be written.
    """
    made_of = json.loads(json.dumps(asdict(source)))
    if not source.rendered:
        made_of["listing"] = _listing(Path(source.data).expanduser())
    try:
        if json.loads((folder / _MADE_OF).read_text(encoding="utf-8")) == made_of:
            return server_pictures(folder)
    except (OSError, ValueError, KeyError, DataError):
        pass
    data = share_out(source.pictures(folder), source.split, np.random.default_rng([source.seed, 13]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MADE_OF).unlink(missing_ok=True)  # not to be believed should this be killed in the middle
        _write(data, folder)
        (folder / _MADE_OF).write_text(json.dumps(made_of), encoding="utf-8")
    except OSError as error:
        raise DataError(
            f"{folder} cannot be written: {error.strerror or error}; give another folder by --out"
        ) from None
    return server_pictures(folder)


def prepare_codec(model: CodecModel, split: SplitConfig, seed: int, folder: Path) -> ServerPictures:
    """Share out the tiles that the flight's codec is trained on, as :func:`prepare` does with pictures.

    Raises:
        ValueError: weights or pictures that cannot be used; ``folder`` cannot be written.
    """
    from uav_privacy_sc.fleet.codec import share_pictures

    trainee = model.open()
    data = share_pictures(trainee, split, np.random.default_rng([seed, 13]))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(data, folder, *_made_from(trainee))  # the "pictures" that are shared are numbers of tiles
    except OSError as error:
        raise DataError(f"{folder} cannot be written: {error.strerror or error}; give another --out") from None
    return server_pictures(folder)


def _made_from(trainee: CodecTrainee) -> tuple[str, ...]:
    """Return digests of what a codec is trained on and starts from, by content; its shares are numbers alone."""
    taps = trainee.taps
    parts = (taps.pictures, taps.masks, np.concatenate(taps.objects), trainee.parameters())
    return (taps.detector, *(hashlib.sha256(np.ascontiguousarray(part).tobytes()).hexdigest() for part in parts))


def client_pictures(folder: Path, client: int) -> ClientData:
    """Return a client's pictures.

    Raises:
        DataError: they are not there.
    """
    found = _read(_client_file(folder, client), ("images", "public"))
    return ClientData(found["images"], found["public"])


def server_pictures(folder: Path) -> ServerPictures:
    """Return the server's pictures.

    Raises:
        DataError: they are not there.
    """
    found = _read(folder / _SERVER, ("public", "test", "digest"))
    return ServerPictures(found["public"], found["test"], str(found["digest"]))


def own_pictures(source: Source, client: int, folder: Path, public: Source | None = None) -> ClientData:
    """Return what one aircraft holds by itself: all pictures of its own folder, or its part of the rendered ones.

    Args:
        public: where pictures come from whose features may be sent; of an own folder none is public by itself.

    Raises:
        DataError: as for :func:`prepare`.
    """
    if source.rendered:
        prepare(source, folder)
        return client_pictures(folder, client)
    images = source.pictures(folder).images
    return ClientData(images, images[:0] if public is None else public.pictures(folder).images)


def digest(data: FleetData, *made_from: str) -> str:
    """Return a digest of all pictures, of who holds which, and of what else they are ``made_from``."""
    found = hashlib.sha256(" ".join(made_from).encode())
    for part in (*(client.images for client in data.clients), data.public, data.test):
        found.update(str(part.shape).encode())
        found.update(np.ascontiguousarray(part).tobytes())
    return found.hexdigest()


def _write(data: FleetData, folder: Path, *made_from: str) -> None:
    for number, client in enumerate(data.clients):
        _save(_client_file(folder, number), images=client.images, public=client.public)
    _save(folder / _SERVER, public=data.public, test=data.test, digest=np.array(digest(data, *made_from)))


def _save(path: Path, **arrays: Any) -> None:
    partial = path.with_name(f"{path.name}.part.npz")
    np.savez(partial, **arrays)
    partial.replace(path)


def _read(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in names}
    except (OSError, KeyError, ValueError, EOFError) as error:
        raise DataError(
            f"pictures {path} cannot be read: {error}; remove their folder to share them out anew"
        ) from None


def _client_file(folder: Path, client: int) -> Path:
    return folder / f"client-{client:03}.npz"


def _listing(path: Path) -> list[str]:
    """Return name, size and time of change of every file, so that other contents are shared out anew."""
    if not path.is_dir():
        return []
    files = sorted(item for item in path.rglob("*") if item.is_file())
    return [f"{item.relative_to(path)} {item.stat().st_size} {item.stat().st_mtime_ns}" for item in files]
