from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from volta.core.errors import InputError
from volta.core.scaling import fit_scaler

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(500, 4)) * [1.0, 1e-6, 1e5, 1.0] + [0.0, 3.0, -1e6, 7.0]
ROWS[:, 3] = 7.0


def test_it_standardises_as_scikit_learn_does():
    expected = StandardScaler().fit_transform(ROWS)
    scaler = fit_scaler(ROWS, "standard", "tabular")
    np.testing.assert_allclose(scaler.exact(ROWS), expected, atol=1e-9)
    assert scaler.apply(ROWS).dtype == np.float32
    np.testing.assert_allclose(scaler.apply(ROWS), expected, atol=1e-5)
    assert scaler.restore(2, scaler.exact(ROWS)[0, 2]) == pytest.approx(ROWS[0, 2])


def test_auto_leaves_a_backbones_features_alone_unless_their_columns_differ_in_scale():
    even = RANDOM.normal(size=(100, 8)).astype(np.float32)
    assert fit_scaler(even, "auto", "tabular").kind == "standard"
    assert fit_scaler(even, "auto", "vision").kind == "none"
    assert np.array_equal(fit_scaler(even, "none", "tabular").apply(even), even)
    uneven = even * np.array([1, 1, 1, 1, 1, 1, 1, 1e4], dtype=np.float32)
    assert fit_scaler(uneven, "auto", "vision").kind == "standard"


@pytest.mark.parametrize("size", [1e-300, 1e39, 1e200, 1e307])
def test_every_finite_number_can_be_scaled(size):
    rows = RANDOM.uniform(-1, 1, size=(50, 3)) * size
    scaler = fit_scaler(rows, "standard", "tabular")
    assert np.isfinite(scaler.apply(rows)).all()
    if size < 1e300:
        assert scaler.apply(rows).std(axis=0) == pytest.approx(1, rel=1e-3)
    far = scaler.apply(np.array([[1.7e308, -1.7e308, 0.0]]))
    assert np.isfinite(far).all()
    assert np.abs(far).max() <= scaler.limit


def test_unknown_kinds_are_named():
    with pytest.raises(InputError, match="scale is 'minmax'; pass one of auto, standard, none"):
        fit_scaler(ROWS, "minmax", "tabular")


def test_a_row_wider_than_a_piece_is_scaled_whole():
    rows = np.random.default_rng(0).normal(size=(3, 150_000)).astype(np.float32)
    scaler = fit_scaler(rows, "standard", "tabular")
    wide = scaler.apply(rows, np.float64)
    assert wide.dtype == np.float64
    assert np.allclose(scaler.apply(rows), wide, atol=1e-6)
    assert np.allclose(wide, scaler.exact(rows))


@pytest.mark.parametrize("scale", ["standard", "none"])
def test_learning_makes_no_copy_of_the_rows(scale):
    rows = np.ones((400_000, 8), dtype=np.float32)
    rows[::2] = -2.0
    tracemalloc.start()
    scaler = fit_scaler(rows, scale, "tabular")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2
    np.testing.assert_allclose(scaler.exact(rows[:2]), [[-1.0] * 8, [1.0] * 8] if scale == "standard" else rows[:2])
