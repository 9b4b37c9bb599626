"""How far rows lie outside the main directions of others: the residual that ViM and SIRC score by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from volta.core.types import Array
from volta.methods.graphs import constant
from volta.methods.pieces import row_slices
from volta.methods.scores import Floats

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_ROWS = 4096
COARSE_SHARE = 1e-4
"""Below this share of the rows' mean square in the minor directions, float32 would leave fewer than five digits."""
FINE = 1e-5


@dataclass(frozen=True, eq=False)
class MinorSpace:
    """The minor half of the principal directions R around a centre o.

    ``centre`` is (d,), ``directions`` (d, max(1, ⌊d/2⌋)) with orthonormal columns.
    """

    centre: Floats
    directions: Floats

    def lengths(self, rows: Array) -> Floats:
        """Return |Rᵀ(x − o)| for each row x."""
        return self._lengths(rows, np.float64)

    def mean_length(self, rows: Array) -> float:
        """Return the mean over rows, in float32 where the first of them tell that this costs no digit that matters.

        Where a later row is too large for float32, all are measured again in float64.
        """
        first = rows[:CHUNK_ROWS]
        with np.errstate(over="ignore"):
            if np.allclose(self._lengths(first, np.float32), self.lengths(first), rtol=FINE, atol=0.0):
                coarse = float(self._lengths(rows, np.float32).mean())
                if np.isfinite(coarse):
                    return coarse
        return float(self.lengths(rows).mean())

    def lengths_of_tensors(self, rows: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        lengths: Tensor = ((rows - constant(self.centre)) @ constant(self.directions)).norm(dim=1)
        return lengths

    def _lengths(self, rows: Array, working: DTypeLike) -> Floats:
        centre, directions = (part.astype(working, copy=False) for part in (self.centre, self.directions))
        lengths: Floats = np.empty(len(rows))
        for piece in row_slices(rows, CHUNK_ROWS):
            inside = (rows[piece] - centre) @ directions
            lengths[piece] = np.sqrt(np.einsum("ij,ij->i", inside, inside))
        return lengths


def fit_minor_space(rows: Array, centre: Floats) -> MinorSpace:
    """Return the minor half of the eigenvectors of (1/n) Σ_i (x_i − o)(x_i − o)ᵀ, gathered in pieces.

    Products of float32 rows are in float32 first, which halves the time and moves lengths by some 1e-6 of themselves;
    where the minor directions hold too little of the rows for that, all is done again in float64.
    """
    n_minor = max(1, rows.shape[1] // 2)
    vectors = None
    if rows.dtype.itemsize <= 4:
        with np.errstate(over="ignore", invalid="ignore"):
            moment = _second_moment(rows, centre, np.float32)
        if np.isfinite(moment).all():
            values, vectors = np.linalg.eigh(moment)
            if values[:n_minor].sum() < COARSE_SHARE * (values.sum() + centre @ centre):
                vectors = None
    if vectors is None:
        vectors = np.linalg.eigh(_second_moment(rows, centre, np.float64))[1]
    return MinorSpace(centre, np.ascontiguousarray(vectors[:, :n_minor]))


def _second_moment(rows: Array, centre: Floats, working: DTypeLike) -> Floats:
    """Return (1/n) Σ_i (x_i − o)(x_i − o)ᵀ from products in ``working`` precision that are summed in float64.

    Rows are taken around a point c among them, so that a distant centre o does not cost digits:
    Σ (x − o)(x − o)ᵀ = Σ (x − c)(x − c)ᵀ + s aᵀ + a sᵀ + n a aᵀ with s = Σ (x − c) and a = c − o.
    """
    n_rows, n_columns = rows.shape
    middle = rows[:CHUNK_ROWS].mean(axis=0, dtype=working)
    products, sums = np.zeros((n_columns, n_columns)), np.zeros(n_columns)
    for piece in row_slices(rows, CHUNK_ROWS):
        centred = rows[piece] - middle
        products += centred.T @ centred
        sums += centred.sum(axis=0)
    away = middle - centre
    crossed = np.outer(sums / n_rows, away)
    return np.asarray(products / n_rows + crossed + crossed.T + np.outer(away, away))
