"""A bootstrap interval for the expected calibration error."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from volta.core.checks import check_count, check_fraction
from volta.metrics.binning import N_BINS, bin_index
from volta.metrics.rows import scan_rows


@dataclass(frozen=True)
class Interval:
    """An `estimate` with its interval [`low`, `high`], which need not contain it."""

    estimate: float
    low: float
    high: float


def ece_interval(
    probs: ArrayLike, labels: ArrayLike, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> Interval:
    """Compute a basic (reverse percentile) bootstrap interval for `ece`, over rows.

    [2ê − q_hi, 2ê − q_lo] cut to [0, 1], with q the (1 ± level)/2 quantiles of the ECE of resampled rows.
    ECE is biased upwards and a resample doubles the bias, so the percentile interval would lie too high;
    the basic one takes the bias back, and for a well calibrated model may end below ê.
    Cost: O(n_resamples · n_samples) time, O(n_samples) memory.
    probs: (n_samples, n_classes); labels: (n_samples,).
    """
    check_fraction(level, "level")
    check_count(n_resamples, "n_resamples")
    rows = scan_rows(probs, labels)
    n = len(rows.correct)
    gap = rows.confidence.astype(np.float64) - rows.correct
    index = bin_index(rows.confidence, N_BINS)
    estimate = float(np.abs(np.bincount(index, gap)).sum()) / n
    rng = np.random.default_rng(seed)
    resampled = np.empty(n_resamples)
    for b in range(n_resamples):
        drawn = rng.integers(0, n, n)
        resampled[b] = np.abs(np.bincount(index.take(drawn), gap.take(drawn))).sum() / n
    tail = (1 - level) / 2
    lower, upper = np.quantile(resampled, [tail, 1 - tail])
    return Interval(
        estimate=estimate,
        low=min(1.0, max(0.0, 2 * estimate - float(upper))),
        high=min(1.0, max(0.0, 2 * estimate - float(lower))),
    )
