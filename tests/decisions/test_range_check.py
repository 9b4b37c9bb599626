import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volta.core.errors import InputError
from volta.decisions import fit_ood, fit_range_check


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    mixing = rng.normal(size=(5, 5))
    return rng.normal(size=(2000, 5)) @ mixing


def test_range_by_hand():
    guard = fit_range_check(np.arange(1001.0)[:, None] / 1000)
    assert (guard.low[0], guard.high[0]) == pytest.approx((0.001, 0.999))
    excess = guard.excess([[0.5], [2.0], [-1.0]])
    assert excess[0, 0] == 0
    assert excess[1, 0] == pytest.approx(1.001 / guard.scale[0])
    assert excess[2, 0] == pytest.approx(excess[1, 0])


def test_distance_whitens(rows):
    """On training rows the mean squared distance is near 1; a row against the correlation is far, one along it is not."""
    correlated = np.random.default_rng(1).multivariate_normal([0, 0], [[1, 0.99], [0.99, 1]], size=5000)
    guard = fit_range_check(correlated)
    assert np.mean(guard._distances(correlated) ** 2) == pytest.approx(1, abs=0.05)
    along, against = guard.score([[1.5, 1.5], [1.5, -1.5]])
    assert against > 5 * along


def test_shifted_and_scaled_rows_are_far(rows):
    train, cal, new = rows[:1000], rows[1000:1500], rows[1500:]
    guard = fit_range_check(train)
    test = fit_ood(guard.score(cal))
    assert test.flags(guard.score(new + 10 * train.std(axis=0))).mean() >= 0.99
    assert test.flags(guard.score(new * 1000)).mean() >= 0.99
    one_column = new.copy()
    one_column[:, 3] += 10 * train[:, 3].std()
    assert test.flags(guard.score(one_column)).mean() >= 0.99
    assert test.flags(guard.score(new)).mean() < 0.1


@given(st.lists(st.floats(-1e30, 1e30), min_size=3, max_size=3))
def test_finite_for_any_finite_input(values):
    guard = fit_range_check(np.random.default_rng(0).normal(size=(50, 3)))
    score = guard.score([values])
    assert np.isfinite(score).all()
    assert score[0] >= 0


def test_extreme_values_order(rows):
    guard = fit_range_check(rows)
    scores = guard.score(np.outer([1e3, 1e10, 1e20, 1e30, 1e38], np.ones(5)))
    assert (np.diff(scores) > 0).all()
    assert np.isfinite(scores).all()


def test_constant_columns_and_a_single_row():
    constant = np.column_stack([np.random.default_rng(0).normal(size=300), np.full(300, 0.1)])
    guard = fit_range_check(constant)
    inside, outside = guard.score([[0.0, 0.1], [0.0, 5.0]])
    assert outside > inside + 4
    single = fit_range_check([[1.0, 2.0]])
    assert single.score([[1.0, 2.0]])[0] == 0
    assert single.score([[1.0, 5.0]])[0] > 3


def test_wild_training_values_decide_nothing(rows):
    wild = rows.copy()
    wild[0] = 1e30
    guard = fit_range_check(wild)
    assert guard.score(rows[:1] + 20 * rows.std(axis=0))[0] > guard.score(rows).max()


def test_explanation_names_the_columns(rows):
    guard = fit_range_check(rows)
    row = rows.mean(axis=0)
    row[1], row[4] = 100.0, -200.0
    found, none = guard.explain(np.stack([row, rows.mean(axis=0)]), names=["a", "b", "c", "d", "e"])
    assert {part.name for part in found} == {"b", "e"}
    assert found[0].excess >= found[1].excess > 0
    by_name = {part.name: part for part in found}
    assert by_name["b"].value == 100.0 > by_name["b"].high
    assert none == ()
    assert len(guard.explain([row], most=1)[0]) == 1
    assert guard.explain([row])[0][0].name.startswith("column ")


def test_chunks_and_dtypes_change_nothing(rows):
    many = np.tile(rows, (40, 1))
    guard = fit_range_check(rows)
    np.testing.assert_allclose(guard.score(many)[-2000:], guard.score(rows), rtol=1e-12)
    np.testing.assert_allclose(guard.score(rows.astype(np.float32)), guard.score(rows), rtol=1e-3, atol=1e-4)
    wide = np.random.default_rng(0).normal(size=(200, 300))
    assert np.isfinite(fit_range_check(wide).score(wide)).all()


def test_rejects_bad_arguments(rows):
    guard = fit_range_check(rows)
    with pytest.raises(InputError, match="inputs row 0 holds nan"):
        fit_range_check([[np.nan, 1.0]])
    with pytest.raises(InputError, match="inputs row 0 holds inf"):
        guard.score(np.full((1, 5), np.inf))
    with pytest.raises(InputError, match="inputs has 2 columns but the range check was fitted on 5"):
        guard.score([[0.0, 1.0]])
    with pytest.raises(InputError, match=r"inputs has shape \(1, 3, 2, 2\); pass"):
        fit_range_check(np.zeros((1, 3, 2, 2)))
    with pytest.raises(InputError, match="names holds 1 names but inputs has 5 columns"):
        guard.explain(rows[:1], names=["a"])
    with pytest.raises(InputError, match="most is 0"):
        guard.explain(rows[:1], most=0)
