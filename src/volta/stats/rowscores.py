"""What the bootstrap needs of each test row: its share of every metric, so that a resample is a weighted sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.metrics.binning import N_BINS, bin_index
from volta.metrics.rows import scan_rows
from volta.metrics.scoring import SMALLEST_NORMAL

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RowScores:
    """One trained model on the n test rows, and its scores on each OOD set.

    ``correct``, ``brier``, ``nll``: (n,), each row's part of the mean; ``gap``: (n,) confidence − correct;
    ``bin``: (n,) the row's ECE bin; ``id_score``: (n,) and ``ood_scores``: set → (m,), higher = more OOD.
    """

    correct: Floats
    brier: Floats
    nll: Floats
    gap: Floats
    bin: NDArray[np.intp]
    id_score: Floats | None = None
    ood_scores: Mapping[str, Floats] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.correct)


def row_scores(
    probs: Array, labels: Array, id_score: Array | None = None, ood_scores: Mapping[str, Array] | None = None
) -> RowScores:
    """Return the per-row parts of accuracy, Brier, NLL and ECE (15 bins), with the scores for AUROC kept.

    probs: (n, K) rows that sum to 1; labels: (n,); id_score: (n,); ood_scores: set name → (m,).
    """
    exact = np.asarray(probs, dtype=np.float64)
    rows = scan_rows(exact, labels)
    true_prob = rows.true_prob.astype(np.float64)
    correct = rows.correct.astype(np.float64)
    scores = {name: _checked(values, f"ood_scores[{name!r}]") for name, values in (ood_scores or {}).items()}
    if scores and id_score is None:
        raise InputError("id_score is missing but ood_scores is given; pass the scores of the test rows too")
    own = None if id_score is None else _checked(id_score, "id_score")
    if own is not None and len(own) != len(correct):
        raise InputError(f"id_score has {len(own)} rows but probs has {len(correct)}; pass one score a row")
    return RowScores(
        correct=correct,
        brier=np.einsum("ik,ik->i", exact, exact) - 2 * true_prob + 1,
        nll=-np.log(np.maximum(true_prob, SMALLEST_NORMAL)),
        gap=rows.confidence.astype(np.float64) - correct,
        bin=bin_index(rows.confidence, N_BINS),
        id_score=own,
        ood_scores=scores,
    )


def _checked(values: Array, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(f"{name} has shape {array.shape}; pass one score a row, at least one")
    if np.isnan(array).any():
        raise InputError(f"{name} holds NaN in row {int(np.flatnonzero(np.isnan(array))[0])}; pass numbers")
    return array
