"""Python's search for garbage in processes of our own: commands, workers and helpers."""

from __future__ import annotations

import gc

N_NEW_OBJECTS = 10_000
"""So many new objects make Python look through them; by itself it does at 700."""


def collect_rarely() -> None:
    """Have Python look for garbage less often.

    Nearly all that a process makes while it starts lives to its end, and to look through it again and again takes a
    good part of the time of the imports.
    """
    gc.set_threshold(N_NEW_OBJECTS)


def leave_the_rest() -> None:
    """Have nothing looked through at the end, when all memory goes back anyhow."""
    gc.freeze()
