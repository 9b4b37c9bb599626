import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from volta.core.errors import InputError
from volta.stats.tests import holm


def test_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_statsmodels(seed):
    generator = np.random.default_rng(seed)
    p_values = np.round(generator.random(10 * seed + 1) ** 3, 2)
    assert np.allclose(holm(p_values.tolist()), multipletests(p_values, method="holm")[1], rtol=1e-12, atol=0)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=40))
def test_order_is_kept_and_nothing_gets_smaller(p_values):
    adjusted = np.array(holm(p_values))
    assert (adjusted >= np.array(p_values)).all()
    assert (np.diff(adjusted[np.argsort(p_values, kind="stable")]) >= 0).all()
    assert (adjusted <= 1).all()


def test_tests_that_were_not_made_do_not_count():
    assert holm([None, 0.02, None, 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([None]) == [None]
    assert holm([]) == []


@pytest.mark.parametrize("p", [-0.1, 1.5, float("nan")])
def test_what_is_no_probability_is_refused(p):
    with pytest.raises(InputError, match=r"p_values\[1\]"):
        holm([0.5, p])
