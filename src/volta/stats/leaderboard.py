"""Methods in order of their mean rank, with the group that may be the best on each metric: `leaderboard.csv`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from volta.stats.best import distinct_methods, p_best
from volta.stats.bootstrap import Bootstrap
from volta.stats.comparisons import (
    AFTER_TEMPERATURE,
    OOD_AVERAGES,
    Bootstraps,
    bootstrap_of,
    compared_methods,
)
from volta.stats.csv_rows import joined_notes
from volta.stats.intervals import LEVEL
from volta.stats.mean_estimates import mean_estimate
from volta.stats.ranks import higher_is_better, rank_values
from volta.stats.results import TEST_SET, Results
from volta.stats.welch import ALPHA

OVERALL = "(overall)"
"""Stands in the metric column where a row is a method's mean rank."""


@dataclass(frozen=True)
class LeaderboardRow:
    """One method on one ranked metric, or its mean rank where ``metric`` is "(overall)".

    ``rank``: 1 is best; methods with the same values in every seed count once and share a rank, and are named in
    ``same_as``. ``p_best``: the p against «this method is the best»; ``in_best_group``: whether it is not below α, None
    where there is no test. In the overall row ``mean`` is the mean rank, ``rank`` the place by it (equals share the
    better one), and ``note`` names what was ranked. ``low``, ``high``: the 95 % interval of the mean over new seeds and
    new test rows.
    """

    task: str
    protocol: str
    method: str
    metric: str
    set: str
    n: int
    mean: float | None
    std: float | None
    low: float | None
    high: float | None
    rank: float | None
    n_ranked: int
    p_best: float | None
    in_best_group: bool | None
    same_as: str
    note: str


def make_leaderboard(
    tables: Iterable[Results], bootstraps: Bootstraps | None = None, alpha: float = ALPHA
) -> list[LeaderboardRow]:
    """Return for every task and protocol the methods by place, each with its overall row and one row a ranked metric.

    The overall place is by the mean of the ranks over accuracy, NLL and ECE (after one temperature where the records
    hold that, so that all methods are treated alike), AURC by the method's own score, near-OOD and far-OOD AUROC, as
    far as the task has them. A method that lacks one of them has no place.
    """
    rows: list[LeaderboardRow] = []
    for table in tables:
        methods = compared_methods(table)
        if methods:
            rows += _leaderboard(table, methods, bootstrap_of(bootstraps, table), alpha)
    return rows


def ranked_sets(table: Results) -> list[tuple[str, str]]:
    """Return (metric, set) of what the overall place is made of, as far as some method has it."""
    near = OOD_AVERAGES[0]
    if not _has(table, "auroc", near) and not _has(table, "auroc", OOD_AVERAGES[1]):
        # Records of a version that had no means over near and far sets.
        near = next(iter(table.near_sets), "")
    calibrated = {
        metric: AFTER_TEMPERATURE if _has(table, metric, AFTER_TEMPERATURE) else TEST_SET for metric in ("nll", "ece")
    }
    wanted = [
        ("accuracy", TEST_SET), *calibrated.items(), ("aurc", TEST_SET), ("auroc", near), ("auroc", OOD_AVERAGES[1]),
    ]  # fmt: skip
    return [(metric, eval_set) for metric, eval_set in wanted if _has(table, metric, eval_set)]


def _leaderboard(table: Results, methods: list[str], source: Bootstrap | str, alpha: float) -> list[LeaderboardRow]:
    ranked = ranked_sets(table)
    by_method: dict[str, list[LeaderboardRow]] = {name: [] for name in methods}
    for metric, eval_set in ranked:
        leader = distinct_methods(table, methods, metric, eval_set)
        distinct = list(dict.fromkeys(leader.values()))
        means = [_mean(table, name, metric, eval_set) for name in distinct]
        ranks = dict(zip(distinct, rank_values(means, higher_is_better(metric)).tolist(), strict=True))
        chances = p_best(table, methods, metric, eval_set, source)
        for name in methods:
            sample = table.sample(name, eval_set, metric)
            p = chances.get(name)
            estimate = mean_estimate(table, name, metric, eval_set, source)
            low, high = (None, None) if estimate is None else estimate.interval(1 - LEVEL)
            same = [other for other in leader if other != name and leader[other] == leader.get(name)]
            by_method[name].append(
                LeaderboardRow(
                    table.task, table.protocol, name, metric, eval_set,
                    sample.n if sample else 0, sample.mean if sample else None, sample.std if sample else None,
                    low, high, ranks.get(leader.get(name, "")), len(distinct), p, None if p is None else p >= alpha,
                    ", ".join(same), "" if sample else f"no {metric} for {name}",
                )
            )  # fmt: skip
    words = ", ".join(metric if eval_set == TEST_SET else f"{metric} on {eval_set}" for metric, eval_set in ranked)
    overall = {name: _mean_rank(own) for name, own in by_method.items()}
    placed = {name: mean for name, mean in overall.items() if mean is not None}
    places = {name: 1.0 + sum(other < mean for other in placed.values()) for name, mean in placed.items()}
    rows: list[LeaderboardRow] = []
    for name in sorted(methods, key=lambda one: places.get(one, float("inf"))):
        own = by_method[name]
        missing = "" if name in places else "no place: it lacks a ranked metric"
        rows.append(
            LeaderboardRow(
                table.task, table.protocol, name, OVERALL, "", len(table.seeds(name)), overall[name], None, None, None,
                places.get(name), len(placed), None, None, "", joined_notes(f"mean rank over {words}", missing),
            )
        )  # fmt: skip
        rows += own
    return rows


def _mean_rank(rows: list[LeaderboardRow]) -> float | None:
    ranks = [row.rank for row in rows if row.rank is not None]
    return sum(ranks) / len(ranks) if ranks and len(ranks) == len(rows) else None


def _mean(table: Results, method: str, metric: str, eval_set: str) -> float:
    sample = table.sample(method, eval_set, metric)
    return float("nan") if sample is None else sample.mean


def _has(table: Results, metric: str, eval_set: str) -> bool:
    return any(table.of(method, eval_set, metric) for method in table.methods)
