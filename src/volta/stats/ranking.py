"""Ranks of methods: mean ranks, critical differences over tasks, the leaderboard, and the main result of a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.bench.records import EXTERNAL
from volta.core.errors import InputError
from volta.metrics import METRICS
from volta.stats.bootstrap import LEVEL, Bootstrap, Bootstraps, hierarchical_draws, shared_row_variance
from volta.stats.comparisons import (
    COMPARED_METRICS,
    TestRow,
    bootstrap_of,
    compare_all_pairs,
    compared_methods,
    compared_sets,
    distinct_methods,
)
from volta.stats.results import AFTER_TEMPERATURE, OOD_AVERAGES, TEST_SET, Results, joined_notes
from volta.stats.tests import ALPHA, Estimate, check_alpha, fixed_models_estimate, higher_is_better, paired_estimate

MIN_TASKS = 5
"""Fewer tasks than this give no diagram: the test has too little power."""


@dataclass(frozen=True)
class CriticalDifference:
    """Friedman's test over tasks and Nemenyi's critical difference; ``reason`` says why where they are None.

    ``mean_ranks``: method → mean rank over tasks, best first; ``groups``: the maximal runs of methods whose mean ranks
    differ by less than ``critical_difference`` (the bars of the diagram); ``p`` from χ², ``p_iman_davenport`` from F.
    """

    metric: str
    tasks: tuple[str, ...]
    mean_ranks: Mapping[str, float]
    statistic: float | None = None
    p: float | None = None
    p_iman_davenport: float | None = None
    critical_difference: float | None = None
    groups: tuple[tuple[str, ...], ...] = ()
    reason: str = ""


def rank_values(values: Sequence[float], higher_is_better: bool) -> NDArray[np.float64]:
    """Return ranks from 1 (best); equal values share the mean of the ranks they span."""
    array = np.asarray(values, dtype=np.float64)
    if np.isnan(array).any():
        raise InputError("values holds NaN; leave a method without a value out of the ranking")
    keys = -array if higher_is_better else array
    ordered = np.sort(keys)
    return (np.searchsorted(ordered, keys, "left") + 1 + np.searchsorted(ordered, keys, "right")) / 2


def critical_difference(
    means: Mapping[str, Mapping[str, float]],
    metric: str,
    alpha: float = ALPHA,
    min_tasks: int = MIN_TASKS,
) -> CriticalDifference:
    """Compare methods over tasks by ranks: Friedman's test, and Nemenyi's critical difference of mean ranks.

    χ² = (k−1) Σ_j (R_j − N(k+1)/2)² / (Σ r² − N k (k+1)²/4), which is Friedman's statistic corrected for ties;
    F = (N−1) χ² / (N(k−1) − χ²); CD = q_{α,k,∞} √(k(k+1) / (12 N)), q of the studentised range.
    k methods, N tasks, r the ranks within a task, R_j a method's rank sum.

    means: task → method → mean of ``metric`` over seeds. Only methods present in every task take part.
    Reference: Demšar, JMLR 7 (2006); Iman & Davenport, Communications in Statistics A9 (1980).
    """
    check_alpha(alpha)
    tasks = tuple(means)
    methods = [name for name in (means[tasks[0]] if tasks else {}) if all(name in means[task] for task in tasks)]
    n, k = len(tasks), len(methods)
    if not n or not k:
        return CriticalDifference(metric, tasks, {}, reason="no method has this metric on every task")
    up = higher_is_better(metric)
    ranks = np.array([rank_values([means[task][name] for name in methods], up) for task in tasks])
    averages = dict(sorted(zip(methods, ranks.mean(axis=0).tolist(), strict=True), key=lambda item: item[1]))
    if n < min_tasks or k < 3:
        reason = f"{n} task(s) and {k} method(s); the diagram needs at least {min_tasks} tasks and 3 methods"
        return CriticalDifference(metric, tasks, averages, reason=reason)
    from scipy import special, stats

    spread = float(np.sum(ranks**2)) - n * k * (k + 1) ** 2 / 4
    if spread == 0:
        return CriticalDifference(metric, tasks, averages, reason="all methods tie on every task")
    statistic = float((k - 1) * np.sum((ranks.sum(axis=0) - n * (k + 1) / 2) ** 2) / spread)
    room = n * (k - 1) - statistic
    # All tasks agreeing in every rank is the largest possible statistic, where F is infinite.
    f_p = float(special.fdtrc(k - 1, (k - 1) * (n - 1), (n - 1) * statistic / room)) if room > 1e-9 else 0.0
    distance = float(stats.studentized_range.ppf(1 - alpha, k, np.inf)) * math.sqrt(k * (k + 1) / (12 * n))
    return CriticalDifference(
        metric,
        tasks,
        averages,
        statistic=statistic,
        p=float(special.chdtrc(k - 1, statistic)),
        p_iman_davenport=f_p,
        critical_difference=distance,
        groups=_groups(averages, distance),
    )


def _groups(averages: Mapping[str, float], distance: float) -> tuple[tuple[str, ...], ...]:
    names, values = list(averages), list(averages.values())
    runs: list[tuple[int, int]] = []
    for start in range(len(names)):
        stop = max(index for index in range(start, len(names)) if values[index] - values[start] < distance)
        if stop > start and (not runs or stop > runs[-1][1]):
            runs.append((start, stop))
    return tuple(tuple(names[start : stop + 1]) for start, stop in runs)


def mean_estimate(
    table: Results, method: str, metric: str, eval_set: str, source: Bootstrap | str = ""
) -> Estimate | None:
    """Return the mean over seeds with se² = s²/n + row variance, as tests of differences have it.

    Own predictions of a single seed are models as they are, so that se² is the row variance alone. None where there is
    no value, or one seed of a method that was trained, or where it is not known what new test rows would do.
    ``source``: the bootstrap of the table, why there is none, or empty where rows are not in question.
    """
    sample = table.sample(method, eval_set, metric)
    if sample is None:
        return None
    seeds = sorted(table.of(method, eval_set, metric))
    draws = source.row_draws(metric, eval_set, method, seeds) if isinstance(source, Bootstrap) else None
    if draws is None and source:
        return None
    row_variance = 0.0 if draws is None else shared_row_variance(draws)
    if sample.n > 1:
        return paired_estimate(sample, row_variance)
    return (
        fixed_models_estimate(sample, row_variance) if table.origins[method] == EXTERNAL and draws is not None else None
    )


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


def compare_over_tasks(tables: Iterable[Results], metric: str, protocol: str) -> CriticalDifference:
    """Return the critical-difference numbers of ``metric`` over all tasks run under one protocol.

    AUROC is taken on each task's first near-OOD set.
    """
    means: dict[str, dict[str, float]] = {}
    for table in tables:
        if table.protocol == protocol:
            eval_set = next(iter(table.near_sets), "") if METRICS[metric].on_ood_sets else TEST_SET
            means[table.task] = _means(table, metric, eval_set, compared_methods(table))
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
        by_method = dict(zip(means, rank_values(list(means.values()), higher_is_better(metric)).tolist(), strict=True))
        for method in methods:
            rank = by_method.get(method)
            note = "" if rank is not None else f"no {metric} for {method}"
            rows.append(RankRow(table.task, table.protocol, method, metric, eval_set, len(means), rank, note))
            if rank is None:
                missing[method].append(f"{metric} on {eval_set}")
            else:
                ranks[method].append(rank)
    for method in methods:
        mean = None if missing[method] else sum(ranks[method]) / len(ranks[method])
        note = f"no mean rank: no value for {', '.join(missing[method])}" if missing[method] else ""
        rows.append(RankRow(table.task, table.protocol, method, MEAN_OVER_METRICS, "", len(methods), mean, note))
    return rows


def _means(table: Results, metric: str, eval_set: str, methods: Sequence[str]) -> dict[str, float]:
    samples = {name: table.sample(name, eval_set, metric) for name in methods}
    return {name: sample.mean for name, sample in samples.items() if sample is not None}


OVERALL = "(overall)"
"""Stands in the metric column where a row is a method's mean rank."""


@dataclass(frozen=True)
class LeaderboardRow:
    """One method on one ranked metric, or its mean rank where ``metric`` is "(overall)".

    ``rank``: 1 is best; methods with the same values in every seed count once and share a rank, and are named in
    ``same_as``. ``in_confidence_set``: whether the method is in the confidence set of the best, which holds whoever is
    worse than no method by the pairs' primary verdicts; None without a test. ``p_best``: the smallest corrected p of
    the pairs in which another method leads, those shown to be equivalent aside. ``low``, ``high``: the 95 % interval of
    the mean over new seeds and new test samples. In the overall row ``mean`` is the mean rank, ``rank`` the rank by it
    (equals share the better one), ``low`` and ``high`` its bootstrap interval, ``in_confidence_set`` whether that holds
    on every ranked metric, and ``note`` names what was ranked.
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
    in_confidence_set: bool | None
    same_as: str
    note: str


def make_leaderboard(
    tables: Iterable[Results],
    bootstraps: Bootstraps | None = None,
    alpha: float = ALPHA,
    pairs: Sequence[TestRow] | None = None,
) -> list[LeaderboardRow]:
    """Return for every task and protocol the methods by rank, each with its overall row and a row per ranked metric.

    The overall rank is by the mean of the ranks over accuracy, NLL and ECE (after one temperature where the records
    hold that, so that all methods are treated alike), AURC by the method's own score, near-OOD and far-OOD AUROC, as
    far as the task has them. A method that lacks one of them has no rank. ``pairs``: the primary verdicts, computed
    from the tables if None.
    """
    rows: list[LeaderboardRow] = []
    for table in tables:
        methods = compared_methods(table)
        if methods:
            found = compare_all_pairs([table], bootstraps, alpha) if pairs is None else pairs
            own = [row for row in found if (row.task, row.protocol) == (table.task, table.protocol)]
            rows += _leaderboard(table, methods, bootstrap_of(bootstraps, table), own)
    return rows


def ranked_sets(table: Results) -> list[tuple[str, str]]:
    """Return the (metric, set) pairs behind the overall rank that some method has."""
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


def _leaderboard(
    table: Results, methods: list[str], source: Bootstrap | str, pairs: Sequence[TestRow]
) -> list[LeaderboardRow]:
    ranked = ranked_sets(table)
    by_method: dict[str, list[LeaderboardRow]] = {name: [] for name in methods}
    for metric, eval_set in ranked:
        leader = distinct_methods(table, methods, metric, eval_set)
        distinct = list(dict.fromkeys(leader.values()))
        means = [_mean(table, name, metric, eval_set) for name in distinct]
        ranks = dict(zip(distinct, rank_values(means, higher_is_better(metric)).tolist(), strict=True))
        standing = _standing([row for row in pairs if (row.metric, row.set) == (metric, eval_set)])
        for name in methods:
            sample = table.sample(name, eval_set, metric)
            p, is_best = standing.get(name, (None, None))
            estimate = mean_estimate(table, name, metric, eval_set, source)
            low, high = (None, None) if estimate is None else estimate.interval(1 - LEVEL)
            same = [other for other in leader if other != name and leader[other] == leader.get(name)]
            by_method[name].append(
                LeaderboardRow(
                    table.task, table.protocol, name, metric, eval_set,
                    sample.n if sample else 0, sample.mean if sample else None, sample.std if sample else None,
                    low, high, ranks.get(leader.get(name, "")), len(distinct), p, is_best,
                    ", ".join(same), "" if sample else f"no {metric} for {name}",
                )
            )  # fmt: skip
    words = ", ".join(metric if eval_set == TEST_SET else f"{metric} on {eval_set}" for metric, eval_set in ranked)
    overall = {name: _mean_rank(own) for name, own in by_method.items()}
    placed = {name: mean for name, mean in overall.items() if mean is not None}
    overall_ranks = {name: 1.0 + sum(other < mean for other in placed.values()) for name, mean in placed.items()}
    intervals = mean_rank_intervals(table, list(placed), ranked, source) if isinstance(source, Bootstrap) else {}
    rows: list[LeaderboardRow] = []
    for name in sorted(methods, key=lambda one: overall_ranks.get(one, float("inf"))):
        own = by_method[name]
        missing = "" if name in overall_ranks else "no rank: it lacks a ranked metric"
        known = [row.in_confidence_set for row in own]
        everywhere = None if missing or None in known else all(known)
        low, high = intervals.get(name, (None, None))
        rows.append(
            LeaderboardRow(
                table.task, table.protocol, name, OVERALL, "", len(table.seeds(name)), overall[name], None,
                low, high, overall_ranks.get(name), len(placed), None, everywhere, "",
                joined_notes(f"mean rank over {words}", missing),
            )
        )  # fmt: skip
        rows += own
    return rows


def _standing(pairs: Sequence[TestRow]) -> dict[str, tuple[float, bool]]:
    """Return method → (the smallest corrected p with which another leads, whether it is worse than none)."""
    found: dict[str, tuple[float, bool]] = {}
    for pair in pairs:
        for row in (pair, pair.turned()):
            if row.p_holm is not None and row.gain is not None:
                p, is_best = found.get(row.reference, (1.0, True))
                leads = row.gain < 0 and row.verdict != "equivalent"
                found[row.reference] = min(p, row.p_holm) if leads else p, is_best and row.verdict != "worse"
    return found


def mean_rank_intervals(
    table: Results, methods: Sequence[str], ranked: Sequence[tuple[str, str]], source: Bootstrap
) -> dict[str, tuple[float, float]]:
    """Return the 95 % percentile interval of each method's mean rank, over resampled seeds and test samples.

    In each resample, which is the same for all methods, the distinct methods are ranked on each metric by
    :func:`volta.stats.bootstrap.hierarchical_draws`. Empty where a metric is not resampled, or for trained methods of
    one seed.
    """
    totals: dict[str, NDArray[np.float64]] = {}
    for metric, eval_set in ranked:
        leader = distinct_methods(table, methods, metric, eval_set)
        draws = []
        for name in dict.fromkeys(leader.values()):
            by_seed = table.of(name, eval_set, metric)
            rows = source.row_draws(metric, eval_set, name, sorted(by_seed))
            if rows is None or (len(by_seed) == 1 and table.origins[name] != EXTERNAL):
                return {}
            draws.append(hierarchical_draws(np.array([by_seed[seed] for seed in sorted(by_seed)]), rows, source.seed))
        values = np.array(draws) * (-1 if higher_is_better(metric) else 1)
        ranks = np.array([0.5 + (values < one).sum(axis=0) + (values == one).sum(axis=0) / 2 for one in values])
        by_name = dict(zip(dict.fromkeys(leader.values()), ranks, strict=True))
        totals = {name: totals.get(name, 0.0) + by_name[leader[name]] for name in methods}
    tail = (1 - LEVEL) / 2
    ends = {name: np.quantile(total / len(ranked), [tail, 1 - tail]) for name, total in totals.items()}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


def _mean_rank(rows: list[LeaderboardRow]) -> float | None:
    ranks = [row.rank for row in rows if row.rank is not None]
    return sum(ranks) / len(ranks) if ranks and len(ranks) == len(rows) else None


def _mean(table: Results, method: str, metric: str, eval_set: str) -> float:
    sample = table.sample(method, eval_set, metric)
    return float("nan") if sample is None else sample.mean


def _has(table: Results, metric: str, eval_set: str) -> bool:
    return any(table.of(method, eval_set, metric) for method in table.methods)


@dataclass(frozen=True)
class Aspect:
    """One ranked metric: the confidence set of the best, ``best``, of ``n_distinct`` distinct methods.

    Methods with equal values in every seed are one item of ``best``, which is empty where nothing was tested.
    ``good``: the methods whose mean is in the better half.
    """

    metric: str
    set: str
    best: tuple[tuple[str, ...], ...]
    n_distinct: int
    good: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Every method in the confidence set of the best."""
        return frozenset(name for group in self.best for name in group)

    @property
    def is_tested(self) -> bool:
        """Whether there is a confidence set."""
        return bool(self.best)

    @property
    def separates(self) -> bool:
        """Whether some method is significantly worse than another."""
        return self.is_tested and len(self.best) < self.n_distinct


@dataclass(frozen=True)
class Finding:
    """The main result of one task under one protocol.

    ``first``: the methods of rank 1, by mean rank ``mean_rank``; ``n_different`` of ``n_pairs`` tested pairs of methods
    differ significantly on some ranked metric, Holm-corrected.
    """

    task: str
    n_methods: int
    aspects: tuple[Aspect, ...]
    first: tuple[str, ...]
    mean_rank: float | None
    n_pairs: int
    n_different: int


def find(task: str, leaderboard: Sequence[LeaderboardRow], pairs: Sequence[TestRow]) -> Finding:
    """Return the finding of one task and protocol from its rows of `leaderboard.csv` and `pairs.csv`."""
    overall = [row for row in leaderboard if row.metric == OVERALL]
    by_key: dict[tuple[str, str], list[LeaderboardRow]] = {}
    for row in leaderboard:
        if row.metric != OVERALL:
            by_key.setdefault((row.metric, row.set), []).append(row)
    best_rank = min((row.rank for row in overall if row.rank is not None), default=None)
    first = [row for row in overall if row.rank is not None and row.rank == best_rank]
    tested = [row for row in pairs if (row.metric, row.set) in by_key and row.p is not None]
    return Finding(
        task,
        len(overall),
        tuple(_aspect(metric, where, rows) for (metric, where), rows in by_key.items()),
        tuple(row.method for row in first),
        first[0].mean if first else None,
        len({(row.reference, row.method) for row in tested}),
        len({(row.reference, row.method) for row in tested if row.verdict in ("better", "worse")}),
    )


def _aspect(metric: str, where: str, rows: Sequence[LeaderboardRow]) -> Aspect:
    groups: dict[frozenset[str], list[str]] = {}
    for row in rows:
        if row.in_confidence_set:
            alike = frozenset(one.method for one in rows if one is row or f", {one.method}, " in f", {row.same_as}, ")
            groups.setdefault(alike, []).append(row.method)
    n_distinct = max((row.n_ranked for row in rows), default=0)
    good = frozenset(row.method for row in rows if row.rank is not None and row.rank <= (n_distinct + 1) / 2)
    return Aspect(metric, where, tuple(map(tuple, groups.values())), n_distinct, good)
