"""From a run folder to every table of its statistics: reads records and predictions, runs nothing again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from volta.bench.store import RunStore
from volta.paper import ClaimRow, PaperComparison, compare_with_paper, judge_claims
from volta.stats import (
    ALPHA,
    AblationRow,
    CorruptionRow,
    LeaderboardRow,
    RankRow,
    Results,
    RowsOfCells,
    SummaryRow,
    TestRow,
    bootstrap_tables,
    check_reference,
    compare_ablation,
    compare_all_pairs,
    compare_with_reference,
    make_leaderboard,
    rank_tables,
    rows_to_csv,
    summarise,
    summarise_corruptions,
    without_rows,
)
from volta.stats.bootstrap import N_RESAMPLES
from volta.stats.comparisons import BEST

ALL_PAIRS = "all"
Row = TypeVar(
    "Row", SummaryRow, TestRow, LeaderboardRow, AblationRow, CorruptionRow, RankRow, PaperComparison, ClaimRow
)


@dataclass(frozen=True)
class Statistics:
    """Every table of statistics of a run, and what they say of the paper.

    ``reference``: what the tests compare with, a method's name, "best" or "all"; our method if None. ``alpha``: the
    level of every verdict.
    """

    summary: list[SummaryRow]
    tests: list[TestRow]
    pairs: list[TestRow]
    leaderboard: list[LeaderboardRow]
    ablation: list[AblationRow]
    corruptions: list[CorruptionRow]
    ranks: list[RankRow]
    paper: list[PaperComparison]
    claims: list[ClaimRow]
    reference: str | None = None
    alpha: float = ALPHA

    def of(self, task: str, protocol: str) -> Statistics:
        """Return the rows that belong to one task and protocol."""

        def own(rows: Sequence[Row]) -> list[Row]:
            return [row for row in rows if (row.task, row.protocol) == (task, protocol)]

        return Statistics(
            own(self.summary), own(self.tests), own(self.pairs), own(self.leaderboard), own(self.ablation),
            own(self.corruptions), own(self.ranks), own(self.paper), own(self.claims), self.reference, self.alpha,
        )  # fmt: skip

    def to_csv(self) -> dict[str, str]:
        """Return file name → CSV text."""
        return {
            "summary.csv": rows_to_csv(SummaryRow, self.summary),
            "tests.csv": rows_to_csv(TestRow, self.tests),
            "pairs.csv": rows_to_csv(TestRow, self.pairs),
            "leaderboard.csv": rows_to_csv(LeaderboardRow, self.leaderboard),
            "ablation.csv": rows_to_csv(AblationRow, self.ablation),
            "corruptions.csv": rows_to_csv(CorruptionRow, self.corruptions),
            "ranks.csv": rows_to_csv(RankRow, self.ranks),
            "paper.csv": rows_to_csv(PaperComparison, self.paper),
            "claims.csv": rows_to_csv(ClaimRow, self.claims),
        }


def compute_statistics(
    store: RunStore,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    reference: str | None = None,
    alpha: float = ALPHA,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
) -> Statistics:
    """Return every table of statistics of a run whose records are in ``tables``; predictions come from ``store``.

    ``n_resamples`` 0 leaves the bootstrap out, and the tests with it. ``reference``: what the tests compare with, a
    method's name, "best", or "all" for every pair; our method if None. ``alpha``: the level of verdicts, below 0.05
    where several looks share it.
    ``rows``: the test rows by (task, protocol), where they have been read already.
    """
    if reference is None and tables and not any(table.ours for table in tables):
        # There is nothing to compare with but the best.
        reference = BEST
    compared = None if reference == ALL_PAIRS else reference
    if compared is not None:
        check_reference(tables, compared)
    bootstraps = bootstrap_tables(store, tables, n_resamples, rows) if n_resamples else without_rows(tables)
    return Statistics(
        summary=summarise(tables),
        tests=compare_with_reference(tables, bootstraps, compared, alpha),
        pairs=compare_all_pairs(tables, bootstraps, alpha),
        leaderboard=make_leaderboard(tables, bootstraps, alpha),
        ablation=compare_ablation(tables, bootstraps, alpha),
        corruptions=summarise_corruptions(tables),
        ranks=rank_tables(tables),
        paper=compare_with_paper(tables),
        claims=judge_claims(tables, bootstraps, alpha),
        reference=reference,
        alpha=alpha,
    )
