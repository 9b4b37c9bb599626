"""Extreme quantiles of columns in one walk over the rows, however many there are."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import CHUNK_ELEMENTS
from volta.core.mapped import row_chunks
from volta.decisions.set_scores import Floats

# Rows are taken in pieces of this many times the values that are kept, so that those are sorted out again but seldom.
_PIECE = 8


def column_range(array: NDArray[Any], tail: float) -> tuple[Floats, Floats]:
    """Return the ``tail`` and the 1 − ``tail`` quantile of each column of (n, d) rows, as `numpy.quantile` does.

    Time O(n d); of each column the ``tail`` · n smallest and largest values are held.

    >>> column_range(np.arange(101.0)[:, None], 0.025)
    (array([2.5]), array([97.5]))
    """
    place = tail * (len(array) - 1)
    n_kept = min(len(array), math.floor(place) + 2)
    smallest, largest = _extremes(array, n_kept)
    share = place - math.floor(place)
    return _between(np.sort(smallest, axis=0), share), _between(np.sort(largest, axis=0)[::-1], share)


def _between(ordered: NDArray[Any], share: float) -> Floats:
    """Return the value between the last two rows, all rows being ordered from the outside in."""
    outer, inner = ordered[-2:].astype(np.float64) if len(ordered) > 1 else ordered[[0, 0]].astype(np.float64)
    return np.asarray(outer + share * (inner - outer))


def _extremes(array: NDArray[Any], n_kept: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return each column's ``n_kept`` smallest and its largest values, in any order."""
    smallest = largest = array[:0]
    for chunk in row_chunks(array, max(_PIECE * n_kept, CHUNK_ELEMENTS // array.shape[1], 1)):
        smallest, largest = np.concatenate([smallest, chunk]), np.concatenate([largest, chunk])
        if len(smallest) > n_kept:
            smallest = np.partition(smallest, n_kept - 1, axis=0)[:n_kept]
            largest = np.partition(largest, len(largest) - n_kept, axis=0)[-n_kept:]
    return smallest, largest
