"""Paired bootstrap over test rows: every method and every seed is scored on the same resampled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.stats.pairs import Weights
from volta.stats.rowscores import RowScores
from volta.stats.weighted import Floats, Key, WeightedScorer

N_RESAMPLES = 10_000
LEVEL = 0.95
BOOTSTRAP_SEED = 42
_COLUMNS = 64


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Metrics of every method on the rows as they are and on every resample, averaged over the method's seeds.

    Keys are (metric, set): ("ece", "test"), ("auroc", "ood:svhn"). ``observed``: key → method → value;
    ``resampled``: key → method → (n_resamples,).
    """

    observed: Mapping[Key, Mapping[str, float]]
    resampled: Mapping[Key, Mapping[str, Floats]]

    def difference(
        self, metric: str, eval_set: str, first: str, second: str, level: float = LEVEL
    ) -> tuple[float, float] | None:
        """Return the basic bootstrap interval of (first − second), or None where one of them has no such metric.

        [2d − q_hi, 2d − q_lo], with d the observed difference and q the (1 ∓ level)/2 quantiles of the resampled
        ones. ECE is biased upwards and a resample adds the bias once more; the basic interval takes it back, the
        percentile interval would not.
        Reference: Davison & Hinkley, Bootstrap Methods and their Application (1997), §5.2.
        """
        if not 0 < level < 1:
            raise InputError(f"level is {level}; pass a level between 0 and 1, for example 0.95")
        observed = self.observed.get((metric, eval_set), {})
        if first not in observed or second not in observed:
            return None
        draws = self.resampled[metric, eval_set]
        tail = (1 - level) / 2
        low, high = np.quantile(draws[first] - draws[second], [tail, 1 - tail])
        d = observed[first] - observed[second]
        return float(2 * d - high), float(2 * d - low)


def paired_bootstrap(
    models: Mapping[str, Sequence[RowScores]],
    n_resamples: int = N_RESAMPLES,
    seed: int = BOOTSTRAP_SEED,
    n_threads: int = 2,
) -> Bootstrap:
    """Resample the test rows, and each OOD set's rows, with replacement, the same rows for all methods and seeds.

    A resample is a vector of counts over rows; 64 of them are scored at a time, so that memory stays
    O(64 (n + m)) beside the rows themselves. Time: O(n_resamples · models · (n + m)). The answer depends on ``seed``
    and the data, not on ``n_threads``.

    models: method → its models, one a seed, all scored on the same test rows. An interval made from it covers the
    choice of test rows for these trained models; how training varies is the seeds' matter.
    """
    if n_resamples < 1:
        raise InputError(f"n_resamples is {n_resamples}; pass at least 1")
    if n_threads < 1:
        raise InputError(f"n_threads is {n_threads}; pass at least 1")
    scorer = WeightedScorer(models)
    observed = scorer.score_unweighted()
    resampled = {key: {name: np.empty(n_resamples) for name in by} for key, by in observed.items()}

    def score_chunk(start: int) -> None:
        width = min(_COLUMNS, n_resamples - start)
        weights = draw_counts(scorer.n_rows, width, rng(seed, "bootstrap", "test", start))
        outside = {
            name: draw_counts(size, width, rng(seed, "bootstrap", name, start))
            for name, size in scorer.ood_sizes.items()
        }
        for key, by_method in scorer.score(weights, outside).items():
            for name, values in by_method.items():
                resampled[key][name][start : start + width] = values

    # A chunk draws from its own generators and writes to its own slice, so threads change the time alone.
    with threadpool_limits(1, "blas"), ThreadPoolExecutor(n_threads) as pool:
        for _ in pool.map(score_chunk, range(0, n_resamples, _COLUMNS)):
            pass
    return Bootstrap(observed, resampled)


def draw_counts(n: int, width: int, generator: np.random.Generator) -> Weights:
    """Draw how often each of n rows occurs in each of ``width`` resamples of size n: (n, width), columns sum to n."""
    drawn = generator.integers(0, n, size=(n, width))
    drawn *= width
    drawn += np.arange(width)
    return np.bincount(drawn.ravel(), minlength=n * width).reshape(n, width).astype(np.float32)
