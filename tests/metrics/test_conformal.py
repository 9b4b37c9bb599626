import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_rejects_bad_arguments():
    sets = np.ones((2, 3), dtype=bool)
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
