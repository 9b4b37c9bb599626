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
    """Return statistics in which ``best`` says, by metric, who may be the best; no pair is told apart."""
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


def test_one_leader_is_named_with_what_nobody_beats_it_in(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {"ece": ("volta",)}))
    assert sentence == (
        "On digits, VOLTA leads in calibration (ECE), and all others are shown to be worse; no method is shown to beat "
        "it in accuracy, likelihood (NLL), selective prediction (AURC) and OOD detection (AUROC (near set)); "
        "tested pair by pair, 3 of 3 are told apart by no ranked metric with 3 seeds of 80 test rows."
    )


def test_two_leaders_and_another_metric_with_its_own(parts):
    group, own = parts
    found = {"ece": ("volta", "softmax"), "accuracy": ("energy",), "aurc": ("energy",), "auroc": ("softmax", "energy")}
    sentence = finding_sentence(group, with_best(own, found))
    assert "VOLTA and Softmax lead in calibration (ECE)" in sentence
    assert "Energy leads in accuracy and selective prediction (AURC)" in sentence
    assert "no method is shown to beat VOLTA and Softmax in likelihood (NLL)" in sentence
    assert "all others are shown" not in sentence


def test_equal_predictions_are_named_together(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {"ece": ("softmax", "energy")}, same=("softmax", "energy")))
    assert "Softmax/Energy lead in calibration" in sentence or "Energy/Softmax lead in calibration" in sentence


def test_where_nobody_leads_it_says_so(parts):
    group, own = parts
    sentence = finding_sentence(group, with_best(own, {}))
    assert "On digits, no method is shown to lead: even in calibration (ECE) 3 of 3 may be the best; " in sentence
    assert "first by mean rank" in sentence


def test_one_seed_is_no_finding(folder):
    store = write_run(folder, Plan(methods=METHODS, seeds=(1,), n_rows=40))
    run = load_run(store)
    sentence = finding_sentence(run.groups[0], compute_statistics(store, run.tables, 0).of("digits", "fair"))
    assert sentence.endswith(", but with one seed no method can be told from another.")


def test_a_method_alone_is_held_against_chance(folder):
    store = write_run(folder, Plan(methods=METHODS[:1], seeds=(1, 2), n_rows=40))
    run = load_run(store)
    sentence = finding_sentence(run.groups[0], compute_statistics(store, run.tables, 0).of("digits", "fair"))
    assert sentence.startswith("On digits, VOLTA has an accuracy of ")
    assert "what chance alone gives a perfectly calibrated predictor" in sentence


def test_lists_read_as_sentences_do():
    assert [listed(words) for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]
