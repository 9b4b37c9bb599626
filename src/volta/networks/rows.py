"""Input rows as float32 batches: held in memory once, or read piece by piece from a memory map."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from volta.core.mapped import file_position, row_chunks
from volta.core.types import Array

IN_MEMORY_VALUES = 1 << 28
"""Up to this many values (1 GiB as float32) are read into memory and shuffled freely; more are shuffled in blocks."""

BLOCK_ROWS = 16
WINDOW_BATCHES = 64
EVAL_ROWS = 4096
EVAL_IMAGES = 64


def epoch_order(n_rows: int, n_values: int, batch_size: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Return the order in which an epoch sees the rows.

    Up to ``IN_MEMORY_VALUES`` it is a uniform permutation. Beyond, blocks of 16 neighbouring rows are permuted, and
    then the rows within each window of 64 batches: a window mixes some 2,000 places of the file, yet is read in runs.
    It depends on the sizes alone, so that an array in memory and its memory map train alike.
    """
    if n_values <= IN_MEMORY_VALUES:
        return random.permutation(n_rows)
    blocks = random.permutation(-(-n_rows // BLOCK_ROWS))
    order: NDArray[np.int64] = (blocks[:, None] * BLOCK_ROWS + np.arange(BLOCK_ROWS)).reshape(-1)
    order = order[order < n_rows]
    window = WINDOW_BATCHES * batch_size
    for start in range(0, n_rows, window):
        random.shuffle(order[start : start + window])
    return order


class InputRows:
    """A network's input rows, which can be walked in any order, as float32 on ``device``.

    uint8 images (n, channels, h, w) are scaled to [0, 1]; uint8 features are taken as they are. A memory map of more
    than ``IN_MEMORY_VALUES`` stays on disk.
    """

    def __init__(self, inputs: Array, device: torch.device) -> None:
        self._device = device
        self._inputs = inputs
        self._mapped = isinstance(inputs, np.memmap) and inputs.size > IN_MEMORY_VALUES
        if not self._mapped:
            self._tensor = _to_float(torch.from_numpy(_writable(inputs))).to(device)

    def __len__(self) -> int:
        return len(self._inputs)

    def walk(self, order: NDArray[np.int64], batch_size: int) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Give (index, rows) batch by batch in ``order``."""
        if not self._mapped:
            for start in range(0, len(order), batch_size):
                index = order[start : start + batch_size]
                yield index, self._tensor.index_select(0, torch.from_numpy(index).to(self._device))
            return
        window = WINDOW_BATCHES * batch_size
        for first in range(0, len(order), window):
            wanted = order[first : first + window]
            ranked = np.sort(wanted)
            held = _read(self._inputs, ranked)
            for start in range(0, len(wanted), batch_size):
                index = wanted[start : start + batch_size]
                rows = held[np.searchsorted(ranked, index)]
                yield index, _to_float(torch.from_numpy(rows)).to(self._device)

    def eval_batches(self) -> Iterator[Tensor]:
        """Walk all rows in file order, as many at a time as a network is best evaluated on.

        Images go through a processor in smaller batches, so that their activations stay in its cache.
        """
        in_cache = self._inputs.ndim > 2 and self._device.type == "cpu"
        return self.batches(EVAL_IMAGES if in_cache else EVAL_ROWS)

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """Walk all rows in file order."""
        if not self._mapped:
            for start in range(0, len(self), batch_size):
                yield self._tensor[start : start + batch_size]
            return
        for piece in row_chunks(self._inputs, batch_size):
            yield _to_float(torch.from_numpy(np.array(piece))).to(self._device)


def _read(inputs: Array, ranked: NDArray[np.int64]) -> Array:
    """Return the rows at ascending indices, each run of neighbours in one read past the memory map.

    Reading through the map would bring in pages around each row that nobody asked for, and keep them resident.
    """
    place = file_position(inputs)
    if place is None or not hasattr(os, "preadv"):
        return np.array(inputs[ranked])
    name, begins = place
    rows = np.empty((len(ranked), *inputs.shape[1:]), dtype=inputs.dtype)
    row_bytes = rows[:1].nbytes
    edges = [0, *(np.flatnonzero(np.diff(ranked) != 1) + 1), len(ranked)]
    descriptor = os.open(name, os.O_RDONLY)
    try:
        for start, stop in pairwise(edges):
            position = begins + int(ranked[start]) * row_bytes
            view = rows[start:stop].data.cast("B")
            while len(view):
                n_read = os.preadv(descriptor, [view], position)
                if n_read == 0:
                    raise OSError(f"{name} ended before row {ranked[stop - 1]}; it was cut short while being read")
                view, position = view[n_read:], position + n_read
    finally:
        os.close(descriptor)
    return rows


def _writable(inputs: Array) -> Array:
    inputs = np.ascontiguousarray(inputs, dtype=inputs.dtype.newbyteorder("="))
    return inputs if inputs.flags.writeable else inputs.copy()


def _to_float(rows: Tensor) -> Tensor:
    return rows.float().div_(255.0) if rows.dtype == torch.uint8 and rows.ndim == 4 else rows.float()
