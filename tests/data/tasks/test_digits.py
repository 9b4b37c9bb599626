from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.core.types import SplitDraw
from volta.data import LoadOptions, find_task
from volta.data.tasks import digits as digits_task


def test_sizes_and_classes_are_as_specified(digits):
    known = int((load_digits().target < 8).sum())
    sizes = {name: len(getattr(digits.fit, name)) for name in ("train", "val", "cal")}
    assert sum(sizes.values()) + len(digits.test) == known
    assert len(digits.test) == round(0.2 * known)
    assert sizes["val"] + sizes["cal"] == round(0.2 * known)
    for split in (digits.fit.train, digits.fit.val, digits.test):
        counts = np.bincount(split.labels, minlength=8)
        assert len(counts) == 8
        assert counts.max() - counts.min() <= 0.1 * counts.max() + 2


def load(seed):
    return find_task("digits").load("features", LoadOptions(seed=seed))


def row_bytes(inputs):
    return {row.tobytes() for row in inputs}


@pytest.mark.parametrize("seed", [None, 42, 123])
def test_every_row_is_used_once(seed):
    task = load(seed)
    images, labels = load_digits(return_X_y=True)
    parts = [task.fit.train, task.fit.val, task.fit.cal, task.test]
    rows = np.concatenate([part.inputs for part in parts])
    known = images[labels < 8].astype(np.float32)
    assert (np.unique(rows, axis=0) == np.unique(known, axis=0)).all()
    assert len(rows) == len(known)


def test_five_seeds_test_every_row_once():
    tasks = [load(seed) for seed in first_seeds(5)]
    assert {task.split.fold for task in tasks} == set(range(5))
    rows = np.concatenate([task.test.inputs for task in tasks])
    images, labels = load_digits(return_X_y=True)
    assert len(rows) == (labels < 8).sum()
    assert row_bytes(rows) == row_bytes(images[labels < 8].astype(np.float32))
    for task in tasks:
        assert (np.sort(task.ood["shuffled_pixels"].inputs, axis=1) == np.sort(task.test.inputs, axis=1)).all()
        assert (task.shifts["blur-1"].labels == task.test.labels).all()


def test_seeds_of_one_fold_share_test_rows_and_differ_in_the_rest():
    first, second, again = load(42), load(1007), load(42)
    assert first.split == SplitDraw(42, 2, 5)
    assert second.split == SplitDraw(1007, 2, 5)
    assert first.hashes["test"] == second.hashes["test"]
    assert first.fit.fingerprint != second.fit.fingerprint
    assert first.hashes == again.hashes


def test_ood_sets(digits):
    images, labels = load_digits(return_X_y=True)
    assert [name for name, part in digits.ood.items() if part.near] == ["digits_8_9"]
    assert (digits.ood["digits_8_9"].inputs == images[labels >= 8]).all()
    noise = digits.ood["uniform_noise"].inputs
    assert noise.min() >= 0
    assert noise.max() <= 16
    assert noise.mean() == pytest.approx(8, abs=0.1)
    shuffled = digits.ood["shuffled_pixels"].inputs
    assert (np.sort(shuffled, axis=1) == np.sort(digits.test.inputs, axis=1)).all()
    assert (shuffled != digits.test.inputs).any(axis=1).all()


def test_shifts_keep_labels_and_grow_with_severity(digits):
    assert len(digits.shifts) == 15
    for name in ("noise", "blur", "contrast"):
        distances = []
        for severity in range(1, 6):
            shifted = digits.shifts[f"{name}-{severity}"]
            assert (shifted.labels == digits.test.labels).all()
            assert shifted.inputs.dtype == np.float32
            distances.append(np.abs(shifted.inputs - digits.test.inputs).mean())
        assert distances == sorted(distances)
        assert distances[0] > 0


def test_pixels_and_digits_are_those_that_scikit_learn_loads(monkeypatch):
    pixels, labels = load_digits(return_X_y=True)
    for file in (digits_task._FILE, Path("elsewhere.csv.gz")):
        monkeypatch.setattr(digits_task, "_FILE", file)
        found, numbers = digits_task._read()
        assert (found == pixels).all()
        assert (numbers == labels).all()


def test_loading_twice_gives_the_same_bytes(digits):
    assert find_task("digits").load("features").hashes == digits.hashes


def test_an_unknown_task_is_named_with_the_known_ones():
    with pytest.raises(InputError, match="there is no task 'nosuchtask'; the tasks are: digits"):
        find_task("nosuchtask")
