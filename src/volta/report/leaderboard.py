"""Leaderboards: of a group on the page and in the terminal, and one over many runs.

Methods stand by mean rank, with the confidence set of the best on each metric.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from volta.bench.cell_metrics import TEST, metrics_of
from volta.bench.records import COST_METRICS, EXTERNAL, Cell, CellRecord
from volta.bench.store import RunStore
from volta.core.errors import StoreError
from volta.core.files import write_text
from volta.core.types import Array
from volta.figures.style import full_name, metric_key, set_label, split_key
from volta.metrics import METRICS
from volta.networks.recipe import Budget
from volta.report.result_tables import (
    METHOD,
    NETWORK_LEGEND,
    column_decimals,
    method_row,
    metric_column,
    table_heading,
    value_entry,
)
from volta.report.run import Group, budget_limits, budget_words
from volta.report.table_model import (
    MISSING,
    Column,
    Spark,
    Table,
    TableCell,
    decimals_for,
    number_cell,
    render,
    show,
    show_p,
)
from volta.stats.bootstrap import N_RESAMPLES, bootstrap_table
from volta.stats.comparisons import without_rows
from volta.stats.ranking import OVERALL, LeaderboardRow, make_leaderboard, ranked_sets
from volta.stats.results import Results, group_records, rows_to_csv
from volta.stats.tests import ALPHA

FIRST = ("accuracy", "ece", "nll", "aurc", "auroc")
"""The ranked metrics as they stand in the table."""
COSTS = ("train_s", "latency_ms")
FENCE = 4.0
"""How many interquartile ranges beyond the quartiles a small bar reaches."""


def leaderboard_table(group: Group, rows: Sequence[LeaderboardRow], alpha: float) -> Table:
    """Return rank and mean rank of each method, its value on each ranked metric, and its cost, in order of rank.

    Bold values are in the confidence set of the best. rows: the group's rows of `leaderboard.csv`; alpha: the level of
    the sets.
    """
    overall = {row.method: row for row in rows if row.metric == OVERALL}
    by_key = {(row.method, metric_key(row.metric, row.set)): row for row in rows if row.metric != OVERALL}
    keys = list(dict.fromkeys(key for _, key in by_key))
    ranked = sorted(keys, key=lambda key: FIRST.index(split_key(key)[0]))
    costs = [key for key in COSTS if any(group.values(method, key) for method in overall)]
    columns = (
        METHOD,
        Column("rank", "Rank", help="by mean rank"),
        Column("mean_rank", "Mean rank", "↓", help=f"over {', '.join(map(full_name, keys))}"),
        *map(metric_column, (*ranked, *costs)),
    )
    cells = {method: [number_cell(row.rank, "g", row.note), _mean_rank(row)] for method, row in overall.items()}
    for key in (*ranked, *costs):
        decimals = column_decimals(group, list(overall), key)
        found = {method: by_key.get((method, key)) for method in overall}
        for method, spark in sparks_of(found, key).items():
            cells[method].append(
                replace(value_entry(group, method, key, decimals), std_text="")
                if key in costs
                else replace(_value(group, found[method], key, decimals), spark=spark)
            )
    body = [method_row(group, method, cells[method]) for method in overall]
    legend, page_legend = _legends(group, rows, keys, alpha)
    return Table(
        f"leaderboard-{group.key}", "Leaderboard", columns, body, legend,
        page_legend=page_legend, compact=len(columns), is_about_methods=True,
    )  # fmt: skip


def _mean_rank(row: LeaderboardRow) -> TableCell:
    if row.mean is None:
        return MISSING
    interval = "" if row.low is None or row.high is None else f" ({row.low:.1f}–{row.high:.1f})"
    return TableCell(f"{row.mean:.1f}{interval}", row.mean, tip=row.note)


def sparks_of(found: Mapping[str, LeaderboardRow | None], key: str) -> dict[str, Spark | None]:
    """Return where each method's mean and interval stand between the worst (0) and the best end (1) of a column."""
    known = [row for row in found.values() if row is not None and row.mean is not None]
    means = sorted({row.mean for row in known if row.mean is not None})
    first, last = (means[int(share * (len(means) - 1))] for share in (0.25, 0.75)) if means else (0.0, 0.0)
    # Beyond this a method is an outlier, which would push all others to one end.
    reach = FENCE * (last - first) or math.inf
    left_end, right_end = first - reach, last + reach
    ends = [end for row in known for end in (row.mean, row.low, row.high) if end is not None]
    ends = [min(max(end, left_end), right_end) for end in ends]
    spread = max(ends, default=0.0) - min(ends, default=0.0)
    up = METRICS[split_key(key)[0]].higher_is_better is not False
    sparks: dict[str, Spark | None] = {}
    for method, row in found.items():
        if row is None or row.mean is None or not spread:
            sparks[method] = None
            continue
        low, high = (row.mean if end is None else end for end in (row.low, row.high))
        at, left, right = (min(max((end - min(ends)) / spread, 0.0), 1.0) for end in (row.mean, low, high))
        clipped = not left_end <= row.mean <= right_end
        sparks[method] = Spark(at, left, right, clipped) if up else Spark(1 - at, 1 - right, 1 - left, clipped)
    return sparks


def _legends(group: Group, rows: Sequence[LeaderboardRow], keys: Sequence[str], alpha: float) -> tuple[str, str]:
    """Return what the marks mean, and what the page adds to that."""
    words = f"Rank: by the mean of the ranks over {', '.join(map(full_name, keys))}, in brackets its 95 % interval."
    together = NETWORK_LEGEND if group.networks else ""
    if all(row.in_confidence_set is None for row in rows):
        return f"{words} One seed gives no confidence set of the best.", together
    over = "seeds and test samples"
    if max(row.n for row in rows) == 1:
        over = "test samples, for these models as they are"
    words += (
        f" Bold: in the {100 * (1 - alpha):.3g} % confidence set of the best. Methods with equal values in every seed "
        "count once."
    )
    return (
        words,
        f" Small bars: mean and 95 % interval over {over}, right is better, an arrow marks an outlier.{together}",
    )


def _value(group: Group, row: LeaderboardRow | None, key: str, decimals: int) -> TableCell:
    if row is None or row.mean is None:
        return MISSING
    cell = value_entry(group, row.method, key, decimals)
    parts = [cell.tip]
    if row.low is not None and row.high is not None:
        ends = (show(row.metric, end, decimals) for end in (row.low, row.high))
        parts.append(f"95 %: {' to '.join(ends)}")
    if row.rank is not None:
        parts.append(f"rank {row.rank:g} of {row.n_ranked}")
    if row.p_best is not None:
        p = show_p(row.p_best)
        parts.append(f"another method is better: p (Holm) {p if p.startswith('<') else f'= {p}'}")
    if row.same_as:
        parts.append(f"the same as {row.same_as}")
    return replace(cell, best=bool(row.in_confidence_set), tip="\n".join(parts))


MARK = "*"


@dataclass(frozen=True)
class Standings:
    """A group's methods by rank, as text; ``legend`` explains the mark and the last column."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str


def standings(table: Results, rows: Sequence[LeaderboardRow], budget: Budget | None = None) -> Standings:
    """Return the standings of one task and protocol from its rows of the leaderboard; ``budget``: the run's."""
    own = [row for row in rows if (row.task, row.protocol) == (table.task, table.protocol)]
    keys = ranked_sets(table)
    values = {(row.method, row.metric, row.set): row for row in own}
    headings, decimals = [], []
    for metric, where in keys:
        key = metric_key(metric, where)
        short = {"after one temperature": "+T", "near OOD": "near", "far OOD": "far"}
        about = short.get(set_label(key), set_label(key))
        headings.append(f"{table_heading(key)} {about}".strip() + f" {METRICS[metric].direction}")
        means = [row.mean for row in own if (row.metric, row.set) == (metric, where) and row.mean is not None]
        decimals.append(decimals_for(metric, means))
    body = []
    for overall in (row for row in own if row.metric == OVERALL):
        found = [values.get((overall.method, metric, where)) for metric, where in keys]
        n_best = sum(row is not None and bool(row.in_confidence_set) for row in found)
        cells = [
            "–"
            if row is None or row.mean is None
            else show(row.metric, row.mean, digits) + (MARK if row.in_confidence_set else "")
            for row, digits in zip(found, decimals, strict=True)
        ]
        tested = any(row is not None and row.in_confidence_set is not None for row in found)
        rank = "–" if overall.rank is None else f"{overall.rank:g}"
        body.append((rank, table.titles[overall.method], *cells, f"{n_best} of {len(keys)}" if tested else "–"))
    seeds = max((len(table.seeds(method)) for method in table.methods), default=0)
    return Standings(
        title=f"{table.task} · {table.protocol} · mean of {seeds} seed{'s' if seeds != 1 else ''}"
        + (f" · {budget_words(budget)}" if budget is not None and budget_limits(budget) else ""),
        columns=("rank", "method", *headings, "best on"),
        rows=tuple(body),
        legend=f"{MARK} in the confidence set of the best; best on: number of such metrics. Rank: by mean rank."
        if any(MARK in cell for row in body for cell in row)
        else "Rank: by mean rank. The confidence set of the best needs several seeds and a report.",
    )


TOLERANCE = 1e-9
"""A stored value further than this from the one computed again does not follow from the predictions."""


@dataclass(frozen=True)
class JointLeaderboard:
    """The groups with their ranks; how many cells were computed again; which of them did not agree.

    A group is one task and protocol on one set of test rows: the methods of all runs that share them.
    """

    groups: Sequence[tuple[Group, Sequence[LeaderboardRow]]]
    n_checked: int
    problems: Sequence[str]


@dataclass(frozen=True)
class _CheckedCell:
    """A finished cell of a run, its metrics computed again."""

    run: str
    store: RunStore
    record: CellRecord


def joint_leaderboard(
    runs: Sequence[Path], n_resamples: int = N_RESAMPLES, say: Callable[[str], object] | None = None
) -> JointLeaderboard:
    """Return one leaderboard over run folders; nothing in them is changed and nothing is trained.

    Runs that share task, protocol and test samples share a table. A method of several runs is named with its run.
    Problems: cells that do not match their checksums, which are left out, and cells whose stored metrics do not follow
    from their stored predictions.
    """
    found: list[_CheckedCell] = []
    problems: list[str] = []
    for run, path in zip(_run_names(runs), runs, strict=True):
        own, bad = _checked_cells(run, RunStore(path))
        found += own
        problems += bad
        if say is not None:
            say(f"{run}: metrics of {len(own)} cells computed again from their predictions, {len(bad)} do not agree")
    return JointLeaderboard([_joint_group(part, n_resamples) for part in _by_test_rows(found)], len(found), problems)


def _checked_cells(run: str, store: RunStore) -> tuple[list[_CheckedCell], list[str]]:
    found, problems = [], []
    for cell in store.cells():
        if not store.is_done(cell):
            continue
        if not store.is_intact(cell):
            problems.append(f"{run}: {cell.label} does not match its checksum and is left out")
            continue
        record = store.read_record(cell)
        metrics, floored = metrics_of(store.read_arrays(cell), [one.name for one in record.near_ood])
        metrics[TEST] |= {name: value for name, value in record.test.items() if name in COST_METRICS}
        again = replace(record, metrics=metrics, floored_rows=floored)
        if difference := _difference(record, again):
            problems.append(f"{run}: {cell.label}: {difference}")
        found.append(_CheckedCell(run, store, again))
    return found, problems


def _difference(stored: CellRecord, again: CellRecord) -> str:
    """Return the first value that does not follow from the predictions, in words; empty where all do."""
    for eval_set, values in stored.metrics.items():
        for name, value in values.items():
            other = again.metrics.get(eval_set, {}).get(name)
            if other is not None and abs(other - value) > TOLERANCE * max(1.0, abs(value)):
                return f"{name} on {eval_set} is stored as {value:.6g}, its predictions give {other:.6g}"
    return ""


def _by_test_rows(found: Sequence[_CheckedCell]) -> list[list[_CheckedCell]]:
    """Return the cells that can be compared, run by run: same task, protocol and, in each seed, test rows."""
    by_run: dict[tuple[str, str, str], list[_CheckedCell]] = {}
    for one in found:
        by_run.setdefault((one.record.cell.task, one.record.cell.protocol, one.run), []).append(one)
    groups: list[tuple[tuple[str, str], dict[int, str], list[_CheckedCell]]] = []
    for (task, protocol, _), own in by_run.items():
        # External predictions hash labels alone; a benchmark's hash of a seed's samples takes precedence.
        benchmarked_last = sorted(own, key=lambda one: one.record.origin != EXTERNAL)
        rows = {one.record.cell.seed: one.record.data["test"] for one in benchmarked_last}
        for key, known, members in groups:
            shared = set(known) & set(rows)
            agree = all(known[seed] == rows[seed] for seed in shared) and set(known.values()) & set(rows.values())
            if key == (task, protocol) and agree:
                known.update(rows)
                members.extend(own)
                break
        else:
            groups.append(((task, protocol), rows, list(own)))
    return [members for _, _, members in groups]


def _joint_group(found: Sequence[_CheckedCell], n_resamples: int) -> tuple[Group, list[LeaderboardRow]]:
    n_runs = Counter(method for _, method in {(one.run, one.record.cell.method) for one in found})
    places: dict[tuple[str, int], tuple[RunStore, Cell]] = {}
    records = []
    for one in found:
        cell, mark = one.record.cell, f" [{one.run}]" if n_runs[one.record.cell.method] > 1 else ""
        named = replace(cell, method=cell.method + mark)
        places[named.method, cell.seed] = one.store, cell
        records.append(replace(one.record, cell=named, title=one.record.title + mark))
    (table,) = group_records(records)

    def read(method: str, seed: int) -> dict[str, Array]:
        store, cell = places[method, seed]
        return store.read_arrays(cell)

    bootstraps = without_rows([table])
    if n_resamples:
        bootstraps = {(table.task, table.protocol): bootstrap_table(table, read, n_resamples)}
    by_cell = {(record.cell.method, record.cell.seed): record for record in records}
    group = Group(table.task, table.protocol, table, by_cell, tuple(record.cell for record in records), (), {})
    return group, make_leaderboard([table], bootstraps, ALPHA)


def _run_names(runs: Sequence[Path]) -> list[str]:
    """Return the folders' names, with so much of their paths that no two are alike."""
    whole = [path.resolve().parts for path in runs]
    if len(set(whole)) < len(whole):
        raise StoreError("a run folder is named twice; name each once")
    depth = 1
    while len({parts[-depth:] for parts in whole}) < len(whole):
        depth += 1
    return ["/".join(parts[-depth:]) for parts in whole]


PAGE = "leaderboard.html"
CSV = "leaderboard.csv"


def write_joint_leaderboard(found: JointLeaderboard, folder: Path) -> tuple[Path, Path]:
    """Write page and CSV into ``folder``; return their paths."""
    rows = [row for _, own in found.groups for row in own]
    write_text(folder / CSV, rows_to_csv(LeaderboardRow, rows))
    tables = [(_title(group), leaderboard_table(group, own, ALPHA)) for group, own in found.groups]
    page = render("joint.html", ("base.js", "tables.js", "joint.js"), tables=tables, found=found)
    write_text(folder / PAGE, page)
    return folder / PAGE, folder / CSV


def _title(group: Group) -> str:
    context, records = group.context, group.records
    counts = sorted(Counter(method for method, _ in records).values())
    seeds = f"{counts[0]}" if counts[0] == counts[-1] else f"{counts[0]}–{counts[-1]}"
    budgets = dict.fromkeys(budget_words(record.budget) for record in records.values())
    budget = next(iter(budgets)) if len(budgets) == 1 else f"budgets differ ({'; '.join(budgets)})"
    words = f"{seeds} seed{'' if seeds == '1' else 's'}"
    return f"{context.task} · {context.protocol} · {context.n_rows:,} test samples · {words} · {budget}"
