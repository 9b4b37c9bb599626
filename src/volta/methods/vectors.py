"""Penultimate vectors as several scores want them: of unit length, or known to be non-negative."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError
from volta.core.types import Array


def unit_rows(vectors: Array) -> NDArray[np.float32]:
    """Return f/|f| of each row, float32; a row of zeros stays one."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, np.finfo(np.float32).tiny), dtype=np.float32)


def check_non_negative(features: NDArray[np.float32], title: str) -> NDArray[np.float32]:
    """Return ``features``, or name the first row with a value below 0 and what to do."""
    if len(features) and features.min() < 0.0:
        row = int(np.flatnonzero((features < 0.0).any(axis=1))[0])
        raise InputError(
            f"features row {row} holds {features[row].min():.4g}; {title} needs non-negative penultimate vectors, as "
            "after a ReLU. Pass such features, run under the protocol 'paper', or take 'react' or 'energy'"
        )
    return features
