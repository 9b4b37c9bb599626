"""Copies of rows are told from rows that are equal by right."""

from __future__ import annotations

import numpy as np
import pytest

from volta.core.splits import duplicate_groups, n_duplicates

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(300, 4))
LABELS = RANDOM.integers(3, size=300)


def test_copies_have_the_number_of_their_row():
    order = RANDOM.permutation(900)
    rows, labels = ROWS.repeat(3, axis=0)[order], LABELS.repeat(3)[order]
    groups = duplicate_groups(rows, labels)
    assert len(np.unique(groups)) == 300
    for group in range(5):
        assert len(np.unique(rows[groups == group], axis=0)) == 1


def test_a_rare_class_that_was_oversampled_is_told():
    rare = np.flatnonzero(LABELS == 2)
    rows, labels = (np.concatenate([part, *[part[rare]] * 10]) for part in (ROWS, LABELS))
    assert len(np.unique(duplicate_groups(rows, labels))) == 300


@pytest.mark.parametrize(
    ("rows", "labels"),
    [
        (ROWS, LABELS),
        (RANDOM.integers(18, 90, size=(600, 1)), RANDOM.integers(2, size=600)),
        (RANDOM.integers(10, size=(3000, 3)), RANDOM.integers(2, size=3000)),
        (np.eye(12)[RANDOM.integers(12, size=600)], np.zeros(600, dtype=int)),
        (ROWS[:30].repeat(50, axis=0), LABELS[:30].repeat(50)),
        (ROWS.repeat(3, axis=0), RANDOM.integers(3, size=900)),
    ],
    ids=["distinct", "ages", "three factors", "one-hot", "kinds", "labels of their own"],
)
def test_rows_that_are_equal_by_right_are_no_copies(rows, labels):
    assert duplicate_groups(rows, labels) is None


def test_equal_rows_of_one_hot_columns_are_no_copies():
    random = np.random.default_rng(0)
    values = random.choice(4, p=[0.7, 0.1, 0.1, 0.1], size=(4000, 10))
    rows = np.eye(4)[values].reshape(4000, 40)
    assert len(np.unique(rows, axis=0)) < 3900
    labels = (values[:, :3] == 0).sum(axis=1)
    assert duplicate_groups(rows, labels) is None
    assert n_duplicates(rows[:2000], rows[2000:]) == 0
    # One column that tells rows apart is enough to see copies.
    told = np.column_stack([rows, random.normal(size=4000)])
    assert len(np.unique(duplicate_groups(told.repeat(2, axis=0), labels.repeat(2)))) == 4000


def test_numbers_follow_the_order_of_the_rows():
    order = np.random.default_rng(0).permutation(np.arange(300).repeat(2))
    groups = duplicate_groups(ROWS[order], LABELS[order])
    firsts = [np.flatnonzero(groups == number)[0] for number in range(300)]
    assert firsts == sorted(firsts)
    assert np.array_equal(groups, duplicate_groups(np.sin(ROWS[order]), LABELS[order]))


def test_a_class_that_is_copies_of_one_row_has_rows_of_its_own():
    rows, labels = (np.concatenate([ROWS, ROWS[:1].repeat(4, axis=0) + 1.0]), np.append(LABELS, [3] * 4))
    groups = duplicate_groups(rows, labels)
    assert len(np.unique(groups)) == 304


def test_rows_of_another_part_are_counted():
    other = RANDOM.normal(size=(100, 4))
    assert n_duplicates(other, ROWS) == 0
    assert n_duplicates(np.concatenate([ROWS[:30], other]), ROWS) == 30
    assert n_duplicates(ROWS, ROWS.repeat(2, axis=0)) == 300
    ages = RANDOM.integers(18, 90, size=(600, 1))
    assert n_duplicates(ages[:300], ages[300:]) == 0
