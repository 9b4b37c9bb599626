"""AUROC of many weighted samples at once: exact pair counts, ties counted one half."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Weights: TypeAlias = NDArray[np.float32] | NDArray[np.uint8]
"""(n, columns): float32 with rows next to each other, or uint8 with columns next to each other where rows are many."""
_BLOCK = 20
_EXACT = 1 << 24


class PairCounter:
    """Counts Σ_i Σ_j w_i v_j ([o_j > s_i] + ½ [o_j = s_i]) for every column of w and v.

    With ID rows sorted, C_k = Σ_{i ≤ k} w_(i) is their running weight, and the sum is Σ_j v_j ½ (C_{l_j} + C_{r_j}),
    where l_j and r_j count the ID scores below and not above o_j. Rows run down and resamples across, so every step
    works on whole contiguous rows: O((n + m) · columns). Running weights are exact in float32 below 2²⁴ rows.

    id_scores: (n,); ood_scores: (m,).
    """

    def __init__(self, id_scores: NDArray[np.float64], ood_scores: NDArray[np.float64]) -> None:
        self.order = np.argsort(id_scores, kind="stable")
        ranked = id_scores[self.order]
        self.below = np.searchsorted(ranked, ood_scores, side="left")
        self.not_above = np.searchsorted(ranked, ood_scores, side="right")
        self.tied = np.flatnonzero(self.below != self.not_above)

    def count(self, id_weights: Weights, ood_weights: Weights, scratch: Scratch) -> NDArray[np.float64]:
        """Return each column's weighted pair count: (columns,). id_weights: (n, columns); ood_weights: (m, columns)."""
        lower = scratch.gathered
        if by_column(id_weights):
            for index, column in enumerate(id_weights.T):
                sums = running_sums(column, self.order)
                lower[:, index] = sums[self.below]
                lower[self.tied, index] = (lower[self.tied, index] + sums[self.not_above[self.tied]]) / 2
            return _column_dots(lower, ood_weights)
        running = scratch.running
        n = len(self.order)
        np.take(id_weights, self.order, axis=0, out=running[1 : n + 1], mode="clip")
        running[n + 1 :] = 0
        accumulate_rows(running[1:])
        np.take(running, self.below, axis=0, out=lower, mode="clip")
        if len(self.tied):
            lower[self.tied] = (lower[self.tied] + running[self.not_above[self.tied]]) / 2
        return _column_dots(lower, ood_weights)


class Scratch:
    """Memory that the counters of one chunk share: running weights and the gathered ones."""

    def __init__(self, n_id: int, n_ood: int, n_columns: int) -> None:
        self._shape = -(-n_id // _BLOCK) * _BLOCK + 1, n_columns
        self.gathered = np.empty((n_ood, n_columns), dtype=np.float32)

    @cached_property
    def running(self) -> NDArray[np.float32]:
        """Running weights of rows next to each other, in whole blocks after a first row of zeros."""
        return np.zeros(self._shape, dtype=np.float32)


def by_column(weights: Weights) -> bool:
    """Whether columns lie next to each other and are best worked on one at a time."""
    return weights.dtype == np.uint8


def running_sums(column: NDArray[np.uint8], order: NDArray[np.intp]) -> NDArray[np.int32]:
    """Return the sums of the first 0 … n weights in ``order``, (n + 1,): a byte a row stays in the cache."""
    sums = np.zeros(len(order) + 1, dtype=np.int32)
    np.cumsum(column.take(order), dtype=np.int32, out=sums[1:])
    return sums


def accumulate_rows(rows: NDArray[np.float32]) -> None:
    """Replace each row by the sum of the rows up to it, in place; the number of rows is a multiple of the block.

    NumPy's cumulative sum down the rows strides through memory; adding whole rows, a block at a time in parallel,
    is ten times faster.
    """
    blocks = rows.reshape(-1, _BLOCK, rows.shape[1])
    for index in range(1, _BLOCK):
        blocks[:, index] += blocks[:, index - 1]
    totals = np.cumsum(blocks[:-1, -1], axis=0)
    blocks[1:] += totals[:, None]


def _column_dots(left: NDArray[np.float32], right: Weights) -> NDArray[np.float64]:
    total = np.zeros(left.shape[1])
    # Short float32 sums stay below 2**24 and therefore exact; their totals are kept in float64.
    step = max(1, min(len(left), _EXACT // (4 * max(1, int(left[:, 0].max(initial=1))))))
    for start in range(0, len(left), step):
        rows = slice(start, start + step)
        total += np.einsum("jc,jc->c", left[rows], right[rows], dtype=np.float32)
    return total
