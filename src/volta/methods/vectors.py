"""Penultimate vectors as several scores want them: of unit length, from their mean, or known to be non-negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array
from volta.methods.pieces import cached_slices, row_slices
from volta.methods.scores import Floats


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
