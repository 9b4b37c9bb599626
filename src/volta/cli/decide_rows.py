"""``volta decide``: answer, abstain or OOD for every row of a table, with the reason."""

from __future__ import annotations

from typing import Annotated

import typer

from volta.cli.model_files import check_carried, check_not_read, load_model, model_rows
from volta.cli.options import DataArgument, ForceOption, IdOption, LabelOption, ModelArgument, OutOption, QuietOption
from volta.cli.printing import echo
from volta.cli.row_progress import row_progress
from volta.cli.stopping import ALL_OR_NOTHING, stoppable
from volta.cli.warning_lines import warnings_as_lines
from volta.core.errors import InputError

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
    confidence: Annotated[
        float | None, typer.Option(help="How surely: 0.95 unless given.", rich_help_panel=_PROMISE_PANEL)
    ] = None,
    coverage: Annotated[
        float | None,
        typer.Option(help="Or: answer this share of rows.", rich_help_panel=_PROMISE_PANEL),
    ] = None,
    force: ForceOption = False,
    quiet: QuietOption = False,
) -> None:
    """Decide every row: answer, abstain or ood, with label, probability, p-value, set and the reason in words."""
    import numpy as np

    from volta.cli.deciding import decided, decision_columns
    from volta.core.checks import check_fraction
    from volta.data.formats.tabular_files import check_new_table, new_table
    from volta.decisions.decide import ACTIONS

    check_not_read(out, model, data)
    check_new_table(out, overwrite=force)
    if fpr is not None and fdr is not None:
        raise InputError(f"--fpr is {fpr} and --fdr {fdr}; pass one of them")
    if max_error is not None and coverage is not None:
        raise InputError(f"--max-error is {max_error} and --coverage {coverage}; pass one of them")
    if confidence is not None and max_error is None and coverage is None:
        raise InputError(f"--confidence is {confidence}, but of what; pass --max-error or --coverage with it")
    named = (alpha, "--alpha"), (fpr, "--fpr"), (fdr, "--fdr"), (max_error, "--max-error"), (coverage, "--coverage")
    for value, name in (*named, (confidence, "--confidence")):
        if value is not None:
            check_fraction(value, name)
    classifier = load_model(model)
    table = model_rows(classifier, data, label, ids)
    counts = np.zeros(len(ACTIONS), dtype=np.int64)
    with stoppable(ALL_OR_NOTHING), warnings_as_lines(), row_progress("deciding", quiet=quiet) as advance:
        if max_error is not None or coverage is not None:
            surely = {} if confidence is None else {"confidence": confidence}
            classifier.fit_policy(max_error, coverage=coverage, **surely)
        with new_table(out, overwrite=force) as writer:
            for part, decisions in decided(classifier, table, advance, alpha, fpr, fdr):
                found = decision_columns(decisions)
                given = part.ids | ({} if part.labels is None else {"true_label": part.labels})
                check_carried(given, found)
                writer.write(given | found)
                counts += np.bincount(decisions.action, minlength=len(ACTIONS))
    words = ", ".join(f"{count} {action}" for action, count in zip(ACTIONS, counts.tolist(), strict=True))
    echo(f"{counts.sum()} rows ({words}): {out}")
