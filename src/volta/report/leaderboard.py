"""The leaderboard of a group: methods by mean rank, with the confidence set of the best on each metric."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from volta.figures.style import full_name, heading, is_shared, metric_key, set_label, split_key
from volta.metrics import METRICS
from volta.report.result_tables import NETWORK_LEGEND, arrow, column_decimals, value_entry
from volta.report.run import Group
from volta.report.table_model import MISSING, Column, Row, Spark, Table, TableCell, show, show_p
from volta.stats import LeaderboardRow
from volta.stats.ranking import OVERALL

FIRST = ("accuracy", "ece", "aurc", "auroc")
"""The ranked metrics that stand before the costs; the others follow behind them."""
COSTS = ("train_s", "latency_ms")


def leaderboard_table(group: Group, rows: Sequence[LeaderboardRow], alpha: float) -> Table:
    """Return rank and mean rank of each method, its cost, and its value on each ranked metric.

    Bold values are in the confidence set of the best. rows: the group's rows of `leaderboard.csv`; alpha: the level of
    the sets. Methods on one network stand together, at the rank of the best of them.
    """
    overall = {row.method: row for row in rows if row.metric == OVERALL}
    methods = group.network_by_network(list(overall))
    by_key = {(row.method, metric_key(row.metric, row.set)): row for row in rows if row.metric != OVERALL}
    keys = list(dict.fromkeys(key for _, key in by_key))
    first = list({split_key(key)[0]: key for key in reversed(keys) if split_key(key)[0] in FIRST}.values())
    before = sorted(first, key=lambda key: FIRST.index(split_key(key)[0]))
    behind = [key for key in keys if key not in before]
    costs = [key for key in COSTS if any(group.values(method, key) for method in methods)]
    columns = (
        Column("method", "Method", numeric=False),
        Column("rank", "Rank", help="by mean rank"),
        *(_column(key) for key in (*before, *costs, *behind)),
        Column("mean_rank", "Mean rank", "↓", help=f"over {', '.join(map(full_name, keys))}"),
    )
    cells: dict[str, list[TableCell]] = {method: [] for method in methods}
    for key in (*before, *costs, *behind):
        decimals = column_decimals(group, methods, key)
        found = {method: by_key.get((method, key)) for method in methods}
        for method, cell in sparks_of(found, key).items():
            cells[method].append(
                value_entry(group, method, key, decimals)
                if key in costs
                else replace(_value(group, found[method], key, decimals), spark=cell)
            )
    body = tuple(
        Row(
            method,
            (
                TableCell(group.title(method), group.title(method), tip=method),
                _number(overall[method].rank, "g", overall[method].note),
                *cells[method],
                _number(overall[method].mean, ".2f", overall[method].note),
            ),
            group.origin(method),
            group.is_ours(method),
            network=group.network_of(method),
        )
        for method in methods
    )
    legend, page_legend = _legends(group, rows, keys, alpha)
    return Table(f"leaderboard-{group.key}", "Leaderboard", columns, body, legend, page_legend=page_legend)


def by_rank(table: Table) -> Table:
    """Return the leaderboard by rank, for formats where methods of one network need not stand together."""
    at = next(number for number, column in enumerate(table.columns) if column.key == "rank")

    def rank(row: Row) -> float:
        value = row.cells[at].value
        return float(value) if isinstance(value, float) else math.inf

    return replace(table, rows=tuple(sorted(table.rows, key=rank)))


def sparks_of(found: Mapping[str, LeaderboardRow | None], key: str) -> dict[str, Spark | None]:
    """Return where each method's mean and interval stand between the worst (0) and the best end (1) of a column."""
    known = [row for row in found.values() if row is not None and row.mean is not None]
    ends = [end for row in known for end in (row.mean, row.low, row.high) if end is not None]
    spread = max(ends, default=0.0) - min(ends, default=0.0)
    up = METRICS[split_key(key)[0]].higher_is_better is not False
    sparks: dict[str, Spark | None] = {}
    for method, row in found.items():
        if row is None or row.mean is None or not spread:
            sparks[method] = None
            continue
        low, high = (row.mean if end is None else end for end in (row.low, row.high))
        at, left, right = ((end - min(ends)) / spread for end in (row.mean, low, high))
        sparks[method] = Spark(at, left, right) if up else Spark(1 - at, 1 - right, 1 - left)
    return sparks


def _column(key: str) -> Column:
    metric = split_key(key)[0]
    return Column(
        key, heading(key), arrow(metric), where=set_label(key), help=METRICS[metric].formula, shared=is_shared(key)
    )


def _legends(group: Group, rows: Sequence[LeaderboardRow], keys: Sequence[str], alpha: float) -> tuple[str, str]:
    """Return what the marks mean, and what the page adds to that."""
    words = f"Rank: by the mean of the ranks over {', '.join(map(full_name, keys))}."
    together = f"{NETWORK_LEGEND} They stand at the rank of the best of them." if group.networks else ""
    if all(row.in_confidence_set is None for row in rows):
        return f"{words} One seed gives no confidence set of the best.", together
    over = "seeds and test samples"
    if max(row.n for row in rows) == 1:
        over = "test samples, for these models as they are"
    words += (
        f" Bold: in the {100 * (1 - alpha):.3g} % confidence set of the best. Methods with equal values in every seed "
        "count once."
    )
    return words, f" Small bars: mean and 95 % interval over {over}; further right is better.{together}"


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
        parts.append(f"is the best: p {_equals(show_p(row.p_best))}")
    if row.same_as:
        parts.append(f"the same as {row.same_as}")
    return replace(cell, best=bool(row.in_confidence_set), tip="\n".join(parts))


def _number(value: float | None, form: str, note: str) -> TableCell:
    return TableCell("–", None, tip=note) if value is None else TableCell(f"{value:{form}}", value, tip=note)


def _equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"
