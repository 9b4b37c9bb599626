"""Exact duplicates stay in one part, unless they are many."""

from __future__ import annotations

import numpy as np
import pytest

from volta.core.splits import MOST_DUPLICATES, duplicate_groups, n_overlapping

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(300, 4))
LABELS = RANDOM.integers(3, size=300)


def test_duplicates_have_the_number_of_their_group():
    order = RANDOM.permutation(900)
    rows, labels = ROWS.repeat(3, axis=0)[order], LABELS.repeat(3)[order]
    groups = duplicate_groups(rows, labels)
    assert len(np.unique(groups)) == 300
    for group in range(300):
        assert len(np.unique(rows[groups == group], axis=0)) == 1


def test_a_single_duplicate_is_found():
    groups = duplicate_groups(np.append(ROWS, ROWS[7:8], axis=0), np.append(LABELS, LABELS[7]))
    assert groups[-1] == groups[7] == 7
    assert len(np.unique(groups)) == 300


@pytest.mark.parametrize(("times", "n_groups"), [(MOST_DUPLICATES, 300), (MOST_DUPLICATES + 1, 299 + 21)])
def test_what_occurs_more_than_twenty_times_is_ordinary(times, n_groups):
    off = np.full((times, 4), -1.0)
    groups = duplicate_groups(
        np.concatenate([ROWS[:299], off, ROWS[:1]]), np.append(LABELS[:299], [0] * times + [LABELS[0]])
    )
    assert len(np.unique(groups)) == n_groups
    assert groups[-1] == 0


def test_no_duplicates_are_none():
    assert duplicate_groups(ROWS, LABELS) is None
    assert duplicate_groups(ROWS[:30].repeat(50, axis=0), LABELS[:30].repeat(50)) is None
    assert duplicate_groups(np.repeat(ROWS[:1], 300, axis=0), np.arange(300) % 3) is None


def test_equal_features_with_other_labels_are_no_duplicates():
    rows, labels = ROWS.repeat(2, axis=0), np.stack([LABELS, (LABELS + 1) % 3], axis=1).ravel()
    assert duplicate_groups(rows, labels) is None


def test_numbers_follow_the_order_of_the_rows():
    order = np.random.default_rng(0).permutation(np.arange(300).repeat(2))
    groups = duplicate_groups(ROWS[order], LABELS[order])
    firsts = [np.flatnonzero(groups == number)[0] for number in range(300)]
    assert firsts == sorted(firsts)
    assert np.array_equal(groups, duplicate_groups(np.sin(ROWS[order]), LABELS[order]))


def test_a_class_of_one_repeated_sample_can_be_in_every_part():
    rows, labels = (np.concatenate([ROWS, ROWS[:1].repeat(4, axis=0) + 1.0]), np.append(LABELS, [3] * 4))
    assert duplicate_groups(rows, labels) is None
    more = np.concatenate([rows, ROWS[:1]]), np.append(labels, LABELS[0])
    assert len(np.unique(duplicate_groups(*more))) == 304


def test_groups_of_some_places():
    places = np.array([5, 9, 200, 9])
    assert duplicate_groups(ROWS, np.zeros(4, dtype=np.int64), places).tolist() == [0, 1, 2, 1]


def test_samples_of_another_part_are_counted():
    other = RANDOM.normal(size=(100, 4))
    assert n_overlapping(other, ROWS) == 0
    assert n_overlapping(np.concatenate([ROWS[:30], other]), ROWS) == 30
    assert n_overlapping(ROWS, ROWS.repeat(2, axis=0)) == 300
    assert n_overlapping(ROWS, np.concatenate([ROWS[:1].repeat(MOST_DUPLICATES + 1, axis=0), ROWS[1:10]])) == 9
