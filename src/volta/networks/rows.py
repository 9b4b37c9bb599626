"""Input rows as float32 batches: held in memory once, or read piece by piece from a memory map."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from volta.core.types import Array


class Rows:
    """Rows that can be gathered by index or walked in order, as float32 on ``device``.

    uint8 pixels are scaled to [0, 1]. A memory-mapped array stays on disk: each batch reads only its own rows.
    """

    def __init__(self, inputs: Array, device: torch.device) -> None:
        self._device = device
        self._mapped = isinstance(inputs, np.memmap)
        self._inputs = inputs
        if not self._mapped:
            self._tensor = _to_float(torch.from_numpy(_writable(inputs))).to(device)

    def __len__(self) -> int:
        return len(self._inputs)

    def gather(self, index: NDArray[np.int64]) -> Tensor:
        """Return the rows at ``index``."""
        if self._mapped:
            return _to_float(torch.from_numpy(np.asarray(self._inputs[index]))).to(self._device)
        return self._tensor.index_select(0, torch.from_numpy(index).to(self._device))

    def batches(self, batch_size: int) -> Iterator[Tensor]:
        """Walk all rows in order."""
        for start in range(0, len(self), batch_size):
            stop = start + batch_size
            if self._mapped:
                yield _to_float(torch.from_numpy(np.array(self._inputs[start:stop]))).to(self._device)
            else:
                yield self._tensor[start:stop]


def _writable(inputs: Array) -> Array:
    inputs = np.ascontiguousarray(inputs)
    return inputs if inputs.flags.writeable else inputs.copy()


def _to_float(rows: Tensor) -> Tensor:
    return rows.float().div_(255.0) if rows.dtype == torch.uint8 else rows.float()
