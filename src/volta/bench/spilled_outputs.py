"""Outputs of networks shared between cells, on disk where they are too many to hold: ImageNet's logits are 10 GB."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from volta.core.leftovers import part_folder, sweep
from volta.core.mapped import row_chunks
from volta.core.types import Array
from volta.data.options import cache_folder
from volta.networks.network import Network
from volta.networks.outputs import Outputs
from volta.networks.rows import EVAL_ROWS
from volta.networks.trainer import OutputCache

HELD_BYTES = 1 << 30
"""Outputs of one array up to this size are held in memory."""
_PIECE_ROWS = 4 * EVAL_ROWS


class SpilledOutputCache(OutputCache):
    """An output cache that keeps what is larger than ``held`` bytes in files, as read-only memory maps.

    Values are the same, bit for bit: rows go through the network in the same batches. The files lie in ``folder``
    (None: volta's cache folder) under no name, so that nothing is left of them once nobody reads them.
    """

    def __init__(self, held: int = HELD_BYTES, folder: Path | None = None) -> None:
        super().__init__()
        self._held_bytes = held
        self._folder = folder
        self._spilled: dict[tuple[str, int], tuple[Array, Outputs]] = {}

    def outputs(self, network: Network, inputs: Array) -> Outputs:
        """Return ``network.outputs(inputs)``, computed once for the same array object."""
        n_bytes = len(inputs) * (8 * network.spec.n_classes + 4 * network.spec.body.width)
        if n_bytes <= self._held_bytes or inputs.ndim != 2:
            return super().outputs(network, inputs)
        key = (network.key, id(inputs))
        if key not in self._spilled:
            self._spilled[key] = (inputs, _spilled(network, inputs, self._folder or cache_folder() / "outputs"))
        return self._spilled[key][1]


def _spilled(network: Network, inputs: Array, parent: Path) -> Outputs:
    parent.mkdir(parents=True, exist_ok=True)
    sweep(parent)
    with part_folder(parent) as folder:
        logits, features = folder / "logits", folder / "features"
        last_layer = None
        with logits.open("wb") as logits_file, features.open("wb") as features_file:
            for piece in row_chunks(inputs, _PIECE_ROWS):
                found = network.outputs(piece)
                last_layer = found.last_layer
                found.logits.tofile(logits_file)
                found.need_features().tofile(features_file)
        n_rows, spec = len(inputs), network.spec
        return Outputs(
            np.memmap(logits, np.float64, "r", shape=(n_rows, spec.n_classes)),
            np.memmap(features, np.float32, "r", shape=(n_rows, spec.body.width)),
            last_layer,
        )
