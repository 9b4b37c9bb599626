import pytest

from volta.paper import paper_values
from volta.paper.values import half_unit


def value(task, method, metric, eval_set="test"):
    return next(
        one
        for one in reversed(paper_values())
        if (one.task, one.method, one.metric, one.set) == (task, method, metric, eval_set)
    )


def test_every_value_is_there_once_or_with_other_digits():
    keys = [(one.task, one.method, one.set, one.metric, one.mean, one.std) for one in paper_values()]
    assert len(keys) == len(set(keys))
    table = [one for one in paper_values() if one.source == "table of CIFAR-10 results"]
    assert len(table) == 10 * 6
    assert len({one.method for one in table}) == 10


def test_methods_go_by_the_names_the_benchmark_runs_them_under():
    from volta.methods import ABLATION, METHODS

    assert {one.method for one in paper_values()} <= set(METHODS) | set(ABLATION)


@pytest.mark.parametrize(
    ("task", "method", "metric", "eval_set", "mean", "std"),
    [
        ("cifar10", "swag", "ece", "test", 0.0935, 0.010),
        ("cifar10", "hyperbolic", "auroc", "ood:cifar100", 0.8611, 0.008),
        ("cifar10", "taylor_sensus", "brier", "test", 0.185, 0.007),
        ("cifar10", "conformal", "nll", "test", 0.440, 0.013),
        ("cifar10", "volta", "fpr95", "ood:cifar100", 0.265, None),
        ("cifar100", "volta", "auroc", "ood:noise", 0.9024, None),
        ("cifar100", "taylor_sensus", "aurc", "test", 0.1574, None),
        ("tinyimagenet", "swag", "accuracy", "test", 0.398, None),
        ("cifar10", "volta-full-shallow", "nll", "test", 0.4714, None),
        ("cifar10", "volta-full-no-temperature", "ece", "test", 0.0385, None),
        ("cifar10", "volta-full-no-adaptive-temperature", "auroc", "ood:cifar100", 0.8203, None),
    ],
)
def test_spot_values(task, method, metric, eval_set, mean, std):
    sample = value(task, method, metric, eval_set).sample
    assert (sample.mean, sample.std, sample.n) == (mean, std, 3)


def test_half_a_unit_of_the_last_digit():
    assert half_unit("0.0935") == pytest.approx(5e-5)
    assert half_unit("0.010") == pytest.approx(5e-4)


def test_what_the_text_prints_otherwise_stands_beside_the_table():
    printed = {
        (one.metric, one.mean, one.std) for one in paper_values() if (one.task, one.method) == ("cifar10", "volta")
    }
    assert {("ece", "0.0098", "0.0030"), ("nll", "0.3914", "0.0150"), ("brier", "0.1954", "0.0100")} < printed
    assert {("brier", "0.1750", None), ("auroc", "0.8023", "0.0082"), ("accuracy", "0.864", None)} < printed


def test_values_of_a_temperature_of_one_stand_beside_both_rows():
    training, inference = (
        [(one.metric, one.mean, one.source) for one in paper_values() if one.method == f"volta-full-no-{row}"]
        for row in ("adaptive-temperature", "posthoc")
    )
    assert training == inference
    assert {mean for _, mean, _ in training} == {"0.864", "0.0072", "0.3907", "0.8203"}
    assert all("T = 1 at inference" in source and "τ = 1 in training" in source for _, _, source in training)
