"""``volta decide``: answer, abstain or OOD for every row of a table, with the reason."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from volta.cli.model_files import check_carried, load_model, model_rows, warnings_as_lines
from volta.cli.options import DataArgument, ForceOption, IdOption, LabelOption, ModelArgument, OutOption, QuietOption
from volta.cli.row_progress import RowProgress, row_progress
from volta.cli.stopping import ALL_OR_NOTHING, stoppable
from volta.core.checks import check_fraction
from volta.core.errors import InputError
from volta.data.formats.feature_tables import FeatureChunk, FeatureTable
from volta.data.formats.tabular_files import check_new_table, new_table
from volta.decisions import Decisions, benjamini_hochberg
from volta.decisions.decide import ACTIONS
from volta.decisions.multiple import discovery_note
from volta.estimators.calibration import TooFewRowsWarning

if TYPE_CHECKING:
    from volta.core.types import Array
    from volta.estimators.classifier import VoltaClassifier

_PROMISE_PANEL = "What is promised"


def decide(
    model: ModelArgument,
    data: DataArgument,
    out: OutOption,
    ids: IdOption = None,
    label: LabelOption = None,
    alpha: Annotated[
        float, typer.Option(help="Sets miss the true class this often at most.", rich_help_panel=_PROMISE_PANEL)
    ] = 0.1,
    fpr: Annotated[
        float | None,
        typer.Option(help="Share of in-distribution rows flagged as OOD; 0.05.", rich_help_panel=_PROMISE_PANEL),
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(help="Or: share of false flags among this file's flags.", rich_help_panel=_PROMISE_PANEL),
    ] = None,
    max_error: Annotated[
        float | None,
        typer.Option(
            help="At most this share of answers wrong, not the model's policy.", rich_help_panel=_PROMISE_PANEL
        ),
    ] = None,
    confidence: Annotated[float, typer.Option(help="How surely.", rich_help_panel=_PROMISE_PANEL)] = 0.95,
    coverage: Annotated[
        float | None,
        typer.Option(help="Or: answer this share of rows.", rich_help_panel=_PROMISE_PANEL),
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Decide every row: answer, abstain or ood, with label, probability, p-value, set and the reason in words."""
    check_new_table(out, overwrite=force)
    if fpr is not None and fdr is not None:
        raise InputError(f"--fpr is {fpr} and --fdr {fdr}; pass one of them")
    if max_error is not None and coverage is not None:
        raise InputError(f"--max-error is {max_error} and --coverage {coverage}; pass one of them")
    named = (alpha, "--alpha"), (fpr, "--fpr"), (fdr, "--fdr"), (max_error, "--max-error"), (coverage, "--coverage")
    for value, name in (*named, (confidence, "--confidence")):
        if value is not None:
            check_fraction(value, name)
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    counts = np.zeros(len(ACTIONS), dtype=np.int64)
    with stoppable(ALL_OR_NOTHING), warnings_as_lines(), row_progress("deciding", quiet=quiet) as advance:
        if max_error is not None or coverage is not None:
            classifier.fit_policy(max_error, coverage=coverage, confidence=confidence)
        with new_table(out, overwrite=force) as writer:
            for part, decisions in _decided(classifier, table, advance, alpha, fpr, fdr):
                found = decision_columns(decisions)
                given = part.ids | ({} if part.labels is None else {"true_label": part.labels})
                check_carried(given, found)
                writer.write(given | found)
                counts += np.bincount(decisions.action, minlength=len(ACTIONS))
    words = ", ".join(f"{count} {action}" for action, count in zip(ACTIONS, counts.tolist(), strict=True))
    typer.echo(f"{counts.sum()} rows ({words}): {out}")


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


def _decided(
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
