"""Comparison of two runs by paired tests on their common seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from volta.bench.records import EXTERNAL, Cell
from volta.bench.store import RunStore
from volta.core.errors import InputError, StoreError, unknown_name
from volta.figures.style import full_name, metric_key, split_key
from volta.metrics import METRICS
from volta.metrics.expected_ece import EXPECTED_ECE_METRICS, show_expected_ece
from volta.report.formats import markdown_table
from volta.report.run import Group, Run, budget_words, load_run
from volta.report.table_model import Column, Row, Table, TableCell, show_number, show_p
from volta.stats.bootstrap import N_RESAMPLES, Bootstrap, cell_scores, paired_bootstrap, with_averages
from volta.stats.comparisons import PairTest, PairVerdict, compare_pair, verdict_on
from volta.stats.results import OverSeeds, Results, rows_to_csv
from volta.stats.tests import ALPHA, higher_is_better, holm, margin_of
from volta.stats.weighted import RowScores

A, B = "a:", "b:"
"""What the names of a run's methods begin with in the joined table."""


def joined_table(a: Group, b: Group) -> Results:
    """Return both groups' values of the seeds they share as one table, methods named a:METHOD and b:METHOD."""
    values: dict[str, dict[str, dict[str, dict[int, float]]]] = {}
    cells: dict[tuple[str, int], Cell] = {}
    origins, titles = {}, {}
    for method in a.methods:
        shared = _shared(a, b, method)
        external = a.origin(method) == b.origin(method) == EXTERNAL
        for name, table in ((A + method, a.table), (B + method, b.table)) if shared else ():
            values[name] = {
                where: {metric: {s: v for s, v in by.items() if s in shared} for metric, by in found.items()}
                for where, found in table.values[method].items()
            }
            cells |= {(name, seed): table.cells[method, seed] for seed in shared}
            origins[name], titles[name] = EXTERNAL if external else "extra", method
    near = tuple(name for name in a.near_first if name in b.near_first)
    return Results(a.task, a.protocol, values, titles, origins, near, cells)


def joined_bootstrap(store_a: RunStore, store_b: RunStore, table: Results, n_resamples: int) -> Bootstrap | str:
    """Return the bootstrap of both runs' stored predictions, or why there is none."""
    if not n_resamples:
        return "rows not resampled: no bootstrap was asked for"
    stores = {A: store_a, B: store_b}
    models: dict[str, dict[int, RowScores]] = {}
    rows_of: dict[int, bytes] = {}
    for (name, seed), cell in table.cells.items():
        try:
            arrays = stores[name[: len(A)]].read_arrays(cell)
        except StoreError:
            continue
        labels = np.asarray(arrays["test/labels"], dtype=np.int64).tobytes()
        if rows_of.setdefault(seed, labels) != labels:
            return "not resampled: the runs were scored on different test samples"
        models.setdefault(name, {})[seed] = cell_scores(arrays, table.ood_sets)
    whole = {name: found for name, found in models.items() if len(found) == len(table.seeds(name))}
    if not whole:
        return "rows not resampled: no predictions"
    return with_averages(paired_bootstrap(whole, n_resamples, rows_of=rows_of), table)


def n_identical(a: Group, b: Group, method: str) -> int:
    """Return how many shared seeds of a method have the same predictions to the last bit."""
    pairs = [(a.records[method, seed], b.records[method, seed]) for seed in _shared(a, b, method)]
    return sum(one.predictions == other.predictions for one, other in pairs)


def without_shared_seeds(a: Group, b: Group) -> Iterable[str]:
    """Give the methods that both runs have but with no seed in common, in words."""
    for method in a.methods:
        if method in b.methods and not _shared(a, b, method):
            mine, theirs = (", ".join(str(s) for name, s in sorted(g.records) if name == method) for g in (a, b))
            yield f"{a.task}, {a.protocol}, {method}: no seed in common ({mine} in A, {theirs} in B), not compared"


def run_remarks(a: Run, b: Run) -> Iterable[str]:
    """Give what differs between two runs besides their results: budget, device, code, machine, data."""
    first, second = a.manifest, b.manifest
    pairs: list[tuple[str, object, object]] = []
    if first.config and second.config:
        pairs += [
            ("budgets differ", budget_words(first.config.budget), budget_words(second.config.budget)),
            ("devices differ", first.config.device, second.config.device),
            ("numbers of threads differ", first.config.threads, second.config.threads),
        ]
    pairs += [
        ("instruction sets differ", first.environment.instruction_set, second.environment.instruction_set),
        ("volta differs", first.environment.volta, second.environment.volta),
        ("commit differs", first.environment.commit, second.environment.commit),
    ]
    for words, left, right in pairs:
        if left != right:
            yield f"{words}: {left or 'not recorded'} in A, {right or 'not recorded'} in B"
    data = [{(g.task, g.protocol): g.first_record.data for g in run.groups if g.first_record} for run in (a, b)]
    for key in data[0]:
        if key in data[1]:
            other = [name for name in data[0][key] if name in data[1][key] and data[0][key][name] != data[1][key][name]]
            if other:
                yield f"{key[0]}, {key[1]}: the data differ ({', '.join(other)})"


def _shared(a: Group, b: Group, method: str) -> list[int]:
    return sorted(seed for name, seed in a.records if name == method and (method, seed) in b.records)


MAX_LISTED = 10
COLUMNS = ("task", "protocol", "method", "metric", "seeds", "A", "B", "B − A", "p", "Holm", "verdict")


def summary(comparison: RunComparison) -> str:
    """Return one sentence: how many values moved, how many beyond chance and which way."""
    n_rows, changed = len(comparison.rows), comparison.changed
    if not n_rows:
        return "The runs share no task, protocol, method and seed; there is nothing to compare."
    if not changed:
        return f"All {n_rows} compared values are the same in both runs."
    count = {word: sum(row.verdict == word for row in changed) for word in ("better", "worse", "equivalent")}
    left = len(changed) - sum(count.values())
    return (
        f"{len(changed)} of {n_rows} compared values differ. In B, Holm-corrected: {count['better']} better, "
        f"{count['worse']} worse, {count['equivalent']} equivalent, {left} inconclusive."
    )


def verdict_words(row: ChangeRow) -> str:
    """Return the verdict on B compared with A, with its interval."""
    if row.identical:
        return "the same predictions"
    interval = f" ([{signed(row.low)}, {signed(row.high)}])" if row.low is not None and row.high is not None else ""
    if row.verdict == "inconclusive":
        return f"inconclusive{interval}, uncorrected" if interval else "inconclusive: one seed, no test"
    return f"{row.verdict}{interval}"


def signed(value: float) -> str:
    """Return a difference with its sign: four decimals, or three digits where those would show 0."""
    if value == 0 or abs(value) >= 5e-5:
        return f"{value:+.4f}"
    return f"{'+' if value > 0 else ''}{show_number(value)}"


def _fields(row: ChangeRow) -> tuple[str, ...]:
    expected = ""
    if row.expected_ece is not None and row.expected_ece_low is not None and row.expected_ece_high is not None:
        expected = f" ({show_expected_ece(row.expected_ece, row.expected_ece_low, row.expected_ece_high)})"
    return (
        row.task, row.protocol, row.method, full_name(metric_key(row.metric, row.set)), str(row.n),
        f"{row.mean_a:.4f}", f"{row.mean_b:.4f}{expected}", signed(row.difference),
        show_p(row.p), show_p(row.p_holm), verdict_words(row),
    )  # fmt: skip


def _notes(comparison: RunComparison, titles: tuple[str, str]) -> list[str]:
    lines = [f"note: {remark}" for remark in comparison.remarks]
    for name, cells in zip(titles, (comparison.only_a, comparison.only_b), strict=True):
        lines += [f"only in {name}: {cell}" for cell in cells[:MAX_LISTED]]
        lines += [f"only in {name}: {len(cells) - MAX_LISTED} cells more"] if len(cells) > MAX_LISTED else []
    return lines


def _aligned(table: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  ".join(part.ljust(width) for part, width in zip(line, widths, strict=True)).rstrip() for line in table]


DEFAULT_METRICS = ("accuracy", "ece", "nll", "brier", "aurc", "auroc")


@dataclass(frozen=True)
class ChangeRow(OverSeeds):
    """One metric of one method in both runs, over the ``n`` seeds that both have; ``difference`` is B − A.

    ``mean_a`` and ``mean_b`` are over those seeds alone. ``low``, ``high``: the 95 % t interval of the difference,
    paired over seeds; ``boot_low``, ``boot_high`` the hierarchical bootstrap's over seeds and test rows. ``p`` is
    two-sided, ``p_holm`` corrected over all rows that are not identical; ``p_equivalence``: two one-sided tests with
    ``margin``, corrected likewise. ``verdict`` is about B. ``seeds_identical`` seeds gave the same predictions to the
    last bit. ``expected_ece`` with its 95 % range, for ECE alone: under perfect calibration, at B's confidences.
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
    expected_ece: float | None
    expected_ece_low: float | None
    expected_ece_high: float | None

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
        lines = _notes(self, titles)
        if self.changed:
            lines += ["", f"A: {titles[0]}", f"B: {titles[1]}", "", *_aligned([COLUMNS, *map(_fields, self.changed)])]
        return "\n".join([*lines, "", summary(self)]).strip() + "\n"

    def to_markdown(self, titles: tuple[str, str] = ("A", "B")) -> str:
        """Return the same as Markdown."""
        columns = tuple(Column(name, name, numeric=name in COLUMNS[4:10]) for name in COLUMNS)
        rows = tuple(Row(row.method, tuple(TableCell(text) for text in _fields(row))) for row in self.changed)
        parts = [f"# {titles[1]} (B) against {titles[0]} (A)"]
        if notes := _notes(self, titles):
            parts.append("\n".join(f"- {note}" for note in notes))
        if rows:
            parts.append(markdown_table(Table("changes", "What changed", columns, rows)))
        return "\n\n".join([*parts, summary(self)]) + "\n"


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
    tests: list[tuple[Results, str, int, PairTest]] = []
    remarks = list(run_remarks(run_a, run_b))
    for a in run_a.groups:
        b = groups_b.get((a.task, a.protocol))
        if b is None:
            continue
        table = joined_table(a, b)
        remarks += without_shared_seeds(a, b)
        source = joined_bootstrap(store_a, store_b, table, n_resamples)
        for method in a.methods:
            n_same = n_identical(a, b, method)
            for metric, where in _wanted(metrics, table, method):
                test = compare_pair(table, B + method, A + method, metric, where, source)
                tests.append((table, method, n_same, test))
    cells_a, cells_b = (
        {
            f"{group.task} · {group.protocol} · {method} · seed {seed}"
            for group in run.groups
            for method, seed in group.records
        }
        for run in (run_a, run_b)
    )
    only_a, only_b = tuple(sorted(cells_a - cells_b)), tuple(sorted(cells_b - cells_a))
    return RunComparison(tuple(_rows(tests)), only_a, only_b, tuple(remarks))


def _wanted(metrics: Sequence[str], table: Results, method: str) -> Iterable[tuple[str, str]]:
    for key in metrics:
        metric, where = split_key(key)
        everywhere = METRICS[metric].on_ood_sets and "@" not in key
        for name in table.near_sets if everywhere else (where,):
            if table.of(A + method, name, metric) and table.of(B + method, name, metric):
                yield metric, name


def _rows(tests: Sequence[tuple[Results, str, int, PairTest]]) -> Iterator[ChangeRow]:
    """Give the row of each test, of (table, method, seeds with identical predictions, test)."""
    # Predictions equal to the last bit test nothing; counting them would only weaken the tests that are left.
    differing = [test for _, _, n_same, test in tests if test.n != n_same]
    p_holm = dict(zip(map(id, differing), holm([test.p for test in differing]), strict=True))
    p_same = dict(zip(map(id, differing), holm([test.p_equivalent for test in differing]), strict=True))
    for table, method, n_same, test in tests:
        if test.first_sample is None or test.second_sample is None or test.difference is None:
            raise InputError(f"{method} has no {test.metric} on {test.set} in one of the runs")
        ends: tuple[float | None, float | None] = None, None
        if test.gain is not None:
            low, high = test.gain.interval(ALPHA)
            ends = test.difference - (high - low) / 2, test.difference + (high - low) / 2
        p, p_equivalent = p_holm.get(id(test), test.p), p_same.get(id(test), test.p_equivalent)
        expected = [
            table.sample(B + method, test.set, name) if test.metric == "ece" else None for name in EXPECTED_ECE_METRICS
        ]
        yield ChangeRow(
            table.task, table.protocol, method, test.set, test.metric, test.n, test.second_sample.mean,
            test.first_sample.mean, test.difference, *ends, test.boot_low, test.boot_high, test.p, p,
            margin_of(test.metric), p_equivalent, verdict_on(test, p, p_equivalent), n_same, test.note,
            *(None if sample is None else sample.mean for sample in expected),
        )  # fmt: skip
