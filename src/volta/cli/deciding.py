"""The decisions of a table's rows, chunk by chunk, and the columns they are written as."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from volta.cli.row_progress import RowProgress
from volta.data.formats.feature_tables import FeatureChunk, FeatureTable
from volta.decisions import Decisions, benjamini_hochberg
from volta.decisions.decide import ACTIONS
from volta.decisions.multiple import discovery_note
from volta.estimators.calibration import TooFewRowsWarning
from volta.estimators.deciding import DEFAULT_FPR

if TYPE_CHECKING:
    from volta.core.types import Array
    from volta.estimators.classifier import VoltaClassifier


def decision_columns(decisions: Decisions) -> dict[str, Array]:
    """Return the columns to write; a set is its classes with ``|`` between them."""
    columns: dict[str, Array] = {
        "action": np.array(ACTIONS)[decisions.action],
        "label": decisions.label,
        "probability": decisions.probability,
        "uncertainty": decisions.uncertainty,
    }
    if decisions.pvalue is not None:
        columns["pvalue"] = decisions.pvalue
    if decisions.sets is not None:
        columns["set"] = _set_texts(decisions.sets, decisions.class_names)
    return columns | {"reason": np.array(decisions.reasons)[decisions.action]}


def decided(
    classifier: VoltaClassifier,
    table: FeatureTable,
    advance: RowProgress,
    alpha: float,
    fpr: float | None,
    fdr: float | None,
) -> Iterator[tuple[FeatureChunk, Decisions]]:
    """Walk the table; a bound over all of its flags needs all p-values first, and so a walk of its own."""
    if fdr is None:
        for part in table.chunks():
            yield part, classifier.decide(part.rows, fpr=fpr or DEFAULT_FPR, alpha=alpha)
            advance(len(part.rows), part.chunk.done)
        return
    level = _batch_level(classifier, table, advance, fdr)
    reason = f"p-value among those that keep false flags at {fdr:g} of this file's: unlike the calibration rows"
    for part in table.chunks():
        yield part, classifier.decide_at(part.rows, level, reason, alpha=alpha)
        advance(len(part.rows), 0.5 + part.chunk.done / 2)


def _batch_level(classifier: VoltaClassifier, table: FeatureTable, advance: RowProgress, fdr: float) -> float:
    """Return the largest p-value that is flagged, or where none is a level below all."""
    found = []
    for part in table.chunks():
        found.append(classifier.ood_pvalues(part.rows))
        advance(0, part.chunk.done / 2)
    pvalues, n_calibration = np.concatenate(found), len(classifier.calibration_.ood)
    if note := discovery_note(n_calibration, len(pvalues), fdr):
        warnings.warn(note, TooFewRowsWarning, stacklevel=3)
    return float(max(pvalues[benjamini_hochberg(pvalues, fdr)], default=0.5 / (n_calibration + 1)))


def _set_texts(sets: Array, names: Array) -> Array:
    """Return each row's classes as text; rows share few distinct sets, so each is written once."""
    words = [str(name).replace("|", "\\|") for name in names]
    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=sets.shape[1]).astype(np.bool_)
    texts = np.array(["|".join(words[k] for k in np.flatnonzero(row)) for row in members])
    return texts[which.reshape(-1)]
