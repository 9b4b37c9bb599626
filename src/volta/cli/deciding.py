"""The decisions of a table's rows, chunk by chunk, and the columns they are written as."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from volta.cli.row_progress import RowProgress
from volta.data.formats.feature_tables import FeatureChunk, FeatureTable
from volta.decisions import Decisions, benjamini_hochberg
from volta.decisions.decide import ACTIONS
from volta.decisions.multiple import discovery_note
from volta.estimators.calibration import TooFewRowsWarning

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
    flags = None
    if fdr is not None:
        pvalues = []
        for part in table.chunks():
            pvalues.append(classifier.ood_pvalues(part.rows))
            advance(0, part.chunk.done / 2)
        together = np.concatenate(pvalues)
        if note := discovery_note(len(classifier.calibration_.ood), len(together), fdr):
            warnings.warn(note, TooFewRowsWarning, stacklevel=2)
        flags = benjamini_hochberg(together, fdr)
    for part in table.chunks():
        # The largest fpr asks least of the calibration rows; with an fdr it decides nothing.
        found = classifier.decide(part.rows, fpr=fpr or (0.05 if fdr is None else 0.5), alpha=alpha)
        if flags is not None and fdr is not None:
            found = _with_flags(classifier, found, flags[part.chunk.start : part.chunk.start + len(found)], fdr)
        yield part, found
        advance(len(part.rows), part.chunk.done if fdr is None else 0.5 + part.chunk.done / 2)


def _with_flags(classifier: VoltaClassifier, decisions: Decisions, flags: Array, fdr: float) -> Decisions:
    answered = classifier.policy_.answers(decisions.uncertainty)
    action = np.where(answered, ACTIONS.index("answer"), ACTIONS.index("abstain"))
    action[flags] = ACTIONS.index("ood")
    answer, abstain, _ = decisions.reasons
    reason = f"p-value among those that keep false flags at {fdr:g} of this file's: unlike the calibration rows"
    return replace(decisions, action=action, reasons=(answer, abstain, reason))


def _set_texts(sets: Array, names: Array) -> Array:
    """Return each row's classes as text; rows share few distinct sets, so each is written once."""
    words = [str(name).replace("|", "\\|") for name in names]
    distinct, which = np.unique(np.packbits(sets, axis=1), axis=0, return_inverse=True)
    members = np.unpackbits(distinct, axis=1, count=sets.shape[1]).astype(np.bool_)
    texts = np.array(["|".join(words[k] for k in np.flatnonzero(row)) for row in members])
    return texts[which.reshape(-1)]
