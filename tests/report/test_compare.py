from __future__ import annotations

from dataclasses import replace

import pytest

from volta.core.errors import InputError
from volta.networks.recipe import Budget
from volta.report import compare_runs

from .synthetic import Plan, write_run

PLAN = Plan(n_rows=150)


def test_a_run_compared_with_itself_has_no_change(folder):
    store = write_run(folder, PLAN)
    result = compare_runs(store, store, n_resamples=50)
    assert result.changed == ()
    assert {row.method for row in result.rows} == {"volta", "softmax", "temperature"}
    assert all(row.seeds_identical == row.seeds_shared == 3 for row in result.rows)
    assert all(row.p == 1 and row.boot_low == row.boot_high == 0 for row in result.rows if row.metric == "accuracy")
    assert result.to_text() == f"All {len(result.rows)} compared values are the same in both runs.\n"


def test_equal_predictions_are_identical_whatever_the_clock_said(tmp_path):
    a, b = write_run(tmp_path / "a", PLAN), write_run(tmp_path / "b", PLAN)
    for record in b.records():
        b.replace_record(replace(record, wall_s=record.wall_s + 1))
    assert all(row.seeds_identical == 3 for row in compare_runs(a, b, n_resamples=0).rows)


def test_a_worse_model_is_seen_with_its_direction(tmp_path, monkeypatch):
    plan = replace(PLAN, seeds=(1, 2, 3, 4, 5))
    before = write_run(tmp_path / "a", plan)
    from . import synthetic

    own = synthetic._character
    monkeypatch.setattr(synthetic, "_character", lambda name: (1.2, 0.9) if name == "softmax" else own(name))
    after = write_run(tmp_path / "b", plan)
    result = compare_runs(before, after)
    assert {row.method for row in result.changed} == {"softmax"}
    row = next(row for row in result.rows if (row.method, row.metric) == ("softmax", "accuracy"))
    assert row.difference < -0.1
    assert row.better is False
    assert row.p_holm < 0.05
    assert row.boot_low <= row.difference <= row.boot_high < 0
    assert row.seeds_identical == 0
    words = result.to_text(("old", "new"))
    assert "worse *" in words
    assert "significantly worse" in words


def test_cells_that_only_one_run_has_are_named(tmp_path):
    a = write_run(tmp_path / "a", replace(PLAN, missing=frozenset({("softmax", 42)})))
    b = write_run(tmp_path / "b", replace(PLAN, seeds=(42, 123), budget=Budget(max_epochs=3)))
    result = compare_runs(a, b, ["ece"], n_resamples=0)
    assert result.only_b == ("digits · fair · softmax · seed 42",)
    assert len(result.only_a) == 3
    assert any(remark.startswith("budgets differ") for remark in result.remarks)
    assert "only in B: digits · fair · softmax · seed 42" in result.to_text()
    assert all(row.note.endswith("no bootstrap was asked for") for row in result.rows)


def test_other_test_rows_allow_no_bootstrap(tmp_path):
    a, b = write_run(tmp_path / "a", PLAN), write_run(tmp_path / "b", replace(PLAN, salt=1))
    result = compare_runs(a, b, n_resamples=50)
    assert all(row.boot_low is None and "different test rows" in row.note for row in result.rows)
    assert all(row.p is not None for row in result.rows)


def test_runs_with_nothing_in_common(tmp_path):
    a, b = write_run(tmp_path / "a", PLAN), write_run(tmp_path / "b", replace(PLAN, tasks=("cifar10",)))
    assert "nothing to compare" in compare_runs(a, b).to_text()


def test_csv_has_a_row_per_value(folder):
    store = write_run(folder, PLAN)
    result = compare_runs(store, store, ["ece", "auroc"], n_resamples=0)
    assert result.to_csv().count("\n") == 1 + len(result.rows) == 1 + 3 * 3


def test_an_unknown_metric_is_refused(folder):
    store = write_run(folder, PLAN)
    with pytest.raises(InputError, match="there is no metric 'f1'; the metrics are: accuracy"):
        compare_runs(store, store, ["f1"])
