"""Many p-values at once: discoveries in a batch, and several p-values of one row."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import refuse_mask, without_graph
from volta.core.errors import InputError
from volta.decisions.ranks import exact_level

HARD_SHARE = 0.1


def benjamini_hochberg(pvalues: ArrayLike, fdr: float = 0.1) -> NDArray[np.bool_]:
    """Flag rows of a batch so that the expected share of false flags among the flags is at most ``fdr``.

    With p₍₁₎ ≤ … ≤ p₍ₘ₎ all rows with p ≤ p₍ₖ₎ are flagged, k = max{i : p₍ᵢ₎ ≤ i · fdr / m}.
    Guarantee: FDR ≤ fdr · (share of in-distribution rows), for p-values of `conformal_pvalues` or `OodTest.pvalues`
    without ``rng``, tied scores included, where each in-distribution row is exchangeable with the calibration rows
    given all other rows. The p-values share their calibration rows and so depend on one another, in a way that does no
    harm: the number of flags, whenever row i is flagged, does not depend on which of the n + 1 calibration scores and
    its own is that of row i. A batch of m rows needs about m / fdr calibration rows for a single OOD row to be found.
    Reference: Benjamini and Hochberg (1995); Bates et al. (2023), Testing for Outliers with Conformal p-values;
    Marandon, Lei, Mary and Roquain (2024), Adaptive Novelty Detection with False Discovery Rate Guarantee.
    pvalues: (n_samples,) in [0, 1]; returns (n_samples,) booleans.

    >>> benjamini_hochberg([0.01, 0.9, 0.04, 0.09], fdr=0.1)
    array([ True, False,  True, False])
    """
    values = check_pvalues(pvalues, 1)
    level = exact_level(fdr, "fdr")
    ordered = np.sort(values)
    steps = np.arange(1, len(ordered) + 1) * level.numerator / (level.denominator * len(ordered))
    within = np.flatnonzero(ordered <= steps)
    cut = ordered[within[-1]] if len(within) else -1.0
    return np.asarray(values <= cut)


def discovery_note(n_calibration: int, n_rows: int, fdr: float) -> str:
    """Say in words where so few calibration rows make flags of a batch impossible or hard; empty where they do not.

    No p-value is below 1 / (n + 1), so that any flag takes k = m / (fdr · (n + 1)) rows of the batch's m with such
    p-values, rounded up; hard is where that is more than one row, and more than a tenth of the batch.

    >>> discovery_note(9, 100, 0.2)
    '9 calibration rows are few for fdr = 0.2: no row of this batch of 100 is flagged unless at least 50 are far out'
    """
    level = exact_level(fdr, "fdr")
    needed = -(-n_rows * level.denominator // (level.numerator * (n_calibration + 1)))
    few = f"{n_calibration} calibration rows are few for fdr = {fdr:g}: no row of this batch of {n_rows} is flagged"
    if needed > n_rows:
        return f"{few}, which takes {-(-level.denominator // level.numerator) - 1} calibration rows at least"
    return f"{few} unless at least {needed} are far out" if needed > max(1, HARD_SHARE * n_rows) else ""


def bonferroni(pvalues: ArrayLike) -> NDArray[np.float64]:
    """Combine m p-values of each row into one: p = min(1, m · min_j p_j).

    Guarantee: P(p ≤ t) ≤ t if each p_j has it, whatever their dependence; in general less than t. It needs no further
    rows; where there are some, `fit_combination` loses nothing.
    pvalues: (n_samples, m) in [0, 1]; returns (n_samples,).

    >>> bonferroni([[0.01, 0.5], [0.8, 0.9]])
    array([0.02, 1.  ])
    """
    values = check_pvalues(pvalues, 2)
    return np.asarray(np.minimum(1.0, values.shape[1] * values.min(axis=1)))


def check_pvalues(pvalues: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """Return `pvalues` as a float64 array of ``ndim`` dimensions with values from 0 to 1."""
    refuse_mask(pvalues, "pvalues")
    values = np.asarray(without_graph(pvalues), dtype=np.float64)
    if values.ndim != ndim or values.size == 0:
        expected = "(n_samples,)" if ndim == 1 else "(n_samples, n_tests)"
        raise InputError(f"pvalues has shape {values.shape}; expected {expected}, not empty")
    wrong = ~((values >= 0) & (values <= 1))
    if wrong.any():
        row = int(np.argmax(wrong.reshape(len(values), -1).any(axis=1)))
        raise InputError(f"pvalues row {row} holds {values[row][wrong[row]].flat[0]}; pass p-values from 0 to 1")
    return values
