"""Scores of logits, probabilities and penultimate vectors that several methods share; all in float64."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array

_CACHED_VALUES = 1 << 16


def row_slices(values: Array, n_rows: int) -> Iterator[slice]:
    """Walk rows in pieces of ``n_rows``."""
    for start in range(0, len(values), n_rows):
        yield slice(start, start + n_rows)


def cached_slices(values: Array) -> Iterable[slice]:
    """Walk the rows of a matrix in pieces that stay in the processor's cache: arrays of full size cost far more."""
    if values.size <= _CACHED_VALUES:
        return (slice(None),)
    return row_slices(values, max(1, _CACHED_VALUES // max(1, values.shape[1])))


Floats = NDArray[np.float64]

_SHORT_ROW = 64
_NEARLY_CERTAIN = 1.0 - 1e-6


def softmax(logits: Floats, scale: float = 1.0) -> Floats:
    """Return exp(c l_k) / Σ_j exp(c l_j) for each row, c = ``scale``."""
    probs: Floats = np.empty(logits.shape)
    for rows in cached_slices(logits):
        part = probs[rows]
        _exponentials(logits[rows], scale, part)
        part /= np.einsum("ij->i", part)[:, None]
    return probs


def softmax_and_energy(logits: Floats) -> tuple[Floats, Floats]:
    """Return softmax(l) and the free energy −log Σ_k exp(l_k) of each row, from one pass of exponentials."""
    probs: Floats = np.empty(logits.shape)
    free: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        part = probs[rows]
        largest = _exponentials(logits[rows], 1.0, part)
        sums = row_sums(part)
        free[rows] = -(largest + np.log(sums))
        part /= sums[:, None]
    return probs, free


def softmax_and_doubt(logits: Floats) -> tuple[Floats, Floats]:
    """Return softmax(l) and 1 − max_k softmax(l)_k of each row as :func:`one_minus_max_softmax` does, in one pass."""
    probs: Floats = np.empty(logits.shape)
    doubt: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        part = probs[rows]
        _exponentials(logits[rows], 1.0, part)
        doubt[rows] = _share_of_others(part)
        part /= np.einsum("ij->i", part)[:, None]
    return probs, doubt


def mean_softmax(many_logits: Iterable[Floats]) -> Floats:
    """Return the mean of softmax over several logits of the same rows, holding one at a time."""
    walked = map(softmax, many_logits)
    total, count = next(walked), 1
    for probs in walked:
        total += probs
        count += 1
    return total / count


def entropy(probs: Floats) -> Floats:
    """Return −Σ_k p_k log p_k of each row, with 0 log 0 = 0."""
    summed: Floats = np.empty(len(probs))
    for rows in cached_slices(probs):
        logs = np.log(np.maximum(probs[rows], np.finfo(np.float64).tiny))
        summed[rows] = -np.einsum("ij,ij->i", probs[rows], logs)
    return np.maximum(summed, 0.0)


def log_sum_exp(logits: Floats) -> Floats:
    """Return log Σ_k exp(l_k) of each row, where each row has a finite value."""
    summed: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        part: Floats = np.empty(logits[rows].shape)
        largest = _exponentials(logits[rows], 1.0, part)
        summed[rows] = largest + np.log(row_sums(part))
    return summed


def at_labels(values: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return each row's value at its true class."""
    return values[np.arange(len(values)), labels]


def energy(logits: Floats) -> Floats:
    """Return the free energy −log Σ_k exp(l_k) of each row; higher is more OOD."""
    return -log_sum_exp(logits)


def one_minus_max_softmax(logits: Floats, scale: float = 1.0) -> Floats:
    """Return 1 − max_k softmax(c l)_k, c = ``scale``, without cancellation: the sum of the other classes' shares."""
    doubt: Floats = np.empty(len(logits))
    for rows in cached_slices(logits):
        part: Floats = np.empty(logits[rows].shape)
        _exponentials(logits[rows], scale, part)
        doubt[rows] = _share_of_others(part)
    return doubt


def one_minus_max(probs: Array) -> Floats:
    """Return 1 − max_k p_k of each row of probabilities; near certainty the sum of the others, which keeps its digits.

    >>> one_minus_max(np.array([[1.0, 1e-30, 1e-20], [0.25, 0.75, 0.0]])).tolist()
    [1.0000000001e-20, 0.25]
    """
    doubt: Floats = np.empty(len(probs))
    for rows in cached_slices(probs):
        part = np.asarray(probs[rows], dtype=np.float64)
        largest = row_max(part)
        doubt[rows] = 1.0 - largest
        certain = np.flatnonzero(largest > _NEARLY_CERTAIN)
        others = part[certain]
        others[np.arange(len(certain)), others.argmax(axis=1)] = 0.0
        doubt[rows][certain] = row_sums(others)
    return doubt


def row_max(values: Floats) -> Floats:
    """Return each row's largest value."""
    if values.shape[1] > _SHORT_ROW:
        return np.asarray(values.max(axis=1))
    # NumPy pays for a call a row along short rows; along long columns it is four times faster.
    return np.asarray(np.maximum.reduce(np.ascontiguousarray(values.T), axis=0))


def row_sums(values: Floats) -> Floats:
    """Return each row's sum."""
    # As a sum over the last axis, but five times faster for short rows.
    return np.asarray(np.einsum("ij->i", values))


def set_sizes(sets: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the number of classes in each row's set."""
    return np.asarray(np.einsum("ij->i", sets, dtype=np.int64, casting="safe"))


def _exponentials(logits: Floats, scale: float, out: Floats) -> Floats:
    """Write exp(c l_k − max_j c l_j), c = ``scale``, to ``out``, and return the maximum of each row's c l."""
    np.multiply(logits, scale, out=out)
    largest = row_max(out)
    out -= largest[:, None]
    np.exp(out, out=out)
    return largest


def _share_of_others(exponentials: Floats) -> Floats:
    """Return the share of all classes but one of the largest, whose exponential is 1."""
    below = np.where(exponentials < 1.0, exponentials, 0.0)
    others = np.einsum("ij->i", below)
    # Where several classes are largest, all of them but one are among the others.
    others += np.rint(np.einsum("ij->i", exponentials) - others) - 1.0
    return np.asarray(others / (1.0 + others))


def unit_rows(vectors: Array) -> NDArray[np.float32]:
    """Return f/|f| of each row, float32; a row of zeros stays one."""
    unit = np.empty(vectors.shape, dtype=np.float32)
    for rows in cached_slices(vectors):
        lengths = np.linalg.norm(vectors[rows], axis=1, keepdims=True)
        unit[rows] = vectors[rows] / np.maximum(lengths, np.finfo(np.float32).tiny)
    return unit


def column_means(vectors: Array) -> Floats:
    """Return the mean of all rows to about seven digits: 64 at a time summed as they are, those sums in float64."""
    total = np.zeros(vectors.shape[1])
    for rows in row_slices(vectors, 64):
        total += vectors[rows].sum(axis=0)
    return total / len(vectors)


def mean_variance(vectors: Array) -> float:
    """Return the columns' mean variance, in memory that does not grow with the rows."""
    centre = column_means(vectors)
    total = sum(float(np.square(vectors[rows] - centre).sum()) for rows in cached_slices(vectors))
    return total / vectors.size


def distances_from(vectors: Array, centre: Floats) -> Floats:
    """Return the Euclidean distance of each row from ``centre``, in the rows' own precision."""
    distances: Floats = np.empty(len(vectors))
    own = centre.astype(vectors.dtype)
    for rows in cached_slices(vectors):
        centred = vectors[rows] - own
        distances[rows] = np.sqrt(np.einsum("ij,ij->i", centred, centred))
    return distances


def check_non_negative(features: NDArray[np.float32], title: str) -> NDArray[np.float32]:
    """Return ``features``, or name the first row with a value below 0 and what to do."""
    if len(features) and features.min() < 0.0:
        row = int(np.flatnonzero((features < 0.0).any(axis=1))[0])
        raise InputError(
            f"features row {row} holds {features[row].min():.4g}; {title} needs non-negative penultimate vectors, as "
            "after a ReLU. Pass such features, run under the protocol 'paper', or take 'react' or 'energy'"
        )
    return features
