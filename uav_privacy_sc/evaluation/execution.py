"""The loop over samples: through joblib, on this machine or a cluster, kept on disk as results come."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from uav_privacy_sc.evaluation.measurement import Measurement, from_rows, to_rows

#: joblib's backends and the package that each needs.
BACKENDS = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
#: What dask and ray raise for a worker that died, by name: neither need be installed.
_DEAD_ON_CLUSTER = ("KilledWorker", "WorkerCrashedError", "RayActorError")


class WorkerLost(RuntimeError):
    """A worker process died; the message says what is kept and how to go on, in one line."""


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

    def stream(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        """Yield the results of calls as they come, in any order.

        Raises:
            WorkerLost: a process died, by want of memory most likely.
        """
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        if self.backend == "loky" and self.jobs == 1:
            yield from (call() for call in calls)
            return
        options: dict[str, Any] = {"inner_max_num_threads": 1} if self.backend == "loky" else {}
        try:
            with self._cluster(), parallel_config(self.backend, n_jobs=self.jobs, **options):
                if self.backend == "ray":  # its joblib backend gives lists only
                    yield from self._in_chunks(calls)
                    return
                yield from Parallel(return_as="generator_unordered")(delayed(_run)(call) for call in calls)
        except (TerminatedWorkerError, BrokenPipeError) as error:
            raise WorkerLost(str(error).splitlines()[0]) from None
        except Exception as error:
            if type(error).__name__ not in _DEAD_ON_CLUSTER:
                raise
            raise WorkerLost(str(error).splitlines()[0]) from None

    def _in_chunks(self, calls: Iterable[Callable[[], Any]]) -> Iterator[Any]:
        from joblib import Parallel, delayed

        pending = iter(calls)
        while chunk := list(islice(pending, 4 * self.jobs)):
            yield from Parallel()(delayed(_run)(call) for call in chunk)

    @contextmanager
    def _cluster(self) -> Iterator[None]:
        """Join the cluster at the address, or start one on this machine, for as long as it is needed."""
        if self.backend == "dask":
            from distributed import Client

            local = {"n_workers": self.jobs, "threads_per_worker": 1}
            with Client(self.address) if self.address else Client(**local):
                yield
            return
        if self.backend == "ray":
            import ray
            from ray.util.joblib import register_ray

            ray.init(address=self.address, ignore_reinit_error=True)
            register_ray()
        yield


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
        raise WorkerLost(
            f"a worker died ({error}): {len(found)} finished units are kept in {store.folder}; "
            "run the same command again to go on, with fewer --jobs if memory ran out"
        ) from None
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
