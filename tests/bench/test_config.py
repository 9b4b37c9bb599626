"""Budgets in rows: how many are kept, which, and that a reduced run says so."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.bench.running import volta
from volta.bench.config import TaskLoader, limit_rows, parse_methods, parse_seeds, plan_cells, whole_validation
from volta.bench.records import RunConfig
from volta.bench.store import RunStore
from volta.core.errors import InputError
from volta.core.seeding import first_seeds
from volta.core.types import SplitDraw
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
    shares = np.bincount(digits.fit.train.labels) / len(digits.fit.train)
    assert len(limited.fit.train) == 80
    assert np.abs(np.bincount(limited.fit.train.labels) - 80 * shares).max() < 1
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


def load(seed, method="volta", **settings):
    return TaskLoader(RunConfig(("digits",), (method,), **settings)).task_for("digits", "fair", method, seed)


def test_digits_rotates_unless_told_otherwise(digits):
    assert load(42).split == SplitDraw(42, 2, 5)
    assert load(43).hashes["test"] != load(42).hashes["test"]
    assert load(42).fingerprint == load(42, "softmax").fingerprint
    assert load(42, resplit=True).fingerprint == load(42).fingerprint
    assert load(42, resplit=False).hashes == load(43, resplit=False).hashes == digits.hashes


def test_rows_of_other_tasks_are_drawn_for_a_seed_on_request(monkeypatch, digits):
    from volta.data.tasks import TASKS

    monkeypatch.setitem(TASKS, "digits", replace(TASKS["digits"], rotates=False))
    assert load(42).hashes == load(43).hashes == digits.hashes
    one, two = load(42, resplit=True), load(43, resplit=True)
    assert one.split == SplitDraw(42)
    assert one.hashes["test"] == two.hashes["test"] == digits.hashes["test"]
    assert one.fit.fingerprint != two.fit.fingerprint != digits.fit.fingerprint
    limited = load(42, resplit=True, budget=Budget(limit_train=80))
    assert len(limited.fit.train) == 80


@pytest.mark.parametrize("weighted", [False, True])
def test_the_papers_protocol_uses_the_whole_validation_set(digits, weighted):
    if weighted:
        parts = {name: getattr(digits.fit, name) for name in ("val", "cal")}
        parts = {name: replace(part, weights=np.arange(1.0, len(part) + 1)) for name, part in parts.items()}
        digits = replace(digits, fit=replace(digits.fit, **parts))
    fair, paper = digits.fit, whole_validation(digits).fit
    assert paper.val is paper.cal
    assert paper.train is fair.train
    for field in ("inputs", "labels", "weights"):
        parts = [getattr(part, field) for part in (fair.val, fair.cal)]
        expected = None if parts[0] is None else np.concatenate(parts)
        np.testing.assert_array_equal(getattr(paper.val, field), expected)


def test_a_loader_gives_each_seed_its_rows_in_any_order():
    tasks = TaskLoader(RunConfig(("digits",), ("volta", "softmax")))
    found = {seed: tasks.task_for("digits", "fair", "volta", seed) for seed in (1, 2)}
    assert tasks.task_for("digits", "fair", "softmax", 2) is found[2]
    paper = tasks.task_for("digits", "paper", "volta", 2).fit
    assert len(paper.val) == len(paper.cal) == len(found[2].fit.val) + len(found[2].fit.cal)
    assert tasks.task_for("digits", "fair", "volta", 1).hashes == found[1].hashes
    assert found[1].hashes != found[2].hashes


def test_a_cells_key_depends_on_its_seeds_rows():
    asked = {"tasks": ("digits",), "methods": ("volta", "softmax"), "seeds": (1, 2)}
    rotated, fixed = (RunConfig(**asked, resplit=flag) for flag in (None, False))
    cells, others = (plan_cells(TaskLoader(config)) for config in (rotated, fixed))
    assert [(cell.seed, cell.method) for cell in cells] == [(1, "volta"), (1, "softmax"), (2, "volta"), (2, "softmax")]
    assert len({cell.key for cell in (*cells, *others)}) == 8


def test_seeds_are_a_number_or_a_list():
    assert parse_seeds("10", "paper") == first_seeds(10)
    assert parse_seeds("1,2", "fair") == (1, 2)
    assert parse_seeds("42,", "fair") == (42,)
    assert parse_seeds(None, "fair") == first_seeds(10)
    assert parse_seeds(None, "paper") == (42, 123, 456)
    with pytest.raises(InputError, match="--seeds is 0; pass how many, at least 1"):
        parse_seeds("0", "fair")


@pytest.mark.usefixtures("quick_figures")
def test_a_run_on_fewer_rows_is_named_reduced(tmp_path):
    arguments = ("--methods", "softmax", "--seeds", "1,", "--max-epochs", "2", "--limit-train", "100")
    done = volta("bench", "digits", *arguments, "--limit-test", "50", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    (record,) = RunStore(tmp_path / "run").records()
    assert record.rows["train"] == 100
    assert {size for name, size in record.rows.items() if name not in ("train", "val", "cal")} == {50}
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "reduced: at most 50 rows of each evaluated set, 100 training rows, at most 2 epochs" in page


def test_groups_of_methods_stand_for_their_names():
    papers = parse_methods("paper", "fair")
    assert len(papers) == 11
    assert "volta" in papers
    assert "knn" not in papers
    assert set(papers) < set(parse_methods("standard", "fair")) < set(parse_methods("all", "fair"))


@pytest.mark.parametrize("threads", [0, 4097, 10**9])
def test_threads_that_no_machine_has_are_refused(threads):
    with pytest.raises(InputError, match=f"threads is {threads}; pass a whole number from 1 to 4096"):
        RunConfig(("digits",), ("softmax",), threads=threads)
