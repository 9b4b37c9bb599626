import pytest

from volta.paper import paper_values
from volta.paper.values import half_unit


def value(task, method, metric, eval_set="test"):
    (found,) = [
        one for one in paper_values() if (one.task, one.method, one.metric, one.set) == (task, method, metric, eval_set)
    ]
    return found


def test_every_value_is_there_once():
    keys = [(one.task, one.method, one.set, one.metric) for one in paper_values()]
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
