"""A process that ends when the one that started it does, whatever it is doing at that moment."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PARENT_DEATH_SIGNAL = 1


def end_with_parent(parent: int | None = None) -> None:
    """Have the kernel kill this process when its parent ends, where the system can (Linux); elsewhere do nothing.

    A thread that waits for the parent is not enough: a library that never gives the interpreter's lock back keeps it
    from running. ``parent`` is the parent's number as known before; if it is gone already, this process ends at once.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return
    if parent is not None and os.getppid() != parent:
        os._exit(1)
