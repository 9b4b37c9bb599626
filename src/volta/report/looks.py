"""``looks.json``: what a run that was looked at several times has decided, and the level its tests may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import get_args

from volta.bench.store import RunStore
from volta.core.sealed import FileKind, inside, read_object, write_object
from volta.paper import UNKNOWN, ClaimRow, Verdict
from volta.report.questions import SAME, comparison_key
from volta.report.statistics import Statistics, compute_statistics
from volta.stats import LookReport, Question, Results, RowsOfCells, TestRow, alpha_at
from volta.stats.bootstrap import N_RESAMPLES
from volta.stats.pairs import PairVerdict

LOOKS = "looks.json"
LOOKS_FILE = FileKind("list of looks at a run", 1, "delete that file, or run volta bench --decide again")


@dataclass(frozen=True)
class StoredLooks:
    """The looks that were declared, how many seeds the last one had, and every question decided so far."""

    looks: tuple[int, ...]
    n_seeds: int
    decided: tuple[Question, ...]
    n_open: int

    @property
    def alpha(self) -> float:
        """The level of tests at the last look."""
        return alpha_at(self.n_seeds, self.looks)

    @property
    def sentence(self) -> str:
        """What a reader must know of the looks."""
        return (
            f"Looked at after {', '.join(map(str, self.looks))} seeds at most, last after {self.n_seeds}: tests are "
            f"made at level {self.alpha:.4f}, since 0.05 is spent over all looks. {len(self.decided)} questions are "
            f"decided, each at the look that first decided it, and {self.n_open} are open."
        )


def write_looks(store: RunStore, looks: Sequence[int], report: LookReport) -> None:
    """Keep what the looks so far have decided in the run folder."""
    decided = [asdict(question) | {"methods": list(question.methods)} for question in report.decided]
    content = {"looks": list(looks), "n_seeds": report.n_seeds, "decided": decided, "n_open": len(report.open)}
    write_object(inside(store.root, LOOKS), LOOKS_FILE, content)


def read_looks(store: RunStore) -> StoredLooks | None:
    """Return what :func:`write_looks` wrote, or None where a run was not looked at so."""
    path = inside(store.root, LOOKS)
    if not path.is_file():
        return None
    stored = read_object(path, LOOKS_FILE)
    decided = tuple(
        Question(
            one.text("key"), one.texts("methods"), one.text("verdict"), one.integer("n_seeds"),
            one.optional_integer("seeds_needed"), one.text("sentence"),
        )
        for one in stored.list_of_fields("decided")
    )  # fmt: skip
    return StoredLooks(stored.integers("looks"), stored.integer("n_seeds"), decided, stored.integer("n_open"))


def run_statistics(
    store: RunStore,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    reference: str | None = None,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
) -> Statistics:
    """Return :func:`compute_statistics` of a run folder at the level that its looks leave, if it was looked at so."""
    looks = read_looks(store)
    if looks is None:
        return compute_statistics(store, tables, n_resamples, reference, rows=rows)
    return with_looks(compute_statistics(store, tables, n_resamples, reference, looks.alpha, rows), looks)


def with_looks(stats: Statistics, looks: StoredLooks) -> Statistics:
    """Return the statistics with each verdict from the look that decided it: it was given once and stays.

    Seeds beyond the looks that were declared decide nothing: the error is spent.
    """
    decided = {question.key: question for question in looks.decided}
    return replace(
        stats,
        claims=[_claim(row, decided, looks) for row in stats.claims],
        tests=[_test(row, decided, looks) for row in stats.tests],
        pairs=[_test(row, decided, looks) for row in stats.pairs],
    )


def _test(row: TestRow, decided: dict[str, Question], looks: StoredLooks) -> TestRow:
    question, later = decided.get(comparison_key(row)), row.n > looks.n_seeds
    if question is None and later:
        note = f"no verdict: of {row.n} seeds, {looks.n_seeds} were declared to be looked at"
        return replace(row, verdict="cannot tell", note="; ".join(filter(None, (row.note, note))))
    if question is None or (question.n_seeds == looks.n_seeds and not later):
        return row
    given = "equivalent" if question.verdict == SAME else question.verdict
    verdict = next((known for known in get_args(PairVerdict) if known == given), row.verdict)
    level = alpha_at(question.n_seeds, looks.looks)
    note = f"verdict of the look at {question.n_seeds} seeds, level {level:.4f}"
    return replace(row, verdict=verdict, note="; ".join(filter(None, (row.note, note))))


def _claim(row: ClaimRow, decided: dict[str, Question], looks: StoredLooks) -> ClaimRow:
    question, later = decided.get(f"{row.task} · {row.protocol} · {row.claim}"), row.n > looks.n_seeds
    if question is None and later:
        note = f"No verdict: of {row.n} seeds, {looks.n_seeds} were declared to be looked at."
        return replace(row, verdict=UNKNOWN, sentence=f"{row.sentence} {note}", seeds_needed=None)
    if question is None or (question.n_seeds == looks.n_seeds and not later):
        return row
    level = alpha_at(question.n_seeds, looks.looks)
    sentence = f"Decided at the look of {question.n_seeds} seeds (level {level:.4f}): {question.sentence}"
    verdict = next((known for known in get_args(Verdict) if known == question.verdict), row.verdict)
    return replace(row, verdict=verdict, sentence=sentence, n=question.n_seeds, alpha=level, seeds_needed=None)
