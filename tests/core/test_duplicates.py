"""Duplicates, exact and to six digits, stay in one part, unless they are many."""

from __future__ import annotations

import numpy as np
import pytest

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.core.splits import MOST_DUPLICATES, check_two_of_each, duplicate_groups, n_overlapping, split_fit_rows
from volta.decisions import fit_policy

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


@pytest.mark.parametrize(
    "copied",
    [
        lambda rows: rows + 1e-9,
        lambda rows: rows.astype(np.float32),
        lambda rows: np.array([float(f"{value:.5e}") for value in rows.ravel()]).reshape(rows.shape),
    ],
)
@pytest.mark.parametrize(
    "rows",
    [
        ROWS * [1e-2, 1.0, 1e6, 1e12],
        RANDOM.standard_cauchy((300, 40)),
        RANDOM.integers(2, size=(300, 40)) * 5.0,
        np.column_stack([ROWS, np.full(300, 3.0), np.full(300, 1e7)]),
    ],
    ids=["scales", "heavy tails", "discrete", "constant columns"],
)
def test_copies_to_six_digits_are_duplicates(rows, copied):
    copies = copied(rows)
    assert n_overlapping(copies, rows) == 300
    groups = duplicate_groups(np.concatenate([rows, copies]), np.concatenate([LABELS, LABELS]))
    assert np.array_equal(groups, np.tile(np.arange(300), 2))
    assert duplicate_groups(np.concatenate([rows, copies]), np.concatenate([LABELS, (LABELS + 1) % 3])) is None


def test_what_differs_in_the_fourth_digit_is_none():
    for rows in (ROWS, ROWS * [1e-9, 1.0, 1e6, 1e12], np.abs(RANDOM.standard_cauchy((300, 4))) + 1):
        moved = rows.copy()
        moved[:, 1] *= 1.001
        assert n_overlapping(moved, rows) == 0
    numbered = np.column_stack([ROWS[:1].repeat(300, axis=0), 1e9 + np.arange(300.0)])
    assert duplicate_groups(numbered, np.zeros(300, dtype=np.int64)) is None


def test_extreme_values_are_compared_without_a_warning():
    rows = np.concatenate([ROWS * 1e-300, np.full((3, 4), 1e308)])
    assert n_overlapping(rows[:301], rows) == 301


def test_near_duplicates_that_are_many_are_ordinary():
    off = 5.0 + 1e-9 * np.arange(MOST_DUPLICATES + 1)[:, None] * np.ones(4)
    rows, labels = np.concatenate([ROWS, off]), np.concatenate([LABELS, np.zeros(len(off), dtype=np.int64)])
    assert duplicate_groups(rows, labels) is None
    assert len(np.unique(duplicate_groups(rows[:-1], labels[:-1]))) == 301


def test_one_record_that_is_a_fifth_of_all_calibrates_as_often_as_it_comes():
    """Such rows are drawn as ordinary ones: a policy on the calibration rows keeps its error for new rows."""
    rng, broken, n_draws = np.random.default_rng(0), 0, 200
    for _ in range(n_draws):
        rows, labels = rng.normal(size=(1000, 3)), np.zeros(1000, dtype=np.int64)
        rows[rng.random(1000) < 0.2] = 0.0
        duplicates = duplicate_groups(rows, labels)
        assert duplicates is None
        cal = rows[split_fit_rows(labels, 100, 400, rng, duplicates).cal]
        repeated = (cal == 0).all(axis=1)
        correct = rng.random(len(cal)) > np.where(repeated, 0.35, 0.03)
        policy = fit_policy(np.where(repeated, 0.5, rng.random(len(cal))), correct, max_error=0.1, rng=rng)
        # Answering all rows below t: t of the 80 % that are wrong 3 % of the time, and from 0.5 on the repeated ones.
        t = min(policy.threshold, 1.0)
        broken += policy.exists and t >= 0.5 and (0.8 * t * 0.03 + 0.2 * 0.35) > 0.1 * (0.8 * t + 0.2)
    assert broken <= binomial_range(n_draws, 0.05, tail=1e-4)[1]


def test_a_class_of_one_row_is_named():
    check_two_of_each(np.array([0, 0, 1, 1]), ["cat", "dog"])
    with pytest.raises(InputError, match="y has fewer than 2 rows of 1 of 3 classes, first 'dog'; add rows"):
        check_two_of_each(np.array([0, 0, 1, 2, 2]), ["cat", "dog", "emu"])


def test_neighbours_by_chance_are_no_duplicates():
    """Two thirds of 300,000 numbers have another one within six digits."""
    rng = np.random.default_rng(0)
    rows, others = rng.random((300_000, 1)), rng.random((1000, 1))
    assert n_overlapping(others, rows) == 0
    assert n_overlapping(rows[:100], rows) == 100
    assert duplicate_groups(rows, np.zeros(len(rows), dtype=np.int64)) is None
    assert n_overlapping(rows[:500] + 1e-9, rows[:500]) == 500
