from __future__ import annotations

import numpy as np

from volta import Split, Task
from volta.core.cache import ArrayCache
from volta.core.types import SplitDraw
from volta.data.task_builder import resplit, scale_task


def test_a_resplit_draws_the_fit_rows_anew_and_leaves_the_rest(digits):
    first, second, again = resplit(digits, 1), resplit(digits, 2), resplit(digits, 1)
    assert first.split == SplitDraw(1)
    assert first.hashes == again.hashes
    assert first.fit.fingerprint != second.fit.fingerprint != digits.fit.fingerprint
    for name in ("train", "val", "cal"):
        assert len(getattr(first.fit, name)) == len(getattr(digits.fit, name))

    def rows(task):
        parts = (task.fit.train, task.fit.val, task.fit.cal)
        pairs = [
            (row.tobytes(), int(label)) for part in parts for row, label in zip(part.inputs, part.labels, strict=True)
        ]
        return sorted(pairs)

    assert rows(first) == rows(second) == rows(digits)
    assert {name for name in digits.hashes if digits.hashes[name] != first.hashes[name]} == {"fit"}
    shares = np.bincount(first.fit.val.labels, minlength=8)
    assert shares.max() - shares.min() <= 6


def test_a_resplit_keeps_copies_of_a_row_in_one_part():
    random = np.random.default_rng(0)
    rows, labels = random.normal(size=(100, 3)), np.arange(100) % 2
    fit, held_out = (rows[:60].repeat(3, axis=0), labels[:60].repeat(3)), (rows[60:], labels[60:])
    task = resplit(Task.from_arrays(train=fit, val=held_out, test=(rows + 9, labels)), 7)
    seen = [{tuple(row) for row in part.inputs} for part in (task.fit.train, task.fit.val, task.fit.cal)]
    assert sum(map(len, seen)) == len(set().union(*seen)) == 100
    assert [len(part) for part in seen] == [60, 20, 20]
    assert len(task.fit.cal) == 20
    assert len(task.fit.train) > 60


def test_weights_of_rows_stay_with_them(tmp_path):
    rows, labels = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 4
    task = Task.from_arrays(train=Split(rows, labels, labels + 1.0))
    for changed in (scale_task(task, "standard", ArrayCache(tmp_path)), resplit(task, 1)):
        for part in (changed.fit.train, changed.fit.val):
            # Rows that were drawn to calibrate have no weight of their own any more.
            known = np.isclose(part.weights, (part.labels + 1.0) / 2.5)
            assert known.mean() > 0.8
            assert (known | (part.weights == 1.0)).all()
        assert changed.fit.cal.weights is None
