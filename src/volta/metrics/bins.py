"""Statistics of each sample and equal-width bins, from one pass over the probabilities."""

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


N_BINS = 15


def bin_edges(n_bins: int) -> NDArray[np.float64]:
    """Return the n_bins + 1 edges j / n_bins, each the nearest float64."""
    return np.arange(n_bins + 1) / n_bins


def bin_index(values: Floats, n_bins: int) -> NDArray[np.intp]:
    """Return for each value in [0, 1] the j with edge_j < value ≤ edge_{j+1}; j = 0 also holds value 0.

    ⌈value · n_bins⌉ − 1 can be one off where the product rounds, so it is compared with the edges; the
    product of a float32 and n_bins < 2²⁰ is exact in float64 and needs no comparison.
    A value above 1 by rounding of the input counts in the last bin. values: (n,); result: (n,).
    """
    exact: NDArray[np.float64] = values.astype(np.float64, copy=False)
    scaled = exact * n_bins
    np.ceil(scaled, out=scaled)
    scaled -= 1
    np.clip(scaled, 0, n_bins - 1, out=scaled)
    index = scaled.astype(np.intp)
    if values.dtype.itemsize > 4 or n_bins >= 1 << 20:
        edges = bin_edges(n_bins)
        index -= exact <= edges.take(index)
        index += exact > edges.take(index + 1)
        np.clip(index, 0, n_bins - 1, out=index)
    return index


def first_bin_limit(n_bins: int, dtype: np.dtype[np.floating]) -> np.floating:
    """Return the largest number of `dtype` that lies in the first bin."""
    limit = dtype.type(1 / n_bins)
    return limit if float(limit) <= 1 / n_bins else np.nextafter(limit, dtype.type(0))


_FLUSH_ENTRIES = 1 << 16


@dataclass(frozen=True)
class ClassBins:
    """Sums over rows i with p_ik in bin b: `count` n_kb, `prob` Σ p_ik, `hits` Σ [y_i = k]; each (K, bins).

    `sum_squares` is Σ_ik p_ik², `true_prob` is Σ_i p_{i,y_i}, `squared_error` is Σ_ik (p_ik − [y_i = k])².
    """

    count: NDArray[np.float64]
    prob: NDArray[np.float64]
    hits: NDArray[np.float64]
    sum_squares: float
    true_prob: float
    squared_error: float
    n_samples: int


class ClassBinCounter:
    """Gathers `ClassBins` from row chunks.

    At most 14 entries of a row exceed 1/15, so only those are binned one by one; the first bin is what
    remains of each column.
    """

    def __init__(self, array: Floats) -> None:
        self.n_samples, self.n_classes = array.shape
        self._cells = self.n_classes * N_BINS
        self._count = np.zeros(self._cells)
        self._prob = np.zeros(self._cells)
        self._hits = np.zeros(self._cells)
        self._low_prob = np.zeros(self.n_classes)
        self._squares = self._true_prob = self._squared_error = 0.0
        self._copy = np.empty((0, self.n_classes))
        self._class_cell = np.empty(0, np.intp)
        self._pending: list[tuple[NDArray[np.intp], NDArray[np.float64]]] = []
        self._pending_true: list[tuple[NDArray[np.intp], NDArray[np.float64]]] = []
        self._n_pending = 0

    def add(self, chunk: Floats, labels: NDArray[np.intp]) -> None:
        """Count one chunk of rows and its labels."""
        n_rows = len(chunk)
        if n_rows > len(self._copy):
            self._copy = np.empty((n_rows, self.n_classes))
            self._class_cell = np.tile(np.arange(0, self._cells, N_BINS), n_rows)
        copy = self._copy[:n_rows]
        np.copyto(copy, chunk)
        self._squares += float(np.einsum("ij,ij->", copy, copy))
        at_label = np.arange(0, chunk.size, self.n_classes) + labels
        true_prob = subtract_one_hot(copy, at_label)
        self._true_prob += float(true_prob.sum())
        self._squared_error += float(np.einsum("ij,ij->", copy, copy))
        flat = copy.reshape(-1)
        flat[at_label] = true_prob
        self._pending_true.append((labels * N_BINS, true_prob))

        high = np.flatnonzero(chunk > first_bin_limit(N_BINS, chunk.dtype))
        self._pending.append((self._class_cell.take(high), flat.take(high)))
        self._n_pending += len(high) + n_rows
        flat[high] = 0.0
        self._low_prob += np.einsum("ij->j", copy)
        if self._n_pending > _FLUSH_ENTRIES:
            self._flush()

    def _flush(self) -> None:
        cells, prob = _cells_of(self._pending)
        self._count += np.bincount(cells, minlength=self._cells)
        self._prob += np.bincount(cells, prob, minlength=self._cells)
        self._hits += np.bincount(_cells_of(self._pending_true)[0], minlength=self._cells)
        self._pending.clear()
        self._pending_true.clear()
        self._n_pending = 0

    def result(self) -> ClassBins:
        """Return the sums over every chunk added."""
        if self._n_pending:
            self._flush()
        shape = (self.n_classes, N_BINS)
        count, prob = self._count.reshape(shape).copy(), self._prob.reshape(shape).copy()
        count[:, 0] = self.n_samples - count[:, 1:].sum(axis=1)
        prob[:, 0] = self._low_prob
        return ClassBins(
            count,
            prob,
            self._hits.reshape(shape).copy(),
            self._squares,
            self._true_prob,
            self._squared_error,
            self.n_samples,
        )


def _cells_of(
    pending: list[tuple[NDArray[np.intp], NDArray[np.float64]]],
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    prob = np.concatenate([values for _, values in pending])
    cells = np.concatenate([class_cell for class_cell, _ in pending])
    cells += bin_index(prob, N_BINS)
    return cells, prob


def subtract_one_hot(copy: NDArray[np.float64], at_label: NDArray[np.intp]) -> NDArray[np.float64]:
    """Turn probabilities into p − onehot(y) in place; return the true-class probabilities, (n_rows,)."""
    flat = copy.reshape(-1)
    true_prob = flat.take(at_label)
    flat[at_label] = true_prob - 1.0
    return true_prob


def class_bins(probs: ArrayLike, labels: ArrayLike) -> ClassBins:
    """Return the per-class bin sums of checked (probs, labels)."""
    array, checked = paired(probs, labels)
    counter = ClassBinCounter(array)
    for rows, chunk in checked_row_chunks(array):
        counter.add(chunk, checked[rows])
    return counter.result()
