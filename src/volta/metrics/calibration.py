"""Calibration errors of the top probability and of every class's probability."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, check_count
from volta.metrics.binning import N_BINS, bin_edges, bin_index
from volta.metrics.classbins import ClassBins, class_bins
from volta.metrics.rows import RowStatistics, scan_rows


@dataclass(frozen=True)
class ReliabilityBins:
    """The bins that hold rows, in order of confidence; each array is (n_filled,).

    `lower`, `upper`: bin limits (lo, hi]; `count`: rows; `confidence`: mean top probability; `accuracy`.
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.intp]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]


def reliability_bins(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> ReliabilityBins:
    """Bin rows by top probability into `n_bins` equal-width bins and return those that hold rows.

    probs: (n_samples, n_classes); labels: (n_samples,).
    """
    return bins_of(scan_rows(probs, labels), check_count(n_bins, "n_bins"))


def ece(probs: ArrayLike, labels: ArrayLike) -> float:
    """Compute the expected calibration error of the top probability.

    Σ_b (n_b / n) |accuracy_b − confidence_b| over 15 equal-width bins (lo, hi], the first closed at 0.
    probs: (n_samples, n_classes); labels: (n_samples,).
    """
    return ece_of(bins_of(scan_rows(probs, labels), N_BINS))


def mce(probs: ArrayLike, labels: ArrayLike) -> float:
    """Maximum calibration error of the top probability.

    max_b |accuracy_b − confidence_b| over the non-empty ones of the bins of `ece`.
    probs: (n_samples, n_classes); labels: (n_samples,).
    """
    return mce_of(bins_of(scan_rows(probs, labels), N_BINS))


def ece_equal_mass(probs: ArrayLike, labels: ArrayLike) -> float:
    """Compute the expected calibration error over 15 bins of equal mass (adaptive ECE).

    Rows in order of confidence are cut at every n/15 rows, a row on a cut being split in proportion; rows of
    equal confidence share the mean of their correctness, so their order does not matter.
    Σ_b |Σ_b correct − Σ_b confidence| / n. probs: (n_samples, n_classes); labels: (n_samples,).
    """
    return equal_mass_of(scan_rows(probs, labels))


def ece_classwise(probs: ArrayLike, labels: ArrayLike) -> float:
    """Classwise (marginal) calibration error.

    (1/K) Σ_k Σ_b (n_kb / n) |ȳ_kb − p̄_kb|, 15 equal-width bins of each class's probability.
    probs: (n_samples, n_classes); labels: (n_samples,).
    """
    return classwise_of(class_bins(probs, labels))


def bins_of(rows: RowStatistics, n_bins: int) -> ReliabilityBins:
    """Return the non-empty reliability bins of scanned rows."""
    index = bin_index(rows.confidence, n_bins)
    confidence = np.bincount(index, rows.confidence, minlength=n_bins)
    index += n_bins * rows.correct
    misses, hits = np.bincount(index, minlength=2 * n_bins).reshape(2, n_bins)
    count = misses + hits
    filled = count > 0
    edges = bin_edges(n_bins)
    return ReliabilityBins(
        lower=edges[:-1][filled],
        upper=edges[1:][filled],
        count=count[filled],
        confidence=confidence[filled] / count[filled],
        accuracy=hits[filled] / count[filled],
    )


def ece_of(bins: ReliabilityBins) -> float:
    """Return the count-weighted mean gap of `bins`."""
    return float(np.sum(bins.count * np.abs(bins.accuracy - bins.confidence)) / bins.count.sum())


def mce_of(bins: ReliabilityBins) -> float:
    """Return the largest gap of `bins`."""
    return float(np.max(np.abs(bins.accuracy - bins.confidence)))


def equal_mass_of(rows: RowStatistics) -> float:
    """Return the equal-mass error of scanned rows."""
    confidence: Floats = np.sort(rows.confidence)
    wrong: Floats = np.sort(rows.confidence[~rows.correct])
    n = len(confidence)
    whole, part = np.divmod(np.arange(N_BINS + 1) * n, N_BINS)
    cut_value = confidence[np.minimum(whole, n - 1)]
    below = np.concatenate([[0.0], np.cumsum(confidence, dtype=np.float64)])
    confidence_at_cut = below[whole] + part / N_BINS * cut_value

    tie_start = np.searchsorted(confidence, cut_value, side="left")
    tie_end = np.searchsorted(confidence, cut_value, side="right")
    wrong_before = np.searchsorted(wrong, cut_value, side="left")
    wrong_in_tie = np.searchsorted(wrong, cut_value, side="right") - wrong_before
    position = whole + part / N_BINS
    share = (position - tie_start) / (tie_end - tie_start)
    correct_at_cut = position - (wrong_before + wrong_in_tie * share)
    return float(np.sum(np.abs(np.diff(correct_at_cut) - np.diff(confidence_at_cut)))) / n


def classwise_of(bins: ClassBins) -> float:
    """Return the classwise error from per-class bin sums."""
    return float(np.sum(np.abs(bins.prob - bins.hits))) / (bins.n_samples * len(bins.count))
