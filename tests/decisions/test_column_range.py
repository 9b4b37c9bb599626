from __future__ import annotations

import numpy as np
import pytest

from volta.decisions.range_check import column_range


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32])
@pytest.mark.parametrize(("n_rows", "tail"), [(1, 0.001), (2, 0.001), (700, 0.001), (3001, 0.01), (50, 0.5), (9, 0.0)])
def test_quantiles_are_those_of_all_rows(n_rows, tail, dtype):
    rows = (100 * np.random.default_rng(0).normal(size=(n_rows, 3))).astype(dtype)
    low, high = column_range(rows, tail)
    np.testing.assert_allclose(low, np.quantile(rows.astype(np.float64), tail, axis=0), rtol=1e-12)
    np.testing.assert_allclose(high, np.quantile(rows.astype(np.float64), 1 - tail, axis=0), rtol=1e-12)


def test_rows_are_walked_in_pieces(tmp_path):
    rows = np.random.default_rng(0).standard_t(3, size=(150_000, 2)).astype(np.float32)
    np.save(tmp_path / "rows.npy", rows)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    expected = np.quantile(rows.astype(np.float64), [0.001, 0.999], axis=0)
    np.testing.assert_allclose(column_range(mapped, 0.001), expected, rtol=1e-12)
