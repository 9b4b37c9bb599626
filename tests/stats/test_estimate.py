import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from volta.core.errors import InputError
from volta.stats.results import Sample, sample_of
from volta.stats.tests import (
    Estimate,
    difference_sample,
    hedges_g_paired,
    median_of,
    paired_estimate,
    seeds_to_show,
    welch_estimate,
)

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


def test_seeds_and_rows_each_have_their_own_quantile():
    plain, wider = paired_estimate(sample_of(VALUES)), paired_estimate(sample_of(VALUES), row_variance=0.01**2)
    assert wider.standard_error == pytest.approx(math.hypot(plain.standard_error, 0.01))
    for tail in (0.2, 0.025, 0.001):
        half = math.hypot(stats.t.isf(tail, 4) * plain.standard_error, stats.norm.isf(tail) * 0.01)
        assert wider.half_width(tail) == pytest.approx(half)
        assert wider.p_above(wider.value - half) == pytest.approx(tail, rel=1e-9)
        assert wider.p_below(wider.value - half) == pytest.approx(1 - tail, rel=1e-9)
    low, high = wider.interval(0.05)
    assert wider.over_normal(0.95) == pytest.approx((high - low) / 2 / (1.959964 * wider.standard_error), rel=1e-6)
    assert Estimate(0.1, 3, 0.0, 2, 0.05).p_above(0) == pytest.approx(stats.norm.sf(2))


@pytest.mark.parametrize("seed_error", [1e-320, 1e-200, 1e-9, 1e-3, 1.0, 1e9])
@pytest.mark.parametrize("value", [0.0, 1e-320, 1e-12, 0.3, 40.0, 1e12])
def test_p_values_of_any_size_exist_and_lie_between_those_of_the_normal_and_of_student(seed_error, value):
    estimate = Estimate(value, 3, seed_error, 2, 1.0)
    t = value / estimate.standard_error
    p = estimate.p_above(0.0)
    assert stats.norm.sf(t) * (1 - 1e-6) <= p <= stats.t.sf(t, 2) * (1 + 1e-6)
    assert estimate.p_below(0.0) == 1.0 - p


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 2.0])
def test_no_effect_is_found_at_most_as_often_as_the_level_says_at_any_mixture_of_errors(n, ratio):
    """``ratio``: the rows' error in parts of the seeds'. With Satterthwaite's degrees two seeds err twelve times as often."""
    random, runs = np.random.default_rng(n), 4_000
    seeds, rows = random.normal(size=(runs, n)), ratio / math.sqrt(n)
    found = seeds.mean(axis=1) + rows * random.normal(size=runs)
    errors = seeds.std(axis=1, ddof=1) / math.sqrt(n)
    p = np.array([Estimate(d, n, s, n - 1, rows).p_differs() for d, s in zip(found, errors, strict=True)])
    for level in (0.05, 0.005):
        assert np.mean(p < level) <= level + 2 * math.sqrt(level * (1 - level) / runs)


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


def test_values_that_may_be_chance_are_not_ranked_but_may_be_equivalent():
    plain = paired_estimate(sample_of(VALUES))
    blurred = replace(plain, rankable=False)
    assert (blurred.p_differs(), blurred.p_above(0.0), blurred.p_below(0.0)) == (1.0, 1.0, 1.0)
    assert blurred.p_equivalent(0.05) == plain.p_equivalent(0.05) < 0.05
    assert seeds_to_show(blurred, 0.0, 0.05) is None
    assert seeds_to_show(plain, 0.0, 0.05) is not None
