"""The statistics of a run from its records, and its interim analyses."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from volta.bench.store import RunStore, current_records
from volta.core.checksummed import FileKind, read_object, write_object
from volta.core.errors import InputError
from volta.core.files import inside
from volta.figures.style import full_name, metric_key
from volta.paper import (
    CLAIM_TASKS,
    INCONCLUSIVE,
    ClaimRow,
    PaperComparison,
    Verdict,
    compare_with_paper,
    evaluate_claims,
    questions_of,
)
from volta.stats.bootstrap import N_RESAMPLES, Bootstraps, RowsOfCells, bootstrap_tables
from volta.stats.comparisons import (
    BEST,
    TURNED,
    AblationRow,
    PairVerdict,
    TestRow,
    against_reference,
    check_reference,
    compare_ablation,
    compare_all_pairs,
    without_rows,
)
from volta.stats.ranking import LeaderboardRow, RankRow, make_leaderboard, rank_tables, ranked_sets
from volta.stats.results import (
    CorruptionRow,
    Results,
    SummaryRow,
    group_records,
    joined_notes,
    rows_to_csv,
    summarise,
    summarise_corruptions,
)
from volta.stats.sequential import InterimAnalysis, Question, alpha_at, decide
from volta.stats.tests import ALPHA

ALL_PAIRS = "all"
ROW_TYPES: Mapping[str, type[Any]] = {
    "summary": SummaryRow,
    "tests": TestRow,
    "pairs": TestRow,
    "leaderboard": LeaderboardRow,
    "ablation": AblationRow,
    "corruptions": CorruptionRow,
    "ranks": RankRow,
    "paper": PaperComparison,
    "claims": ClaimRow,
}
"""The tables of statistics by name, each with the type of its rows."""


@dataclass(frozen=True)
class Statistics:
    """Every table of statistics of a run, and its comparison with the paper.

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
        place = task, protocol
        own: dict[str, Any] = {
            name: [row for row in getattr(self, name) if (row.task, row.protocol) == place] for name in ROW_TYPES
        }
        return replace(self, **own)

    def to_csv(self) -> dict[str, str]:
        """Return file name → CSV text."""
        return {f"{name}.csv": rows_to_csv(row_type, getattr(self, name)) for name, row_type in ROW_TYPES.items()}


def compute_statistics(
    store: RunStore | None,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    reference: str | None = None,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
    analyses: StoredAnalyses | None = None,
) -> Statistics:
    """Return every table of statistics of a run whose records are in ``tables``; predictions come from ``store``.

    ``n_resamples`` 0 leaves the bootstrap out, and the tests with it. ``reference``: what the tests compare with, a
    method's name, "best", or "all" for every pair; our method if None.
    ``rows``: the test rows by (task, protocol), where they have been read already; without ``store`` they must be.
    ``analyses``: interim analyses, which share the level of the tests; each verdict is then from the first that gave
    it, and seeds beyond the declared schedule decide nothing, since the alpha budget is used.
    """
    alpha = analyses.alpha if analyses else ALPHA
    if reference is None and tables and not any(table.ours for table in tables):
        # There is nothing to compare with but the best.
        reference = BEST
    compared = None if reference == ALL_PAIRS else reference
    if compared is not None:
        check_reference(tables, compared)
    bootstraps = bootstrap_tables(store, tables, n_resamples, rows) if n_resamples else without_rows(tables)
    pairs, claims = compare_all_pairs(tables, bootstraps, alpha), evaluate_claims(tables, bootstraps, alpha)
    if analyses:
        decided = {question.key: question for question in analyses.decided}
        pairs = [_test(row, decided, analyses) for row in pairs]
        claims = [_claim(row, decided, analyses) for row in claims]
    return Statistics(
        summary=summarise(tables),
        tests=against_reference(tables, pairs, compared),
        pairs=pairs,
        leaderboard=make_leaderboard(tables, bootstraps, alpha, pairs),
        ablation=compare_ablation(tables, bootstraps, alpha),
        corruptions=summarise_corruptions(tables),
        ranks=rank_tables(tables),
        paper=compare_with_paper(tables),
        claims=claims,
        reference=reference,
        alpha=alpha,
    )


def answer_questions(
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
        *questions_of(evaluate_claims(tables, bootstraps, alpha)),
        *(question for table in compared for question in _comparisons(table, bootstraps, alpha, reference)),
    ]


def _comparisons(
    table: Results, bootstraps: Bootstraps | None, alpha: float, reference: str | None
) -> Iterator[Question]:
    rows = compare_all_pairs([table], bootstraps, alpha)
    for row in rows if reference == ALL_PAIRS else against_reference([table], rows, reference):
        if (row.metric, row.set) in ranked_sets(table) and row.n:
            interval = "" if row.low is None or row.high is None else f" in [{row.low:+.4f}, {row.high:+.4f}]"
            words = f"{row.reference} − {row.method}{interval}, n = {row.n}"
            verdict = "" if row.verdict == "inconclusive" else row.verdict
            yield Question(comparison_key(row), (row.reference, row.method), verdict, row.n, None, words)


def comparison_key(row: TestRow) -> str:
    """Return the key of the question whether two methods differ on a metric and set."""
    name = full_name(metric_key(row.metric, row.set))
    return f"{row.task} · {row.protocol} · {name} · {row.reference} against {row.method}"


SEQUENTIAL = "sequential.json"
ANALYSES_FILE = FileKind("list of interim analyses", 1, "delete that file, or run volta bench --decide again")


@dataclass(frozen=True)
class StoredAnalyses:
    """The declared ``schedule``, the seeds of the last analysis, and every question decided so far."""

    schedule: tuple[int, ...]
    n_seeds: int
    decided: tuple[Question, ...]
    n_open: int

    @property
    def alpha(self) -> float:
        """The level of the tests of the last analysis."""
        return alpha_at(self.n_seeds, self.schedule)

    @property
    def sentence(self) -> str:
        """The design in words, for the report."""
        return (
            f"Sequential testing with interim analyses at {', '.join(map(str, self.schedule))} seeds, the last so far "
            f"at {self.n_seeds}. Its tests have level {self.alpha:.4f}: all analyses share an alpha budget of 0.05. "
            f"{len(self.decided)} questions are decided, each by the first analysis that decided it; {self.n_open} are "
            "open."
        )


def write_analyses(store: RunStore, schedule: Sequence[int], last: InterimAnalysis) -> None:
    """Write the decisions of the analyses so far into the run folder."""
    stored = StoredAnalyses(tuple(schedule), last.n_seeds, tuple(last.decided), len(last.open))
    write_object(inside(store.root, SEQUENTIAL), ANALYSES_FILE, stored)


def read_analyses(store: RunStore) -> StoredAnalyses | None:
    """Return what :func:`write_analyses` wrote, or None where a run has no interim analyses."""
    path = inside(store.root, SEQUENTIAL)
    return read_object(path, ANALYSES_FILE, StoredAnalyses) if path.is_file() else None


def earlier_analyses(store: RunStore, analyses: Sequence[int]) -> StoredAnalyses | None:
    """Return what earlier calls decided; refuse other analyses than they declared: error would be spent twice."""
    stored = read_analyses(store)
    if stored is not None and stored.schedule != tuple(analyses):
        asked, declared = (", ".join(map(str, numbers)) for numbers in (analyses, stored.schedule))
        raise InputError(
            f"--cap asks for interim analyses at {asked} seeds, but {store.root} has them at {declared}, and its alpha "
            f"budget is used; pass --cap {stored.schedule[-1]}, or another --out with other seeds or test samples"
        )
    return stored


def analyse(
    store: RunStore,
    stored: StoredAnalyses | None,
    questions: Sequence[Question],
    earlier: InterimAnalysis | None,
    n_seeds: int,
    analyses: Sequence[int],
) -> InterimAnalysis:
    """Return and store the interim analysis at ``n_seeds`` seeds, from questions that were judged on them.

    A question that an earlier call decided, ``stored``, keeps that verdict, from the number of seeds that gave it on.
    """
    if not questions:
        raise InputError("--decide has no question: run volta, or another --reference, and methods to compare it with")
    decided = {question.key: question for question in stored.decided} if stored else {}
    kept = []
    for question in questions:
        known = decided.get(question.key, question)
        kept.append(known if known.n_seeds <= n_seeds else replace(question, verdict=""))
    seconds: dict[str, list[float]] = {}
    for record in store.records():
        seconds.setdefault(record.cell.method, []).append(record.wall_s)
    medians = {method: statistics.median(values) for method, values in seconds.items()}
    analysis = decide(kept, earlier, n_seeds, analyses, seconds=medians)
    write_analyses(store, analyses, analysis)
    return analysis


def analysis_lines(analysis: InterimAnalysis) -> list[str]:
    """Return an interim analysis in lines: decided questions, open ones, and their cost."""
    from volta.bench.progress import format_seconds

    n_all = len(analysis.decided) + len(analysis.open)
    lines = [
        f"interim analysis at {analysis.n_seeds} seeds, level {analysis.alpha:.4f}: {len(analysis.decided)} of {n_all} "
        "questions decided"
    ]
    lines += [f"  decided  {one.key}: {one.verdict} (at {one.n_seeds} seeds)" for one in analysis.decided]
    for one in analysis.open:
        cost = analysis.cost_s.get(one.key)
        words = "" if cost is None else f"; the next analysis takes about {format_seconds(cost)} on one worker"
        needed = "" if one.seeds_needed is None else f"; about {one.seeds_needed} seeds should decide it"
        lines.append(f"  open     {one.key}{needed}{words}")
    if analysis.open and analysis.next_analysis is None:
        lines.append(f"the cap of {analysis.n_seeds} seeds is reached; open questions are inconclusive")
    elif analysis.open:
        lines.append(
            f"continuing to {analysis.next_analysis} seeds with {len(analysis.methods)} methods: "
            f"{', '.join(analysis.methods)}"
        )
    return lines


def run_statistics(
    store: RunStore,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    reference: str | None = None,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
) -> Statistics:
    """Return :func:`compute_statistics` of a run folder, with its interim analyses if it has any."""
    return compute_statistics(store, tables, n_resamples, reference, rows, read_analyses(store))


def _test(row: TestRow, decided: dict[str, Question], analyses: StoredAnalyses) -> TestRow:
    question, later = decided.get(comparison_key(row)), row.n > analyses.n_seeds
    turned = None if question else decided.get(comparison_key(row.turned()))
    if question is None and turned is not None:
        verdicts: dict[str, str] = dict(TURNED.items())
        question = replace(turned, verdict=verdicts.get(turned.verdict, turned.verdict))
    if question is None and later:
        note = f"no verdict: {row.n} seeds, but the last interim analysis has {analyses.n_seeds}"
        return replace(row, verdict="inconclusive", note=joined_notes(row.note, note))
    if question is None or (question.n_seeds == analyses.n_seeds and not later):
        return row
    verdict = next((known for known in get_args(PairVerdict) if known == question.verdict), row.verdict)
    level = alpha_at(question.n_seeds, analyses.schedule)
    note = f"verdict of the interim analysis at {question.n_seeds} seeds, level {level:.4f}"
    return replace(row, verdict=verdict, note=joined_notes(row.note, note))


def _claim(row: ClaimRow, decided: dict[str, Question], analyses: StoredAnalyses) -> ClaimRow:
    question, later = decided.get(f"{row.task} · {row.protocol} · {row.claim}"), row.n > analyses.n_seeds
    if question is None and later:
        note = f"No verdict: {row.n} seeds, but the last interim analysis has {analyses.n_seeds}."
        return replace(row, verdict=INCONCLUSIVE, sentence=f"{row.sentence} {note}", seeds_needed=None)
    if question is None or (question.n_seeds == analyses.n_seeds and not later):
        return row
    level = alpha_at(question.n_seeds, analyses.schedule)
    sentence = f"Decided at the interim analysis of {question.n_seeds} seeds (level {level:.4f}): {question.sentence}"
    verdict = next((known for known in get_args(Verdict) if known == question.verdict), row.verdict)
    return replace(row, verdict=verdict, sentence=sentence, n=question.n_seeds, alpha=level, seeds_needed=None)
