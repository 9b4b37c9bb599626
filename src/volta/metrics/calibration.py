"""Calibration errors: ECE and its variants, smooth ECE."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, check_count
from volta.metrics.bins import N_BINS, ClassBins, RowStatistics, bin_edges, bin_index, class_bins, scan_rows


@dataclass(frozen=True)
class ReliabilityBins:
    """The bins that hold rows, in order of confidence; each array is (n_filled,).

    `lower`, `upper`: bin limits (lo, hi]; `count`: rows; `confidence`: mean top probability; `accuracy`.
    `gap`: confidence − accuracy, above 0 where the model is overconfident.

    >>> reliability_bins([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 1], 2).upper
    array([1.])
    """

    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    count: NDArray[np.intp]
    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def gap(self) -> NDArray[np.float64]:
        """Return confidence − accuracy of each bin, (n_filled,)."""
        return self.confidence - self.accuracy


def reliability_bins(probs: ArrayLike, labels: ArrayLike, n_bins: int = N_BINS) -> ReliabilityBins:
    """Bin rows by top probability into `n_bins` equal-width bins and return those that hold rows.

    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> bins = reliability_bins([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 1])
    >>> bins.count, bins.gap.round(3)
    (array([1, 1, 1, 1]), array([-0.4,  0.7,  0.8, -0.1]))
    """
    return bins_of(scan_rows(probs, labels), check_count(n_bins, "n_bins"))


def ece(probs: ArrayLike, labels: ArrayLike) -> float:
    """Compute the expected calibration error of the top probability.

    Σ_b (n_b / n) |accuracy_b − confidence_b| over 15 equal-width bins (lo, hi], the first closed at 0.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(ece([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 1]), 4)  # (0.1 + 0.8 + 0.4 + 0.7) / 4
    0.5
    """
    return ece_of(bins_of(scan_rows(probs, labels), N_BINS))


def mce(probs: ArrayLike, labels: ArrayLike) -> float:
    """Maximum calibration error of the top probability.

    max_b |accuracy_b − confidence_b| over the non-empty ones of the bins of `ece`.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(mce([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 1]), 4)
    0.8
    """
    return mce_of(bins_of(scan_rows(probs, labels), N_BINS))


def ece_equal_mass(probs: ArrayLike, labels: ArrayLike) -> float:
    """Compute the expected calibration error over 15 bins of equal mass (adaptive ECE).

    Rows in order of confidence are cut at every n/15 rows, a row on a cut being split in proportion; rows of
    equal confidence share the mean of their correctness, so their order does not matter.
    Σ_b |Σ_b correct − Σ_b confidence| / n. probs: (n_samples, n_classes); labels: (n_samples,).

    >>> probs = [[0.8, 0.2]] * 30
    >>> round(ece_equal_mass(probs, [0] * 27 + [1] * 3), 4)  # accuracy 0.9 at confidence 0.8
    0.1
    """
    return equal_mass_of(scan_rows(probs, labels))


def ece_classwise(probs: ArrayLike, labels: ArrayLike) -> float:
    """Classwise (marginal) calibration error.

    (1/K) Σ_k Σ_b (n_kb / n) |ȳ_kb − p̄_kb|, 15 equal-width bins of each class's probability.
    probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(ece_classwise([[0.9, 0.1], [0.9, 0.1]], [0, 1]), 4)  # |0.9 − 0.5| for either class
    0.4
    """
    return classwise_of(class_bins(probs, labels))


def ece_debiased(probs: ArrayLike, labels: ArrayLike) -> float:
    """Debiased root-mean-square calibration error of the top probability.

    √max(0, Σ_b (n_b/n) [(acc_b − conf_b)² − acc_b (1 − acc_b) / (n_b − 1)]) over the bins of `ece`. The squared
    gap of a bin is too large by the variance of its accuracy, which is taken off; before the root the sum is unbiased.
    A bin of one row has no variance to estimate and adds 0. The root mean square of gaps is at least their mean, which
    `ece` estimates. `ece_debiased_interval` gives its interval. probs: (n_samples, n_classes); labels: (n_samples,).
    Reference: Kumar, Liang & Ma, Verified uncertainty calibration, NeurIPS 2019; there the bins are of equal mass.

    >>> probs = [[0.9, 0.1]] * 4
    >>> round(ece_debiased(probs, [0, 0, 1, 1]), 4)  # √(0.4² − 0.25 / 3)
    0.2769
    >>> ece_debiased(probs, [0, 0, 0, 1])  # 0.15² is less than the variance, 0.1875 / 3
    0.0
    """
    return ece_debiased_of(bins_of(scan_rows(probs, labels), N_BINS))


def signed_ce(probs: ArrayLike, labels: ArrayLike) -> float:
    """Signed calibration error: mean top probability − accuracy, above 0 when overconfident.

    (1/n) Σ_i (max_k p_ik − [argmax_k p_ik = y_i]), in [−1, 1]. The signed gaps of any bins, weighted by their rows, sum
    to it, so it needs no bins; over- and underconfident bins cancel, so 0 does not mean calibrated. The gap of each bin
    is `reliability_bins(probs, labels).gap`. probs: (n_samples, n_classes); labels: (n_samples,).

    >>> round(signed_ce([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.7, 0.3]], [0, 1, 1, 1]), 4)  # 0.75 − 0.5
    0.25
    """
    return signed_ce_of(scan_rows(probs, labels))


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


def ece_debiased_of(bins: ReliabilityBins) -> float:
    """Return the debiased root-mean-square gap of `bins`."""
    several = bins.count > 1
    count, accuracy = bins.count[several], bins.accuracy[several]
    square = bins.gap[several] ** 2 - accuracy * (1 - accuracy) / (count - 1)
    return math.sqrt(max(0.0, float(np.sum(count * square)) / int(bins.count.sum())))


def signed_ce_of(rows: RowStatistics) -> float:
    """Return mean confidence − accuracy of scanned rows."""
    return float(np.mean(rows.confidence, dtype=np.float64) - np.mean(rows.correct))


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


_CELLS = 1 << 13
_TOLERANCE = 1e-14
_MAX_STEPS = 200


def smece(probs: ArrayLike, labels: ArrayLike) -> float:
    """Smooth expected calibration error of the top probability.

    smECE = the one σ with σ = ∫₀¹ |(1/n) Σ_i K_σ(t, c_i) (correct_i − c_i)| dt, where c_i is the confidence of row i
    and K_σ the Gaussian kernel of standard deviation σ reflected at 0 and 1. The integral falls as σ grows, so there is
    one fixed point; no number of bins is chosen. In [0, 1].
    Residuals are shared linearly between the two nearest of 8,193 grid points and smoothed there by the discrete heat
    kernel: one pass over the rows, then a few transforms of the grid. The result differs from the exact one by less
    than 1e-6 where it is at least 0.005, and by at most about the grid's step, 1.2e-4, below.
    probs: (n_samples, n_classes); labels: (n_samples,).
    Reference: Błasiok & Nakkiran, Smooth ECE, ICLR 2024 (arXiv 2309.12236).

    >>> round(smece([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.4, 0.6]], [0, 0, 1, 0]), 4)
    0.25
    """
    return smece_of(scan_rows(probs, labels))


def smece_of(rows: RowStatistics) -> float:
    """Return the smooth calibration error of scanned rows."""
    return _fixed_point(_grid_residuals(rows))


def _grid_residuals(rows: RowStatistics) -> NDArray[np.float64]:
    """Return the mean residual correct − confidence that falls to each grid point j / 8192, (8193,)."""
    position = np.minimum(rows.confidence, 1).astype(np.float64)
    residual = rows.correct - position
    position *= _CELLS
    cell = np.minimum(position.astype(np.intp), _CELLS - 1)
    position -= cell
    position *= residual
    upper = np.bincount(cell, position, minlength=_CELLS)
    lower = np.bincount(cell, residual, minlength=_CELLS) - upper
    mass = np.zeros(_CELLS + 1)
    mass[:-1] += lower
    mass[1:] += upper
    mass /= len(residual)
    return mass


def _fixed_point(mass: NDArray[np.float64]) -> float:
    """Return the σ in [0, 1] whose smoothed residuals have the L1 norm σ, by the Illinois method."""
    # A point of the border stands for half a cell, so its density is doubled and its weight in the integral halved.
    mass[[0, -1]] *= 2
    spectrum = np.fft.rfft(np.concatenate([mass, mass[-2:0:-1]])).real
    # A walk over the grid, reflected at its ends, of variance σ²: its weights are positive, so smoothing never adds.
    rate = (1 - np.cos(np.pi / _CELLS * np.arange(_CELLS + 1))) * float(_CELLS) ** 2

    def excess(sigma: float) -> float:
        smoothed = np.abs(np.fft.irfft(spectrum * np.exp(-(sigma**2) * rate), 2 * _CELLS)[: _CELLS + 1])
        return float(smoothed.sum() - (smoothed[0] + smoothed[-1]) / 2) - sigma

    low, high = 0.0, 1.0
    at_low, at_high = excess(low), excess(high)
    if at_low <= _TOLERANCE:
        return 0.0
    if at_high >= 0:
        return 1.0
    sigma = high
    for _ in range(_MAX_STEPS):
        before, sigma = sigma, (low * at_high - high * at_low) / (at_high - at_low)
        value = excess(sigma)
        if value == 0 or abs(sigma - before) <= _TOLERANCE:
            break
        if value > 0:
            # Halving the value at the end that stays keeps the secant from creeping up on one side.
            at_high = at_high / 2 if low == before else at_high
            low, at_low = sigma, value
        else:
            at_low = at_low / 2 if high == before else at_low
            high, at_high = sigma, value
    return sigma
