"""How many threads torch computes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread_for(n_values: int, limit: int = 1 << 20) -> Iterator[None]:
    """Compute on one thread for as long as this lasts, where there are at most ``limit`` values to train on.

    The batches of such data are too small to share. Threads that do so gain little on cores of their own, and where
    other processes want the cores too they wait for one another many times longer than they compute.
    """
    n_threads = torch.get_num_threads()
    if n_values <= limit:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)
