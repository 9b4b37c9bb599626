import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from volta import metrics
from volta.core.errors import InputError

from . import reference
from .strategies import selections

NAMES = [n for n, m in metrics.METRICS.items() if m.family == "selective"]


def test_hand_computed():
    uncertainty, correct = [0.1, 0.2, 0.3, 0.4], [True, False, True, False]
    expected = (0 + 1 / 2 + 1 / 3 + 2 / 4) / 4
    assert metrics.aurc(uncertainty, correct) == pytest.approx(expected, abs=1e-15)
    assert metrics.augrc(uncertainty, correct) == (0 + 0.5 + 1 + 1.5) / 16
    best = (0 + 0 + 1 / 3 + 2 / 4) / 4
    assert metrics.eaurc(uncertainty, correct) == pytest.approx(expected - best, abs=1e-15)
    assert metrics.eaurc_paper(uncertainty, correct) == pytest.approx(expected - 0.25, abs=1e-15)
    assert metrics.selective_auc(uncertainty, correct) == pytest.approx(1 - expected, abs=1e-15)
    assert metrics.risk_at_80(uncertainty, correct) == 0.5
    assert metrics.coverage_at_5(uncertainty, correct) == 0.25


@settings(deadline=None)
@given(selections(max_rows=6))
def test_aurc_is_the_mean_over_all_orders_of_tied_rows(case):
    assert metrics.aurc(*case) == pytest.approx(reference.aurc_over_all_orders(*case), abs=1e-12)


@given(selections(max_rows=60))
def test_agrees_with_exact_fractions(case):
    for name in ("aurc", "augrc", "eaurc", "risk_at_80"):
        assert getattr(metrics, name)(*case) == pytest.approx(float(getattr(reference, name)(*case)), abs=1e-12)
    assert metrics.coverage_at_5(*case) == float(reference.coverage_at_5(*case))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30).map(bool)), min_size=1, max_size=120))
def test_coverage_at_5_where_few_rows_are_wrong(rows):
    uncertainty, correct = (np.array(column) for column in zip(*rows, strict=True))
    expected = float(reference.coverage_at_5(uncertainty, correct))
    assert metrics.coverage_at_5(uncertainty, correct) == expected


def test_five_percent_is_met_exactly():
    uncertainty = np.arange(40.0)
    correct = np.ones(40, dtype=bool)
    correct[[19, 39]] = False
    assert metrics.coverage_at_5(uncertainty, correct) == 1.0
    assert metrics.coverage_at_5(np.zeros(40), correct) == 1.0
    correct[38] = False
    assert metrics.coverage_at_5(np.zeros(40), correct) == 0.0


@given(selections())
def test_curve_has_the_area(case):
    curve = metrics.risk_coverage_curve(*case)
    assert curve.risk.mean() == pytest.approx(metrics.aurc(*case), abs=1e-12)
    assert curve.risk[-1] == pytest.approx(np.mean(~case[1]), abs=1e-15)
    assert curve.coverage[-1] == 1.0


@given(selections(), st.randoms(use_true_random=False))
def test_order_of_rows_and_monotone_maps_do_not_matter(case, random):
    uncertainty, correct = case
    order = list(range(len(correct)))
    random.shuffle(order)
    ranks = np.unique(uncertainty, return_inverse=True)[1]
    for name in NAMES:
        function = getattr(metrics, name)
        value = function(uncertainty, correct)
        assert function(uncertainty[order], correct[order]) == value, name
        assert function(np.exp(ranks / 3), correct) == value, name


@given(selections())
def test_bounds(case):
    error_rate = float(np.mean(~case[1]))
    aurc = metrics.aurc(*case)
    assert 0 <= aurc <= 1
    assert 0 <= metrics.eaurc(*case) <= aurc
    assert metrics.eaurc_paper(*case) == pytest.approx(aurc - error_rate * (1 - error_rate), abs=1e-15)
    assert error_rate**2 / 2 - 1e-15 <= metrics.augrc(*case) <= error_rate - error_rate**2 / 2 + 1e-15
    assert 0 <= metrics.risk_at_80(*case) <= 1
    assert 0 <= metrics.coverage_at_5(*case) <= 1


@given(st.lists(st.booleans(), min_size=1, max_size=40).map(np.array))
def test_perfect_order_has_no_excess_and_constant_scores_have_the_error_rate(correct):
    assert metrics.eaurc(~correct + np.linspace(0, 0.5, len(correct)), correct) == 0.0
    constant = np.zeros(len(correct))
    assert metrics.aurc(constant, correct) == pytest.approx(np.mean(~correct), abs=1e-12)
    assert metrics.augrc(constant, correct) == pytest.approx(np.mean(~correct) / 2, abs=1e-15)
    assert metrics.risk_at_80(constant, correct) == pytest.approx(np.mean(~correct), abs=1e-12)


def test_all_right_or_all_wrong():
    uncertainty = [3.0, 1.0, 2.0]
    assert metrics.aurc(uncertainty, [True] * 3) == 0.0
    assert metrics.coverage_at_5(uncertainty, [True] * 3) == 1.0
    assert metrics.aurc(uncertainty, [False] * 3) == 1.0
    assert metrics.augrc(uncertainty, [True] * 3) == 0.0
    assert metrics.augrc(uncertainty, [False] * 3) == 0.5
    assert metrics.eaurc(uncertainty, [False] * 3) == 0.0
    assert metrics.coverage_at_5(uncertainty, [False] * 3) == 0.0


@pytest.mark.parametrize("decimals", [1, 12])
def test_augrc_is_the_formula_of_its_authors_with_the_auroc_of_scikit_learn(decimals):
    rng = np.random.default_rng(5)
    correct = rng.random(2000) < 0.8
    uncertainty = (rng.standard_normal(2000) + ~correct).round(decimals)
    error = np.mean(~correct)
    ranking = roc_auc_score(~correct, uncertainty)
    expected = error**2 / 2 + error * (1 - error) * (1 - ranking)
    assert metrics.augrc(uncertainty, correct) == pytest.approx(expected, abs=1e-14)


def test_close_to_the_closed_form_of_geifman_at_ten_thousand_rows():
    rng = np.random.default_rng(0)
    correct = rng.random(10_000) < 0.9
    uncertainty = rng.random(10_000)
    risk = np.mean(~correct)
    closed = metrics.aurc(uncertainty, correct) - (risk + (1 - risk) * np.log(1 - risk))
    assert metrics.eaurc(uncertainty, correct) == pytest.approx(closed, abs=5e-5)


@pytest.mark.parametrize("name", NAMES)
def test_rejects_bad_arguments(name):
    function = getattr(metrics, name)
    with pytest.raises(InputError, match="uncertainty row 1 is NaN"):
        function([0.1, np.nan], [True, False])
    with pytest.raises(InputError, match="correct has 1 rows but uncertainty has 2"):
        function([0.1, 0.2], [True])
    with pytest.raises(InputError, match="correct row 0 holds a value other than 0 and 1"):
        function([0.1, 0.2], [2, 0])
    with pytest.raises(InputError, match="uncertainty is empty"):
        function([], [])
