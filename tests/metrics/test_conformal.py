import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import recall_score

from volta import metrics
from volta.core.errors import InputError

from . import reference
from .strategies import scores


@pytest.mark.parametrize(
    ("n", "alpha", "rank"),
    [(9, 0.1, 9), (19, 0.1, 18), (19, 0.05, 19), (99, 0.01, 99), (1, 0.5, 1), (4, 0.3, 4)],
)
def test_rank_is_exact_in_decimal(n, alpha, rank):
    assert metrics.conformal_quantile(np.arange(1, n + 1), alpha) == rank
    assert metrics.conformal_quantile(np.arange(1, n + 1), 1 - (1 - alpha)) == rank


def test_beyond_n_is_infinite():
    assert metrics.conformal_quantile(np.arange(8), 0.1) == np.inf
    assert metrics.conformal_quantile([0.3], 0.1) == np.inf


@given(scores(), st.integers(1, 99))
def test_agrees_with_the_definition(values, percent):
    expected = reference.conformal_quantile(values, percent, 100)
    assert metrics.conformal_quantile(values, percent / 100) == expected


def test_coverage_is_guaranteed():
    rng = np.random.default_rng(0)
    n, alpha = 20, 0.1
    covered = [rng.random() <= metrics.conformal_quantile(rng.random(n), alpha) for _ in range(4000)]
    assert 0.885 < np.mean(covered) < 0.93


def test_hand_computed():
    sets = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1], [1, 1, 1]], dtype=bool)
    labels = [0, 1, 0, 2]
    assert metrics.coverage(sets, labels) == 0.5
    assert metrics.set_size(sets) == metrics.set_size(sets, labels) == 1.5
    assert metrics.empty_sets(sets.astype(int)) == metrics.empty_sets(sets, labels) == 0.25


def test_coverage_gap_by_hand():
    sets = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 0]], dtype=bool)
    labels = [0, 0, 1, 1, 1]
    # Class 0 is covered always, class 1 once in three, all rows three times in five; class 2 has no rows.
    assert metrics.coverage_gap(sets, labels) == pytest.approx(2 / 5)
    assert metrics.coverage_gap(sets, labels, nominal=0.9) == pytest.approx(0.9 - 1 / 3)
    assert metrics.coverage_gap(np.ones((4, 3), dtype=bool), [0, 1, 2, 2]) == 0.0
    assert metrics.coverage_gap([[True]], [0]) == 0.0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=40), st.randoms(use_true_random=False)
)
def test_coverage_gap_agrees_with_scikit_learn_recalls(rows, random):
    labels, covered = (np.array(column) for column in zip(*rows, strict=True))
    sets = np.zeros((len(rows), 5), dtype=bool)
    sets[np.arange(len(rows)), labels] = covered
    # A label that is covered is «predicted», one that is not is predicted as class 4, which no row has.
    found = recall_score(labels, np.where(covered, labels, 4), labels=np.unique(labels), average=None)
    gap = metrics.coverage_gap(sets, labels)
    assert gap == pytest.approx(np.abs(found - covered.mean()).max(), abs=1e-12)
    assert 0 <= gap < 1
    order = list(range(len(rows)))
    random.shuffle(order)
    assert metrics.coverage_gap(sets[order], labels[order]) == pytest.approx(gap, abs=1e-15)
    assert metrics.coverage_gap(np.repeat(sets, 2, 0), np.repeat(labels, 2)) == pytest.approx(gap, abs=1e-12)


def test_rejects_bad_arguments():
    sets = np.ones((2, 3), dtype=bool)
    with pytest.raises(InputError, match="nominal is 90; expected"):
        metrics.coverage_gap(sets, [0, 1], nominal=90)
    with pytest.raises(InputError, match="labels row 1 is 3"):
        metrics.coverage_gap(sets, [0, 3])
    with pytest.raises(InputError, match="alpha is 0; expected"):
        metrics.conformal_quantile([0.1], 0)
    with pytest.raises(InputError, match="scores row 0 is NaN"):
        metrics.conformal_quantile([np.nan], 0.1)
    with pytest.raises(InputError, match="labels row 1 is 3"):
        metrics.coverage(sets, [0, 3])
    with pytest.raises(InputError, match="labels has 1 rows but sets has 2"):
        metrics.set_size(sets, [0])
    with pytest.raises(InputError, match="sets has dtype float64"):
        metrics.empty_sets(sets * 0.5)
    with pytest.raises(InputError, match=r"sets has shape \(3,\)"):
        metrics.set_size(sets[0])
