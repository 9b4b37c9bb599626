"""Each row of the ablation study against the full model and against our method: `ablation.csv`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from volta.methods.ablation import Ablation
from volta.stats.comparisons import NO_OOD, below_alpha, compared_sets
from volta.stats.holm import holm
from volta.stats.pair_test import compare_pair
from volta.stats.results import Results


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
    """Return every ablation row compared with the full model and with our method on the five compared metrics.

    Holm's family is all the tests of one task and protocol against one reference. Our method itself stands among the
    rows compared with the full model.
    """
    rows: list[AblationRow] = []
    for table in tables:
        if not table.ablation_rows:
            continue
        ours = () if table.ours is None else (table.ours,)
        for reference in (Ablation.FULL.key, *ours):
            family = [
                _compare(table, name, reference, metric, eval_set)
                for name in (*table.ablation_rows, *ours)
                if name != reference
                for metric, eval_set in compared_sets(table)
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
    test = compare_pair(own, other)
    return replace(
        row,
        difference=test.difference,
        p=test.p,
        hedges_g=test.hedges_g,
        significant=below_alpha(test.p),
        detectable_difference=test.detectable_difference,
        note=test.note,
    )
