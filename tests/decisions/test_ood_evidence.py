from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from volta.core.errors import InputError
from volta.decisions import TableEvidence, fit_evidence
from volta.decisions import ood_evidence as module


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    return random.normal(size=(2000, 5)) @ random.normal(size=(5, 5))


def surprises(values, at):
    """Return the surprise of each value of a single column, where the two sums over columns are that column's."""
    scores = fit_evidence(np.asarray(values, dtype=float)[:, None]).scores(np.asarray(at, dtype=float)[:, None])
    np.testing.assert_array_equal(scores[:, 0], scores[:, 1])
    return scores[:, 0]


def test_surprise_of_a_continuous_column_by_hand():
    """Of 0, 1, …, 8 the outer five are 3 beyond the next value on average: 11 is one such unit out of range."""
    found = surprises(range(9), [4, 0, 0.5, 1, -3, 11])
    tails = np.array([9, 2, 2, 4, 0, 0])
    expected = -np.log((1 + tails) / 10) + 2 * np.log([1, 1, 1, 1, 1.5, 1.5])
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_surprise_of_a_discrete_column_goes_by_frequency():
    found = surprises([0] * 24 + [1] * 4 + [2] * 12, [0, 2, 1, 1.5])
    np.testing.assert_allclose(found, -np.log(np.array([41, 17, 5, 1]) / 41), rtol=1e-6, atol=1e-12)


def test_thinned_levels_keep_the_tails():
    values = np.random.default_rng(0).standard_t(3, size=5000)
    ordered = np.sort(values)
    at = np.concatenate([ordered[[0, 1, 10, -11, -2, -1]], (ordered[:15] + ordered[1:16]) / 2])
    tail = 2 * np.minimum((values[:, None] <= at).sum(axis=0), (values[:, None] >= at).sum(axis=0))
    np.testing.assert_allclose(surprises(values, at), -np.log((1 + tail) / 5001), rtol=1e-6)
    middle = ordered[500:4500:7]
    tail = 2 * np.minimum((values[:, None] <= middle).sum(axis=0), (values[:, None] >= middle).sum(axis=0))
    np.testing.assert_allclose(surprises(values, middle), -np.log((1 + np.minimum(tail, 5000)) / 5001), atol=0.4)


def test_distance_and_neighbours_see_columns_that_do_not_go_together():
    random = np.random.default_rng(1)
    evidence = fit_evidence(random.multivariate_normal([0, 0], [[1, 0.99], [0.99, 1]], size=2000))
    along, against = evidence.scores([[1.5, 1.5], [1.5, -1.5]])
    assert (against[2:] > 5 * along[2:]).all()
    assert against[0] == pytest.approx(along[0], abs=0.5)


def test_distances_are_those_of_whitened_rows():
    """Below the knee deviations are linear: the distance is that of the shrunk covariance, by linear algebra."""
    random = np.random.default_rng(2)
    train = random.uniform(-1, 1, (200, 3)) @ random.normal(size=(3, 3))
    evidence = fit_evidence(train)
    z = (train - evidence.centre) / evidence.scale
    z = np.sign(z) * (np.minimum(np.abs(z), 2) + 2 * np.log1p(np.maximum(np.abs(z) - 2, 0) / 2))
    inverse = evidence.whitening @ evidence.whitening.T
    gaps = z - z.mean(axis=0)
    found = evidence.scores(train)
    np.testing.assert_allclose(found[:, 2] ** 2, np.einsum("ij,jk,ik->i", gaps, inverse, gaps), rtol=1e-9)
    pairs = np.sqrt(np.einsum("abj,jk,abk->ab", z[:, None] - z, inverse, z[:, None] - z))
    nearest = np.sort(pairs, axis=1)
    unit = np.median(nearest[:, 1:3].mean(axis=1))
    np.testing.assert_allclose(found[:, 3], nearest[:, :2].mean(axis=1) / unit, rtol=1e-5, atol=1e-5)


def test_classes_bring_their_own_centres():
    """A row between two far classes is near their common mean and far from either."""
    random = np.random.default_rng(3)
    labels = np.repeat([0, 1], 200)
    train = random.normal(size=(400, 2)) + np.where(labels, 8.0, -8.0)[:, None]
    between = np.zeros((1, 2))
    without, with_labels = fit_evidence(train), fit_evidence(train, labels)
    assert without.scores(between)[0, 2] < np.median(without.scores(train)[:, 2])
    assert with_labels.scores(between)[0, 2] > with_labels.scores(train)[:, 2].max()


def test_a_heavy_tail_hides_no_other_column():
    random = np.random.default_rng(4)
    train, new = (np.column_stack([random.standard_cauchy(400), random.normal(size=(400, 3))]) for _ in range(2))
    evidence = fit_evidence(train)
    held_out = evidence.scores(new)
    new[:, 2] += 10
    share = (evidence.scores(new)[:, 0] > np.quantile(held_out[:, 0], 0.95)).mean()
    assert share >= 0.99


def test_wild_training_values_decide_nothing(rows):
    wild = rows.copy()
    wild[0] = 1e30
    evidence = fit_evidence(wild)
    far = evidence.scores(rows[:1] + 20 * rows.std(axis=0))[0]
    assert (far[1:] > evidence.scores(rows)[1:, 1:].max(axis=0)).all()


def test_constant_columns_and_a_single_row():
    constant = np.column_stack([np.random.default_rng(0).normal(size=300), np.full(300, 0.1)])
    inside, outside = fit_evidence(constant).scores([[0.0, 0.1], [0.0, 5.0]])
    assert (outside > inside).all()
    same, other = fit_evidence([[1.0, 2.0]]).scores([[1.0, 2.0], [1.0, 5.0]])
    assert same.tolist() == [0.0, 0.0, 0.0, 0.0]
    assert (other > 0).all()


@given(st.lists(st.floats(-1e38, 1e38), min_size=3, max_size=3))
def test_finite_for_any_finite_input(values):
    evidence = fit_evidence(np.random.default_rng(0).normal(size=(50, 3)))
    scores = evidence.scores([values])
    assert np.isfinite(scores).all()
    assert (scores >= 0).all()


def test_extreme_values_order(rows):
    evidence = fit_evidence(rows)
    scores = evidence.scores(np.outer([1e3, 1e10, 1e20, 1e30, 1e38], np.ones(5)))
    assert (np.diff(scores, axis=0) > 0).all()


@pytest.mark.parametrize("decimals", [0, 3])
def test_equal_rows_have_equal_scores_in_any_company(decimals):
    random = np.random.default_rng(5)
    train = random.normal(size=(1500, 6)).round(decimals)
    evidence, new = fit_evidence(train, random.integers(3, size=1500)), train[:200]
    together = evidence.scores(np.concatenate([new, random.normal(size=(3000, 6))]))[:200]
    alone = np.concatenate([evidence.scores(row[None]) for row in new])
    np.testing.assert_array_equal(together[:, :2], alone[:, :2])
    np.testing.assert_allclose(together, alone, rtol=1e-12, atol=1e-13)


def test_explanation_says_which_columns_and_why():
    random = np.random.default_rng(6)
    first = random.normal(size=1000)
    other = random.normal(size=1000)
    train = np.column_stack([first, first + 0.05 * random.normal(size=1000), other, random.integers(3, size=1000) * 2])
    evidence = fit_evidence(train)
    found, unseen, apart, none = evidence.explain(
        [[0, 0, 30, 0], [0, 0, 0, 1], [1.5, -1.5, 0, 2], [0, 0, 0, 2]], names=["a", "b", "c", "d"]
    )
    assert [(part.name, part.reason) for part in found] == [("c", "out of range")]
    assert found[0].value == 30 > found[0].high == other.max()
    assert found[0].low == other.min()
    assert [(part.name, part.reason) for part in unseen] == [("d", "unseen value")]
    assert unseen[0].weight == pytest.approx(np.log(1001))
    assert {(part.name, part.reason) for part in apart} == {(name, "unlike the other columns") for name in "ab"}
    assert none == ()
    assert len(evidence.explain([[30, -30, 30, 1]], most=2)[0]) == 2
    assert evidence.explain([[0, 0, 30, 0]])[0][0].name == "column 2"


def test_many_rows_are_sampled_and_types_change_nothing(rows, monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 500)
    evidence = fit_evidence(rows.astype(np.float32))
    assert len(evidence.reference) == 250
    assert np.exp(evidence.surprise[0, 0]) == pytest.approx(501)
    np.testing.assert_array_equal(evidence.scores(rows.astype(np.float32)[:9]), evidence.scores(rows[:9].astype("f4")))
    again = TableEvidence(**{field.name: getattr(evidence, field.name) for field in fields(evidence)})
    np.testing.assert_array_equal(again.scores(rows), evidence.scores(rows))


def test_wide_tables():
    wide = np.random.default_rng(0).normal(size=(200, 300))
    scores = fit_evidence(wide).scores(np.concatenate([wide, wide + 10]))
    assert (scores[200:] > scores[:200].max(axis=0)).all()


def test_rejects_bad_arguments(rows):
    evidence = fit_evidence(rows)
    with pytest.raises(InputError, match="inputs row 0 holds nan"):
        fit_evidence([[np.nan, 1.0]])
    with pytest.raises(InputError, match="inputs row 0 holds inf"):
        evidence.scores(np.full((1, 5), np.inf))
    with pytest.raises(InputError, match="inputs has 2 columns but the evidence was fitted on 5"):
        evidence.scores([[0.0, 1.0]])
    with pytest.raises(InputError, match=r"inputs has shape \(1, 3, 2, 2\); pass"):
        fit_evidence(np.zeros((1, 3, 2, 2)))
    with pytest.raises(InputError, match="labels"):
        fit_evidence(rows, np.zeros(3, dtype=int))
    with pytest.raises(InputError, match="names holds 1 names but inputs has 5 columns"):
        evidence.explain(rows[:1], names=["a"])
    with pytest.raises(InputError, match="most is 0"):
        evidence.explain(rows[:1], most=0)


def test_copies_in_single_precision_are_no_new_values():
    """Tenths, of which half are not float32 numbers, and dates in seconds, of which float32 has every 128th."""
    random = np.random.default_rng(0)
    rows = np.column_stack([random.integers(10, size=300) / 10, 1.7e9 + random.integers(3, size=300)])
    evidence = fit_evidence(rows)
    tenths = rows.copy()
    tenths[:, 0] = rows[:, 0].astype(np.float32)
    assert not np.array_equal(tenths, rows)
    np.testing.assert_array_equal(evidence.scores(tenths)[:, :2], evidence.scores(rows)[:, :2])
    np.testing.assert_array_equal(evidence.scores(tenths[:5])[:, :2], evidence.scores(rows[:5])[:, :2])
    between = [[rows[0, 0], rows[0, 1] + 0.5]]
    assert evidence.scores(between)[0, 0] == pytest.approx(np.log(301))
