import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

from volta.stats.results import Sample, sample_of
from volta.stats.tests import hedges_g, welch

finite = st.floats(-100, 100, allow_subnormal=False)


@pytest.mark.parametrize("seed", range(10))
def test_p_and_interval_agree_with_scipy_and_statsmodels(seed):
    generator = np.random.default_rng(seed)
    first = generator.normal(0, 1, generator.integers(2, 12))
    second = generator.normal(generator.normal(), 3, generator.integers(2, 12))
    found = welch(sample_of(first), sample_of(second))
    reference = stats.ttest_ind(first, second, equal_var=False)
    assert found.p == pytest.approx(reference.pvalue, rel=1e-10)
    assert found.degrees == pytest.approx(reference.df, rel=1e-10)
    compared = CompareMeans(DescrStatsW(first), DescrStatsW(second))
    assert found.p == pytest.approx(compared.ttest_ind(usevar="unequal")[1], rel=1e-10)
    low, high = compared.tconfint_diff(usevar="unequal")
    assert 2 * found.standard_error * stats.t.ppf(0.975, found.degrees) == pytest.approx(high - low, rel=1e-9)


def test_from_printed_mean_and_deviation_agrees_with_scipy():
    reference = stats.ttest_ind_from_stats(0.8023, 0.008, 3, 0.8611, 0.008, 3, equal_var=False)
    assert welch(Sample(3, 0.8023, 0.008), Sample(3, 0.8611, 0.008)).p == pytest.approx(reference.pvalue, rel=1e-10)


@given(st.lists(finite, min_size=2, max_size=6), st.lists(finite, min_size=2, max_size=6))
def test_swapping_the_samples_swaps_the_sign_alone(first, second):
    one, other = welch(sample_of(first), sample_of(second)), welch(sample_of(second), sample_of(first))
    assert one.p == other.p
    assert one.difference == -other.difference
    assert one.p is None or 0 <= one.p <= 1


def test_no_variance_and_equal_means_is_p_one():
    found = welch(sample_of([0.9] * 3), sample_of([0.9] * 4))
    assert (found.p, found.difference, found.standard_error, found.reason) == (1.0, 0.0, 0.0, "")


def test_no_variance_and_different_means_has_no_p_and_a_reason():
    found = welch(sample_of([0.9] * 3), sample_of([0.8] * 3))
    assert found.p is None
    assert found.difference == pytest.approx(0.1)
    assert found.reason == "no variance on either side: Welch's t is undefined"


def test_variance_on_one_side_is_a_one_sample_test():
    values = [0.80, 0.83, 0.86]
    found = welch(sample_of(values), sample_of([0.9] * 5))
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0.9).pvalue, rel=1e-10)
    assert found.degrees == pytest.approx(2)


def test_one_seed_has_no_p_and_a_reason():
    found = welch(sample_of([0.9]), sample_of([0.8, 0.7]))
    assert found.p is None
    assert found.reason.startswith("one seed")


def test_tiny_variances_do_not_underflow():
    found = welch(Sample(3, 0.0, 1e-160), Sample(3, 1e-160, 1e-160))
    assert found.p == pytest.approx(stats.ttest_ind_from_stats(0, 1, 3, 1, 1, 3, equal_var=False).pvalue, rel=1e-9)


def test_hedges_g_by_hand():
    # ν = 4: J = Γ(2) / (√2 Γ(1.5)) = 1 / (√2 · √π / 2); s_p = 1; d = −2.
    assert hedges_g(sample_of([1, 2, 3]), sample_of([3, 4, 5])) == pytest.approx(-2 * 2 / (2 * np.pi) ** 0.5)


def test_hedges_g_is_close_to_the_usual_approximation_for_many_values():
    generator = np.random.default_rng(1)
    first, second = generator.normal(0, 1, 40), generator.normal(1, 2, 30)
    pooled = np.sqrt((39 * first.var(ddof=1) + 29 * second.var(ddof=1)) / 68)
    approximate = (1 - 3 / (4 * 68 - 1)) * (first.mean() - second.mean()) / pooled
    assert hedges_g(sample_of(first), sample_of(second)) == pytest.approx(approximate, rel=1e-4)


def test_hedges_g_is_unbiased_where_cohens_d_is_not():
    generator = np.random.default_rng(2)
    draws = generator.normal(size=(4000, 2, 3)) + np.array([1.0, 0.0])[None, :, None]
    mean = np.mean([hedges_g(sample_of(first), sample_of(second)) for first, second in draws])
    assert mean == pytest.approx(1.0, abs=0.07)


def test_hedges_g_without_variance_is_absent():
    assert hedges_g(sample_of([1, 1]), sample_of([2, 2])) is None
    assert hedges_g(sample_of([1]), sample_of([2, 3])) is None
