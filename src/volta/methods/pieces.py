"""Rows walked in pieces, so that temporary arrays stay small."""

from __future__ import annotations

from collections.abc import Iterator

from volta.core.types import Array

_CACHED_VALUES = 1 << 16


def row_slices(values: Array, n_rows: int) -> Iterator[slice]:
    """Walk rows in pieces of ``n_rows``."""
    for start in range(0, len(values), n_rows):
        yield slice(start, start + n_rows)


def cached_slices(values: Array) -> Iterator[slice]:
    """Walk the rows of a matrix in pieces that stay in the processor's cache: arrays of full size cost far more."""
    return row_slices(values, max(1, _CACHED_VALUES // max(1, values.shape[1])))
