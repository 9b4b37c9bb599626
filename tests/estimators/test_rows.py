from __future__ import annotations

import numpy as np
import pytest

from volta.core.errors import InputError
from volta.estimators.inputs import RepeatedRowsWarning, check_unseen, shuffled_by_content, split_rows


def parts(labels, **options):
    found = split_rows(labels, **options)
    return found.train, found.val, found.cal


def test_every_row_has_one_place_and_a_tenth_each_is_held_out():
    labels = np.arange(200) % 4
    train, val, cal = parts(labels)
    assert sorted(np.concatenate([train, val, cal])) == list(range(200))
    assert (len(val), len(cal)) == (20, 20)
    assert np.bincount(labels[val]).tolist() == [5, 5, 5, 5]


def test_calibration_rows_do_not_depend_on_the_labels():
    first = split_rows(np.arange(300) % 3).cal
    second = split_rows(np.where(np.arange(300) < 270, 0, np.arange(300) % 5)).cal
    assert np.array_equal(first, second)


def test_own_rows_leave_more_to_train_on():
    labels = np.arange(100) % 2
    train, val, cal = parts(labels, hold_val=False)
    assert (len(train), len(val), len(cal)) == (90, 0, 10)
    train, val, cal = parts(labels, hold_cal=False)
    assert (len(train), len(val), len(cal)) == (90, 10, 0)
    train, val, cal = parts(labels[:3], hold_val=False, hold_cal=False)
    assert (len(train), len(val), len(cal)) == (3, 0, 0)


def test_the_last_row_of_a_class_is_trained_on():
    for extra in range(20):
        labels = np.concatenate([np.zeros(40 + extra, dtype=int), np.repeat(np.arange(1, 30), 2)])
        train, _, cal = parts(labels)
        assert set(labels[train]) == set(np.delete(labels, cal))


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="X has 1 sample; fit needs at least 10"):
        split_rows(np.zeros(1, dtype=int))
    with pytest.raises(InputError, match="y has a class with 1 row"):
        split_rows(np.append(np.zeros(20, dtype=int), 1))


@pytest.mark.parametrize("kind", ["normal", "rounded", "single"])
def test_rows_have_an_order_of_their_own_that_means_nothing(kind):
    random = np.random.default_rng(0)
    rows = random.normal(size=(2000, 3))
    rows = {"normal": rows, "rounded": np.round(rows, 1), "single": rows.astype(np.float32)}[kind]
    labels = random.integers(2, size=2000)
    order, draw = shuffled_by_content(rows, labels)
    assert sorted(order) == list(range(2000))
    other = random.permutation(2000)
    moved, again = shuffled_by_content(rows[other], labels[other])
    assert np.array_equal(rows[other][moved], rows[order])
    assert np.array_equal(labels[other][moved], labels[order])
    assert again == draw
    place = np.argsort(order)
    assert abs(np.corrcoef(place, rows[:, 0])[0, 1]) < 0.1
    assert abs(np.corrcoef(place, labels)[0, 1]) < 0.1
    assert shuffled_by_content(rows[:-1], labels[:-1])[1] != draw


def test_calibration_rows_must_be_new():
    random = np.random.default_rng(0)
    rows, other = random.normal(size=(200, 3)), random.normal(size=(80, 3))
    check_unseen(other, rows, "cal_set")
    with pytest.warns(RepeatedRowsWarning, match="cal_set has 30 rows of 110 among those"):
        check_unseen(np.concatenate([rows[:30], other]), rows, "cal_set")
    with pytest.raises(InputError, match="cal_set has 200 rows of 200"):
        check_unseen(rows, rows.repeat(2, axis=0), "cal_set")
    with pytest.raises(InputError, match="cal_set has 80 rows of 80 among those"):
        check_unseen(rows[:80], rows, "cal_set")
    with pytest.raises(InputError, match="cal_set has 80 rows of 80 among those"):
        check_unseen(rows[:80] + 1e-9, rows, "cal_set")
    with pytest.raises(InputError, match="cal_set has 60 rows of 100"):
        check_unseen(np.concatenate([rows[:60], other[:40]]), rows, "cal_set")


def test_overlap_below_two_percent_is_let_pass():
    random = np.random.default_rng(0)
    rows = random.normal(size=(200, 3))
    check_unseen(np.concatenate([rows[:1], random.normal(size=(80, 3))]), rows, "cal_set")


def test_overlap_of_rows_of_few_values_does_not_raise():
    random = np.random.default_rng(0)
    rows, other = random.integers(3, size=(300, 3)).astype(float), random.integers(3, size=(40, 3)).astype(float)
    with pytest.warns(RepeatedRowsWarning, match="among those that the model learns from"):
        check_unseen(other, rows, "cal_set")
    # Each value more than twenty times: ordinary rows, which new data holds too.
    check_unseen(np.arange(40.0)[:, None] % 4, np.arange(400.0)[:, None] % 4, "cal_set")
