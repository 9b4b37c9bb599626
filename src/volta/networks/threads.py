"""How many threads torch computes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

import torch


class _Holders:
    """Who computes on one thread now; the last to leave restores what the first one found."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._count = 0
        self._n_threads = 1

    def enter(self) -> None:
        with self._lock:
            if self._count == 0:
                self._n_threads = torch.get_num_threads()
            self._count += 1
            torch.set_num_threads(1)

    def leave(self) -> None:
        with self._lock:
            self._count -= 1
            torch.set_num_threads(self._n_threads if self._count == 0 else 1)


_HOLDERS = _Holders()


@contextmanager
def one_thread_for(n_values: int, limit: int = 1 << 20) -> Iterator[None]:
    """Compute on one thread for as long as this lasts, where there are at most ``limit`` values to train on.

    The batches of such data are too small to share. Threads that do so gain little on cores of their own, and where
    other processes want the cores too they wait for one another many times longer than they compute.
    """
    if n_values > limit:
        yield
        return
    _HOLDERS.enter()
    try:
        yield
    finally:
        _HOLDERS.leave()
