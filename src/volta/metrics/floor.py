"""The ECE that chance alone gives: what a perfectly calibrated predictor with the same confidences would show."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, as_prob_array, check_fraction, checked_row_chunks
from volta.metrics.binning import N_BINS, bin_index
from volta.metrics.interval import Interval

# Rows of nearly equal confidence are taken as equal: 16 groups a bin, of width 0.004. A group's variance is too large
# by that of its confidences, at most a few thousandths of it.
_GROUPS = 16
_GRID = 1 << 12
LEVEL = 0.95


def ece_floor(probs: ArrayLike, *, level: float = LEVEL) -> Interval:
    """Compute the ECE that a perfectly calibrated predictor with these confidences would show: its mean and range.

    In a perfectly calibrated predictor each row is right with probability `confidence`, independently. Its ECE on n
    rows is Σ_b |S_b| / n, S_b = Σ_{i in bin b} (correct_i − confidence_i), which is above 0 by chance: `estimate` is
    its mean, [`low`, `high`] holds it with probability `level`. Labels play no part. A value of `ece`
    within the range is no evidence of miscalibration; that two values lie there does not show them to be equal.

    Nothing is drawn. The distribution of each S_b is found exactly from its characteristic function, with confidences
    grouped to 0.004, and the distributions of |S_b| are convolved on a grid of 4,096 points. Cost: one pass over
    `probs`, O(√n) after it. probs: (n_samples, n_classes).

    >>> floor = ece_floor([[0.9, 0.1]] * 100)  # 100 rows at 0.9: the share of right ones is 0.9 ± 0.03
    >>> round(floor.estimate, 3), round(floor.low, 3), round(floor.high, 3)
    (0.024, 0.0, 0.07)
    """
    array = as_prob_array(probs)
    confidence: Floats = np.empty(len(array), np.float32 if array.dtype.itemsize < 8 else np.float64)
    for rows, chunk in checked_row_chunks(array):
        confidence[rows] = chunk.max(axis=1)
    return floor_of(confidence, level)


def ece_floor_low(probs: ArrayLike) -> float:
    """Return the lower end of the 95 % range of :func:`ece_floor`.

    >>> ece_floor_low([[1.0, 0.0]] * 10)
    0.0
    """
    return ece_floor(probs).low


def ece_floor_high(probs: ArrayLike) -> float:
    """Return the upper end of the 95 % range of :func:`ece_floor`.

    >>> round(ece_floor_high([[0.9, 0.1]] * 100), 2)
    0.07
    """
    return ece_floor(probs).high


def floor_of(confidence: Floats, level: float = LEVEL) -> Interval:
    """Return `ece_floor` of the rows' top probabilities, (n,)."""
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
