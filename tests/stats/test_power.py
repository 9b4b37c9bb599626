import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.power import TTestIndPower

from volta.core.errors import InputError
from volta.stats import Sample, detectable_difference, sample_of
from volta.stats.power import noncentrality


@pytest.mark.parametrize(
    ("n", "alpha", "power"),
    [(2, 0.05, 0.8), (3, 0.05, 0.8), (3, 0.01, 0.9), (5, 0.01, 0.9), (10, 0.05, 0.8), (40, 0.01, 0.9)],
)
def test_equal_n_and_variance_agree_with_statsmodels(n, alpha, power):
    found = detectable_difference(Sample(n, 0.9, 0.02), Sample(n, 0.8, 0.02), alpha, power)
    assert found is not None
    assert TTestIndPower().power(found / 0.02, n, alpha) == pytest.approx(power, abs=1e-8)
    reference = 0.02 * TTestIndPower().solve_power(nobs1=n, alpha=alpha, power=power)
    assert found == pytest.approx(reference, rel=1e-5)


def test_three_seeds_see_more_than_three_deviations_only():
    assert detectable_difference(Sample(3, 0, 1), Sample(3, 0, 1)) == pytest.approx(3.0709, abs=1e-4)


def test_unequal_variances_reach_the_power_in_simulation():
    first, second = Sample(4, 0.0, 1.0), Sample(8, 0.0, 2.0)
    delta = detectable_difference(first, second)
    generator = np.random.default_rng(0)
    draws = stats.ttest_ind(
        generator.normal(delta, 1.0, (20_000, 4)), generator.normal(0, 2.0, (20_000, 8)), axis=1, equal_var=False
    )
    # The true deviations are known to the formula only through their ratio, so a few per cent are left.
    assert np.mean(draws.pvalue < 0.05) == pytest.approx(0.8, abs=0.02)


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
