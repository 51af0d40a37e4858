"""Memory of a process that sees one large picture after another: what is freed is kept for the next one."""

from __future__ import annotations

import ctypes
import gc
import os
import sys

#: Numbers of glibc's ``mallopt``, and what each is set to: no block up to 32 MB is given back to the system when it is
#: freed, nor the end of a heap below 256 MB.
_TUNED = {-3: 32 << 20, -1: 256 << 20}
_SET_BY_USER = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")


def keep_freed_blocks() -> bool:
    """Let the C library keep the blocks of a picture for the next one; whether it was told.

    Otherwise a 1080p picture is some thousand pages that the system takes back and gives again, and clears, at every
    copy. It holds for the whole process, and for good. The user's own settings hold where there are any; C libraries
    other than glibc are left alone.
    """
    if not sys.platform.startswith("linux") or any(name in os.environ for name in _SET_BY_USER):
        return False
    tune = getattr(ctypes.CDLL(None), "mallopt", None)
    return tune is not None and all(tune(number, value) == 1 for number, value in _TUNED.items())


def settle() -> None:
    """Take what a set-up has left, networks and modules, out of what the garbage collector looks through.

    A full collection otherwise walks through all of it, in the middle of a frame.
    """
    gc.collect()
    gc.freeze()
