from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volta.core.errors import InputError
from volta.data.splits import stratified_take


@settings(deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 2**32))
def test_a_draw_is_exact_disjoint_and_stratified(labels, share, seed):
    labels = np.array(labels, dtype=np.int64)
    n_rows = round(share * len(labels))
    taken, rest = stratified_take(labels, n_rows, np.random.default_rng(seed))
    assert len(taken) == n_rows
    assert sorted([*taken, *rest]) == list(range(len(labels)))
    classes, sizes = np.unique(labels, return_counts=True)
    counts = np.array([(labels[taken] == label).sum() for label in classes])
    assert (counts <= sizes).all()
    if n_rows >= len(classes):
        assert (counts >= 1).all()
        expected = sizes * n_rows / len(labels)
        assert (np.abs(counts - expected) < 1).all() or (expected < 1).any()


def test_equal_seeds_draw_equal_rows():
    labels = np.arange(100) % 7
    first, _ = stratified_take(labels, 30, np.random.default_rng(5))
    again, _ = stratified_take(labels, 30, np.random.default_rng(5))
    other, _ = stratified_take(labels, 30, np.random.default_rng(6))
    assert (first == again).all()
    assert not np.array_equal(first, other)


def test_more_rows_than_there_are_is_refused():
    with pytest.raises(InputError, match="n_rows is 4; pass a number from 0 to the 3 rows"):
        stratified_take(np.zeros(3, dtype=np.int64), 4, np.random.default_rng(0))
