"""The loop over samples: by joblib on this machine, by dask or ray on a cluster, kept on disk as results come."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import logging
import pickle
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.measurement import Measurement, from_rows, to_rows

#: Where work can be done, and the package that each needs.
BACKENDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
#: What loky, dask and ray raise for a worker that died, by name: the latter need not be installed.
_DEAD = {"TerminatedWorkerError", "BrokenPipeError", "KilledWorker", "WorkerCrashedError", "OutOfMemoryError"}


class WorkerLost(RuntimeError):
    """A worker process died; the message says what is kept and how to go on, in one line."""

    def keeping(self, what: str, folder: Path) -> WorkerLost:
        """Return the same with what is kept in a folder, and how to go on."""
        return WorkerLost(
            f"a worker died ({self}): {what} are kept in {folder}; run the same command again to go on, with fewer "
            "--jobs if memory ran out"
        )


@dataclass(frozen=True)
class Execution:
    """Where work is done: ``jobs`` processes of ``backend``, at ``address`` for an existing cluster.

    Raises:
        ValueError: an unknown backend, one whose package is not there, or an address that it cannot use.
    """

    backend: str = "loky"
    jobs: int = 1
    address: str | None = None

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise ValueError(f"backend is {self.backend!r}; choose one of {', '.join(BACKENDS)}")
        package = BACKENDS[self.backend]
        if importlib.util.find_spec(package) is None:
            raise ValueError(f"backend {self.backend} needs the package {package}; install it, or use loky")
        if self.jobs < 1:
            raise ValueError(f"jobs is {self.jobs}; give a whole number of at least 1")
        if self.address is not None and self.backend == "loky":
            raise ValueError(f"address is {self.address!r}, but loky runs on this machine; use --backend dask or ray")

    @property
    def sends(self) -> bool:
        """Whether calls go to other processes."""
        return self.backend != "loky" or self.jobs > 1

    def stream(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Yield the results of calls as they come, in any order.

        Raises:
            WorkerLost: a process died, by want of memory most likely.
        """
        if not self.sends:
            yield from (call() for call in calls)
            return
        ways = {"loky": self._through_loky, "dask": self._through_dask, "ray": self._through_ray}
        try:
            yield from ways[self.backend](calls)
        except Exception as error:
            if _DEAD & {kind.__name__ for kind in type(error).__mro__}:
                raise WorkerLost(_first_line(error)) from None
            cause = getattr(error, "cause", None)  # ray wraps what a call raised, with the trace of both processes
            if self.backend == "ray" and isinstance(cause, Exception):
                raise cause from None
            raise

    def _through_loky(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        from joblib import Parallel, delayed, parallel_config

        with parallel_config("loky", n_jobs=self.jobs, inner_max_num_threads=1):
            yield from Parallel(return_as="generator_unordered")(delayed(_run)(call) for call in calls)

    def _through_dask(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Not by joblib: its backend waits for ever for a call whose worker died."""
        from distributed import as_completed

        with _dask_client(self.address, self.jobs) as client:
            pending, width = map(_packed, calls), 2 * max(self.jobs, sum(client.ncores().values()))
            running = as_completed([client.submit(_unpack, *call, pure=False) for call in islice(pending, width)])
            for future in running:
                yield future.result()
                for call in islice(pending, 1):
                    running.add(client.submit(_unpack, *call, pure=False))

    def _through_ray(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Not by joblib: its backend gives no result before all of a list are there."""
        import ray

        _join_ray(self.address, self.jobs)
        run = ray.remote(max_retries=0)(_unpack)
        pending, width = map(_packed, calls), 2 * max(self.jobs, int(ray.cluster_resources().get("CPU", 1)))
        running = [run.remote(*call) for call in islice(pending, width)]
        while running:
            done, running = ray.wait(running, num_returns=1)
            yield ray.get(done[0])
            running += [run.remote(*call) for call in islice(pending, 1)]


def by_value(what: Any) -> bytes:
    """Return anything pickled so that what a script defines goes along with it.

    Raises:
        Exception: it cannot be pickled; whatever its parts raise.
    """
    try:
        import cloudpickle
    except ImportError:  # joblib before 1.6 has its own copy
        from joblib.externals import cloudpickle
    data: bytes = cloudpickle.dumps(what)
    return data


def _packed(call: Callable[[], Any]) -> tuple[bytes, list[str]]:
    return by_value(call), sys.path


def _unpack(call: bytes, path: list[str]) -> Any:
    """Make a call in another process, which finds modules where this one did."""
    sys.path += [folder for folder in path if folder not in sys.path]
    return pickle.loads(call)()


def _dask_client(address: str | None, jobs: int) -> Any:
    """Join the dask cluster at an address, or start one of ``jobs`` processes here, for as long as it is needed."""
    from distributed import Client

    if address is None:
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its workers' ends are no news
        return Client(n_workers=jobs, threads_per_worker=1, dashboard_address=None, silence_logs=logging.CRITICAL)
    try:
        return Client(address, timeout="20s")
    except (OSError, ValueError, TypeError) as error:
        raise ValueError(f"address is {address!r}: no dask scheduler answers there ({_first_line(error)})") from None


def _join_ray(address: str | None, jobs: int) -> None:
    """Join a ray cluster, or start one of ``jobs`` processes here; it stays up until this process ends."""
    import ray

    if not ray.is_initialized():
        quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        here: dict[str, Any] = {} if address else {"num_cpus": jobs, "include_dashboard": False}
        if address not in (None, "auto"):
            _refuse_silent(str(address))
        try:  # "local": one that somebody else started on this machine is not joined unasked
            with own_signals():
                ray.init(address=address or "local", **here, **quiet)
        except ConnectionError as error:
            raise ValueError(f"address is {address!r}: no ray cluster answers there ({_first_line(error)})") from None


@contextmanager
def own_signals() -> Iterator[None]:
    """Leave SIGINT and SIGTERM to the handlers from before: Ray's abort with a trace, or wait for work for ever."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    if threading.current_thread() is threading.main_thread():
        for number, handler in before.items():
            if handler is not None:  # else it was not set from Python, and cannot be set again
                signal.signal(number, handler)


def _refuse_silent(address: str) -> None:
    """Refuse an address where nobody listens: ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        reason = _first_line(error)
        raise ValueError(f"address is {address!r}: no ray cluster answers there ({reason}); give HOST:PORT") from None


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _run(call: Callable[[], Any]) -> Any:
    return call()


@dataclass(frozen=True)
class Unit:
    """A piece of a protocol that is done, and kept, as a whole. ``call`` can be sent to another process."""

    key: str
    call: Callable[[], list[Measurement]]


class ResultStore:
    """Measurements of finished units on disk, one file each; those of other settings do not count.

    Args:
        folder: where they lie; made where it is not there.
        fingerprint: what decides the numbers.
    """

    def __init__(self, folder: Path, fingerprint: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.fingerprint = folder, fingerprint

    def _path(self, key: str) -> Path:
        return self.folder / f"{hashlib.sha256(key.encode()).hexdigest()[:20]}.json"

    def load(self, key: str) -> list[Measurement] | None:
        """Return what a unit gave, None where it has not been done with these settings, or its file does not read."""
        try:
            found = json.loads(self._path(key).read_text(encoding="utf-8"))
            same = found["fingerprint"] == self.fingerprint and found["key"] == key
            return from_rows(found["rows"]) if same else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def save(self, key: str, measurements: Sequence[Measurement]) -> None:
        """Keep what a unit gave, whole or not at all."""
        path = self._path(key)
        content = {"fingerprint": self.fingerprint, "key": key, "rows": to_rows(measurements)}
        partial_file = path.with_suffix(".partial")
        partial_file.write_text(json.dumps(content, allow_nan=False), encoding="utf-8")
        partial_file.replace(path)


def fingerprint(setting: Any) -> str:
    """Return a short digest of anything plain that decides numbers."""
    return hashlib.sha256(json.dumps(setting, sort_keys=True, default=str).encode()).hexdigest()[:16]


def run_units(
    units: Iterable[Unit],
    store: ResultStore,
    execution: Execution,
    progress: Callable[[int], None] = lambda done: None,
) -> list[Measurement]:
    """Return the measurements of all units, in their order; those that are kept are not done again.

    ``progress`` is told the number of units done, kept ones first.

    Raises:
        WorkerLost: a worker died; all units that were finished are kept.
    """
    found: dict[str, list[Measurement]] = {}
    order: list[str] = []

    def pending() -> Iterator[partial[tuple[str, list[Measurement]]]]:
        for unit in units:
            order.append(unit.key)
            kept = store.load(unit.key)
            if kept is None:
                yield partial(_measure, unit)
            else:
                found[unit.key] = kept
                progress(len(found))

    try:
        for key, measurements in execution.stream(pending()):
            store.save(key, measurements)
            found[key] = measurements
            progress(len(found))
    except WorkerLost as error:
        raise error.keeping(f"{len(found)} finished units", store.folder) from None
    return [item for key in order for item in found[key]]


def _measure(unit: Unit) -> tuple[str, list[Measurement]]:
    return unit.key, unit.call()


def sendable(call: Callable[[], Any]) -> bool:
    """Return whether a call can go to another process; for tests of protocols."""
    try:
        pickle.dumps(call)
    except Exception:
        return False
    return True
