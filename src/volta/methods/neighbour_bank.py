"""How far rows lie from their neighbours among some training rows, by angle alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array
from volta.methods.graphs import constant
from volta.methods.neighbours import k_largest, largest_products
from volta.methods.scores import Floats

if TYPE_CHECKING:
    from torch import Tensor

N_NEIGHBOURS = 50
MOST_ROWS = 1024


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Distances |f/|f| − b| to the k-th nearest of the unit rows b in ``bank`` (m, w), in float64."""

    bank: Floats
    k: int

    def distances(self, rows: Array) -> Floats:
        """Return the distance to the k-th neighbour of rows (n, w)."""
        found = np.empty(len(rows))
        for part, cosines in largest_products(unit(rows), self.bank, self.k):
            found[part] = _chord(cosines.min(axis=1))
        return found

    def distances_of_tensors(self, rows: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        lengths = rows.norm(dim=1, keepdim=True)
        cosines = (rows / lengths.clamp(min=1e-30)) @ constant(self.bank).T
        nearest: Tensor = cosines.topk(self.k).values[:, -1]
        return (2.0 - 2.0 * nearest).clamp(min=0.0).sqrt()


def bank_rows(n_rows: int) -> NDArray[np.int64]:
    """Return which of n training rows are kept as neighbours: all, or 1,024 at even steps."""
    return even_steps(n_rows, MOST_ROWS)


def even_steps(n_rows: int, most: int) -> NDArray[np.int64]:
    """Return the places of all n rows, or of ``most`` of them at even steps.

    >>> even_steps(3, 5), even_steps(9, 3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    return np.linspace(0, n_rows - 1, min(n_rows, most)).round().astype(np.int64)


def n_neighbours(n_kept: int, n_rows: int) -> int:
    """Return k for so many kept of n rows: the 50th neighbour of all rows, as far as the kept ones can tell."""
    return max(1, min(n_kept, round(N_NEIGHBOURS * n_kept / n_rows)))


def unit(rows: Array) -> Floats:
    """Return rows (n, w) of length 1, in float64; rows of zeros stay."""
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-30))


def kth_chord(cosines: Floats, k: int) -> Floats:
    """Return the distance between unit vectors to the k-th nearest, from cosines (n, m)."""
    return _chord(k_largest(cosines, k).min(axis=1))


def _chord(cosine: Floats) -> Floats:
    return np.asarray(np.sqrt(np.maximum(2.0 - 2.0 * cosine, 0.0)))
