"""Accuracy and negative log-likelihood."""

import warnings

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, checked_row_chunks
from volta.core.errors import VoltaWarning
from volta.metrics.rows import paired, scan_rows

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
