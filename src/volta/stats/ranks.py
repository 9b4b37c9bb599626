"""Ranks with ties, and the numbers of a critical-difference diagram: Friedman's test with Nemenyi's distance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.metrics import METRICS
from volta.stats.welch import ALPHA, check_alpha

MIN_TASKS = 5
"""Fewer tasks than this give no diagram: below it even a method that always wins is hard to tell from luck."""


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


def higher_is_better(metric: str) -> bool:
    """Return the direction of a metric that has one."""
    known = METRICS.get(metric)
    if known is None or known.higher_is_better is None:
        raise InputError(
            f"metric {metric!r} has no better direction; pass one of those marked ↑ or ↓ in volta.metrics.METRICS"
        )
    return known.higher_is_better


def _groups(averages: Mapping[str, float], distance: float) -> tuple[tuple[str, ...], ...]:
    names, values = list(averages), list(averages.values())
    runs: list[tuple[int, int]] = []
    for start in range(len(names)):
        stop = max(index for index in range(start, len(names)) if values[index] - values[start] < distance)
        if stop > start and (not runs or stop > runs[-1][1]):
            runs.append((start, stop))
    return tuple(tuple(names[start : stop + 1]) for start, stop in runs)
