from __future__ import annotations

from volta.networks.recipe import Budget
from volta.report.run import budget_words, load_run

from .synthetic import Plan, write_run


def test_groups_follow_the_plan_and_name_what_is_not_there(folder):
    plan = Plan(
        tasks=("digits", "cifar10"),
        protocols=("fair", "paper"),
        missing=frozenset({("softmax", 42)}),
        failed=frozenset({("temperature", 123)}),
    )
    run = load_run(write_run(folder, plan))
    assert [(group.task, group.protocol) for group in run.groups] == [
        ("digits", "fair"),
        ("digits", "paper"),
        ("cifar10", "fair"),
        ("cifar10", "paper"),
    ]
    assert (run.n_done, run.n_planned) == (28, 36)
    group = run.groups[0]
    assert [(cell.method, cell.seed) for cell in group.missing] == [("softmax", 42), ("temperature", 123)]
    assert list(group.failures.values()) == ["ValueError: loss is <nan> & gone"]


def test_values_are_in_the_order_of_the_seeds(folder):
    group = load_run(write_run(folder, Plan())).groups[0]
    by_seed = {seed: record.test["ece"] for (method, seed), record in group.records.items() if method == "volta"}
    assert group.values("volta", "ece") == tuple(by_seed[seed] for seed in (42, 123, 456))
    assert group.values("volta", "auroc@ood:noise")
    assert group.values("volta", "nothing@test") == ()


def test_near_sets_come_first(folder):
    group = load_run(write_run(folder, Plan(ood=("zebra", "apple")))).groups[0]
    assert group.near_first == ("ood:zebra", "ood:apple")


def test_ablation_rows_are_not_compared_methods(small):
    group = load_run(small).groups[0]
    assert group.compared == ("volta", "softmax", "temperature", "mahalanobis")
    assert "volta-full" in group.methods


def test_budget_in_words():
    assert budget_words(Budget()) == "full budget"
    assert budget_words(Budget(max_epochs=5, limit_train=200)) == "reduced: 200 training rows, at most 5 epochs"
    assert budget_words(Budget(limit_test=9)) == "reduced: at most 9 rows of each evaluated set"
    assert budget_words(Budget(9, 9, 9, 9)).count("9") == 4


def test_a_run_without_a_finished_cell_has_groups_without_values(folder):
    run = load_run(
        write_run(folder, Plan(seeds=(1,), missing=frozenset({("volta", 1), ("softmax", 1), ("temperature", 1)})))
    )
    assert run.groups[0].table.values == {}
    assert run.n_done == 0
    assert run.tables == []
