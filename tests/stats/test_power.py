import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestPower

from volta.core.errors import InputError
from volta.stats.results import Sample, sample_of
from volta.stats.tests import Estimate, detectable, detectable_difference, noncentrality, paired_estimate


@pytest.mark.parametrize(("n", "alpha", "power"), [(2, 0.05, 0.8), (5, 0.01, 0.9), (10, 0.05, 0.8), (40, 0.01, 0.9)])
def test_paired_detectable_difference_agrees_with_statsmodels(n, alpha, power):
    found = detectable(paired_estimate(Sample(n, 0.1, 0.02)), alpha, power)
    assert TTestPower().power(found / 0.02, n, alpha) == pytest.approx(power, abs=1e-8)


def test_three_seeds_see_more_than_three_deviations_only():
    assert detectable_difference(Sample(3, 0, 1), Sample(3, 0, 1)) == pytest.approx(3.507, abs=2e-3)
    assert detectable_difference(Sample(10, 0, 1), Sample(10, 0, 1)) == pytest.approx(1.332, abs=2e-3)


@pytest.mark.parametrize("n", [3, 5, 10])
def test_welch_reaches_the_stated_power_in_simulation(n):
    delta = detectable_difference(Sample(n, 0, 1), Sample(n, 0, 1))
    generator = np.random.default_rng(n)
    draws = stats.ttest_ind(
        generator.normal(delta, 1, (40_000, n)), generator.normal(0, 1, (40_000, n)), axis=1, equal_var=False
    )
    assert np.mean(draws.pvalue < 0.05) == pytest.approx(0.8, abs=0.008)


def test_unequal_variances_reach_the_power_in_simulation():
    first, second = Sample(4, 0.0, 1.0), Sample(8, 0.0, 2.0)
    delta = detectable_difference(first, second)
    generator = np.random.default_rng(0)
    draws = stats.ttest_ind(
        generator.normal(delta, 1.0, (20_000, 4)), generator.normal(0, 2.0, (20_000, 8)), axis=1, equal_var=False
    )
    assert np.mean(draws.pvalue < 0.05) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("n", "seed_error", "row_error"), [(3, 1.0, 0.5), (5, 1.0, 2.0), (10, 0.1, 1.0)])
def test_seeds_and_rows_together_reach_the_power_in_simulation(n, seed_error, row_error):
    delta = detectable(Estimate(0.0, n, seed_error, n - 1, row_error))
    random = np.random.default_rng(n)
    seeds = random.normal(0, seed_error * np.sqrt(n), (4_000, n))
    found = delta + seeds.mean(axis=1) + random.normal(0, row_error, 4_000)
    errors = seeds.std(axis=1, ddof=1) / np.sqrt(n)
    p = [Estimate(d, n, s, n - 1, row_error).p_differs() for d, s in zip(found, errors, strict=True)]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.8, abs=0.02)


def test_rows_alone_have_the_power_of_the_normal_test():
    assert detectable(Estimate(0.1, 1, 0.0, 0.0, 2.0)) == pytest.approx(2.0 * 2.8016, abs=1e-3)


def test_small_degrees_of_freedom_have_an_answer():
    for degrees in (1.0, 1.01, 1.5, 2.0):
        assert np.isfinite(noncentrality(degrees))


def test_without_variance_any_difference_shows_and_one_seed_sees_none():
    assert detectable_difference(sample_of([1, 1]), sample_of([2, 2])) == 0.0
    assert detectable_difference(sample_of([1]), sample_of([2, 3])) is None


@pytest.mark.parametrize("power", [0.05, 0.01, 1.0])
def test_an_impossible_power_is_refused(power):
    with pytest.raises(InputError, match="power is"):
        noncentrality(4.0, 0.05, power)
