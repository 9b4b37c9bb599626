from dataclasses import replace

import numpy as np
import pytest

from volta.stats.bootstrap import Bootstrap
from volta.stats.comparisons import compare_all_pairs
from volta.stats.ranking import OVERALL, make_leaderboard, ranked_sets

from .builders import five, table

VOLTA = five([0.90, 0.91, 0.92, 0.905], [0.010, 0.012, 0.011, 0.0105])
NETWORK = five([0.85, 0.86, 0.88, 0.855], [0.030, 0.035, 0.041, 0.033])


@pytest.fixture
def results():
    return table(
        {
            "energy": NETWORK | {"auroc": [0.93, 0.94, 0.935, 0.93]},
            "volta": VOLTA,
            "knn": NETWORK | {"auroc": [0.80, 0.82, 0.81, 0.80]},
            "swag": five([0.91, 0.90, 0.915, 0.90], [0.020, 0.025, 0.022, 0.021]),
            "volta-full": VOLTA,
        }
    )


def of(rows, method, metric):
    (found,) = [row for row in rows if row.method == method and row.metric == metric]
    return found


def test_methods_stand_by_their_mean_rank_and_what_is_ranked_is_said(results):
    rows = make_leaderboard([results])
    overall = [row for row in rows if row.metric == OVERALL]
    assert [row.method for row in overall] == ["volta", "swag", "energy", "knn"]
    assert overall[0].rank == 1
    assert overall[0].note == "mean rank over accuracy, nll, ece, aurc, auroc on ood:near"
    ranks = [row.rank for row in rows if row.method == "volta" and row.metric != OVERALL]
    assert overall[0].mean == pytest.approx(sum(ranks) / len(ranks))


def test_methods_on_one_network_count_once(results):
    rows = make_leaderboard([results])
    energy = of(rows, "energy", "accuracy")
    assert (energy.rank, energy.n_ranked, energy.same_as) == (3, 3, "knn")
    assert of(rows, "energy", "auroc").n_ranked == 4
    assert of(rows, "knn", "auroc").same_as == ""


def test_values_that_agree_but_for_rounding_are_one(results):
    nearly = {name: [value * (1 + 1e-13) for value in values] for name, values in VOLTA.items()}
    for seeds in (slice(4), slice(1)):
        methods = {"swag": VOLTA, "energy": nearly, "knn": NETWORK}
        found = table({name: {key: values[seeds] for key, values in of.items()} for name, of in methods.items()})
        rows = make_leaderboard([found])
        assert of_rank(rows, "swag") == of_rank(rows, "energy") == 1
        assert {of(rows, name, "ece").same_as for name in ("swag", "energy")} == {"energy", "swag"}
        assert of(rows, "swag", "ece").n_ranked == 2
        assert of(rows, "knn", OVERALL).rank == 3


def of_rank(rows, method):
    ranks = {row.rank for row in rows if row.method == method}
    assert len(ranks) == 1
    return ranks.pop()


def test_a_second_setting_of_our_method_has_its_rank(results):
    methods = {"volta": VOLTA, "volta [other]": NETWORK, "volta-full": VOLTA}
    found = table(methods)
    found = replace(found, origins=found.origins | {"volta [other]": "volta"})
    ranks = {row.method: row.rank for row in make_leaderboard([found]) if row.metric == OVERALL}
    assert ranks == {"volta": 1, "volta [other]": 2}


def test_the_group_holds_who_is_not_shown_to_be_worse(results):
    rows = make_leaderboard([results])
    assert {row.method for row in rows if row.metric == "accuracy" and row.in_confidence_set} == {"volta", "swag"}
    assert {row.method for row in rows if row.metric == "ece" and row.in_confidence_set} == {"volta"}
    assert of(rows, "volta", "ece").p_best == 1.0
    assert of(rows, "volta", "ece").n == 4


def test_one_seed_has_ranks_and_no_groups():
    rows = make_leaderboard([table({"volta": five([0.9], [0.01]), "swag": five([0.8], [0.02])})])
    assert {row.in_confidence_set for row in rows} == {None}
    assert of(rows, "volta", OVERALL).rank == 1


def test_calibration_is_ranked_after_temperature_where_the_records_hold_it(results):
    for method in results.methods:
        results.values[method]["test+T"] = {"ece": results.of(method, "test", "ece")}
        results.values[method]["far:"] = {"auroc": results.of(method, "ood:near", "auroc")}
    assert ranked_sets(results) == [
        *(("accuracy", "test"), ("nll", "test"), ("ece", "test+T")),
        *(("aurc", "test"), ("auroc", "far:")),
    ]


def test_a_method_that_lacks_a_metric_has_no_rank():
    rows = make_leaderboard([table({"volta": VOLTA, "swag": {"accuracy": [0.8, 0.81, 0.82, 0.8]}})])
    swag = of(rows, "swag", OVERALL)
    assert (swag.rank, swag.mean) == (None, None)
    assert "no rank: it lacks a ranked metric" in swag.note


def test_a_method_alone_needs_no_test():
    rows = make_leaderboard([table({"volta": VOLTA})])
    assert {(row.p_best, row.in_confidence_set) for row in rows} == {(None, None)}


def test_the_confidence_set_is_what_the_pairs_say(results):
    pairs = compare_all_pairs([results])
    both = [one for pair in pairs for one in (pair, pair.turned())]
    for row in make_leaderboard([results], pairs=pairs):
        own = [one for one in both if (one.reference, one.metric, one.set) == (row.method, row.metric, row.set)]
        if row.metric != OVERALL:
            assert row.in_confidence_set is all(one.verdict != "worse" for one in own)
            assert row.in_confidence_set is (row.p_best >= 0.05)


def test_the_interval_of_the_mean_rank_is_that_of_resampled_seeds(results):
    rng = np.random.default_rng(0)
    keys = ranked_sets(results)
    observed = {key: {name: results.of(name, key[1], key[0]) for name in results.methods} for key in keys}
    draws = {
        key: {name: {seed: value + rng.normal(0, 1e-4, 200) for seed, value in by.items()} for name, by in own.items()}
        for key, own in observed.items()
    }
    rows = make_leaderboard(
        [results], {("digits", "fair"): Bootstrap(observed, draws, rows=dict.fromkeys(range(4), (0, 9)))}
    )
    volta, swag = of(rows, "volta", OVERALL), of(rows, "swag", OVERALL)
    assert 1 <= volta.low <= volta.mean <= volta.high < of(rows, "knn", OVERALL).low
    assert swag.low <= swag.mean <= swag.high
