"""The leaderboard of a group: methods by mean rank, and on each metric those that may be the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from volta.figures.names import full_name, heading, metric_key, set_label
from volta.metrics import METRICS
from volta.report.result_tables import column_decimals, value_entry
from volta.report.run import Group
from volta.report.table_model import MISSING, Column, Row, Table, TableCell, show_p
from volta.stats import LeaderboardRow
from volta.stats.leaderboard import OVERALL


def leaderboard_table(group: Group, rows: Sequence[LeaderboardRow], alpha: float) -> Table:
    """Return place and mean rank of each method, and its value on each ranked metric, bold in the group of the best.

    rows: the group's rows of `leaderboard.csv`; alpha: the level at which the groups were made.
    """
    overall = [row for row in rows if row.metric == OVERALL]
    by_key = {(row.method, metric_key(row.metric, row.set)): row for row in rows if row.metric != OVERALL}
    order = list(METRICS)
    keys = sorted(dict.fromkeys(key for _, key in by_key), key=lambda key: order.index(key.partition("@")[0]))
    columns = (
        Column("method", "Method", numeric=False),
        Column("place", "Place", help="by mean rank"),
        Column("mean_rank", "Mean rank", "↓", help=f"over {', '.join(map(full_name, keys))}"),
        *(
            Column(key, heading(key), _arrow(key), where=set_label(key), help=METRICS[key.partition("@")[0]].formula)
            for key in keys
        ),
    )
    decimals = {key: column_decimals(group, [row.method for row in overall], key) for key in keys}
    body = tuple(
        Row(
            row.method,
            (
                TableCell(group.title(row.method), group.title(row.method), tip=row.method),
                _number(row.rank, "g", row.note),
                _number(row.mean, ".2f", row.note),
                *(_value(group, by_key.get((row.method, key)), key, decimals[key]) for key in keys),
            ),
            group.origin(row.method),
            group.is_ours(row.method),
        )
        for row in overall
    )
    return Table(f"leaderboard-{group.key}", "Leaderboard", columns, body, _legend(rows, keys, alpha))


def _legend(rows: Sequence[LeaderboardRow], keys: Sequence[str], alpha: float) -> str:
    words = f"Place by the mean of the ranks over {', '.join(map(full_name, keys))}; "
    if all(row.in_best_group is None for row in rows):
        return words + "one seed, so nothing can be said of which methods may be the best."
    about = "paired over seeds, about new seeds and new test rows"
    if max(row.n for row in rows) == 1:
        about = "about new test rows, for these models as they are"
    return words + (
        f"bold: may be the best on that metric ({100 * (1 - alpha):.3g} % confidence set, {about}); the "
        "others are shown to be worse than some method. Methods with equal values in every seed count once."
    )


def _value(group: Group, row: LeaderboardRow | None, key: str, decimals: int) -> TableCell:
    if row is None or row.mean is None:
        return MISSING
    cell = value_entry(group, row.method, key, decimals)
    parts = [cell.tip]
    if row.rank is not None:
        parts.append(f"rank {row.rank:g} of {row.n_ranked}")
    if row.p_best is not None:
        parts.append(f"against «is the best»: p {_equals(show_p(row.p_best))}")
    if row.same_as:
        parts.append(f"the same as {row.same_as}")
    return replace(cell, best=bool(row.in_best_group), tip="\n".join(parts))


def _number(value: float | None, form: str, note: str) -> TableCell:
    return TableCell("–", None, tip=note) if value is None else TableCell(f"{value:{form}}", value, tip=note)


def _equals(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"


def _arrow(key: str) -> str:
    arrow = METRICS[key.partition("@")[0]].direction
    return "" if arrow == "–" else arrow
