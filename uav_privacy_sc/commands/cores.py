"""Cores to measure on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def one_core() -> AbstractContextManager[None]:
    """Confine this process to one core, and libraries that are not loaded yet to one thread."""
    return confined(1)


@contextmanager
def confined(count: int) -> Iterator[None]:
    """Confine this process to ``count`` cores, or those it has, and libraries not loaded yet to one thread each."""
    for name in _THREADS:
        os.environ.setdefault(name, "1")
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(sorted(cores)[-count:]))
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
