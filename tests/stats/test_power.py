import numpy as np
import pytest
from statsmodels.stats.power import TTestPower

from volta.core.errors import InputError
from volta.stats.results import Sample
from volta.stats.tests import Estimate, detectable, noncentrality, paired_estimate


@pytest.mark.parametrize(("n", "alpha", "power"), [(2, 0.05, 0.8), (5, 0.01, 0.9), (10, 0.05, 0.8), (40, 0.01, 0.9)])
def test_paired_detectable_difference_agrees_with_statsmodels(n, alpha, power):
    found = detectable(paired_estimate(Sample(n, 0.1, 0.02)), alpha, power)
    assert TTestPower().power(found / 0.02, n, alpha) == pytest.approx(power, abs=1e-8)


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


def test_without_variance_any_difference_shows():
    assert detectable(Estimate(0.1, 2, 0.0, 1)) == 0.0


@pytest.mark.parametrize("power", [0.05, 0.01, 1.0])
def test_an_impossible_power_is_refused(power):
    with pytest.raises(InputError, match="power is"):
        noncentrality(4.0, 0.05, power)
