import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.decisions import SetScore, aps_scores, fit_group_sets, fit_sets, fit_thresholds, lac_scores, raps_scores

PROBS = np.array([[0.5, 0.3, 0.2], [0.2, 0.2, 0.6], [0.4, 0.4, 0.2]])


@st.composite
def labelled_rows(draw):
    """Rows of weights 0 … 4 normalised, so that classes tie and probabilities 0 and 1 occur."""
    n_classes, n = draw(st.integers(1, 4)), draw(st.integers(1, 20))
    row = st.lists(st.integers(0, 4), min_size=n_classes, max_size=n_classes).filter(any)
    weights = np.array(draw(st.lists(row, min_size=n, max_size=n)), dtype=float)
    labels = draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))
    return weights / weights.sum(axis=1, keepdims=True), np.array(labels)


def test_scores_by_hand():
    np.testing.assert_allclose(lac_scores(PROBS), 1 - PROBS)
    np.testing.assert_allclose(aps_scores(PROBS), [[0, 0.5, 0.8], [0.6, 0.6, 0], [0, 0, 0.8]])
    expected = [[0, 0.6, 1.0], [0.7, 0.7, 0], [0, 0, 1.0]]
    np.testing.assert_allclose(raps_scores(PROBS, penalty=0.1, free_rank=1), expected)
    np.testing.assert_allclose(raps_scores(PROBS, penalty=0.0), aps_scores(PROBS))


def test_randomised_scores_add_a_share_of_the_class():
    draws = np.random.default_rng(3).random((3, 1))
    found = aps_scores(PROBS, rng=np.random.default_rng(3))
    np.testing.assert_allclose(found, aps_scores(PROBS) + draws * PROBS)


@given(labelled_rows())
def test_mass_above_is_the_definition(rows):
    probs, _ = rows
    above = [[sum(p for p in row if p > own) for own in row] for row in probs]
    np.testing.assert_allclose(aps_scores(probs), above, atol=1e-12)


def test_chunks_change_nothing():
    rng = np.random.default_rng(0)
    probs = rng.dirichlet(np.ones(50), size=6000)
    labels = rng.integers(0, 50, 6000)
    predictor = fit_sets(probs, labels, score="aps", rng=np.random.default_rng(1))
    whole = predictor.predict(probs, rng=np.random.default_rng(2))
    expected = aps_scores(probs, rng=np.random.default_rng(2)) <= predictor.thresholds.values
    assert (whole == expected).all()


def test_class_without_enough_rows_is_always_included():
    probs = np.full((12, 3), 1 / 3)
    labels = np.array([0] * 9 + [1] * 3)
    predictor = fit_sets(probs, labels, alpha=0.1, conditional="class")
    assert predictor.thresholds.always_included == (1, 2)
    assert predictor.thresholds.note.startswith("classes 1, 2 have fewer than the 9 calibration rows that alpha = 0.1")
    assert predictor.predict([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]).tolist() == [[True, True, True], [False, True, True]]


def test_one_calibration_row():
    predictor = fit_sets([[0.7, 0.3]], [0], alpha=0.1)
    assert predictor.thresholds.note.endswith("the threshold is infinite, and every set holds every class")
    assert predictor.predict([[0.0, 1.0]]).all()
    assert fit_sets([[0.7, 0.3]], [0], alpha=0.5).thresholds.note == ""


@given(labelled_rows(), st.sampled_from(["lac", "aps", "raps"]), st.sampled_from(["none", "class"]))
def test_forbidding_empty_sets_only_adds(rows, score, conditional):
    probs, labels = rows
    kinds = [
        fit_sets(probs, labels, score=score, conditional=conditional, alpha=0.4, allow_empty=a) for a in (True, False)
    ]
    allowed, forbidden = (kind.predict(probs) for kind in kinds)
    assert (forbidden >= allowed).all()
    assert forbidden.any(axis=1).all()
    assert (forbidden == allowed)[allowed.any(axis=1)].all()


@given(labelled_rows(), st.sampled_from(["lac", "aps", "raps"]), st.integers(1, 99))
def test_calibration_rows_themselves_are_covered(rows, score, percent):
    """At least ⌈(n + 1)(1 − α)⌉ calibration rows lie within the threshold, ties or not."""
    probs, labels = rows
    sets = fit_sets(probs, labels, score=score, alpha=percent / 100).predict(probs)
    covered = np.count_nonzero(sets[np.arange(len(labels)), labels])
    assert covered >= min(len(labels), -(-(len(labels) + 1) * (100 - percent) // 100))


@given(labelled_rows())
def test_a_smaller_alpha_gives_larger_sets(rows):
    probs, labels = rows
    small, large = (fit_sets(probs, labels, score="aps", alpha=alpha).predict(probs) for alpha in (0.1, 0.4))
    assert (small >= large).all()


def test_thresholds_by_class_ignore_the_order_of_rows():
    rng = np.random.default_rng(0)
    scores, labels = rng.random(100), rng.integers(0, 3, 100)
    found = fit_thresholds(scores, labels, 3, alpha=0.2, conditional="class")
    for k in range(3):
        own = np.sort(scores[labels == k])
        assert found.values[k] == own[int(np.ceil((len(own) + 1) * 0.8 - 1e-9)) - 1]
        assert found.counts[k] == len(own)


def test_rejects_bad_arguments():
    labels = [0, 2, 1]
    with pytest.raises(InputError, match="score is 'top'; pass one of lac, aps, raps"):
        fit_sets(PROBS, labels, score="top")
    with pytest.raises(InputError, match="conditional is 'group'; pass none or class"):
        fit_sets(PROBS, labels, conditional="group")
    with pytest.raises(InputError, match="rng is set, but score lac has no randomised form"):
        fit_sets(PROBS, labels, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="probs row 0 holds NaN"):
        fit_sets([[np.nan, 1.0]], [0])
    with pytest.raises(InputError, match="labels has 2 rows but probs has 3"):
        fit_sets(PROBS, [0, 1])
    with pytest.raises(InputError, match="alpha is 0"):
        fit_sets(PROBS, labels, alpha=0)
    with pytest.raises(InputError, match="penalty is -1"):
        SetScore("raps", penalty=-1)
    with pytest.raises(InputError, match="probs has 2 classes but calibration had 3"):
        fit_sets(PROBS, labels).predict([[0.5, 0.5]])
    with pytest.raises(InputError, match="rng is set, but calibration was not randomised"):
        fit_sets(PROBS, labels, score="aps").predict(PROBS, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match="rng is missing, and calibration was randomised"):
        fit_sets(PROBS, labels, score="aps", rng=np.random.default_rng(0)).predict(PROBS)
    with pytest.raises(InputError, match="true_scores row 0 is NaN"):
        fit_thresholds([np.nan], [0], 1)


def test_sets_of_groups_are_those_of_their_rows():
    rng = np.random.default_rng(0)
    probs, labels, groups = rng.dirichlet(np.ones(3), 400), rng.integers(3, size=400), rng.integers(2, size=400)
    found = fit_group_sets(probs, labels, groups, n_groups=3, alpha=0.2, conditional="class")
    for group in range(2):
        own = groups == group
        alone = fit_sets(probs[own], labels[own], alpha=0.2, conditional="class")
        assert np.array_equal(found.predict(probs[own], groups[own]), alone.predict(probs[own]))
    assert found.predict(probs[:5], np.full(5, 2)).all()
    assert found.note(["young", "old", "none"]).startswith("groups none have sets that hold classes always: classes 0")
    assert fit_group_sets(probs, labels, groups, n_groups=2).note() == ""
    with pytest.raises(InputError, match="groups row 0 is 3; with 3 classes"):
        found.predict(probs[:1], [3])


def test_sets_cover_in_a_group_that_is_hard():
    rng, missed, n_draws = np.random.default_rng(0), np.zeros(2), 300
    for _ in range(n_draws):
        groups = (np.arange(201) % 5 == 0).astype(int)
        groups[-1] = 1
        labels = rng.integers(2, size=201)
        logits = rng.normal(size=201) + np.where(labels == 1, 1, -1) * np.where(groups == 1, 0.3, 2.0)
        probs = np.column_stack([1 / (1 + np.exp(logits)), 1 / (1 + np.exp(-logits))])
        plain = fit_sets(probs[:-1], labels[:-1], alpha=0.1).predict(probs[-1:])
        within = fit_group_sets(probs[:-1], labels[:-1], groups[:-1], n_groups=2, alpha=0.1).predict(probs[-1:], [1])
        missed[0] += not plain[0, labels[-1]]
        missed[1] += not within[0, labels[-1]]
    high = binomial_range(n_draws, 0.1, tail=1e-4)[1]
    assert missed[1] <= high < missed[0]
