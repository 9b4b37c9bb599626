"""The sentence a page begins with says what the statistics say, and no more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from volta.report.run import load_run
from volta.report.statistics import compute_statistics
from volta.report.words import finding_sentence, listed
from volta.stats.ranking import OVERALL

from .synthetic import Plan, write_run

METHODS = (("volta", "VOLTA", "volta"), ("softmax", "Softmax", "extra"), ("energy", "Energy", "paper"))


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    store = write_run(tmp_path_factory.mktemp("finding") / "run", Plan(methods=METHODS, seeds=(1, 2, 3), n_rows=80))
    run = load_run(store)
    return run.groups[0], compute_statistics(store, run.tables, 0).of("digits", "fair")


def with_best(own, best, same=()):
    """Return statistics with ``best`` as the confidence sets by metric, and no significant pair."""
    rows = [
        row
        if row.metric == OVERALL
        else replace(
            row,
            in_confidence_set=row.method in best.get(row.metric, ("volta", "softmax", "energy")),
            same_as=", ".join(name for name in same if name != row.method) if row.method in same else "",
        )
        for row in own.leaderboard
    ]
    pairs = [replace(row, p=0.5, verdict="inconclusive") for row in own.pairs]
    return replace(own, leaderboard=rows, pairs=pairs)


def test_one_leader_is_named_with_metrics_where_no_method_is_better(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {"ece": ("volta",)}))
    assert sentence == (
        "On digits, VOLTA leads on calibration (ECE). No method is significantly better than VOLTA on accuracy, "
        "likelihood (NLL), selective prediction (AURC) and AUROC (near set). 0 of 3 pairs differ significantly on any "
        "ranked metric (3 seeds, 80 test samples)."
    )


def test_two_leaders_and_another_metric_with_its_own(parts):
    group, own = parts
    found = {"ece": ("volta", "softmax"), "accuracy": ("energy",), "aurc": ("energy",), "auroc": ("softmax", "energy")}
    sentence = finding_sentence(group, with_best(own, found))
    assert "VOLTA and Softmax lead on calibration (ECE)" in sentence
    assert "Energy leads on accuracy and selective prediction (AURC)" in sentence
    assert "No method is significantly better than VOLTA and Softmax on likelihood (NLL)" in sentence


def test_equal_predictions_are_named_together(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {"ece": ("softmax", "energy")}, same=("softmax", "energy")))
    assert "Softmax/Energy lead on calibration" in sentence or "Energy/Softmax lead on calibration" in sentence


def test_where_nobody_leads_it_says_so(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {}))
    assert (
        "On digits, there is no clear winner: on calibration (ECE), 3 of 3 distinct methods are tied for best."
        in sentence
    )
    assert "First by mean rank: " in sentence


def test_one_seed_is_no_finding(folder):
    store = write_run(folder, Plan(methods=METHODS, seeds=(1,), n_rows=40))
    run = load_run(store)
    sentence = finding_sentence(run.groups[0], compute_statistics(store, run.tables, 0).of("digits", "fair"))
    assert sentence.startswith("On digits, one seed gives no test. First by mean rank: ")


def test_the_ece_of_a_single_method_is_compared_with_its_expected_range(folder):
    store = write_run(folder, Plan(methods=METHODS[:1], seeds=(1, 2), n_rows=40))
    run = load_run(store)
    sentence = finding_sentence(run.groups[0], compute_statistics(store, run.tables, 0).of("digits", "fair"))
    assert sentence.startswith("On digits, VOLTA has an accuracy of ")
    assert "the range expected under perfect calibration" in sentence


def test_lists_read_as_sentences_do():
    assert [listed(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
