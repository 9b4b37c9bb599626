"""How processes of our own, commands, workers and helpers, keep house otherwise than Python and the C library would."""

from __future__ import annotations

import ctypes
import gc
import sys

N_NEW_OBJECTS = 10_000
"""So many new objects make Python look through them for garbage; by itself it does at 700."""

KEPT_BLOCK_BYTES = 128 << 20
KEPT_BYTES = 512 << 20
GROWTH_BYTES = 64 << 20
_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_THRESHOLD = -1, -2, -3


def settle() -> None:
    """Set up a process that is ours from its start."""
    collect_rarely()
    keep_freed_memory()


def collect_rarely() -> None:
    """Have Python look for garbage less often.

    Nearly all that a process makes while it starts lives to its end, and to look through it again and again takes a
    good part of the time of the imports.
    """
    gc.set_threshold(N_NEW_OBJECTS)


def keep_freed_memory() -> None:
    """Have glibc keep freed blocks of up to 128 MiB for the next ones, 512 MiB of them at the heap's end at most.

    By itself it gives blocks beyond 32 MiB back to the system, which hands out the next one page by page, cleared:
    a quarter of the time of a training step on pixels, whose maps take 67 MB each. Other C libraries are left as they
    are.
    """
    if sys.platform == "linux" and hasattr(library := ctypes.CDLL(None), "mallopt"):
        library.mallopt(_M_MMAP_THRESHOLD, KEPT_BLOCK_BYTES)
        library.mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES)
        library.mallopt(_M_TOP_PAD, GROWTH_BYTES)


def leave_the_rest() -> None:
    """Have nothing looked through at the end, when all memory goes back anyhow."""
    gc.freeze()
