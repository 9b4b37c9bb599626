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
    ``bin``: (n,) the row's ECE bin; ``id_score``: (n,) and ``ood_scores``: set → (m,), higher = more OOD;
    ``uncertainty``: (n,), the score that rows are abstained on by. ``variants``: set name → the same rows in another
    reading, such as "test+T" after one temperature.
    """

    correct: Floats
    brier: Floats
    nll: Floats
    gap: Floats
    bin: NDArray[np.intp]
    id_score: Floats | None = None
    ood_scores: Mapping[str, Floats] = field(default_factory=dict)
    uncertainty: Floats | None = None
    variants: Mapping[str, RowScores] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.correct)


def row_scores(
    probs: Array,
    labels: Array,
    id_score: Array | None = None,
    ood_scores: Mapping[str, Array] | None = None,
    uncertainty: Array | None = None,
    variants: Mapping[str, RowScores] | None = None,
) -> RowScores:
    """Return the per-row parts of accuracy, Brier, NLL and ECE (15 bins), with the scores for AUROC and AURC kept.

    probs: (n, K) rows that sum to 1; labels: (n,); id_score: (n,); ood_scores: set name → (m,); uncertainty: (n,).
    """
    exact = np.asarray(probs, dtype=np.float64)
    rows = scan_rows(exact, labels)
    true_prob = rows.true_prob.astype(np.float64)
    correct = rows.correct.astype(np.float64)
    scores = {name: _checked(values, f"ood_scores[{name!r}]") for name, values in (ood_scores or {}).items()}
    if scores and id_score is None:
        raise InputError("id_score is missing but ood_scores is given; pass the scores of the test rows too")
    return RowScores(
        correct=correct,
        brier=np.einsum("ik,ik->i", exact, exact) - 2 * true_prob + 1,
        nll=-np.log(np.maximum(true_prob, SMALLEST_NORMAL)),
        gap=rows.confidence.astype(np.float64) - correct,
        bin=bin_index(rows.confidence, N_BINS),
        id_score=_one_a_row(id_score, "id_score", len(correct)),
        ood_scores=scores,
        uncertainty=_one_a_row(uncertainty, "uncertainty", len(correct)),
        variants=dict(variants or {}),
    )


def _one_a_row(values: Array | None, name: str, n_rows: int) -> Floats | None:
    if values is None:
        return None
    checked = _checked(values, name)
    if len(checked) != n_rows:
        raise InputError(f"{name} has {len(checked)} rows but probs has {n_rows}; pass one score a row")
    return checked


def _checked(values: Array, name: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise InputError(f"{name} has shape {array.shape}; pass one score a row, at least one")
    if np.isnan(array).any():
        raise InputError(f"{name} holds NaN in row {int(np.flatnonzero(np.isnan(array))[0])}; pass numbers")
    return array
