"""Accuracy, negative log-likelihood, the Brier score and its decomposition."""

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, checked_row_chunks
from volta.core.errors import VoltaWarning
from volta.metrics.bins import ClassBins, class_bins, paired, scan_rows, subtract_one_hot

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


class FlooredProbabilityWarning(VoltaWarning):
    """Rows gave their true class a probability below the smallest float64 normal; their log was floored.

    >>> import warnings
    >>> warnings.simplefilter("error", FlooredProbabilityWarning)  # now nll raises instead
    >>> nll([[1.0, 0.0]], [1])
    Traceback (most recent call last):
        ...
    volta.metrics.scoring.FlooredProbabilityWarning: 1 of 1 rows give their true class a probability below ...
    """


def accuracy(probs: ArrayLike, labels: ArrayLike) -> float:
    """Share of rows whose most probable class is the label.

    (1/n) Σ_i [argmax_k p_ik = y_i]; the lowest class index among equal maxima is the prediction.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> accuracy([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], [0, 2])
    0.5
    """
    return float(np.mean(scan_rows(probs, labels).correct))


def nll(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative natural log of the true class's probability.

    −(1/n) Σ_i log max(p_{i,y_i}, t), with t the smallest float64 normal, 2.2e-308; a
    `FlooredProbabilityWarning` says how many rows met the floor.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(nll([[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]], [0, 2]), 4)  # (−ln 0.5 − ln 0.1) / 2
    1.4979
    """
    return nll_of(true_probs(probs, labels))


def nll_floored_rows(probs: ArrayLike, labels: ArrayLike) -> int:
    """Count the rows whose true class has a probability below the smallest float64 normal.

    Σ_i [p_{i,y_i} < 2.2e-308]. probs: (n_samples, n_classes); labels: (n_samples,).

    >>> nll_floored_rows([[1.0, 0.0], [0.5, 0.5]], [1, 0])
    1
    """
    return _floored(true_probs(probs, labels))


def true_probs(probs: ArrayLike, labels: ArrayLike) -> Floats:
    """Return p_{i,y_i}, (n_samples,), in the input's precision."""
    array, checked = paired(probs, labels)
    for _ in checked_row_chunks(array):
        pass
    return array[np.arange(len(array)), checked]


def nll_of(true_prob: Floats, stacklevel: int = 3) -> float:
    """Return the mean negative log of `true_prob`, (n_samples,), with a warning where it was floored.

    `stacklevel` is the number of calls from the warning up to the user's line.
    """
    values: NDArray[np.float64] = true_prob.astype(np.float64)
    floored = _floored(values)
    if floored:
        warnings.warn(
            f"{floored} of {len(values)} rows give their true class a probability below "
            f"{SMALLEST_NORMAL:.3g} and count 708.4 each in nll; compute them in float64 to avoid underflow",
            FlooredProbabilityWarning,
            stacklevel=stacklevel,
        )
        np.maximum(values, SMALLEST_NORMAL, out=values)
    # Subtracting from 0.0, not negating, gives a perfect prediction 0.0 and not −0.0.
    return 0.0 - float(np.mean(np.log(values, out=values)))


def _floored(true_prob: Floats) -> int:
    return int(np.count_nonzero(true_prob.astype(np.float64, copy=False) < SMALLEST_NORMAL))


@dataclass(frozen=True)
class BrierDecomposition:
    """Brier = reliability − resolution + uncertainty + residual.

    >>> parts = brier_decomposition([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1])
    >>> round(parts.reliability - parts.resolution + parts.uncertainty + parts.residual, 4)  # the Brier score
    0.4583
    """

    reliability: float
    resolution: float
    uncertainty: float
    residual: float


def brier(probs: ArrayLike, labels: ArrayLike) -> float:
    """Brier score, summed over classes and averaged over rows.

    (1/n) Σ_i Σ_k (p_ik − [y_i = k])², in [0, 2].
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(brier([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]), 4)  # (0.125 + 1.125 + 0.125) / 3
    0.4583
    """
    array, checked = paired(probs, labels)
    total = 0.0
    copy = np.empty((0, array.shape[1]))
    for rows, chunk in checked_row_chunks(array):
        if len(chunk) > len(copy):
            copy = np.empty(chunk.shape)
        error = copy[: len(chunk)]
        np.copyto(error, chunk)
        subtract_one_hot(error, np.arange(0, chunk.size, chunk.shape[1]) + checked[rows])
        total += float(np.einsum("ij,ij->", error, error))
    return total / len(array)


def brier_decomposition(probs: ArrayLike, labels: ArrayLike) -> BrierDecomposition:
    """Murphy's decomposition of the Brier score with the within-bin residual kept.

    With n_kb rows of mean probability p̄_kb and hit rate ȳ_kb in bin b of class k, and base rate ȳ_k:
    reliability = Σ n_kb (p̄_kb − ȳ_kb)² / n; resolution = Σ n_kb (ȳ_kb − ȳ_k)² / n;
    uncertainty = Σ_k ȳ_k (1 − ȳ_k); residual = Σ [within-bin (p − p̄)² − 2 (p − p̄)(y − ȳ)] / n.
    Bins: 15 equal-width (lo, hi] per class probability. probs: (n_samples, n_classes); labels: (n_samples,).
    Reference: Stephenson, Coelho & Jolliffe, Weather and Forecasting 23 (2008).

    >>> round(brier_decomposition([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]).uncertainty, 4)  # ⅓ · ⅔ · 2
    0.4444
    """
    return decompose(class_bins(probs, labels))


def decompose(bins: ClassBins) -> BrierDecomposition:
    """Return the decomposition from per-class bin sums."""
    n = bins.n_samples
    filled = bins.count > 0
    count, prob, hits = bins.count[filled], bins.prob[filled], bins.hits[filled]
    base_rate = bins.hits.sum(axis=1) / n
    base_rate_of_bin = np.broadcast_to(base_rate[:, None], bins.count.shape)[filled]
    within_variance = bins.sum_squares - float(np.sum(prob * prob / count))
    within_covariance = bins.true_prob - float(np.sum(prob * hits / count))
    return BrierDecomposition(
        reliability=float(np.sum((prob - hits) ** 2 / count)) / n,
        resolution=float(np.sum(count * (hits / count - base_rate_of_bin) ** 2)) / n,
        uncertainty=float(np.sum(base_rate * (1 - base_rate))),
        residual=(within_variance - 2 * within_covariance) / n,
    )


def brier_reliability(probs: ArrayLike, labels: ArrayLike) -> float:
    """Reliability part of the Brier score: Σ_kb n_kb (p̄_kb − ȳ_kb)² / n; see `brier_decomposition`.

    >>> round(brier_reliability([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]), 4)
    0.125
    """
    return brier_decomposition(probs, labels).reliability


def brier_resolution(probs: ArrayLike, labels: ArrayLike) -> float:
    """Resolution part of the Brier score: Σ_kb n_kb (ȳ_kb − ȳ_k)² / n; see `brier_decomposition`.

    >>> round(brier_resolution([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]), 4)
    0.1111
    """
    return brier_decomposition(probs, labels).resolution


def brier_uncertainty(probs: ArrayLike, labels: ArrayLike) -> float:
    """Uncertainty part of the Brier score: Σ_k ȳ_k (1 − ȳ_k); see `brier_decomposition`.

    >>> round(brier_uncertainty([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]), 4)
    0.4444
    """
    return brier_decomposition(probs, labels).uncertainty


def brier_residual(probs: ArrayLike, labels: ArrayLike) -> float:
    """Within-bin residual of the Brier score: variance − 2 covariance in bins; see `brier_decomposition`.

    >>> round(brier_residual([[0.75, 0.25], [0.75, 0.25], [0.25, 0.75]], [0, 1, 1]), 4)
    0.0
    """
    return brier_decomposition(probs, labels).residual
