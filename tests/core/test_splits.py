from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.core.splits import complete_parts, random_take, split_fit_rows, stratified_folds, stratified_take


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


@settings(deadline=None)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=60), st.floats(0, 1), st.integers(0, 2**32))
def test_a_draw_by_lot_is_exact_and_disjoint(labels, share, seed):
    labels = np.array(labels, dtype=np.int64)
    n_rows = round(share * len(labels))
    taken, rest = stratified_take(labels, n_rows, np.random.default_rng(seed), every_class=False)
    assert len(taken) == n_rows
    assert sorted([*taken, *rest]) == list(range(len(labels)))


def test_by_lot_whole_shares_are_exact_and_every_row_is_as_likely_as_any_other():
    even = np.repeat(np.arange(5), [40, 30, 20, 10, 100])
    taken, _ = stratified_take(even, 20, np.random.default_rng(3), every_class=False)
    assert np.bincount(even[taken]).tolist() == [4, 3, 2, 1, 10]
    labels = np.repeat(np.arange(100), 7)
    seen = np.zeros(len(labels))
    for seed in range(400):
        seen[stratified_take(labels, 140, np.random.default_rng(seed), every_class=False)[0]] += 1
    # Seven rows a class, a fifth of them 1.4; the deviation of a class's mean over 400 draws is below 0.03.
    assert seen.reshape(100, 7).mean(axis=1) / 400 == pytest.approx(np.full(100, 0.2), abs=0.02)
    assert seen.reshape(100, 7)[:40].mean() / 400 == pytest.approx(0.2, abs=0.004)


def test_test_rows_have_rare_classes_as_often_as_all_rows_have():
    labels = np.concatenate([np.zeros(600, dtype=np.int64), np.repeat(np.arange(1, 101), 3)])
    shares = []
    seen = np.zeros(101)
    for seed in range(200):
        parts = complete_parts({"train": labels}, np.random.default_rng(seed), "rows", lambda _: None)
        test, cal = (labels[parts[part][1]] for part in ("test", "cal"))
        shares.append([np.mean(test > 0), np.mean(cal > 0)])
        seen += np.bincount(test, minlength=101)
    assert np.mean(shares, axis=0) == pytest.approx([1 / 3, 1 / 3], abs=0.01)
    # No rare class is favoured: each has 3 rows, a fifth of which is 0.6.
    assert seen[1:] / 200 == pytest.approx(np.full(100, 0.6), abs=0.15)


def test_copies_stay_in_the_part_that_their_row_is_drawn_for():
    copies = np.random.default_rng(0).permutation(np.arange(300) // 3)
    labels = copies % 2
    parts = complete_parts({"train": labels}, np.random.default_rng(1), "rows", lambda _: copies)
    numbers = {part: copies[rows] for part, (_, rows) in parts.items()}
    counts = {part: np.unique(own, return_counts=True)[1] for part, own in numbers.items()}
    assert {part: (len(own), own.min(), own.max()) for part, own in counts.items()} == {
        "train": (60, 3, 3),
        "val": (10, 3, 3),
        "cal": (10, 1, 1),
        "test": (20, 1, 1),
    }
    assert len(np.unique(np.concatenate(list(numbers.values())))) == 100


def test_copies_are_looked_for_only_where_rows_are_drawn_from():
    labels = {part: np.arange(40) % 2 for part in ("train", "val", "cal", "test")}
    asked: list[str] = []

    def copies_of(part):
        asked.append(part)
        return np.arange(40) // 2 if part == "val" else None

    for parts_given, expected in (
        (("train", "val", "cal", "test"), []),
        (("train", "val", "test"), ["val"]),
        (("train", "val"), ["train", "val"]),
        (("train", "test"), ["train"]),
        (("train", "cal", "test"), ["train"]),
    ):
        asked.clear()
        parts = complete_parts(
            {part: labels[part] for part in parts_given}, np.random.default_rng(0), "rows", copies_of
        )
        assert asked == expected
        for part in parts_given:
            if part not in asked:
                assert np.array_equal(parts[part][1], np.arange(40))
        if "val" in asked:
            assert len(parts["val"][1]) == 2 * len(parts["cal"][1]) == 20


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


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 4), min_size=3, max_size=60), st.floats(0, 0.5), st.floats(0, 0.5), st.integers(0, 2**32)
)
def test_fit_rows_are_disjoint_and_a_class_that_can_be_trained_on_is(labels, val_share, cal_share, seed):
    labels = np.array(labels, dtype=np.int64)
    n_val, n_cal = int(val_share * len(labels)), int(cal_share * len(labels))
    rows = split_fit_rows(labels, n_val, n_cal, np.random.default_rng(seed))
    assert (len(rows.val), len(rows.cal)) == (n_val, n_cal)
    assert sorted(np.concatenate(rows)) == list(range(len(labels)))
    left = np.setdiff1d(np.arange(len(labels)), rows.cal)
    if len(rows.train) >= len(np.unique(labels[left])):
        assert set(labels[rows.train]) == set(labels[left])


def test_calibration_rows_are_not_stratified_and_validation_rows_are():
    labels = np.repeat(np.arange(4), 50)
    draws = [split_fit_rows(labels, 40, 40, np.random.default_rng(seed)) for seed in range(400)]
    counts = np.array([np.bincount(labels[draw.cal], minlength=4) for draw in draws])
    assert np.abs(counts.mean(axis=0) - 10).max() < 0.5
    # Without stratification the count of a class is hypergeometric: 40 draws from 50 rows of the class and 150 others.
    assert counts.var(axis=0) == pytest.approx(40 * 0.25 * 0.75 * 160 / 199, rel=0.25)
    for draw in draws[:20]:
        shares = np.bincount(labels[np.setdiff1d(np.arange(200), draw.cal)]) / 160
        assert np.abs(np.bincount(labels[draw.val]) - 40 * shares).max() <= 1


def test_every_row_is_as_likely_to_be_drawn():
    drawn = np.zeros(12)
    for seed in range(3000):
        taken, rest = random_take(12, 3, np.random.default_rng(seed))
        assert sorted([*taken, *rest]) == list(range(12))
        drawn[taken] += 1
    assert drawn / 3000 == pytest.approx(0.25, abs=0.035)


def test_folds_cover_all_rows_once_with_the_classes_shares():
    labels = np.repeat(np.arange(3), [50, 30, 21])
    folds = stratified_folds(labels, 5, np.random.default_rng(0))
    assert sorted(np.concatenate(folds)) == list(range(101))
    assert {len(fold) for fold in folds} == {20, 21}
    for fold in folds:
        assert np.abs(np.bincount(labels[fold]) - np.array([10, 6, 4.2])).max() <= 1.01


def test_too_many_held_out_rows_are_refused():
    with pytest.raises(InputError, match="n_val is 2 and n_cal is 2; pass numbers that the 3 rows suffice for"):
        split_fit_rows(np.zeros(3, dtype=np.int64), 2, 2, np.random.default_rng(0))


@pytest.mark.parametrize("n_seeds", [5, 10, 20, 40])
def test_seeds_come_from_one_list_and_rotate_evenly_through_five_folds(n_seeds):
    seeds = first_seeds(n_seeds)
    assert seeds[:3] == (42, 123, 456)
    assert seeds == first_seeds(n_seeds + 7)[:n_seeds]
    assert len(set(seeds)) == n_seeds
    assert np.bincount([seed % 5 for seed in seeds]).tolist() == [n_seeds // 5] * 5


def _allotted_one_by_one(sizes, n_rows):
    """Counts by largest remainders, at least one a class; what is then too many is taken away row by row."""
    shares = sizes * (n_rows / sizes.sum())
    counts = np.floor(shares).astype(np.int64)
    if n_rows >= len(sizes):
        counts = np.maximum(counts, 1)
    while counts.sum() > n_rows:
        counts[np.argmax(np.where(counts > 1, counts - shares, -np.inf))] -= 1
    order = np.argsort(counts - shares, kind="stable")
    counts[order[: n_rows - counts.sum()]] += 1
    return counts


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=30), st.floats(0, 1), st.integers(0, 2**32))
def test_long_tails_lose_the_rows_furthest_above_their_share(sizes, share, seed):
    sizes = np.array(sizes, dtype=np.int64) ** 2 // 300 + 1
    labels = np.repeat(np.arange(len(sizes)), sizes)
    n_rows = round(share * len(labels))
    taken, _ = stratified_take(labels, n_rows, np.random.default_rng(seed))
    assert (np.bincount(labels[taken], minlength=len(sizes)) == _allotted_one_by_one(sizes, n_rows)).all()
