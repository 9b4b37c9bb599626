"""What changed between two runs, on the seeds that both have: the tool for «did my change help»."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.core.suggest import unknown_name
from volta.figures.names import split_key
from volta.metrics import METRICS
from volta.metrics.floor_words import FLOOR_METRICS
from volta.report.compare_words import comparison_markdown, comparison_text
from volta.report.joined_runs import (
    A,
    B,
    joined_bootstrap,
    joined_table,
    n_identical,
    run_remarks,
    without_shared_seeds,
)
from volta.report.run import Group, load_run
from volta.stats import (
    ALPHA,
    Bootstrap,
    PairTest,
    Results,
    compare_pair,
    higher_is_better,
    holm,
    margin_of,
    rows_to_csv,
)
from volta.stats.bootstrap import N_RESAMPLES
from volta.stats.pairs import PairVerdict
from volta.stats.summary import OverSeeds

DEFAULT_METRICS = ("accuracy", "ece", "nll", "brier", "aurc", "auroc")


@dataclass(frozen=True)
class ChangeRow(OverSeeds):
    """One metric of one method in both runs, over the ``n`` seeds that both have; ``difference`` is B − A.

    ``mean_a`` and ``mean_b`` are over those seeds alone. ``low``, ``high``: the 95 % t interval of the difference,
    paired over seeds; ``boot_low``, ``boot_high`` the hierarchical bootstrap's over seeds and test rows. ``p`` is
    two-sided, ``p_holm`` corrected over all rows that are not identical; ``p_equivalence``: two one-sided tests with
    ``margin``, corrected likewise. ``verdict`` is about B. ``seeds_identical`` seeds gave the same predictions to the
    last bit. ``floor``, ``floor_low``, ``floor_high``, beside ECE alone: what a perfectly calibrated predictor with B's
    confidences would show, mean and 95 %.
    """

    mean_a: float
    mean_b: float
    difference: float
    low: float | None
    high: float | None
    boot_low: float | None
    boot_high: float | None
    p: float | None
    p_holm: float | None
    margin: float | None
    p_equivalence: float | None
    verdict: PairVerdict
    seeds_identical: int
    note: str
    floor: float | None
    floor_low: float | None
    floor_high: float | None

    @property
    def identical(self) -> bool:
        """Whether both runs hold the same predictions of the shared seeds."""
        return self.n == self.seeds_identical


@dataclass(frozen=True)
class RunComparison:
    """The rows of a comparison, the cells that only one run has, and what else differs between the runs."""

    rows: tuple[ChangeRow, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def changed(self) -> tuple[ChangeRow, ...]:
        """Rows whose mean over the shared seeds is not the same in both runs."""
        return tuple(row for row in self.rows if row.difference != 0)

    def to_csv(self) -> str:
        """Return every row as CSV."""
        return rows_to_csv(ChangeRow, self.rows)

    def to_text(self, titles: tuple[str, str] = ("A", "B")) -> str:
        """Return the comparison for a terminal: remarks, a line per changed metric, and a verdict in a sentence."""
        return comparison_text(self, titles)

    def to_markdown(self, titles: tuple[str, str] = ("A", "B")) -> str:
        """Return the same as Markdown."""
        return comparison_markdown(self, titles)


def compare_runs(
    store_a: RunStore,
    store_b: RunStore,
    metrics: Sequence[str] = DEFAULT_METRICS,
    n_resamples: int = N_RESAMPLES,
    say: Callable[[str], object] | None = None,
) -> RunComparison:
    """Compare two run folders on every (task, protocol, method) both have, seed by seed; B is the changed one.

    Seeds that only one run has take no part: a mean over other seeds would be another question.

    metrics: names, on the test rows or on every OOD set that both have; or ``metric@set``, such as ``ece@test+T``.
    n_resamples: 0 leaves the rows unresampled, and the tests are then about new seeds alone.
    say: hears of metrics that were computed again.
    """
    for key in metrics:
        metric = split_key(key)[0]
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        higher_is_better(metric)
    run_a, run_b = load_run(store_a, say), load_run(store_b, say)
    groups_b = {(group.task, group.protocol): group for group in run_b.groups}
    rows: list[ChangeRow] = []
    remarks = list(run_remarks(run_a, run_b))
    for a in run_a.groups:
        b = groups_b.get((a.task, a.protocol))
        table = None if b is None else joined_table(a, b)
        if b is None or table is None:
            continue
        remarks += without_shared_seeds(a, b)
        source = joined_bootstrap(run_a, run_b, table, n_resamples)
        rows += [
            _row(table, method, metric, where, source, n_identical(a, b, method))
            for method in a.methods
            if B + method in table.methods
            for metric, where in _wanted(metrics, table, method)
        ]
    cells_a, cells_b = (
        {_cell_name(group, key) for group in run.groups for key in group.records} for run in (run_a, run_b)
    )
    return RunComparison(
        tuple(_corrected(rows)), tuple(sorted(cells_a - cells_b)), tuple(sorted(cells_b - cells_a)), tuple(remarks)
    )


def _wanted(metrics: Sequence[str], table: Results, method: str) -> Iterable[tuple[str, str]]:
    for key in metrics:
        metric, where = split_key(key)
        everywhere = METRICS[metric].on_ood_sets and "@" not in key
        for name in table.near_sets if everywhere else (where,):
            if table.of(A + method, name, metric) and table.of(B + method, name, metric):
                yield metric, name


def _row(
    table: Results, method: str, metric: str, where: str, source: Bootstrap | str, identical: int
) -> ChangeRow:  # fmt: skip
    test = compare_pair(table, B + method, A + method, metric, where, source)
    mean_a, mean_b = (table.sample(side + method, where, metric) for side in (A, B))
    if mean_a is None or mean_b is None or test.difference is None:
        raise InputError(f"{method} has no {metric} on {where} in one of the runs")
    low, high = _interval(test)
    return ChangeRow(
        table.task, table.protocol, method, where, metric, test.n, mean_a.mean, mean_b.mean, test.difference, low, high,
        test.boot_low, test.boot_high, test.p, test.p, margin_of(metric), test.p_equivalent,
        "cannot tell", identical, test.note, *_floor(table, B + method, metric, where),
    )  # fmt: skip


def _floor(table: Results, method: str, metric: str, where: str) -> tuple[float | None, float | None, float | None]:
    found = [table.sample(method, where, name) for name in FLOOR_METRICS] if metric == "ece" else [None] * 3
    mean, low, high = (None if sample is None else sample.mean for sample in found)
    return mean, low, high


def _interval(test: PairTest) -> tuple[float | None, float | None]:
    if test.gain is None or test.difference is None:
        return None, None
    low, high = test.gain.interval(ALPHA)
    half = (high - low) / 2
    return test.difference - half, test.difference + half


def _corrected(rows: Sequence[ChangeRow]) -> list[ChangeRow]:
    # Predictions equal to the last bit test nothing; counting them would only weaken the tests that are left.
    differing = [row for row in rows if not row.identical]
    p_holm = dict(zip(map(id, differing), holm([row.p for row in differing]), strict=True))
    p_same = dict(zip(map(id, differing), holm([row.p_equivalence for row in differing]), strict=True))
    found = [
        replace(row, p_holm=p_holm.get(id(row), row.p), p_equivalence=p_same.get(id(row), row.p_equivalence))
        for row in rows
    ]
    return [replace(row, verdict=_verdict(row)) for row in found]


def _verdict(row: ChangeRow) -> PairVerdict:
    if row.p_equivalence is not None and row.p_equivalence < ALPHA:
        return "equivalent"
    if row.p_holm is None or row.p_holm >= ALPHA:
        return "cannot tell"
    return "better" if (row.difference > 0) == higher_is_better(row.metric) else "worse"


def _cell_name(group: Group, key: tuple[str, int]) -> str:
    return f"{group.task} · {group.protocol} · {key[0]} · seed {key[1]}"
