import pytest

from volta.stats.comparisons import compare_all_pairs
from volta.stats.ranking import find, make_leaderboard, mean_estimate
from volta.stats.results import shared_networks

from .builders import five, table

VOLTA = five([0.90, 0.91, 0.92, 0.905], [0.010, 0.012, 0.011, 0.0105])
NETWORK = five([0.85, 0.86, 0.88, 0.855], [0.030, 0.035, 0.041, 0.033])
METHODS = {
    "energy": NETWORK | {"auroc": [0.93, 0.94, 0.935, 0.93]},
    "volta": VOLTA,
    "knn": NETWORK | {"auroc": [0.80, 0.82, 0.81, 0.80]},
    "swag": five([0.91, 0.90, 0.915, 0.90], [0.020, 0.025, 0.022, 0.021]),
}


def finding(values):
    results = table(values)
    return find("digits", make_leaderboard([results]), compare_all_pairs([results]))


def test_a_network_is_shared_where_all_four_metrics_are_equal_in_every_seed():
    results = table(METHODS)
    assert shared_networks(results, results.methods) == (("energy", "knn"),)
    assert shared_networks(results, ("knn", "volta", "energy")) == (("knn", "energy"),)
    other = table(METHODS | {"knn": NETWORK | {"nll": [0.1, 0.2, 0.3, 0.4]}})
    assert shared_networks(other, other.methods) == ()


def test_a_method_without_one_of_the_four_shares_nothing():
    lacking = {name: values for name, values in NETWORK.items() if name != "brier"}
    results = table({"energy": lacking, "knn": lacking})
    assert shared_networks(results, results.methods) == ()


def test_the_finding_names_who_may_be_best_and_counts_equal_methods_once():
    found = finding(METHODS)
    aspects = {one.metric: one for one in found.aspects}
    assert aspects["ece"].best == (("volta",),)
    assert aspects["ece"].n_distinct == 3
    assert aspects["ece"].separates
    assert aspects["accuracy"].names == {"volta", "swag"}
    assert found.first == ("volta",)
    assert found.n_methods == 4


def test_a_pair_differs_if_it_does_on_some_ranked_metric():
    found = finding(METHODS)
    # Energy and knn have equal predictions, but different OOD scores.
    assert (found.n_pairs, found.n_different) == (6, 6)
    again = finding({"volta": VOLTA, "swag": {key: values[::-1] for key, values in VOLTA.items()}})
    assert (again.n_pairs, again.n_different) == (1, 0)


def test_one_seed_tells_nothing_apart():
    found = finding({"volta": five([0.9], [0.01]), "swag": five([0.8], [0.02])})
    assert not any(one.is_tested for one in found.aspects)
    assert (found.first, found.n_pairs) == (("volta",), 0)


def test_names_with_commas_stay_whole():
    values = {"a, b": NETWORK, "c": NETWORK, "volta": VOLTA}
    (aspect,) = [one for one in finding(values).aspects if one.metric == "accuracy"]
    assert aspect.best == (("volta",),)
    assert aspect.n_distinct == 2


def test_the_interval_of_a_mean_is_students():
    results = table({"volta": VOLTA})
    estimate = mean_estimate(results, "volta", "accuracy", "test")
    assert estimate is not None
    low, high = estimate.interval(0.05)
    # Mean 0.90875, s = 0.0085391, t(3) = 3.1824.
    assert (low, high) == pytest.approx((0.90875 - 0.0135876, 0.90875 + 0.0135876), abs=1e-6)
    assert mean_estimate(table({"volta": five([0.9], [0.01])}), "volta", "accuracy", "test") is None
    assert mean_estimate(results, "volta", "fpr95", "test") is None
