from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from volta.core.errors import InputError
from volta.core.quantile import conformal_quantile
from volta.decisions import conformal_rank, conformal_threshold, smallest_n
from volta.decisions.conformal import beta_quantile, binomial_cdf


@pytest.mark.parametrize(
    ("n", "alpha", "rank", "enough"),
    [(9, 0.1, 9, True), (8, 0.1, 9, False), (19, 0.1, 18, True), (1, 0.5, 1, True), (1, 0.4, 2, False)],
)
def test_rank_by_hand(n, alpha, rank, enough):
    found = conformal_rank(n, alpha)
    assert (found.rank, found.enough) == (rank, enough)
    assert bool(found.note) is not enough


@given(st.integers(1, 300), st.integers(1, 999))
def test_agrees_with_the_quantile_in_core(n, thousandth):
    alpha = thousandth / 1000
    found = conformal_rank(n, alpha)
    value = conformal_quantile(np.arange(1.0, n + 1), alpha)
    assert value == (found.rank if found.enough else np.inf)
    assert found.expected >= 1 - alpha - 1e-12
    assert found.enough == (n >= smallest_n(alpha))


def test_too_few_rows_are_named():
    found = conformal_threshold([0.3], 0.1)
    assert found.value == np.inf
    assert (
        found.rank.note
        == "1 calibration rows are too few for alpha = 0.1, which needs at least 9: the threshold is infinite"
    )
    assert found.rank.interval() == (1.0, 1.0)
    assert found.rank.expected == 1.0


def test_threshold_with_ties():
    assert conformal_threshold([2.0, 2.0, 2.0], 0.5).value == 2.0
    assert conformal_threshold([-np.inf, 0.0, np.inf], 0.25).value == np.inf


def test_interval_is_the_beta_law():
    low, high = conformal_rank(200, 0.1).interval(0.9)
    law = stats.beta(181, 20)
    assert low == pytest.approx(law.ppf(0.05), abs=1e-12)
    assert high == pytest.approx(law.ppf(0.95), abs=1e-12)


@given(st.integers(0, 400), st.integers(0, 400), st.floats(1e-6, 1 - 1e-6))
def test_binomial_agrees_with_scipy(k, n, p):
    assert binomial_cdf(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-9, abs=1e-300)


def test_binomial_edges_and_size():
    assert binomial_cdf(-1, 5, 0.5) == 0
    assert binomial_cdf(0, 0, 0.3) == 1
    assert binomial_cdf(3, 5, 0.0) == 1
    assert binomial_cdf(3, 5, 1.0) == 0
    assert binomial_cdf(19_800, 1_000_000, 0.02) == pytest.approx(stats.binom.cdf(19_800, 1_000_000, 0.02), rel=1e-6)


@given(st.integers(1, 300), st.integers(1, 300), st.floats(0.001, 0.999))
def test_beta_quantile_agrees_with_scipy(a, b, level):
    assert beta_quantile(level, a, b) == pytest.approx(stats.beta.ppf(level, a, b), abs=1e-9)


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="n is 0; expected an integer"):
        conformal_rank(0, 0.1)
    with pytest.raises(InputError, match="alpha is 1; expected a number strictly"):
        conformal_rank(5, 1)
    with pytest.raises(InputError, match="scores row 1 is NaN"):
        conformal_threshold([0.1, np.nan], 0.1)
    with pytest.raises(InputError, match="level is 1"):
        conformal_rank(50, 0.1).interval(1)
    with pytest.raises(InputError, match="probability is 2"):
        binomial_cdf(1, 2, 2)
    with pytest.raises(InputError, match="trials is -1"):
        binomial_cdf(1, -1, 0.5)
    with pytest.raises(InputError, match="a and b are 0 and 1"):
        beta_quantile(0.5, 0, 1)
    with pytest.raises(InputError, match="level is -1"):
        beta_quantile(-1, 1, 1)


@pytest.mark.parametrize("alpha", [1e-10, 1e-12, 5e-324])
def test_the_smallest_levels_are_levels(alpha):
    assert conformal_rank(5, alpha).note.startswith("5 calibration rows are too few")
    assert conformal_threshold([1.0, 2.0], alpha).value == np.inf
    assert smallest_n(alpha) == -(-1 // Fraction(alpha)) - 1
