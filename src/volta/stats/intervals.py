"""What resampled test rows and new seeds do to a mean over seeds: its variance, its interval, and the draws."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.stats.estimate import Estimate
from volta.stats.weighted import Floats
from volta.stats.weighted_auroc import Weights

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
    means = draws.mean(axis=0)
    centre, spread, d = float(means.mean()), float(np.var(means, ddof=1)) if n_resamples > 1 else 0.0, observed.mean()
    if shared is None:
        shared = shared_row_variance(draws) if n_resamples > 1 else 0.0
    moved = centre + (means - centre) * (np.sqrt(shared / spread) if spread > 0 else 0.0)
    stretch = 1.0
    if n > 1:
        moved += np.sqrt(n / (n - 1)) * ((observed - d) @ _seed_counts(n, n_resamples, seed)) / n
        errors = Estimate(float(d), n, float(np.std(observed, ddof=1)) / n**0.5, n - 1, shared**0.5)
        stretch = 1.0 if errors.constant else errors.over_normal(level)
    tail = (1 - level) / 2
    low, high = np.quantile(moved, [tail, 1 - tail])
    middle = 2 * d - centre
    return float(middle - stretch * (high - centre)), float(middle + stretch * (centre - low))


@lru_cache(maxsize=4)
def _seed_counts(n: int, n_resamples: int, seed: int) -> Floats:
    """Return how often each of n seeds occurs in each resample, (n, n_resamples): the same for every difference."""
    return draw_counts(n, n_resamples, rng(seed, "bootstrap", "seeds")).astype(np.float64)


def resamples_at_once(n_rows: int) -> int:
    """Return how many resamples of n rows are drawn and scored at a time."""
    return _COLUMNS if n_rows <= _MANY_ROWS else _COLUMNS_OF_MANY


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
