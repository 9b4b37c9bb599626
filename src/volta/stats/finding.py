"""What a run has found, as facts: who may be the best at what, who is first, how many pairs cannot be told apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from volta.stats.comparisons import TestRow
from volta.stats.leaderboard import OVERALL, LeaderboardRow


@dataclass(frozen=True)
class Aspect:
    """One ranked metric: the methods that may be the best on it, of ``n_distinct`` that differ.

    ``best`` holds a group of methods with equal values in every seed as one item; it is empty where nothing was tested.
    ``good``: the methods whose mean is in the better half.
    """

    metric: str
    set: str
    best: tuple[tuple[str, ...], ...]
    n_distinct: int
    good: frozenset[str] = frozenset()

    @property
    def names(self) -> frozenset[str]:
        """Every method that may be the best."""
        return frozenset(name for group in self.best for name in group)

    @property
    def is_tested(self) -> bool:
        """Whether a test says who may be the best."""
        return bool(self.best)

    @property
    def tells_apart(self) -> bool:
        """Whether some method is shown to be worse than another."""
        return self.is_tested and len(self.best) < self.n_distinct


@dataclass(frozen=True)
class Finding:
    """What one task under one protocol has shown.

    ``first``: the methods at place 1, by mean rank ``mean_rank``; ``n_alike`` of ``n_pairs`` pairs of methods are told
    apart by no ranked metric after Holm's correction.
    """

    task: str
    n_methods: int
    aspects: tuple[Aspect, ...]
    first: tuple[str, ...]
    mean_rank: float | None
    n_pairs: int
    n_alike: int


def find(task: str, leaderboard: Sequence[LeaderboardRow], pairs: Sequence[TestRow]) -> Finding:
    """Return the finding of one task and protocol from its rows of `leaderboard.csv` and `pairs.csv`."""
    overall = [row for row in leaderboard if row.metric == OVERALL]
    by_key: dict[tuple[str, str], list[LeaderboardRow]] = {}
    for row in leaderboard:
        if row.metric != OVERALL:
            by_key.setdefault((row.metric, row.set), []).append(row)
    best_place = min((row.rank for row in overall if row.rank is not None), default=None)
    first = [row for row in overall if row.rank is not None and row.rank == best_place]
    told = [(row.reference, row.method) for row in pairs if (row.metric, row.set) in by_key and _is_shown(row)]
    tested = {(row.reference, row.method) for row in pairs if (row.metric, row.set) in by_key and row.p is not None}
    return Finding(
        task,
        len(overall),
        tuple(_aspect(metric, where, rows) for (metric, where), rows in by_key.items()),
        tuple(row.method for row in first),
        first[0].mean if first else None,
        len(tested),
        len(tested - set(told)),
    )


def _is_shown(row: TestRow) -> bool:
    return row.verdict in ("better", "worse")


def _aspect(metric: str, where: str, rows: Sequence[LeaderboardRow]) -> Aspect:
    groups: dict[frozenset[str], list[str]] = {}
    for row in rows:
        if row.in_best_group:
            alike = frozenset(one.method for one in rows if one is row or f", {one.method}, " in f", {row.same_as}, ")
            groups.setdefault(alike, []).append(row.method)
    n_distinct = max((row.n_ranked for row in rows), default=0)
    good = frozenset(row.method for row in rows if row.rank is not None and row.rank <= (n_distinct + 1) / 2)
    return Aspect(metric, where, tuple(map(tuple, groups.values())), n_distinct, good)
