"""Budgets in rows: how many are kept, which, and that a reduced run says so."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.running import volta
from volta.bench.config import limit_rows
from volta.bench.store import RunStore
from volta.data import find_task
from volta.networks.recipe import Budget


@pytest.fixture(scope="module")
def digits():
    return find_task("digits").load("features")


def test_without_a_limit_the_task_is_as_it_was(digits):
    assert limit_rows(digits, Budget(max_epochs=3, batch_size=8)) is digits
    many = limit_rows(digits, Budget(limit_train=10**6, limit_test=10**6))
    assert many.hashes == digits.hashes


def test_training_rows_are_drawn_with_the_classes_shares(digits):
    limited = limit_rows(digits, Budget(limit_train=80))
    assert np.bincount(limited.fit.train.labels).tolist() == [10] * 8
    assert {name for name in digits.hashes if limited.hashes[name] != digits.hashes[name]} == {"fit"}
    assert limited.fingerprint == limit_rows(digits, Budget(limit_train=80)).fingerprint


def test_evaluated_rows_are_limited_in_every_set_alike(digits):
    limited = limit_rows(digits, Budget(limit_test=40))
    assert limited.hashes["fit"] == digits.hashes["fit"]
    assert np.bincount(limited.test.labels).tolist() == [5] * 8
    whole = {row.tobytes(): index for index, row in enumerate(digits.test.inputs)}
    rows = [whole[row.tobytes()] for row in limited.test.inputs]
    for name, shifted in limited.shifts.items():
        np.testing.assert_array_equal(shifted.inputs, digits.shifts[name].inputs[rows])
    for name, ood_set in limited.ood.items():
        known = {row.tobytes() for row in digits.ood[name].inputs}
        assert len(ood_set.inputs) == 40
        assert len({row.tobytes() for row in ood_set.inputs} & known) == 40
        assert ood_set.near == digits.ood[name].near


def test_a_run_on_fewer_rows_is_named_reduced(tmp_path):
    arguments = ("--methods", "softmax", "--seeds", "1", "--max-epochs", "2", "--limit-train", "100")
    done = volta("bench", "digits", *arguments, "--limit-test", "50", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (record,) = RunStore(tmp_path / "run").records()
    assert record.rows["train"] == 100
    assert {size for name, size in record.rows.items() if name not in ("train", "val", "cal")} == {50}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "reduced: at most 50 rows of each evaluated set, 100 training rows, at most 2 epochs" in page
