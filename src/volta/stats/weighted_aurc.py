"""AURC and AUGRC of many weighted samples at once, exact under ties."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array
from volta.stats.weighted_auroc import Scratch, Weights, accumulate_rows, by_column, running_sums

Floats = NDArray[np.float64]


class RiskCounter:
    """Gives AURC and AUGRC of the rows counted w_i times each, for every column of w.

    Rows with equal scores form a group and share the mean of their errors, as `volta.metrics.aurc` has it; the copies
    of a row tie with each other too. With S_k the rows up to group k, g_k = S_k − S_{k−1} of them in it, e_k its
    errors, E = Σ e_k, and H the harmonic numbers,

        n · AURC = E (1 + H_n) − Σ_k [e_k H(S_k) + S_{k−1} (e_k / g_k) (H(S_k) − H(S_{k−1}))],
        n² · AUGRC = Σ_k e_k (n − S_k + g_k / 2),

    by Abel's summation of the mean risk over coverages 1/n … 1, and of the trapezoids of the generalised risk: only
    groups with errors cost anything.

    uncertainty: (n,), higher = less certain; correct: (n,), 1 or 0.
    """

    def __init__(self, uncertainty: Floats, correct: Floats) -> None:
        self.order = np.argsort(uncertainty, kind="stable")
        ranked = uncertainty[self.order]
        wrong = np.flatnonzero(correct[self.order] == 0)
        starts = np.searchsorted(ranked, ranked[wrong], side="left")
        self.starts, first = np.unique(starts, return_index=True)
        self.ends = np.searchsorted(ranked, ranked[self.starts], side="right")
        self.wrong = self.order[wrong]
        # Wrong rows run in the order of their groups, so a group's errors are one slice of them.
        self.first_wrong = first
        self.all_single = len(self.starts) == len(wrong)
        self.untied = bool(np.all(self.ends - self.starts == 1))

    def scores(self, weights: Weights, scratch: Scratch) -> tuple[Floats, Floats]:
        """Return AURC and AUGRC of each column, both (columns,). weights: (n, columns), columns sum to n."""
        n = len(self.order)
        if not len(self.wrong):
            return np.zeros(weights.shape[1]), np.zeros(weights.shape[1])
        before, after = self._running_weights(weights, scratch)
        errors = weights[self.wrong].astype(np.float64)
        if not self.all_single:
            errors = np.add.reduceat(errors, self.first_wrong, axis=0)
        harmonic = _harmonic(n)
        low, high = harmonic[before.astype(np.intp)], harmonic[after.astype(np.intp)]
        size = after - before
        share = (size > 0).astype(np.float64) if self.untied else errors / np.maximum(size, 1)
        total = errors.sum(axis=0)
        inner = np.einsum("kc,kc->c", errors, high) + np.einsum("kc,kc,kc->c", before, share, high - low)
        area = (total * (1 + harmonic[n]) - inner) / n
        generalised = np.einsum("kc,kc->c", errors, n - after + size / 2.0) / (n * n)
        return area, generalised

    def _running_weights(self, weights: Weights, scratch: Scratch) -> tuple[Array, Array]:
        """Return the weight before and after each group with errors, both (groups, columns)."""
        if by_column(weights):
            before = np.empty((len(self.starts), weights.shape[1]), dtype=np.int32)
            after = np.empty_like(before)
            for index, column in enumerate(weights.T):
                sums = running_sums(column, self.order)
                before[:, index], after[:, index] = sums[self.starts], sums[self.ends]
            return before, after
        n, running = len(self.order), scratch.running
        np.take(weights, self.order, axis=0, out=running[1 : n + 1], mode="clip")
        running[n + 1 :] = 0
        accumulate_rows(running[1:])
        return running[self.starts], running[self.ends]


@lru_cache(maxsize=2)
def _harmonic(n: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(1 / np.arange(1, n + 1))])
