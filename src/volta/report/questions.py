"""What a run is to decide, as questions: the paper's claims where they are judged, and named comparisons."""

from __future__ import annotations

from collections.abc import Sequence

from volta.bench.rescoring import current_records
from volta.bench.store import RunStore
from volta.figures.names import full_name, metric_key
from volta.paper import CLAIM_TASKS, judge_claims, questions_of
from volta.report.statistics import ALL_PAIRS
from volta.stats import (
    Bootstraps,
    Question,
    Results,
    TestRow,
    bootstrap_tables,
    compare_all_pairs,
    compare_with_reference,
    group_records,
)
from volta.stats.bootstrap import N_RESAMPLES
from volta.stats.leaderboard import ranked_sets

SAME = "no difference that matters"


def judge_questions(
    store: RunStore,
    seeds: Sequence[int],
    alpha: float,
    reference: str | None = None,
    n_resamples: int = N_RESAMPLES,
) -> list[Question]:
    """Return every question of a run folder, judged at level ``alpha`` on ``seeds`` alone.

    Those are the paper's claims, on its tasks and `digits`; and, where a reference is named or the task has no claims,
    the reference (our method if None) against each other method on every metric of the leaderboard.
    """
    cells = [cell for cell in store.cells() if cell.seed in set(seeds)]
    tables = group_records(current_records(store, cells))
    bootstraps = bootstrap_tables(store, tables, n_resamples) if n_resamples else None
    compared = tables if reference is not None else [table for table in tables if table.task not in CLAIM_TASKS]
    return [
        *questions_of(judge_claims(tables, bootstraps, alpha)),
        *(question for table in compared for question in _comparisons(table, bootstraps, alpha, reference)),
    ]


def _comparisons(
    table: Results, bootstraps: Bootstraps | None, alpha: float, reference: str | None
) -> list[Question]:  # fmt: skip
    if reference == ALL_PAIRS:
        rows = compare_all_pairs([table], bootstraps, alpha)
    else:
        rows = compare_with_reference([table], bootstraps, reference, alpha)
    wanted = set(ranked_sets(table))
    return [_question(row) for row in rows if (row.metric, row.set) in wanted and row.n]


def comparison_key(row: TestRow) -> str:
    """Return the key of the question whether two methods differ on a metric and set."""
    name = full_name(metric_key(row.metric, row.set))
    return f"{row.task} · {row.protocol} · {name} · {row.reference} against {row.method}"


def _question(row: TestRow) -> Question:
    verdict = {"cannot tell": "", "equivalent": SAME}.get(row.verdict, row.verdict)
    interval = "" if row.low is None or row.high is None else f" in [{row.low:+.4f}, {row.high:+.4f}]"
    return Question(
        comparison_key(row), (row.reference, row.method), verdict, row.n, None,
        f"{row.reference} − {row.method}{interval}, n = {row.n}",
    )  # fmt: skip
