from __future__ import annotations

from dataclasses import replace

import pytest
from scipy.stats import ttest_1samp

from tests.records import store_again
from volta.bench.cell_metrics import TEST
from volta.core.errors import InputError
from volta.networks.recipe import Budget
from volta.report import compare_runs
from volta.report.compare import verdict_words

from .synthetic import Plan, write_run

PLAN = Plan(n_rows=150)


def test_a_run_compared_with_itself_has_no_change(folder):
    store = write_run(folder, PLAN)
    result = compare_runs(store, store, n_resamples=50)
    assert result.changed == ()
    assert {row.method for row in result.rows} == {"volta", "softmax", "temperature"}
    assert all(row.seeds_identical == row.n == 3 for row in result.rows)
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
    assert row.verdict == "worse"
    assert row.p_holm < 0.05
    assert row.low <= row.difference <= row.high < 0
    assert row.boot_low <= row.difference <= row.boot_high < 0
    assert row.seeds_identical == 0
    words = result.to_text(("old", "new"))
    assert f"worse ([{row.low:+.4f}, {row.high:+.4f}])" in words
    assert "In B, Holm-corrected: 0 better, " in words
    differences = [
        by_seed[1] - by_seed[0]
        for by_seed in zip(*(_values(store, "softmax", "accuracy") for store in (before, after)), strict=True)
    ]
    assert row.p == pytest.approx(ttest_1samp(differences, 0).pvalue, rel=0.2, abs=0.02)


def other_predictions(store, record):
    arrays = store.read_arrays(record.cell)
    return {**arrays, "test/uncertainty": arrays["test/uncertainty"] + 1e-9}


def _values(store, method, metric):
    records = [record for record in store.records() if record.cell.method == method]
    return [record.test[metric] for record in sorted(records, key=lambda record: record.cell.seed)]


def test_only_seeds_that_both_have_are_compared(tmp_path):
    a = write_run(tmp_path / "a", PLAN)
    b = write_run(tmp_path / "b", replace(PLAN, seeds=(123, 7)))
    rows = compare_runs(a, b, ["accuracy"], n_resamples=0).rows
    assert all(row.n == 1 and row.identical and row.difference == 0 for row in rows)
    record = next(r for r in b.records() if (r.cell.method, r.cell.seed) == ("softmax", 123))
    changed = {**record.metrics, TEST: {**record.test, "accuracy": record.test["accuracy"] - 0.25}}
    store_again(b, replace(record, metrics=changed), other_predictions(b, record))
    row = next(row for row in compare_runs(a, b, ["accuracy"], n_resamples=0).changed)
    own = dict(zip((42, 123, 456), _values(a, "softmax", "accuracy"), strict=True))
    assert (row.mean_a, row.difference, row.p) == (own[123], pytest.approx(-0.25), None)
    assert "inconclusive: one seed, no test" in compare_runs(a, b, ["accuracy"], n_resamples=0).to_text()


def test_methods_without_a_common_seed_are_named_and_not_compared(tmp_path):
    a, b = write_run(tmp_path / "a", PLAN), write_run(tmp_path / "b", replace(PLAN, seeds=(7, 8)))
    result = compare_runs(a, b, n_resamples=0)
    assert result.rows == ()
    remark = "digits, fair, volta: no seed in common (42, 123, 456 in A, 7, 8 in B), not compared"
    assert remark in result.remarks
    assert "nothing to compare" in result.to_text()


def test_a_difference_within_chance_is_not_called_worse(tmp_path):
    plan = replace(PLAN, n_rows=2000)
    a, b = write_run(tmp_path / "a", plan), write_run(tmp_path / "b", plan)
    for record, change in zip(b.records(), (1e-7, -2e-7, 3e-8) * 3, strict=True):
        moved = {**record.metrics, TEST: {**record.test, "accuracy": record.test["accuracy"] + change}}
        store_again(b, replace(record, metrics=moved), other_predictions(b, record))
    result = compare_runs(a, b, ["accuracy"], n_resamples=20)
    assert {row.verdict for row in result.rows} == {"equivalent"}
    words = result.to_text()
    assert "equivalent ([" in words
    assert "+0.0000" not in words
    assert "-0.0000" not in words
    wide = replace(result.rows[0], verdict="inconclusive", low=-0.01, high=0.02)
    assert verdict_words(wide) == "inconclusive ([-0.0100, +0.0200]), uncorrected"


def test_a_metric_on_a_set_can_be_named(tmp_path):
    plan = replace(PLAN, variants=True)
    store = write_run(tmp_path / "a", plan)
    rows = compare_runs(store, store, ["ece@test+T", "auroc@near:"], n_resamples=20).rows
    assert {(row.metric, row.set) for row in rows} == {("ece", "test+T"), ("auroc", "near:")}


def test_markdown_names_the_runs_and_holds_a_table(tmp_path, monkeypatch):
    from . import synthetic

    before = write_run(tmp_path / "a", PLAN)
    own = synthetic._character
    monkeypatch.setattr(synthetic, "_character", lambda name: (1.2, 0.9) if name == "softmax" else own(name))
    words = compare_runs(before, write_run(tmp_path / "b", PLAN), n_resamples=0).to_markdown(("old", "new"))
    assert words.startswith("# new (B) against old (A)")
    assert "| digits | fair | softmax | accuracy | 3 |" in words


def test_cells_that_only_one_run_has_are_named(tmp_path):
    a = write_run(tmp_path / "a", replace(PLAN, missing=frozenset({("softmax", 42)})))
    b = write_run(tmp_path / "b", replace(PLAN, seeds=(42, 123), budget=Budget(max_epochs=3)))
    result = compare_runs(a, b, ["ece"], n_resamples=0)
    assert result.only_b == ("digits · fair · softmax · seed 42",)
    assert len(result.only_a) == 3
    assert any(remark.startswith("budgets differ") for remark in result.remarks)
    assert "only in B: digits · fair · softmax · seed 42" in result.to_text()
    assert all("no bootstrap was asked for" in row.note for row in result.rows)


def test_other_test_rows_allow_no_bootstrap(tmp_path):
    a, b = write_run(tmp_path / "a", PLAN), write_run(tmp_path / "b", replace(PLAN, salt=1))
    result = compare_runs(a, b, n_resamples=50)
    assert all(row.boot_low is None and "different test samples" in row.note for row in result.rows)
    assert {(row.p, row.p_equivalence, row.verdict) for row in result.rows} == {(None, None, "inconclusive")}


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
