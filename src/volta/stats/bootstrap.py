"""Hierarchical bootstrap over seeds and test rows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import groupby

import numpy as np
from threadpoolctl import threadpool_limits

from volta.bench.cell_metrics import tempered_probs
from volta.bench.store import RunStore
from volta.core.errors import InputError, StoreError
from volta.core.seeding import rng
from volta.core.types import Array
from volta.methods.scores import one_minus_max
from volta.stats.results import AFTER_TEMPERATURE, BY_CONFIDENCE, OOD_AVERAGES, Results
from volta.stats.tests import Estimate
from volta.stats.weighted import Floats, Key, Model, RowScores, WeightedScorer, Weights, row_scores

LEVEL = 0.95
BOOTSTRAP_SEED = 42
_COLUMNS = 64
_MANY_ROWS = 1 << 17
"""Beyond this, a few resamples at a time, each drawn by itself: 64 at once would no longer be anywhere near a cache."""
_COLUMNS_OF_MANY = 8


def shared_row_variance(draws: Floats) -> float:
    """Return the variance of the mean over seeds that comes from rows all seeds share, from row resamples.

    draws: (n_seeds, n_resamples), each seed's difference on each resample of the rows. What two seeds have in common
    under new rows is the mean covariance of their draws, (n² Var(mean) − Σ_s Var_s) / (n (n − 1)); a seed's own
    reaction to rows is already in the deviation over seeds and would be counted twice. Where each seed has rows of
    its own nothing is in common, and this is 0. With one seed it is the whole row variance. Never negative.
    """
    n = len(draws)
    of_mean = float(np.var(draws.mean(axis=0), ddof=1))
    if n == 1:
        return of_mean
    return max(0.0, (n * of_mean - float(np.var(draws, axis=1, ddof=1).mean())) / (n - 1))


def unpaired_row_variance(first: Floats, second: Floats) -> float:
    """Return the variance that rows all seeds share give to the difference of two means over seeds of their own.

    first, second: (n_seeds, n_resamples) on the same resamples of the rows. It is what the seeds of each have in common
    (:func:`shared_row_variance`) less twice the covariance of the two means.
    """
    together = float(np.cov(first.mean(axis=0), second.mean(axis=0))[0, 1])
    return max(0.0, shared_row_variance(first) + shared_row_variance(second) - 2.0 * together)


def hierarchical_interval(
    observed: Floats,
    draws: Floats,
    level: float = LEVEL,
    seed: int = BOOTSTRAP_SEED,
    shared: float | None = None,
) -> tuple[float, float]:
    """Return the basic bootstrap interval of a mean over seeds, about new seeds and new rows.

    A resample is d* = D̄ + ρ (D_b − D̄) + √(n/(n−1)) (mean of n seeds drawn with replacement − mean of all), with D_b the
    mean over seeds on resampled rows, D̄ their mean, and ρ² the part of Var(D_b) that seeds share
    (:func:`shared_row_variance`); the root undoes the (n−1)/n by which a bootstrap over n seeds is too narrow. The
    interval is [2d − q_hi, 2d − q_lo]: ECE is biased upwards and a resample adds the bias once more; the basic interval
    takes it back, the percentile interval would not. Both ends are then moved out as far as the interval of an
    :class:`Estimate` is wider than a normal one, since few seeds make Student's tails and not normal ones.

    observed: (n_seeds,); draws: (n_seeds, n_resamples); shared: :func:`shared_row_variance` of them, where it is known.
    Reference: Davison & Hinkley, Bootstrap Methods and their Application (1997), §3.8 and 5.2; Hesterberg, The American
    Statistician 69 (2015).
    """
    if not 0 < level < 1:
        raise InputError(f"level is {level}; pass a level between 0 and 1, for example 0.95")
    n, n_resamples = draws.shape
    centre, d = float(draws.mean()), observed.mean()
    if shared is None:
        shared = shared_row_variance(draws) if n_resamples > 1 else 0.0
    moved = hierarchical_draws(observed, draws, seed, shared) - d
    stretch = 1.0
    if n > 1:
        errors = Estimate(float(d), n, float(np.std(observed, ddof=1)) / n**0.5, n - 1, shared**0.5)
        stretch = 1.0 if errors.constant else errors.over_normal(level)
    tail = (1 - level) / 2
    low, high = np.quantile(moved, [tail, 1 - tail])
    middle = 2 * d - centre
    return float(middle - stretch * high), float(middle - stretch * low)


def hierarchical_draws(
    observed: Floats, draws: Floats, seed: int = BOOTSTRAP_SEED, shared: float | None = None
) -> Floats:
    """Return a mean over seeds on each resample of seeds and rows, (n_resamples,), centred at the observed mean.

    See :func:`hierarchical_interval`, whose d* this is but for the centre.
    """
    n, n_resamples = draws.shape
    means = draws.mean(axis=0)
    spread = float(np.var(means, ddof=1)) if n_resamples > 1 else 0.0
    if shared is None:
        shared = shared_row_variance(draws) if n_resamples > 1 else 0.0
    moved: Floats = observed.mean() + (means - means.mean()) * (np.sqrt(shared / spread) if spread > 0 else 0.0)
    if n > 1:
        moved += np.sqrt(n / (n - 1)) * ((observed - observed.mean()) @ _seed_counts(n, n_resamples, seed)) / n
    return moved


@lru_cache(maxsize=4)
def _seed_counts(n: int, n_resamples: int, seed: int) -> Floats:
    """Return how often each of n seeds occurs in each resample, (n, n_resamples): the same for every difference."""
    return draw_counts(n, n_resamples, rng(seed, "bootstrap", "seeds")).astype(np.float64)


def draw_counts(n: int, width: int, generator: np.random.Generator) -> Weights:
    """Draw how often each of n rows occurs in each of ``width`` resamples of size n: (n, width), columns sum to n."""
    if n > _MANY_ROWS:
        counts = np.empty((width, n), dtype=np.uint8)
        for column in counts:
            # No row of so many is drawn 256 times.
            column[:] = np.bincount(generator.integers(0, n, n, dtype=np.uint32), minlength=n)
        return counts.T
    drawn = generator.integers(0, n, size=(n, width))
    drawn *= width
    drawn += np.arange(width)
    return np.bincount(drawn.ravel(), minlength=n * width).reshape(n, width).astype(np.float32)


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

    def row_draws(self, metric: str, eval_set: str, method: str, seeds: Sequence[int]) -> Floats | None:
        """Return a method's metric on every resample of the rows, (n_seeds, n_resamples), or None if one lacks."""
        by = self.resampled.get((metric, eval_set), {}).get(method, {})
        return np.array([by[seed] for seed in seeds]) if seeds and all(seed in by for seed in seeds) else None

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
        seeds = tuple(sorted(set(by[first]) & set(by[second])))
        kinds = self._kinds(metric, eval_set)
        key = metric, eval_set, kinds[first], kinds[second], seeds
        if key not in self._spreads:
            self._spreads[key] = self._spread(metric, eval_set, first, second, seeds)
        return self._spreads[key]

    def _spread(self, metric: str, eval_set: str, first: str, second: str, seeds: tuple[int, ...]) -> RowSpread | None:
        by = self.observed[metric, eval_set]
        own, other = (seeds, seeds) if seeds else (sorted(by[first]), sorted(by[second]))
        left, right = self.row_draws(metric, eval_set, first, own), self.row_draws(metric, eval_set, second, other)
        if left is None or right is None:
            return None
        if not seeds:
            return RowSpread(unpaired_row_variance(left, right), None, self.n_rows([*own, *other]))
        observed, draws = np.array([by[first][seed] - by[second][seed] for seed in seeds]), left - right
        shared = shared_row_variance(draws)
        interval = hierarchical_interval(observed, draws, LEVEL, self.seed, shared if draws.shape[1] > 1 else 0.0)
        return RowSpread(shared, interval, self.n_rows(seeds))

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


@dataclass(frozen=True)
class RowSpread:
    """What ``n_rows`` new rows do to the difference of two methods' means over seeds.

    ``shared_variance`` comes from rows all seeds share; ``interval``: see :func:`hierarchical_interval`.
    """

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
    step = _COLUMNS if largest <= _MANY_ROWS else _COLUMNS_OF_MANY

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


Bootstraps = Mapping[tuple[str, str], Bootstrap | str]
"""(task, protocol) → the bootstrap of its methods, or the reason there is none."""


@dataclass(frozen=True, eq=False)
class StoredRows:
    """A cell's test rows as the bootstrap takes them: the row scores, and the bytes of the labels, which tell rows."""

    labels: bytes
    scores: RowScores


RowsOfCells = Mapping[tuple[str, int], StoredRows]
"""(method, seed) → its rows; a cell without stored predictions is not there."""


def bootstrap_tables(
    store: RunStore | None,
    tables: Sequence[Results],
    n_resamples: int = N_RESAMPLES,
    rows: Mapping[tuple[str, str], RowsOfCells] | None = None,
) -> Bootstraps:
    """Return the bootstrap of all methods for each (task, protocol), or why there is none.

    ``rows`` by (task, protocol), where they have been read already; else they are read from ``store``.
    """

    def of(table: Results) -> Bootstrap | str:
        if rows is not None or store is None:
            return bootstrap_rows(table, (rows or {})[table.task, table.protocol], n_resamples)
        return bootstrap_table(table, lambda method, seed: store.read_arrays(table.cells[method, seed]), n_resamples)

    return {(table.task, table.protocol): of(table) for table in tables}


def bootstrap_table(
    table: Results, read: Callable[[str, int], Mapping[str, Array]], n_resamples: int
) -> Bootstrap | str:
    """Return the bootstrap of a table's methods, or why there is none; ``read`` gives a method's arrays with a seed."""
    rows: dict[tuple[str, int], StoredRows] = {}
    for method, seed in table.cells:
        try:
            found = rows_of_cell(table, read(method, seed))
        except StoreError:
            continue
        if found is not None:
            rows[method, seed] = found
    return bootstrap_rows(table, rows, n_resamples)


def rows_of_cell(table: Results, arrays: Mapping[str, Array]) -> StoredRows | None:
    """Return a cell's test rows with its scores on the OOD sets that are resampled; None without test predictions."""
    if "test/probs" not in arrays or "test/labels" not in arrays:
        return None
    labels = np.asarray(arrays["test/labels"], dtype=np.int64).tobytes()
    return StoredRows(labels, cell_scores(arrays, table.ood_sets))


def bootstrap_rows(table: Results, rows: RowsOfCells, n_resamples: int) -> Bootstrap | str:
    """Return the bootstrap of a table's methods from the rows of its cells, or why there is none."""
    rows_of: dict[int, bytes] = {}
    models: dict[str, dict[int, RowScores]] = {}
    for method in table.methods:
        found = {}
        for seed in table.seeds(method):
            if (method, seed) not in rows:
                continue
            own = rows[method, seed]
            if rows_of.setdefault(seed, own.labels) != own.labels:
                return f"rows not resampled: {method} seed {seed} was scored on other test rows"
            found[seed] = own.scores
        # An interval over fewer seeds than the test in the same row would speak of another difference.
        if len(found) == len(table.seeds(method)):
            models[method] = found
    if not models:
        return "rows not resampled: no stored predictions"
    return with_averages(paired_bootstrap(models, n_resamples, rows_of=rows_of), table)


def cell_scores(arrays: Mapping[str, Array], ood_sets: tuple[str, ...]) -> RowScores:
    """Return the row scores of a cell's stored arrays, with its OOD scores on ``ood_sets`` and the test variants."""
    probs, labels = arrays["test/probs"], arrays["test/labels"]
    own = arrays.get("test/ood_score")
    outside = {name: arrays[f"{name}/ood_score"] for name in ood_sets if f"{name}/ood_score" in arrays}
    variants = {}
    tempered = tempered_probs(arrays)
    if tempered is not None:
        variants[AFTER_TEMPERATURE] = row_scores(tempered, labels)
    variants[BY_CONFIDENCE] = row_scores(probs, labels, uncertainty=one_minus_max(probs))
    return row_scores(probs, labels, own, outside if own is not None else {}, arrays.get("test/uncertainty"), variants)


def with_averages(bootstrap: Bootstrap, table: Results) -> Bootstrap:
    """Return the bootstrap of a table with AUROC averaged over near and over far OOD sets beside that of each set."""
    near = () if table.no_near_set else table.near_sets
    far = tuple(name for name in table.ood_sets if name not in near)
    for name, sets in zip(OOD_AVERAGES, (near, far), strict=True):
        bootstrap = _with_average(bootstrap, sets, name)
    return bootstrap


def _with_average(bootstrap: Bootstrap, ood_sets: tuple[str, ...], name: str) -> Bootstrap:
    """Add AUROC averaged over OOD sets, under the name of that mean, for the models that have all of them."""
    keys = [("auroc", one) for one in ood_sets]
    if not keys or any(key not in bootstrap.observed for key in keys):
        return bootstrap
    average = ("auroc", name)
    observed: dict[str, dict[int, float]] = {}
    resampled = {}
    for method, by_seed in bootstrap.observed[keys[0]].items():
        seeds = [seed for seed in by_seed if all(seed in bootstrap.observed[key].get(method, {}) for key in keys)]
        observed[method] = {
            seed: float(np.mean([bootstrap.observed[key][method][seed] for key in keys])) for seed in seeds
        }
        resampled[method] = {
            seed: np.mean([bootstrap.resampled[key][method][seed] for key in keys], axis=0) for seed in seeds
        }
    return replace(
        bootstrap,
        observed={**bootstrap.observed, average: observed},
        resampled={**bootstrap.resampled, average: resampled},
    )
