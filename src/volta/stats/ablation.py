"""Each row of the ablation study against the full model and against VOLTA: `ablation.csv`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from volta.stats.comparisons import NO_OOD, below_alpha, tested_sets
from volta.stats.holm import holm
from volta.stats.results import FULL, VOLTA, Results
from volta.stats.tested import compare_pair


@dataclass(frozen=True)
class AblationRow:
    """One metric of one ablation row, and Welch's test of it against ``reference``.

    ``difference`` is row − reference; empty fields are explained in ``note``.
    """

    task: str
    protocol: str
    row: str
    reference: str
    metric: str
    set: str
    n: int
    n_reference: int
    mean: float | None
    std: float | None
    mean_reference: float | None
    difference: float | None
    p: float | None
    p_holm: float | None
    hedges_g: float | None
    significant: bool | None
    detectable_difference: float | None
    significant_holm: bool | None
    note: str


def compare_ablation(tables: Iterable[Results]) -> list[AblationRow]:
    """Return every ablation row compared with `volta-full` and with `volta` on the five tested metrics.

    Holm's family is all the tests of one task and protocol against one reference. VOLTA itself stands among the rows
    compared with the full model.
    """
    rows: list[AblationRow] = []
    for table in tables:
        if not table.ablation_rows:
            continue
        names = [name for name in (*table.ablation_rows, VOLTA) if name in table.values]
        for reference in (FULL, VOLTA):
            family = [
                _compare(table, name, reference, metric, eval_set)
                for name in names
                if name != reference
                for metric, eval_set in tested_sets(table)
            ]
            corrected = holm([row.p for row in family])
            rows += [
                replace(row, p_holm=p, significant_holm=below_alpha(p))
                for row, p in zip(family, corrected, strict=True)
            ]
    return rows


def _compare(table: Results, name: str, reference: str, metric: str, eval_set: str) -> AblationRow:
    own, other = table.sample(name, eval_set, metric), table.sample(reference, eval_set, metric)
    row = AblationRow(
        table.task, table.protocol, name, reference, metric, eval_set,
        own.n if own else 0, other.n if other else 0,
        own.mean if own else None, own.std if own else None, other.mean if other else None,
        None, None, None, None, None, None, None, "",
    )  # fmt: skip
    if own is None or other is None:
        lacking = [label for label, sample in ((name, own), (reference, other)) if sample is None]
        return replace(row, note=f"no {metric} for {' and '.join(lacking)}" if eval_set else NO_OOD)
    tested = compare_pair(own, other)
    return replace(
        row,
        difference=tested.difference,
        p=tested.p,
        hedges_g=tested.hedges_g,
        significant=below_alpha(tested.p),
        detectable_difference=tested.detectable_difference,
        note=tested.note,
    )
