import pytest
from scipy import stats

from tests.stats.builders import record
from volta.paper import compare_with_paper
from volta.stats.results import group_records


def compared(protocol="paper"):
    records = [
        record(
            method,
            seed,
            {"test": {"ece": 0.02 + seed / 1000, "aurc": 0.02}, "ood:cifar100": {"auroc": 0.9}},
            task="cifar10",
            protocol=protocol,
        )
        for method in ("volta", "mc_dropout")
        for seed in range(3)
    ]
    return {(row.method, row.metric): row for row in compare_with_paper(group_records(records))}


def test_ours_and_the_papers_in_standard_deviations():
    rows = compared()
    ece = rows["volta", "ece"]
    assert ece.difference == pytest.approx(0.011)
    assert ece.difference_std == pytest.approx(0.011 / ((0.001**2 + 0.003**2) / 2) ** 0.5)
    assert ece.p == pytest.approx(stats.ttest_ind_from_stats(0.021, 0.001, 3, 0.010, 0.003, 3, equal_var=False).pvalue)
    assert rows["mc_dropout", "auroc"].set == "ood:cifar100"
    assert rows["mc_dropout", "auroc"].difference_std == pytest.approx((0.9 - 0.8419) / (0.010**2 / 2) ** 0.5)


def test_what_cannot_be_compared_says_why():
    rows = compared("fair")
    aurc = rows["volta", "aurc"]
    assert (aurc.p, aurc.difference_std) == (None, None)
    assert aurc.note == (
        "the standard deviation is 0; no test: the paper prints no standard deviation; "
        "the paper's own protocol is not 'fair'"
    )
    assert rows["swag", "ece"].note.startswith("not measured in this run")


def test_the_one_ood_set_of_tiny_imagenet_is_found_by_its_place():
    metrics = {"test": {"accuracy": 0.4}, "ood:classes-100-199": {"auroc": 0.6}}
    rows = compare_with_paper(group_records([record("volta", 0, metrics, task="tinyimagenet")]))
    (row,) = [row for row in rows if row.metric == "auroc" and row.method == "volta"]
    assert (row.set, row.mean, row.paper_mean) == ("ood:classes-100-199", 0.6, 0.5706)
    assert compare_with_paper(group_records([record("volta", 0, metrics, task="digits")])) == []
