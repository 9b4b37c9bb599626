"""Each row of the ablation study against the full model and against our method: `ablation.csv`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volta.methods.ablation import Ablation
from volta.stats.comparisons import Bootstraps, below_alpha, bootstrap_of, compared_sets
from volta.stats.holm import holm
from volta.stats.pairs import PairTest, PairVerdict, compare_pair, verdict_on
from volta.stats.results import Results
from volta.stats.welch import ALPHA


@dataclass(frozen=True)
class AblationRow:
    """One metric of one ablation row, and its test against ``reference``.

    ``difference`` is row − reference; ``p`` is paired over the ``n_shared`` seeds and about new test rows too,
    ``p_welch`` is Welch's, as in the paper; ``verdict`` is about the row. Empty fields are explained in ``note``.
    """

    task: str
    protocol: str
    row: str
    reference: str
    metric: str
    set: str
    n: int
    n_reference: int
    n_shared: int
    mean: float | None
    std: float | None
    mean_reference: float | None
    difference: float | None
    paired: bool
    p: float | None
    p_holm: float | None
    p_welch: float | None
    hedges_g: float | None
    significant: bool | None
    significant_holm: bool | None
    detectable_difference: float | None
    p_equivalence: float | None
    verdict: PairVerdict
    note: str


def compare_ablation(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[AblationRow]:
    """Return every ablation row compared with the full model and with our method on the five compared metrics.

    Holm's family is all the tests of one task and protocol against one reference. Our method itself stands among the
    rows compared with the full model. ``alpha``: the level of verdicts.
    """
    rows: list[AblationRow] = []
    for table in tables:
        if not table.ablation_rows:
            continue
        source = bootstrap_of(bootstraps, table)
        ours = () if table.ours is None else (table.ours,)
        for reference in (Ablation.FULL.key, *ours):
            family = [
                compare_pair(table, name, reference, metric, eval_set, source, interval=False)
                for name in (*table.ablation_rows, *ours)
                if name != reference
                for metric, eval_set in compared_sets(table)
            ]
            corrected = holm([test.p for test in family])
            equivalent = holm([test.p_equivalent for test in family])
            rows += [
                _row(table, test, p, same, alpha) for test, p, same in zip(family, corrected, equivalent, strict=True)
            ]
    return rows


def _row(
    table: Results, test: PairTest, p_holm: float | None, p_equivalence: float | None, alpha: float
) -> AblationRow:
    own, other = test.first_sample, test.second_sample
    return AblationRow(
        table.task, table.protocol, test.first, test.second, test.metric, test.set,
        own.n if own else 0, other.n if other else 0, test.n,
        own.mean if own else None, own.std if own else None, other.mean if other else None,
        difference=test.difference,
        paired=test.paired,
        p=test.p,
        p_holm=p_holm,
        p_welch=test.p_welch,
        hedges_g=test.hedges_g,
        significant=below_alpha(test.p, alpha),
        significant_holm=below_alpha(p_holm, alpha),
        detectable_difference=test.detectable,
        p_equivalence=p_equivalence,
        verdict=verdict_on(test, p_holm, p_equivalence, alpha),
        note=test.note,
    )  # fmt: skip
