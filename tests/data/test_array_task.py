"""Tasks from arrays: parts that are kept and drawn, labels of any kind, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from volta import InputError, OodSet, Split, Task

ROWS = np.random.default_rng(0).normal(size=(200, 3))
LABELS = np.arange(200) % 4


def test_parts_that_are_given_are_kept_and_the_others_drawn_once():
    task = Task.from_arrays(train=(ROWS, LABELS), test=(ROWS[:40] + 1, LABELS[:40]), val=(ROWS[:20] + 2, LABELS[:20]))
    assert np.array_equal(task.test.inputs, ROWS[:40] + 1)
    assert np.array_equal(task.fit.train.inputs, ROWS)
    assert len(task.fit.val) == len(task.fit.cal) == 10
    rows = np.concatenate([task.fit.val.inputs, task.fit.cal.inputs])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, ROWS[:20] + 2))


def test_one_set_becomes_60_20_20_the_same_every_time_and_no_row_twice():
    first, second = (Task.from_arrays(train=(ROWS, LABELS), name="mine") for _ in range(2))
    parts = (first.fit.train, first.fit.val, first.fit.cal, first.test)
    assert [len(part) for part in parts] == [120, 20, 20, 40]
    assert len({tuple(row) for part in parts for row in part.inputs}) == 200
    assert np.bincount(first.test.labels).tolist() == [10] * 4
    assert first.fingerprint == second.fingerprint
    assert Task.from_arrays(train=(ROWS + 1e-9, LABELS), name="mine").fingerprint != first.fingerprint


def test_copies_of_a_row_are_in_one_part_and_test_and_calibrate_once():
    rare = np.flatnonzero(LABELS == 3)
    rows, labels = (np.concatenate([part, *[part[rare]] * 9]) for part in (ROWS, LABELS))
    with pytest.warns(UserWarning, match="rows are left out as duplicates of drawn test or calibration rows"):
        task = Task.from_arrays(train=(rows, labels))
    parts = {"train": task.fit.train, "val": task.fit.val, "cal": task.fit.cal, "test": task.test}
    seen = {name: {tuple(row) for row in part.inputs} for name, part in parts.items()}
    assert sum(map(len, seen.values())) == len(set().union(*seen.values())) == 200
    assert all(len(parts[name]) == len(seen[name]) for name in ("cal", "test"))
    assert len(task.fit.train) == len(seen["train"]) + 9 * (np.bincount(task.fit.train.labels)[3] // 10)


def test_a_class_of_two_distinct_rows_trains():
    rows, labels = np.concatenate([ROWS, ROWS[:2] + 5.0]).repeat(3, axis=0), np.append(LABELS, [4, 4]).repeat(3)
    for name in ("one", "two", "three", "four", "five"):
        with pytest.warns(UserWarning, match="left out"):
            task = Task.from_arrays(train=(rows, labels), name=name)
        assert (task.fit.train.labels == 4).any()


def test_labels_may_be_text_or_numbers_with_gaps():
    text = Task.from_arrays(train=(ROWS, np.array(["cat", "ant", "dog", "bee"])[LABELS]))
    assert text.class_names == ("ant", "bee", "cat", "dog")
    objects = Task.from_arrays(train=(ROWS, np.array(["cat", "ant", "dog", "bee"], dtype=object)[LABELS]))
    assert objects.class_names == text.class_names
    gaps = Task.from_arrays(train=(ROWS, LABELS * 10), test=(ROWS[:4] + 0.5, np.array([0, 10, 20, 30])))
    assert gaps.test.labels.tolist() == [0, 1, 2, 3]


def test_ood_sets_are_far_unless_said_and_shifts_have_a_severity():
    task = Task.from_arrays(
        train=(ROWS, LABELS),
        ood={"a": ROWS + 5, "b": ROWS + 1, "c": OodSet(ROWS, near=True)},
        near=("b",),
        shifts={"fog": (ROWS[:10], LABELS[:10])},
        encoder="vision",
    )
    assert {name: part.near for name, part in task.ood.items()} == {"a": False, "b": True, "c": True}
    assert list(task.shifts) == ["fog-1"]
    assert task.fit.encoder == "vision"


def test_frames_and_whole_numbers_are_taken():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": np.arange(200) + 2**30, "b": LABELS})
    task = Task.from_arrays(train=(frame, pandas.Series(LABELS)))
    assert task.fit.train.inputs.dtype == np.float64
    assert set(task.fit.train.inputs[:, 0]) <= set((np.arange(200) + 2.0**30).tolist())


def test_columns_of_frames_are_matched_by_name():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame, other = (pandas.DataFrame(ROWS + shift, columns=["a", "b", "c"]) for shift in (0.0, 9.0))
    turned = other[["c", "a", "b"]]
    task = Task.from_arrays(train=(frame, LABELS), test=(turned, LABELS), ood={"far": turned})
    assert np.array_equal(task.test.inputs, ROWS + 9.0)
    assert np.array_equal(task.ood["far"].inputs, ROWS + 9.0)
    with pytest.raises(InputError, match="test lacks the column 'b', which the training rows have"):
        Task.from_arrays(train=(frame, LABELS), test=(other.rename(columns={"b": "d"}), LABELS))
    frame.columns, turned.columns = ["a", "a", "b"], ["b", "a", "a"]
    with pytest.raises(InputError, match="test has two columns 'a'; name each otherwise"):
        Task.from_arrays(train=(frame, LABELS), test=(turned, LABELS))


def test_labels_that_are_missing_are_refused_and_objects_that_are_numbers_are_numbers():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    for nothing in (None, float("nan"), np.float32("nan"), pandas.NA, pandas.NaT):
        labels = np.array(["a", "b"] * 100, dtype=object)
        labels[3] = nothing
        with pytest.raises(InputError, match="train has no label in row 3; pass one label a row"):
            Task.from_arrays(train=(ROWS, labels))
    numbers = np.array([1, 2, 10, 3] * 50, dtype=object)
    assert Task.from_arrays(train=(ROWS, numbers)).class_names == ("1", "2", "3", "10")


def test_weights_of_rows_stay_with_them():
    weights = np.arange(200) % 4 + 1.0
    task = Task.from_arrays(train=Split(ROWS, LABELS, weights))
    for part in (task.fit.train, task.fit.val):
        assert np.allclose(part.weights, (part.labels + 1.0) / 2.5)
    assert task.fit.cal.weights is None
    with pytest.raises(InputError, match="train weights row 5 is nan; pass finite numbers"):
        Task.from_arrays(train=Split(ROWS, LABELS, np.where(np.arange(200) == 5, np.nan, weights)))


def test_tensors_are_taken_off_their_graph():
    torch = pytest.importorskip("torch")
    for rows in (torch.tensor(ROWS, requires_grad=True), torch.tensor(ROWS).bfloat16()):
        task = Task.from_arrays(train=(rows, torch.tensor(LABELS)), ood={"far": rows})
        assert np.allclose(task.ood["far"].inputs, ROWS, atol=0.02)


def test_small_classes_are_warned_of():
    labels = np.where(np.arange(200) < 3, 1, 0)
    with pytest.warns(UserWarning, match=r"fewer rows than the 5 folds .* 1 \(3\)"):
        Task.from_arrays(train=(ROWS, labels))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"train": ROWS}, "train is a ndarray; pass a pair of inputs"),
        ({"train": (ROWS, LABELS[:9])}, r"train has labels of shape \(9,\) for 200 rows"),
        ({"train": (ROWS[:, 0], LABELS)}, r"train has inputs of shape \(200,\); pass rows of features"),
        ({"train": (np.where(ROWS > 3, np.nan, ROWS) * np.nan, LABELS)}, "train inputs"),
        ({"train": (ROWS, np.zeros(200, int))}, "has one class"),
        ({"train": (ROWS, LABELS), "test": (ROWS, LABELS + 1)}, "test labels row 3 has label 4, which no training row"),
        ({"train": (ROWS, LABELS), "test": (ROWS[:, :2], LABELS)}, "test has 2 columns but train has 3"),
        ({"train": (ROWS, LABELS), "ood": {"a b": ROWS}}, "ood names a set 'a b'"),
        ({"train": (ROWS, LABELS), "ood": {"a": ROWS[:, :2]}}, "ood a has 2 columns"),
        ({"train": (ROWS, LABELS), "near": ("a",)}, "near names 'a', which is not among the ood sets: none"),
        ({"train": (ROWS, LABELS), "name": "My Task"}, "name is 'My Task'; pass up to 63 lower-case"),
    ],
)
def test_what_is_no_task_is_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        Task.from_arrays(**arguments)


def test_test_rows_that_are_training_rows_are_told():
    rows, labels = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) % 2
    with pytest.warns(UserWarning, match=r"test has \d+ rows of 100 that are training rows too"):
        Task.from_arrays(train=(rows, labels), test=(rows, labels), val=(rows + 1.0, labels))
    few = np.zeros((100, 3))
    Task.from_arrays(train=(few, labels), test=(few, labels))
