"""How many threads torch computes on, for as long as a piece of work lasts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Let torch compute on ``threads`` threads (None: as many as it has), and on as many as before afterwards."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
