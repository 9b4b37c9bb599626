"""The largest products of a row with a bank of rows, in bounded memory: what neighbour scores rest on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from volta.core.types import Array
from volta.methods.pieces import row_slices

_CHUNK_VALUES = 1 << 23
_FEWEST_QUERIES = 64
_GROUP = 16


def largest_products(queries: Array, bank: Array, k: int) -> Iterator[tuple[slice, Array]]:
    """Walk the queries (n, d) in pieces: which they are, and each one's k largest products with rows of ``bank``.

    ``bank`` is (m, d) with m ≥ k; the products are (rows of the piece, k), in any order. A bank so long that few
    queries would fit beside it is walked in pieces too, since reading it would take longer than the products.
    """
    n_rows = max(1, min(len(queries), max(_CHUNK_VALUES // len(bank), _FEWEST_QUERIES)))
    n_columns = min(len(bank), max(1, _CHUNK_VALUES // n_rows))
    products = np.empty(n_rows * n_columns, dtype=np.result_type(queries, bank))
    for rows in row_slices(queries, n_rows):
        piece = queries[rows]
        found = []
        for part in (bank[columns] for columns in row_slices(bank, n_columns)):
            into = products[: len(piece) * len(part)].reshape(len(piece), len(part))
            found.append(k_largest(np.matmul(piece, part.T, out=into), min(k, len(part))))
        yield rows, found[0] if len(found) == 1 else k_largest(np.concatenate(found, axis=1), k)


def k_largest(values: Array, k: int) -> Array:
    """Return the k largest values of each row, in any order.

    Long rows are first thinned out: columns form groups of 16, and all k of the largest lie in the k groups with the
    largest maxima.
    """
    n_rows, n_columns = values.shape
    n_groups = n_columns // _GROUP
    if n_groups >= 4 * k:
        in_groups = values[:, : n_groups * _GROUP].reshape(n_rows, _GROUP, n_groups)
        groups = np.argpartition(in_groups.max(axis=1), n_groups - k, axis=1)[:, n_groups - k :]
        columns = groups[:, None, :] + n_groups * np.arange(_GROUP)[:, None]
        found = np.take_along_axis(values, columns.reshape(n_rows, -1), axis=1)
        values = np.concatenate([found, values[:, n_groups * _GROUP :]], axis=1)
    n_left = values.shape[1] - k
    return np.asarray(np.partition(values, n_left, axis=1)[:, n_left:])
