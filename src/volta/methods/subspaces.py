"""How far rows lie outside the main directions of others: the residual that ViM and SIRC score by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from volta.core.types import Array
from volta.methods.graphs import constant
from volta.methods.pieces import row_slices
from volta.methods.scores import Floats

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class MinorSpace:
    """The minor half of the principal directions R around a centre o.

    ``centre`` is (d,), ``directions`` (d, max(1, ⌊d/2⌋)) with orthonormal columns.
    """

    centre: Floats
    directions: Floats

    def lengths(self, rows: Array) -> Floats:
        """Return |Rᵀ(x − o)| for each row x."""
        lengths: Floats = np.empty(len(rows))
        for piece in row_slices(rows, CHUNK_ROWS):
            inside = (rows[piece] - self.centre) @ self.directions
            lengths[piece] = np.sqrt(np.einsum("ij,ij->i", inside, inside))
        return lengths

    def lengths_of_tensors(self, rows: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        lengths: Tensor = ((rows - constant(self.centre)) @ constant(self.directions)).norm(dim=1)
        return lengths


def fit_minor_space(rows: Array, centre: Floats) -> MinorSpace:
    """Return the minor half of the eigenvectors of (1/n) Σ_i (x_i − o)(x_i − o)ᵀ, gathered in pieces."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for piece in row_slices(rows, CHUNK_ROWS):
        centred = rows[piece].astype(np.float64)
        centred -= centre
        total += centred.T @ centred
    _, vectors = np.linalg.eigh(total / len(rows))
    return MinorSpace(centre, np.ascontiguousarray(vectors[:, : max(1, vectors.shape[1] // 2)]))
