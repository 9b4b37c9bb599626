from __future__ import annotations

import numpy as np
import pytest

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.estimators.inputs import RepeatedRowsWarning, check_unseen, shuffled_by_content, split_rows
from volta.estimators.row_classifier import OrderWarning


def test_every_row_has_one_place_and_a_tenth_each_is_held_out():
    labels = np.arange(200) % 4
    (found,) = split_rows(labels, 1)
    assert sorted(np.concatenate(found)) == list(range(200))
    assert (len(found.val), len(found.cal)) == (20, 20)
    assert np.bincount(labels[found.val]).tolist() == [5, 5, 5, 5]


def test_with_folds_every_row_calibrates_once():
    labels = np.arange(203) % 4
    found = split_rows(labels, 5)
    assert sorted(np.concatenate([each.cal for each in found])) == list(range(203))
    for each in found:
        assert sorted(np.concatenate(each)) == list(range(203))
        assert len(each.val) == 20
        assert len(each.cal) in (40, 41)


def test_duplicates_are_in_one_fold():
    labels = np.zeros(100, dtype=np.int64)
    labels[::2] = 1
    duplicates = np.arange(100) // 4 * 2 + labels
    for found in split_rows(labels, 5, duplicates=np.unique(duplicates, return_inverse=True)[1]):
        for one, other in ((found.train, found.val), (found.train, found.cal), (found.val, found.cal)):
            assert not set(duplicates[one]) & set(duplicates[other])


def test_calibration_rows_do_not_depend_on_the_labels():
    for n_folds in (1, 5):
        first = split_rows(np.arange(300) % 3, n_folds)
        second = split_rows(np.where(np.arange(300) < 270, 0, np.arange(300) % 5), n_folds)
        assert all(np.array_equal(one.cal, other.cal) for one, other in zip(first, second, strict=True))


def test_own_rows_leave_more_to_train_on():
    labels = np.arange(100) % 2
    (found,) = split_rows(labels, 1, hold_val=False)
    assert (len(found.train), len(found.val), len(found.cal)) == (90, 0, 10)
    (found,) = split_rows(labels, 0)
    assert (len(found.train), len(found.val), len(found.cal)) == (90, 10, 0)


def test_the_last_row_of_a_class_is_trained_on():
    for extra in range(20):
        labels = np.concatenate([np.zeros(40 + extra, dtype=int), np.repeat(np.arange(1, 30), 2)])
        (found,) = split_rows(labels, 1)
        assert set(labels[found.train]) == set(np.delete(labels, found.cal))


def test_too_few_rows_are_refused():
    with pytest.raises(InputError, match="X has 1 sample; fit needs at least 10"):
        split_rows(np.zeros(1, dtype=int), 1)
    with pytest.raises(InputError, match="y has fewer than 2 rows of 1 of 2 classes, first 'b'"):
        VoltaClassifier("linear").fit(np.arange(42.0).reshape(21, 2), ["a"] * 20 + ["b"])


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


def test_rows_that_change_along_their_order_are_warned_of():
    random = np.random.default_rng(0)
    labels = random.integers(2, size=600)
    rows = random.normal(size=(600, 3)) + 1.5 * labels[:, None]
    VoltaClassifier("linear").fit(rows, labels)  # no warning, which would be an error here
    VoltaClassifier("linear").fit(rows[np.argsort(labels)], np.sort(labels))
    late = np.arange(600) > 400
    changed = np.where(late & (random.random(600) < 0.5), 1 - labels, labels)
    with pytest.warns(OrderWarning, match="the rows change along the order in which they came"):
        VoltaClassifier("linear").fit(rows, changed)
    with pytest.warns(OrderWarning, match="the rows change along the order in which they came"):
        VoltaClassifier("linear").fit(rows + np.linspace(0, 1, 600)[:, None], labels)
    new = random.integers(2, size=200)
    cal = random.normal(size=(200, 3)) + 1.5 * new[:, None]
    with pytest.warns(OrderWarning, match=r"seen at row \d+ of 200"):
        VoltaClassifier("linear").fit(rows, labels, cal_set=(cal, np.where(np.arange(200) > 100, 1 - new, new)))


def test_fewer_distinct_samples_than_folds_make_fewer_folds():
    found = split_rows(np.arange(60) % 4 // 2, 5, duplicates=np.arange(60) % 4)
    assert [len(parts.cal) for parts in found] == [15] * 4
    assert all(len(parts.train) and len(parts.val) for parts in found)
