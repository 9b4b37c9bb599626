"""Hierarchical bootstrap over seeds and test rows: every method is scored on the same resampled rows."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby

import numpy as np
from threadpoolctl import threadpool_limits

from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.stats.intervals import (
    BOOTSTRAP_SEED,
    LEVEL,
    draw_counts,
    hierarchical_interval,
    resamples_at_once,
    shared_row_variance,
    unpaired_row_variance,
)
from volta.stats.rowscores import RowScores
from volta.stats.weighted import Floats, Key, Model, WeightedScorer
from volta.stats.weighted_auroc import Weights

N_RESAMPLES = 1_000


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Metrics of every model on the rows as they are and on every resample of the rows.

    Keys are (metric, set): ("ece", "test"), ("auroc", "ood:svhn"). ``observed``: key → method → seed → value;
    ``resampled``: key → method → seed → (n_resamples,). ``seed`` is that of the draws. ``rows``: seed → which test rows
    it has, by a number, and how many.
    """

    observed: Mapping[Key, Mapping[str, Mapping[int, float]]]
    resampled: Mapping[Key, Mapping[str, Mapping[int, Floats]]]
    seed: int = BOOTSTRAP_SEED
    rows: Mapping[int, tuple[int, int]] = field(default_factory=dict)

    def n_rows(self, seeds: Iterable[int]) -> int:
        """Return how many different test rows these seeds have."""
        return sum(n for _, n in {self.rows[seed] for seed in seeds})

    def shared_seeds(self, metric: str, eval_set: str, first: str, second: str) -> tuple[int, ...]:
        """Return the seeds of which both methods have this metric."""
        by = self.observed.get((metric, eval_set), {})
        return tuple(sorted(set(by.get(first, {})) & set(by.get(second, {}))))

    def row_draws(self, metric: str, eval_set: str, method: str, seeds: Sequence[int]) -> Floats | None:
        """Return a method's metric on every resample of the rows, (n_seeds, n_resamples), or None if one lacks."""
        by = self.resampled.get((metric, eval_set), {}).get(method, {})
        return np.array([by[seed] for seed in seeds]) if seeds and all(seed in by for seed in seeds) else None

    def difference(
        self, metric: str, eval_set: str, first: str, second: str, level: float = LEVEL
    ) -> tuple[float, float] | None:
        """Return the interval of (first − second) over new seeds and new rows, or None where one has no such metric.

        See :func:`hierarchical_interval`.
        """
        rows = self.row_differences(metric, eval_set, first, second)
        return None if rows is None else rows.interval(level)

    def resamples(self, metric: str, eval_set: str) -> bool:
        """Whether new rows were drawn for a metric on a set at all."""
        return bool(self.observed.get((metric, eval_set)))

    def row_spread(self, metric: str, eval_set: str, first: str, second: str) -> RowSpread | None:
        """Return what new rows do to (first − second), or None where one has no such metric.

        Methods on one network have the same draws, so that many pairs are one: each is computed once. Methods without a
        seed in common have the variance of their means' difference, and no interval.
        """
        by = self.observed.get((metric, eval_set), {})
        if first not in by or second not in by:
            return None
        seeds = self.shared_seeds(metric, eval_set, first, second)
        kinds = self._kinds(metric, eval_set)
        key = metric, eval_set, kinds[first], kinds[second], seeds
        if key not in self._spreads:
            self._spreads[key] = self._spread(metric, eval_set, first, second, seeds)
        return self._spreads[key]

    def _spread(self, metric: str, eval_set: str, first: str, second: str, seeds: tuple[int, ...]) -> RowSpread | None:
        if seeds:
            found = self.row_differences(metric, eval_set, first, second)
            if found is None:
                return None
            return RowSpread(found.shared_variance, found.interval(), self.n_rows(seeds))
        own, other = (sorted(self.observed[metric, eval_set][name]) for name in (first, second))
        draws = [self.row_draws(metric, eval_set, name, of) for name, of in ((first, own), (second, other))]
        if draws[0] is None or draws[1] is None:
            return None
        return RowSpread(unpaired_row_variance(draws[0], draws[1]), None, self.n_rows([*own, *other]))

    @cached_property
    def _spreads(self) -> dict[tuple[str, str, bytes, bytes, tuple[int, ...]], RowSpread | None]:
        return {}

    @cached_property
    def _known_kinds(self) -> dict[Key, dict[str, bytes]]:
        return {}

    def _kinds(self, metric: str, eval_set: str) -> dict[str, bytes]:
        """Return a name for each method that methods with equal values in every seed and draw have in common."""
        key = metric, eval_set
        if key not in self._known_kinds:
            observed, resampled = self.observed[key], self.resampled[key]
            self._known_kinds[key] = {
                method: _digest(by_seed, [resampled[method][seed] for seed in by_seed])
                for method, by_seed in observed.items()
            }
        return self._known_kinds[key]

    def row_differences(self, metric: str, eval_set: str, first: str, second: str) -> RowDifferences | None:
        """Return (first − second) as it is and on every resample of the rows, or None where one has no such metric."""
        seeds = self.shared_seeds(metric, eval_set, first, second)
        own, other = (self.row_draws(metric, eval_set, name, seeds) for name in (first, second))
        if own is None or other is None:
            return None
        by = self.observed[metric, eval_set]
        observed = np.array([by[first][seed] - by[second][seed] for seed in seeds])
        return RowDifferences(observed, own - other, self.seed)


@dataclass(frozen=True, eq=False)
class RowDifferences:
    """The difference of two methods per seed: ``observed`` (n_seeds,), ``draws`` (n_seeds, n_resamples)."""

    observed: Floats
    draws: Floats
    seed: int = BOOTSTRAP_SEED

    @cached_property
    def shared_variance(self) -> float:
        """The variance of the mean over seeds that comes from rows all seeds share."""
        return shared_row_variance(self.draws)

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the basic bootstrap interval, see :func:`hierarchical_interval`."""
        shared = self.shared_variance if self.draws.shape[1] > 1 else 0.0
        return hierarchical_interval(self.observed, self.draws, level, self.seed, shared)


@dataclass(frozen=True)
class RowSpread:
    """What :class:`RowDifferences` of ``n_rows`` rows come to: their shared variance and basic bootstrap interval."""

    shared_variance: float
    interval: tuple[float, float] | None
    n_rows: int


def _digest(observed: Mapping[int, float], draws: Sequence[Floats]) -> bytes:
    digest = hashlib.blake2b(repr(sorted(observed.items())).encode(), digest_size=16)
    for values in draws:
        digest.update(values.tobytes())
    return digest.digest()


def paired_bootstrap(
    models: Mapping[str, Mapping[int, RowScores] | Sequence[RowScores]],
    n_resamples: int = N_RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
    n_threads: int = 2,
    rows_of: Mapping[int, Hashable] | None = None,
) -> Bootstrap:
    """Resample the test rows, and each OOD set's rows, with replacement, the same rows for all methods.

    A resample is a vector of counts over rows; 64 of them (8 where rows are many) are scored at a time, so that
    memory stays O(64 (n + m)) beside the rows themselves and 8 bytes a model, metric and resample. Time:
    O(n_resamples · models · (n + m)). The answer depends on ``seed`` and the data, not on ``n_threads``.

    models: method → seed → its row scores (a list counts its seeds from 0).
    rows_of: seed → what identifies its test rows; seeds with equal rows are resampled together, others each on their
    own. None: all seeds have the same test rows. OOD rows are the same for all seeds.
    """
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}; pass at least 1")
    if n_threads < 1:
        raise InputError(f"n_threads is {n_threads}; pass at least 1")
    groups = _by_rows(models, rows_of)
    scorers = [WeightedScorer(group) for group in groups]
    if not scorers:
        raise InputError("models is empty; pass at least one method with one model")
    observed: dict[Key, dict[str, dict[int, float]]] = {}
    resampled: dict[Key, dict[str, dict[int, Floats]]] = {}
    for scorer in scorers:
        for key, by_model in scorer.score_unweighted().items():
            for (method, run_seed), value in by_model.items():
                observed.setdefault(key, {}).setdefault(method, {})[run_seed] = value
                resampled.setdefault(key, {}).setdefault(method, {})[run_seed] = np.empty(n_resamples)

    largest = max(size for scorer in scorers for size in (scorer.n_rows, *scorer.ood_sizes.values()))
    step = resamples_at_once(largest)

    def score_chunk(start: int) -> None:
        width = min(step, n_resamples - start)
        outside: dict[tuple[str, int], Weights] = {}
        for index, scorer in enumerate(scorers):
            group = (index,) if index else ()
            weights = draw_counts(scorer.n_rows, width, rng(seed, "bootstrap", "test", *group, start))
            for name, size in scorer.ood_sizes.items():
                if (name, size) not in outside:
                    outside[name, size] = draw_counts(size, width, rng(seed, "bootstrap", name, start))
            own = {name: outside[name, size] for name, size in scorer.ood_sizes.items()}
            for key, by_model in scorer.score(weights, own).items():
                for (method, run_seed), values in by_model.items():
                    resampled[key][method][run_seed][start : start + width] = values

    # A chunk draws from its own generators and writes to its own slice, so threads change the time alone.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(score_chunk, range(0, n_resamples, step)):
            pass
    rows = {
        run_seed: (index, scorer.n_rows)
        for index, (scorer, group) in enumerate(zip(scorers, groups, strict=True))
        for _, run_seed in group
    }
    return Bootstrap(observed, resampled, seed, rows)


def _by_rows(
    models: Mapping[str, Mapping[int, RowScores] | Sequence[RowScores]], rows_of: Mapping[int, Hashable] | None
) -> list[dict[Model, RowScores]]:
    flat = {
        (method, seed): scores
        for method, runs in models.items()
        for seed, scores in (runs.items() if isinstance(runs, Mapping) else enumerate(runs))
    }
    if rows_of is None:
        return [flat] if flat else []
    order = {rows: index for index, rows in enumerate(dict.fromkeys(rows_of[seed] for _, seed in flat))}
    ranked = sorted(flat, key=lambda model: order[rows_of[model[1]]])
    return [
        {model: flat[model] for model in group}
        for _, group in groupby(ranked, key=lambda model: order[rows_of[model[1]]])
    ]
