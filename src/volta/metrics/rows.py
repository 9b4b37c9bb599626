"""What one pass over the probabilities gives for each row: top probability, correctness, p_y."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from volta.core.checks import Floats, as_prob_array, check_labels, check_same_length, checked_row_chunks

# Below this many classes a transposed copy is faster than a reduction along short rows.
_FEW_CLASSES = 32


@dataclass(frozen=True)
class RowStatistics:
    """For each row `confidence` = max_k p_k, `correct` = [argmax_k p_k = y], `true_prob` = p_y.

    The predicted class is the lowest index among equal maxima. Floats keep the dtype of the input.
    Each array is (n_samples,).
    """

    confidence: Floats
    correct: NDArray[np.bool_]
    true_prob: Floats


def paired(probs: ArrayLike, labels: ArrayLike) -> tuple[Floats, NDArray[np.intp]]:
    """Return probabilities (values unchecked until they are read in chunks) and checked labels."""
    array = as_prob_array(probs)
    checked = check_labels(labels, array.shape[1])
    check_same_length(probs=array, labels=checked)
    return array, checked


def empty_rows(array: Floats) -> RowStatistics:
    """Return an unfilled `RowStatistics` for `array`."""
    n_samples = len(array)
    dtype = np.float32 if array.dtype.itemsize < 8 else np.float64
    return RowStatistics(np.empty(n_samples, dtype), np.empty(n_samples, np.bool_), np.empty(n_samples, dtype))


def fill_rows(into: RowStatistics, rows: slice, chunk: Floats, labels: NDArray[np.intp]) -> None:
    """Write the entries of `rows` from their probabilities `chunk` and their `labels`."""
    n_rows, n_classes = chunk.shape
    offsets = np.arange(0, n_rows * n_classes, n_classes)
    flat = chunk.reshape(-1)
    true_prob = flat.take(offsets + labels)
    into.true_prob[rows] = true_prob
    if n_classes > _FEW_CLASSES:
        predicted = chunk.argmax(axis=1)
        into.confidence[rows] = flat.take(offsets + predicted)
        into.correct[rows] = predicted == labels
        return
    columns = np.ascontiguousarray(chunk.T)
    confidence = columns.max(axis=0)
    correct = true_prob == confidence
    at_top = columns == confidence
    if np.count_nonzero(at_top) != n_rows:
        tied = np.flatnonzero(np.count_nonzero(at_top, axis=0) > 1)
        correct[tied] = chunk[tied].argmax(axis=1) == labels[tied]
    into.confidence[rows] = confidence
    into.correct[rows] = correct


def scan_rows(probs: ArrayLike, labels: ArrayLike) -> RowStatistics:
    """Return the per-row quantities of checked (probs, labels)."""
    array, checked = paired(probs, labels)
    result = empty_rows(array)
    for rows, chunk in checked_row_chunks(array):
        fill_rows(result, rows, chunk, checked[rows])
    return result
