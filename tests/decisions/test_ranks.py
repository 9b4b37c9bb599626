import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.core.quantile import conformal_quantile
from volta.decisions import (
    calibration_needed,
    conditional_level,
    conformal_rank,
    conformal_threshold,
    fit_ood,
    fit_thresholds,
    smallest_n,
)
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
        == "1 calibration samples are too few for alpha = 0.1, which needs at least 9: the threshold is infinite"
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
    # SciPy loses digits far out in the tail; the test below is exact there.
    assert binomial_cdf(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-9, abs=1e-280)


def test_binomial_is_exact_far_out_in_the_tail():
    p = Fraction(123, 128)
    exact = sum(math.comb(238, j) * p**j * (1 - p) ** (238 - j) for j in range(16))
    assert binomial_cdf(15, 238, float(p)) == pytest.approx(float(exact), rel=1e-12, abs=0)


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
    assert conformal_rank(5, alpha).note.startswith("5 calibration samples are too few")
    assert conformal_threshold([1.0, 2.0], alpha).value == np.inf
    assert smallest_n(alpha) == -(-1 // Fraction(alpha)) - 1


@pytest.mark.parametrize(("alpha", "confidence"), [(0.05, 0.95), (0.1, 0.9), (0.01, 0.99), (0.3, 0.5)])
@pytest.mark.parametrize("n", [1, 9, 58, 59, 200, 2000])
def test_conditional_level_is_the_largest_that_the_beta_law_allows(n, alpha, confidence):
    k = round(conditional_level(n, alpha, confidence) * (n + 1))
    exceeded = [stats.beta(rank, n + 1 - rank).sf(alpha) for rank in range(1, n + 1)]
    allowed = [rank for rank, share in enumerate(exceeded, 1) if share <= 1 - confidence + 1e-12]
    assert k == max(allowed, default=0)
    assert (k > 0) == (n >= calibration_needed(alpha, confidence))


def test_conditional_flags_and_sets_hold_over_calibration_draws():
    """The rate given the calibration rows exceeds what is asked in at most 1 − confidence of draws, ties or not."""
    rng = np.random.default_rng(3)
    n, n_draws, alpha = 100, 1000, 0.1
    exceeded = np.zeros((2, 2))
    for tied in (0, 1):
        for _ in range(n_draws):
            scores = rng.random(n)
            scores = np.floor(scores * 10) if tied else scores
            threshold = fit_thresholds(scores, np.zeros(n, dtype=int), 1, alpha=alpha, confidence=0.9).values[0]
            rate = 1 - (min(10, threshold + 1) / 10 if tied else threshold)
            exceeded[tied, 0] += rate > alpha + 1e-12
            new = (np.arange(10_000) + 0.5) / 10_000
            flags = fit_ood(scores).flags(np.floor(new * 10) if tied else new, fpr=alpha, confidence=0.9)
            exceeded[tied, 1] += flags.mean() > alpha + 1e-12
    assert (exceeded <= binomial_range(n_draws, 0.1)[1]).all()
    assert exceeded[0].min() >= 0.04 * n_draws  # k is the largest rank allowed: P(Bin(100, .1) ≤ 5) = .058


def test_conditional_notes_name_the_smallest_n():
    test = fit_ood(np.arange(58.0))
    assert test.note(0.05, confidence=0.95).endswith("fpr = 0.05 with confidence 0.95, which needs 59: no flag")
    assert test.note(0.05) == ""
    assert not test.flags([99.0], fpr=0.05, confidence=0.95).any()
    assert fit_ood(np.arange(59.0)).flags([99.0], fpr=0.05, confidence=0.95).all()
    found = fit_thresholds(np.arange(57.0), np.arange(57) % 2, 2, alpha=0.1, conditional="class", confidence=0.95)
    assert found.values.tolist() == [56, np.inf]
    assert found.note == (
        "classes 1 have fewer than the 29 calibration rows that alpha = 0.1 with confidence 0.95 needs: they are in "
        "every set"
    )
