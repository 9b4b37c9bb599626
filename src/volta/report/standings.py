"""The result in one small table: methods by place, with the metrics that a reader asks for first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volta.figures.names import heading, metric_key, set_label
from volta.metrics import METRICS
from volta.networks.recipe import Budget
from volta.report.run import budget_limits, budget_words
from volta.report.table_model import decimals_for, show
from volta.stats import LeaderboardRow, Results
from volta.stats.leaderboard import OVERALL, ranked_sets

MARK = "*"


@dataclass(frozen=True)
class Standings:
    """A group's methods by place: text in rows, ready to print; ``legend`` says what mark and last column mean."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    legend: str


def standings(table: Results, rows: Sequence[LeaderboardRow], budget: Budget | None = None) -> Standings:
    """Return the standings of one task and protocol from its rows of the leaderboard; ``budget``: the run's."""
    own = [row for row in rows if (row.task, row.protocol) == (table.task, table.protocol)]
    keys = ranked_sets(table)
    values = {(row.method, row.metric, row.set): row for row in own}
    decimals = {
        key: decimals_for([row.mean for row in own if (row.metric, row.set) == key and row.mean is not None])
        for key in keys
    }
    body = []
    for overall in (row for row in own if row.metric == OVERALL):
        found = [values.get((overall.method, metric, where)) for metric, where in keys]
        n_best = sum(row is not None and bool(row.in_best_group) for row in found)
        cells = [_text(row, decimals[metric, where]) for row, (metric, where) in zip(found, keys, strict=True)]
        tested = any(row is not None and row.in_best_group is not None for row in found)
        place = "–" if overall.rank is None else f"{overall.rank:g}"
        body.append((place, table.titles[overall.method], *cells, f"{n_best} of {len(keys)}" if tested else "–"))
    seeds = max((len(table.seeds(method)) for method in table.methods), default=0)
    return Standings(
        title=f"{table.task} · {table.protocol} · mean of {seeds} seed{'s' if seeds != 1 else ''}"
        + (f" · {budget_words(budget)}" if budget is not None and budget_limits(budget) else ""),
        columns=("place", "method", *(_heading(metric, where) for metric, where in keys), "best group"),
        rows=tuple(body),
        legend=f"{MARK} may be the best on that metric; best group: on how many. Place is by mean rank."
        if any(MARK in cell for row in body for cell in row)
        else "Place is by mean rank; which methods may be the best takes several seeds, and a report.",
    )


def _text(row: LeaderboardRow | None, decimals: int) -> str:
    if row is None or row.mean is None:
        return "–"
    return show(row.metric, row.mean, decimals) + (MARK if row.in_best_group else "")


def _heading(metric: str, where: str) -> str:
    key = metric_key(metric, where)
    about = {"after one temperature": "+T", "near OOD": "near", "far OOD": "far"}.get(set_label(key), set_label(key))
    return f"{heading(key)} {about}".strip() + f" {METRICS[metric].direction}"
