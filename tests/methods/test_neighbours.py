"""The largest products with a bank: the same values as a full sort gives, however rows are cut into pieces."""

from __future__ import annotations

import numpy as np
import pytest

from volta.methods import knn
from volta.methods.knn import k_largest, largest_products


@pytest.mark.parametrize(("n_columns", "k"), [(1, 1), (63, 5), (64, 1), (1000, 1), (1000, 15), (1003, 7), (640, 10)])
def test_the_k_largest_are_those_of_a_sort(n_columns, k):
    values = np.random.default_rng(0).normal(size=(20, n_columns)).astype(np.float32)
    values[3] = 1.0
    values[4] = np.sort(values[4])
    values[5] = np.round(values[5])
    np.testing.assert_array_equal(np.sort(k_largest(values, k), axis=1), np.sort(values, axis=1)[:, n_columns - k :])


def test_pieces_give_every_row(monkeypatch):
    random = np.random.default_rng(0)
    queries, bank = random.normal(size=(11, 4)), random.normal(size=(100, 4))
    expected = np.sort(queries @ bank.T, axis=1)[:, -3:]
    # Columns one by one, in four pieces the last of which is short, and all at once.
    for n_values in (1, 300, 10_000):
        monkeypatch.setattr(knn, "_CHUNK_VALUES", n_values)
        found = np.empty((11, 3))
        for rows, products in largest_products(queries, bank, 3):
            found[rows] = np.sort(products, axis=1)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
