import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from volta.core.errors import InputError
from volta.stats.ranking import compare_over_tasks, critical_difference, critical_differences, rank_tables, rank_values

from .builders import five, table


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30))
def test_ranks_agree_with_scipy_under_ties(values):
    assert rank_values(values, higher_is_better=False).tolist() == stats.rankdata(values).tolist()
    assert rank_values(values, higher_is_better=True).tolist() == stats.rankdata(-np.array(values)).tolist()


def test_nan_is_not_ranked():
    with pytest.raises(InputError, match="NaN"):
        rank_values([1.0, float("nan")], higher_is_better=True)


def _means(matrix):
    return {f"task {i}": {f"m{j}": float(v) for j, v in enumerate(row)} for i, row in enumerate(matrix)}


@pytest.mark.parametrize("seed", range(4))
def test_friedman_agrees_with_scipy_with_and_without_ties(seed):
    matrix = np.random.default_rng(seed).integers(0, 6, (8, 4)) / 10
    found = critical_difference(_means(matrix), "accuracy")
    reference = stats.friedmanchisquare(*matrix.T)
    assert found.statistic == pytest.approx(reference.statistic, rel=1e-10)
    assert found.p == pytest.approx(reference.pvalue, rel=1e-9)


def test_iman_davenport_and_nemenyi_by_hand():
    # Demšar (2006), table 6: four classifiers on 14 sets, average ranks 3.143, 2.000, 2.893, 1.964.
    matrix = np.array(
        [
            [0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967],
            [0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931],
            [0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875],
            [1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669],
            [0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970],
        ]
    )  # fmt: skip
    found = critical_difference(_means(matrix), "auroc")
    assert found.mean_ranks["m0"] == pytest.approx(3.143, abs=5e-4)
    assert found.mean_ranks["m3"] == pytest.approx(1.964, abs=5e-4)
    assert found.critical_difference == pytest.approx(2.569 * np.sqrt(4 * 5 / (6 * 14)), abs=1e-3)
    assert next(iter(found.mean_ranks)) == "m3"
    n, k = 14, 4
    f = (n - 1) * found.statistic / (n * (k - 1) - found.statistic)
    assert found.p_iman_davenport == pytest.approx(stats.f.sf(f, k - 1, (k - 1) * (n - 1)), rel=1e-9)


def test_groups_are_the_maximal_bars_of_the_diagram():
    # Ten tasks that all agree: ranks 1 to 6, CD = 2.85 √(42/60) = 2.384, so bars span differences of 2.
    found = critical_difference(_means(np.tile([6, 5, 4, 3, 2, 1], (10, 1)) / 10), "accuracy")
    assert found.critical_difference == pytest.approx(2.384, abs=2e-3)
    assert found.groups == (("m0", "m1", "m2"), ("m1", "m2", "m3"), ("m2", "m3", "m4"), ("m3", "m4", "m5"))
    assert found.p_iman_davenport == 0.0


def test_too_few_tasks_give_ranks_and_a_reason():
    found = critical_difference(_means([[1, 2, 3], [1, 2, 3]]), "ece")
    assert found.mean_ranks == {"m0": 1.0, "m1": 2.0, "m2": 3.0}
    assert found.critical_difference is None
    assert found.reason == "2 task(s) and 3 method(s); the diagram needs at least 5 tasks and 3 methods"


def test_all_tied_is_said():
    assert critical_difference(_means(np.ones((6, 3))), "ece").reason == "all methods tie on every task"
    assert critical_difference({}, "ece").reason == "no method has this metric on every task"


def test_a_metric_without_direction_is_refused():
    with pytest.raises(InputError, match="no better direction"):
        critical_difference(_means(np.ones((6, 3))), "coverage")


def test_methods_are_ranked_in_each_metrics_direction_and_averaged():
    results = table({"volta": five([0.9], [0.02]), "energy": five([0.8], [0.01]), "enn": five([0.9], [0.03])})
    ranks = {(row.method, row.metric): row.rank for row in rank_tables([results])}
    assert ranks["volta", "accuracy"] == ranks["enn", "accuracy"] == 1.5
    assert ranks["energy", "ece"] == 1
    assert ranks["volta", "(mean)"] == pytest.approx((1.5 + 2 + 1.5 + 1.5 + 1.5) / 5)


def test_a_method_without_a_metric_has_no_mean_rank():
    results = table({"volta": five([0.9], [0.02]), "energy": {"accuracy": [0.8]}, "volta-full": five([0.99], [0.001])})
    rows = [row for row in rank_tables([results]) if row.method == "energy"]
    mean = next(row for row in rows if row.metric == "(mean)")
    assert mean.rank is None
    assert mean.note == "no mean rank: no value for ece on test, brier on test, nll on test, auroc on ood:near"
    assert {row.method for row in rank_tables([results])} == {"volta", "energy"}


def test_over_tasks_of_one_protocol():
    tables = [
        table({"volta": five([0.9], [0.01]), "energy": five([0.8], [0.02]), "enn": five([0.7], [0.03])}, task=f"t{i}")
        for i in range(5)
    ]
    found = compare_over_tasks(tables, "auroc", "fair")
    assert list(found.mean_ranks) == ["volta", "energy", "enn"]
    assert found.p == pytest.approx(stats.chi2.sf(10, 2))
    assert compare_over_tasks(tables, "auroc", "paper").tasks == ()
    assert set(critical_differences(tables)) == {("fair", m) for m in ("accuracy", "ece", "brier", "nll", "auroc")}
