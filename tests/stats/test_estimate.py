import math

import numpy as np
import pytest
from scipy import stats

from volta.core.errors import InputError
from volta.stats import Sample, paired_estimate, sample_of, welch_estimate
from volta.stats.estimate import Estimate, satterthwaite, seeds_to_show
from volta.stats.paired import difference_sample, hedges_g_paired, median_of

VALUES = [0.02, 0.035, 0.01, 0.04, 0.025]


def test_one_sided_two_sided_and_equivalence_agree_with_scipy():
    estimate = paired_estimate(sample_of(VALUES))
    assert estimate.p_above(0.01) == pytest.approx(stats.ttest_1samp(VALUES, 0.01, alternative="greater").pvalue)
    assert estimate.p_below(0.03) == pytest.approx(stats.ttest_1samp(VALUES, 0.03, alternative="less").pvalue)
    assert estimate.p_differs() == pytest.approx(stats.ttest_1samp(VALUES, 0).pvalue)
    assert estimate.p_equivalent(0.05) == pytest.approx(estimate.p_below(0.05))
    interval = stats.ttest_1samp(VALUES, 0).confidence_interval(0.9)
    assert estimate.interval(0.1) == pytest.approx((interval.low, interval.high))
    assert estimate.negated().p_above(-0.03) == pytest.approx(estimate.p_below(0.03))


def test_rows_widen_the_error_and_raise_the_degrees_of_freedom():
    plain, wider = paired_estimate(sample_of(VALUES)), paired_estimate(sample_of(VALUES), row_variance=0.01**2)
    assert wider.standard_error == pytest.approx(math.hypot(plain.standard_error, 0.01))
    assert plain.degrees == 4
    share = plain.standard_error**2 / wider.standard_error**2
    assert wider.degrees == pytest.approx(4 / share**2)
    assert satterthwaite(0.0, 4, 0.1) == math.inf
    assert Estimate(0.1, 3, 0.0, 2, 0.05).p_above(0) == pytest.approx(stats.norm.sf(2))


def test_welch_where_seeds_are_not_shared():
    first, second = [0.9, 0.91, 0.93], [0.85, 0.86, 0.80, 0.84]
    estimate = welch_estimate(sample_of(first), sample_of(second))
    assert estimate.p_differs() == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue)
    assert estimate.n == 3
    assert welch_estimate(sample_of([1.0]), sample_of(second)) is None


def test_no_variance_shows_nothing_unless_the_methods_are_equal():
    equal, constant = paired_estimate(Sample(3, 0.0, 0.0)), paired_estimate(Sample(3, 0.02, 0.0))
    assert (equal.p_differs(), equal.p_equivalent(0.01)) == (1.0, 0.0)
    assert (constant.p_differs(), constant.p_above(0), constant.p_below(0)) == (None, 1.0, 1.0)
    assert paired_estimate(sample_of([0.1])) is None


def test_rounding_of_differences_is_no_variance():
    first = {seed: 0.9 + step for seed, step in enumerate((-0.001, 0.0, 0.001))}
    second = {seed: 0.7 + step for seed, step in enumerate((-0.001, 0.0, 0.001))}
    assert difference_sample(first, second).std == 0
    assert difference_sample(first, dict(first)) == Sample(3, 0.0, 0.0)
    assert difference_sample(first, {9: 1.0}) is None


def test_hedges_g_of_pairs():
    g = hedges_g_paired(sample_of(VALUES))
    # J(4) = Γ(2) / (√2 Γ(1.5)).
    assert g == pytest.approx(np.mean(VALUES) / np.std(VALUES, ddof=1) / (math.sqrt(2) * math.gamma(1.5)))
    assert hedges_g_paired(Sample(3, 0.1, 0.0)) is None
    assert hedges_g_paired(Sample(2, 0.1, 0.02)) is None


def test_median_is_taken_seed_by_seed():
    assert median_of([{0: 1.0, 1: 9.0}, {0: 5.0, 1: 2.0}, {0: 3.0, 1: 4.0, 2: 7.0}]) == {0: 3.0, 1: 4.0}
    assert median_of([]) == {}


def test_seeds_to_show_reaches_the_power_and_knows_where_rows_forbid_it():
    estimate = paired_estimate(Sample(5, 0.01, 0.02))
    n = seeds_to_show(estimate, 0.0, 0.025)
    draws = np.random.default_rng(0).normal(0.01, 0.02, (20_000, n))
    shown = stats.ttest_1samp(draws, 0, axis=1, alternative="greater").pvalue < 0.025
    assert np.mean(shown) == pytest.approx(0.8, abs=0.02)
    assert seeds_to_show(paired_estimate(Sample(5, 0.01, 0.02), row_variance=0.01**2), 0.0, 0.025) is None
    assert seeds_to_show(paired_estimate(Sample(5, 0.0, 0.02)), 0.0, 0.025) is None


def test_a_margin_must_be_positive():
    with pytest.raises(InputError, match="margin is 0"):
        paired_estimate(sample_of(VALUES)).p_equivalent(0)
