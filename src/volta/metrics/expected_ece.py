"""The ECE expected under perfect calibration, and bootstrap intervals of the ECE."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, as_prob_array, check_count, check_fraction, checked_row_chunks
from volta.metrics.bins import N_BINS, RowStatistics, bin_index, scan_rows

EXPECTED_ECE_METRICS = ("ece_expected", "ece_expected_low", "ece_expected_high")
"""The mean of the ECE under perfect calibration, and the ends of its 95 % range."""


def show_expected_ece(mean: float, low: float, high: float, decimals: int = 4) -> str:
    """Return the ECE expected under perfect calibration as printed next to an ECE: its mean and 95 % range.

    >>> show_expected_ece(0.0068, 0.0041, 0.01)
    'expected 0.0068, 0.0041–0.0100'
    """
    return f"expected {mean:.{decimals}f}, {low:.{decimals}f}–{high:.{decimals}f}"


@dataclass(frozen=True)
class Interval:
    """An `estimate` with its interval [`low`, `high`], which need not contain it; as a float, the estimate.

    >>> interval = ece_interval([[0.9, 0.1], [0.8, 0.2]], [0, 1], n_resamples=100)
    >>> interval.low <= interval.high
    True
    """

    estimate: float
    low: float
    high: float

    def __float__(self) -> float:
        return self.estimate


def ece_interval(
    probs: ArrayLike, labels: ArrayLike, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> Interval:
    """Compute a basic (reverse percentile) bootstrap interval for `ece`, over rows.

    [2ê − q_hi, 2ê − q_lo] cut to [0, 1], with q the (1 ± level)/2 quantiles of the ECE of resampled rows.
    ECE is biased upwards and a resample doubles the bias, so the percentile interval would lie too high;
    the basic one takes most of the bias back, and for a well calibrated model may end below ê. Near a true ECE of 0 it
    is too narrow: of 95 % intervals about 70 % cover 0 there. `ece_debiased_interval` keeps its level.
    Cost: O(n_resamples · n_samples) time, O(n_samples) memory.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> probs = [[0.9, 0.1]] * 100
    >>> interval = ece_interval(probs, [0] * 70 + [1] * 30)  # accuracy 0.7 ± 0.09
    >>> round(interval.estimate, 3), round(interval.low, 2), round(interval.high, 2)
    (0.2, 0.11, 0.29)
    """
    return ece_interval_of(scan_rows(probs, labels), level=level, n_resamples=n_resamples, seed=seed)


def ece_interval_of(rows: RowStatistics, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0) -> Interval:
    """Compute the interval of `ece_interval` from scanned rows."""
    tail = _tail(level, n_resamples)
    n = len(rows.correct)
    gap = rows.confidence.astype(np.float64) - rows.correct
    index = bin_index(rows.confidence, N_BINS)
    estimate = float(np.abs(np.bincount(index, gap)).sum()) / n
    resampled = np.array(
        [
            np.abs(np.bincount(index.take(drawn), gap.take(drawn))).sum() / n
            for drawn in _resampled_rows(n, n_resamples, seed)
        ]
    )
    lower, upper = np.quantile(resampled, [tail, 1 - tail])
    return Interval(
        estimate=estimate,
        low=min(1.0, max(0.0, 2 * estimate - float(upper))),
        high=min(1.0, max(0.0, 2 * estimate - float(lower))),
    )


def ece_debiased_interval(
    probs: ArrayLike, labels: ArrayLike, *, level: float = 0.95, n_resamples: int = 1000, seed: int = 0
) -> Interval:
    """Compute a bootstrap interval for `ece_debiased`, over rows.

    [√(q_lo − P² + D²), √(q_hi − P² + D²)], 0 for the root of what is below 0: q are the (1 ± level)/2 quantiles of the
    debiased square of resampled rows, D² that of the rows, and P² = Σ_b (n_b/n) (acc_b − conf_b)² of the rows, without
    the correction, is what resampled rows estimate. A `low` of 0 says that the model may be calibrated.
    Cost: O(n_resamples · n_samples) time, O(n_samples) memory.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> probs = [[0.9, 0.1]] * 100
    >>> interval = ece_debiased_interval(probs, [0] * 70 + [1] * 30)  # accuracy 0.7 ± 0.09
    >>> round(interval.estimate, 3), round(interval.low, 2), round(interval.high, 2)
    (0.195, 0.09, 0.28)
    """
    tail = _tail(level, n_resamples)
    rows = scan_rows(probs, labels)
    n = len(rows.correct)
    bins = _BinnedRows.of(rows)
    plain, debiased = bins.squares(slice(None))
    resampled = np.array([bins.squares(drawn)[1] for drawn in _resampled_rows(n, n_resamples, seed)])
    lower, upper = np.quantile(resampled, [tail, 1 - tail])
    return Interval(
        estimate=_root(debiased),
        low=_root(float(lower) - plain + debiased),
        high=_root(float(upper) - plain + debiased),
    )


@dataclass(frozen=True)
class _BinnedRows:
    index: NDArray[np.intp]
    confidence: NDArray[np.float64]

    @classmethod
    def of(cls, rows: RowStatistics) -> "_BinnedRows":
        """Return the bin of each row, right rows after wrong ones, with its confidence."""
        return cls(bin_index(rows.confidence, N_BINS) + N_BINS * rows.correct, rows.confidence.astype(np.float64))

    def squares(self, drawn: NDArray[np.intp] | slice) -> tuple[float, float]:
        """Return the mean squared gap of the drawn rows, and the same without the variance of the accuracies."""
        index = self.index[drawn]
        wrong, right = np.bincount(index, minlength=2 * N_BINS).reshape(2, N_BINS)
        total = np.bincount(index, self.confidence[drawn], minlength=2 * N_BINS).reshape(2, N_BINS).sum(axis=0)
        count = wrong + right
        several = count > 1
        count, right, total = count[several], right[several], total[several]
        square = float(np.sum((total - right) ** 2 / count))
        variance = float(np.sum(right * (count - right) / (count * (count - 1))))
        return square / len(index), (square - variance) / len(index)


def _root(square: float) -> float:
    return min(1.0, math.sqrt(max(0.0, square)))


def _tail(level: float, n_resamples: int) -> float:
    check_count(n_resamples, "n_resamples")
    return (1 - check_fraction(level, "level")) / 2


def _resampled_rows(n: int, n_resamples: int, seed: int) -> Iterator[NDArray[np.intp]]:
    rng = np.random.default_rng(seed)
    for _ in range(n_resamples):
        yield rng.integers(0, n, n)


# Rows of nearly equal confidence are taken as equal: 16 groups a bin, of width 0.004. A group's variance is too large
# by that of its confidences, at most a few thousandths of it.
_GROUPS = 16
_GRID = 1 << 12
LEVEL = 0.95


def ece_expected(probs: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Compute the ECE that a perfectly calibrated predictor with these confidences would show: its mean and range.

    In a perfectly calibrated predictor each row is right with probability `confidence`, independently. Its ECE on n
    rows is Σ_b |S_b| / n, S_b = Σ_{i in bin b} (correct_i − confidence_i), which is above 0 by chance: `estimate` is
    its mean, [`low`, `high`] holds it with probability `level`. Labels play no part. A value of `ece`
    within the range is no evidence of miscalibration; that two values lie there does not show them to be equal.

    Nothing is drawn. The distribution of each S_b is found exactly from its characteristic function, with confidences
    grouped to 0.004, and the distributions of |S_b| are convolved on a grid of 4,096 points. Cost: one pass over
    `probs`, O(√n) after it. probs: (n_samples, n_classes).

    >>> expected = ece_expected([[0.9, 0.1]] * 100)  # 100 rows at 0.9: an accuracy of 0.9 ± 0.03
    >>> round(expected.estimate, 3), round(expected.low, 3), round(expected.high, 3)
    (0.024, 0.0, 0.07)
    """
    array = as_prob_array(probs)
    confidence: Floats = np.empty(len(array), np.float32 if array.dtype.itemsize < 8 else np.float64)
    for rows, chunk in checked_row_chunks(array):
        confidence[rows] = chunk.max(axis=1)
    return expected_ece_of(confidence, level)


def ece_expected_low(probs: ArrayLike) -> float:
    """Return the lower end of the 95 % range of :func:`ece_expected`.

    >>> ece_expected_low([[1.0, 0.0]] * 10)
    0.0
    """
    return ece_expected(probs).low


def ece_expected_high(probs: ArrayLike) -> float:
    """Return the upper end of the 95 % range of :func:`ece_expected`.

    >>> round(ece_expected_high([[0.9, 0.1]] * 100), 2)
    0.07
    """
    return ece_expected(probs).high


def expected_ece_of(confidence: Floats, level: float = LEVEL) -> Interval:
    """Return `ece_expected` of the rows' top probabilities, (n,)."""
    tail = (1 - check_fraction(level, "level")) / 2
    parts = [_gaps(counts, means) for counts, means in _groups(confidence)]
    # The mean of |S_b| is at most its deviation; what lies beyond 12 deviations, or 40 counts, is left at the end.
    deviations = [deviation for _, _, deviation in parts]
    top = min(sum(deviations) + 12 * math.hypot(*deviations) + 40, len(confidence))
    total = np.ones(_GRID // 2 + 1, np.complex128)
    for size, weight, _ in parts:
        total *= np.fft.rfft(_on_grid(size, weight, top))
    shares = np.maximum(np.fft.irfft(total, _GRID), 0.0)
    cumulated = np.cumsum(shares / shares.sum())
    low, high = (float(np.argmax(cumulated >= quantile - 1e-9)) for quantile in (tail, 1 - tail))
    step = top / (_GRID - 1) / len(confidence)
    mean = sum(float(size @ weight) for size, weight, _ in parts) / len(confidence)
    return Interval(mean, min(1.0, low * step), min(1.0, high * step))


def _groups(confidence: Floats) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Return for each bin that holds rows the rows and the mean confidence of its groups."""
    exact = np.minimum(confidence.astype(np.float64, copy=False), 1.0)
    place = bin_index(confidence, N_BINS)
    inner = np.clip(((exact * N_BINS - place) * _GROUPS).astype(np.intp), 0, _GROUPS - 1)
    inner += place * _GROUPS
    counts = np.bincount(inner, minlength=N_BINS * _GROUPS).reshape(N_BINS, _GROUPS)
    sums = np.bincount(inner, exact, minlength=N_BINS * _GROUPS).reshape(N_BINS, _GROUPS)
    return [
        (count[count > 0].astype(np.float64), total[count > 0] / count[count > 0])
        for count, total in zip(counts, sums, strict=True)
        if count.any()
    ]


def _gaps(
    counts: NDArray[np.float64], means: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return the values of |S|, their probabilities, and the deviation of S, for one bin.

    The number of right rows is a sum of binomials, one a group. Its distribution, modulo m, is the inverse Fourier
    transform of its characteristic function at m points; m is so large that what wraps round is below 1e-20.
    """
    expected = float(counts @ means)
    deviation = math.sqrt(float(counts @ (means * (1 - means))))
    if deviation == 0.0:
        return np.zeros(1), np.ones(1), 0.0
    n_points = 1 << math.ceil(math.log2(24 * deviation + 64))
    angle = 2 * np.pi * np.arange(n_points // 2 + 1) / n_points
    # log |1 − c + c e^{it}| and its phase, group by group.
    squared = 1 - np.outer(4 * means * (1 - means), np.sin(angle / 2) ** 2)
    phase = np.arctan2(np.outer(means, np.sin(angle)), 1 - np.outer(means, 1 - np.cos(angle)))
    log_size = 0.5 * np.log(np.maximum(squared, np.finfo(np.float64).tiny))
    characteristic = np.exp(counts @ log_size - 1j * (counts @ phase))
    chances = np.maximum(np.fft.irfft(characteristic, n_points), 0.0)
    first = math.floor(expected) - n_points // 2
    right = np.arange(first, first + n_points)
    gaps = np.abs(right.astype(np.float64) - expected)
    return gaps, chances[right % n_points] / chances.sum(), deviation


def _on_grid(size: Floats, weight: Floats, top: float) -> NDArray[np.float64]:
    """Return the weights on the grid of [0, top], each shared by the two nearest points so that means are kept."""
    scaled = np.minimum(size / top, 1.0) * (_GRID - 1)
    left = np.minimum(scaled.astype(np.intp), _GRID - 2)
    upper = (scaled - left) * weight
    lower = np.bincount(left, weight - upper, minlength=_GRID)
    return np.asarray(lower + np.bincount(left + 1, upper, minlength=_GRID), dtype=np.float64)
