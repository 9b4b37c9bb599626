"""Methods ranked on each compared metric of a task, and over all tasks of a protocol: `ranks.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from volta.metrics import METRICS
from volta.stats.comparisons import COMPARED_METRICS, compared_methods, compared_sets
from volta.stats.ranks import CriticalDifference, critical_difference, higher_is_better, rank_values
from volta.stats.results import TEST_SET, Results

MEAN_OVER_METRICS = "(mean)"
"""Stands in the metric column where a row is a method's mean rank."""


@dataclass(frozen=True)
class RankRow:
    """A method's rank on one metric by its mean over seeds: 1 is best, ties share the mean rank.

    ``metric`` "(mean)" is the mean of its ranks, empty where it lacks a metric; ``n_methods`` were ranked.
    """

    task: str
    protocol: str
    method: str
    metric: str
    set: str
    n_methods: int
    rank: float | None
    note: str


def rank_tables(tables: Iterable[Results]) -> list[RankRow]:
    """Rank VOLTA and its baselines on the compared metrics of every task and protocol, then average their ranks.

    A mean rank over fewer metrics could not be compared with the rest, so a method that lacks one gets none.
    """
    return [row for table in tables for row in _rank(table)]


def compare_over_tasks(
    tables: Iterable[Results], metric: str, protocol: str, methods: Sequence[str] | None = None
) -> CriticalDifference:
    """Return the critical-difference numbers of ``metric`` over all tasks run under one protocol.

    AUROC is taken on each task's first near-OOD set. ``methods``: VOLTA and its baselines unless told otherwise.
    """
    means: dict[str, dict[str, float]] = {}
    for table in tables:
        if table.protocol == protocol:
            eval_set = next(iter(table.near_sets), "") if METRICS[metric].on_ood_sets else TEST_SET
            means[table.task] = _means(table, metric, eval_set, methods or compared_methods(table))
    return critical_difference(means, metric)


def critical_differences(tables: Sequence[Results]) -> dict[tuple[str, str], CriticalDifference]:
    """Return (protocol, metric) → critical-difference numbers, for each protocol and compared metric."""
    protocols = dict.fromkeys(table.protocol for table in tables)
    return {
        (protocol, metric): compare_over_tasks(tables, metric, protocol)
        for protocol in protocols
        for metric in COMPARED_METRICS
    }


def _rank(table: Results) -> list[RankRow]:
    methods = compared_methods(table)
    rows = []
    ranks: dict[str, list[float]] = {method: [] for method in methods}
    missing: dict[str, list[str]] = {method: [] for method in methods}
    for metric, eval_set in compared_sets(table):
        if not eval_set:
            continue
        means = _means(table, metric, eval_set, methods)
        places = dict(zip(means, rank_values(list(means.values()), higher_is_better(metric)).tolist(), strict=True))
        for method in methods:
            place = places.get(method)
            note = "" if place is not None else f"no {metric} for {method}"
            rows.append(RankRow(table.task, table.protocol, method, metric, eval_set, len(means), place, note))
            if place is None:
                missing[method].append(f"{metric} on {eval_set}")
            else:
                ranks[method].append(place)
    for method in methods:
        mean = None if missing[method] else sum(ranks[method]) / len(ranks[method])
        note = f"no mean rank: no value for {', '.join(missing[method])}" if missing[method] else ""
        rows.append(RankRow(table.task, table.protocol, method, MEAN_OVER_METRICS, "", len(methods), mean, note))
    return rows


def _means(table: Results, metric: str, eval_set: str, methods: Sequence[str]) -> dict[str, float]:
    samples = {name: table.sample(name, eval_set, metric) for name in methods}
    return {name: sample.mean for name, sample in samples.items() if sample is not None}
