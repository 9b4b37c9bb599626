"""Stratified splits that depend on the labels and a split seed alone, never on the run's seed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.errors import InputError

Rows = NDArray[np.int64]


def stratified_take(labels: Rows, n_rows: int, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Draw ``n_rows`` rows with the class shares of ``labels``; return (taken, rest), both in ascending order.

    Counts follow the largest remainder, so they add up to ``n_rows`` exactly and no class is off by more than one row,
    save that every class keeps at least one taken row when ``n_rows`` allows it.
    """
    if not 0 <= n_rows <= len(labels):
        raise InputError(f"n_rows is {n_rows}; pass a number from 0 to the {len(labels)} rows there are")
    classes, inverse = np.unique(labels, return_inverse=True)
    sizes = np.bincount(inverse, minlength=len(classes))
    counts = _allot(sizes, n_rows)
    taken = np.zeros(len(labels), dtype=bool)
    for index, count in enumerate(counts):
        rows = np.flatnonzero(inverse == index)
        taken[rng.permutation(rows)[:count]] = True
    return np.flatnonzero(taken), np.flatnonzero(~taken)


def _allot(sizes: Rows, n_rows: int) -> Rows:
    shares = sizes * (n_rows / max(1, sizes.sum()))
    counts = np.floor(shares).astype(np.int64)
    if n_rows >= len(sizes):
        counts = np.maximum(counts, 1)
    while counts.sum() > n_rows:
        counts[np.argmax(np.where(counts > 1, counts - shares, -np.inf))] -= 1
    missing = n_rows - int(counts.sum())
    order = np.argsort(counts - shares, kind="stable")
    counts[order[:missing]] += 1
    return np.asarray(counts, dtype=np.int64)
