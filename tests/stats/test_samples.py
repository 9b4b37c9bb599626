import numpy as np
import pytest

from volta.core.errors import InputError
from volta.stats.results import Sample, sample_of


def test_mean_and_sample_deviation_by_hand():
    sample = sample_of([1.0, 2.0, 6.0])
    assert (sample.n, sample.mean) == (3, 3.0)
    assert sample.std == pytest.approx(7**0.5)
    assert sample.testable


def test_agrees_with_numpy_far_from_zero():
    values = 1e6 + np.random.default_rng(0).normal(size=50)
    sample = sample_of(values)
    assert sample.mean == pytest.approx(values.mean(), rel=1e-15)
    assert sample.std == pytest.approx(values.std(ddof=1), rel=1e-9)


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 0.877])
@pytest.mark.parametrize("n", [2, 3, 7])
def test_equal_values_have_no_variance_at_all(value, n):
    sample = sample_of([value] * n)
    assert sample.std == 0.0
    assert sample.mean == value


def test_one_value_has_no_deviation_and_says_so():
    sample = sample_of([0.5])
    assert sample.std is None
    assert sample.why_untestable == "one seed: no standard deviation, no test"
    assert Sample(3, 0.5, None).why_untestable == "no standard deviation is given"


@pytest.mark.parametrize(("values", "match"), [([], "at least one number"), ([0.1, float("nan")], "holds nan")])
def test_bad_values_are_refused(values, match):
    with pytest.raises(InputError, match=match):
        sample_of(values)
