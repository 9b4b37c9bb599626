import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.decisions import conditional_level, conformal_pvalues, cross_bound, cross_pvalues, fit_cross


def folds_of(rng, n_folds, most=9, ties=5):
    return [rng.integers(0, ties, rng.integers(1, most)).astype(float) for _ in range(n_folds)]


@given(st.integers(0, 10_000), st.integers(2, 6))
def test_pvalues_are_the_definition(seed, n_folds):
    rng = np.random.default_rng(seed)
    held_out, scores = folds_of(rng, n_folds), rng.integers(-1, 6, (n_folds, 7)).astype(float)
    n = sum(map(len, held_out))
    expected = [
        (1 + sum((fold >= own[i]).sum() for fold, own in zip(held_out, scores, strict=True))) / (n + 1)
        for i in range(7)
    ]
    assert cross_pvalues(held_out, scores).tolist() == expected


@given(st.integers(0, 10_000))
def test_groups_are_ranked_among_themselves(seed):
    rng = np.random.default_rng(seed)
    held_out = folds_of(rng, 3)
    groups = [rng.integers(0, 3, len(fold)) for fold in held_out]
    scores, own = rng.integers(-1, 6, (3, 8)).astype(float), rng.integers(0, 4, (3, 8))
    test = fit_cross(held_out, groups=groups, n_groups=4)
    for asked in (own, own[0]):
        by_model = np.broadcast_to(asked, scores.shape)
        parts = [
            [fold[g == by_model[k, i]] for k, (fold, g) in enumerate(zip(held_out, groups, strict=True))]
            for i in range(8)
        ]
        expected = [
            (1 + sum((part >= scores[k, i]).sum() for k, part in enumerate(found))) / (1 + sum(map(len, found)))
            for i, found in enumerate(parts)
        ]
        assert test.pvalues(scores, groups=asked).tolist() == expected
    assert test.counts[3] == 0
    assert "3 have fewer" in fit_cross(held_out, groups=groups, n_groups=4).note(0.9)


def test_sets_hold_each_class_by_its_own_pvalue():
    rng = np.random.default_rng(0)
    held_out, labels = [rng.random(30) for _ in range(4)], [rng.integers(0, 3, 30) for _ in range(4)]
    scores = rng.random((4, 20, 3))
    plain, by_class = fit_cross(held_out), fit_cross(held_out, groups=labels, n_groups=3)
    for k in range(3):
        assert (plain.sets(scores, alpha=0.3)[:, k] == (plain.pvalues(scores[:, :, k]) > 0.3)).all()
        own = [fold[group == k] for fold, group in zip(held_out, labels, strict=True)]
        assert (by_class.sets(scores, alpha=0.3)[:, k] == (cross_pvalues(own, scores[:, :, k]) > 0.3)).all()
    assert np.array_equal(by_class.pvalues(scores[:, :1]), by_class.pvalues(scores)[:1])


def test_one_model_gives_the_split_pvalues():
    rng = np.random.default_rng(1)
    calibration, scores = rng.normal(size=60), rng.normal(size=40)
    found = cross_pvalues(np.split(calibration, 5), np.tile(scores, (5, 1)))
    assert np.array_equal(found, conformal_pvalues(calibration, scores))


def test_one_fold_is_split_calibration():
    rng = np.random.default_rng(2)
    calibration, scores = rng.integers(0, 9, 80).astype(float), rng.integers(-1, 11, 40).astype(float)
    test = fit_cross([calibration])
    assert np.array_equal(test.pvalues([scores]), conformal_pvalues(calibration, scores))
    assert test.bound(0.07).tolist() == [0.07]
    assert test.levels(0.05, 0.95).tolist() == [conditional_level(80, 0.05, 0.95)]


def test_notes_and_bounds():
    test = fit_cross([np.arange(10.0), np.arange(8.0)])
    assert test.note(0.05) == "18 calibration samples are too few for fpr = 0.05, which needs 19: no flag"
    assert test.note(0.1) == ""
    assert not test.flags([[99.0], [99.0]], fpr=0.05).any()
    assert test.bound(0.1).tolist() == [cross_bound(0.1, [10, 8])]
    assert cross_bound(0.1, [10, 8]) == pytest.approx(0.2 + 2 * 0.9 / 20)
    assert cross_bound(0.1, [1, 1]) == pytest.approx(0.2)
    assert cross_bound(0.9, [2, 3]) == 1.0


@pytest.mark.parametrize("n", [25, 100])
def test_bound_holds_and_rate_is_near_alpha_for_means_of_the_other_folds(n):
    """The score of fold k is the distance from the mean of the other folds: each model depends on its samples."""
    rng, n_draws, n_test = np.random.default_rng(n), 300, 20
    flagged = 0
    for _ in range(n_draws):
        folds = np.split(rng.standard_t(3, (n, 2)), 5)
        new = rng.standard_t(3, (n_test, 2))
        centres = [np.concatenate(folds[:k] + folds[k + 1 :]).mean(axis=0) for k in range(5)]
        held_out = [np.linalg.norm(fold - centre, axis=1) for fold, centre in zip(folds, centres, strict=True)]
        scores = np.stack([np.linalg.norm(new - centre, axis=1) for centre in centres])
        # One new sample a draw counts, so that draws are independent.
        flagged += int((cross_pvalues(held_out, scores) <= 0.2)[0])
    low, high = binomial_range(n_draws, 0.2)
    assert low <= flagged <= high
    assert flagged / n_draws <= cross_bound(0.2, [n // 5] * 5)


def test_rejects_bad_arguments():
    with pytest.raises(InputError, match="held_out has no fold"):
        fit_cross([])
    with pytest.raises(InputError, match="confidence is set, and no such bound is known for cross-fitted"):
        fit_cross([[0.1], [0.2]]).levels(0.5, 0.9)
    with pytest.raises(InputError, match=r"held_out\[1\] row 0 is NaN"):
        fit_cross([[0.1], [np.nan]])
    with pytest.raises(InputError, match="differ in folds"):
        fit_cross([[0.1], [0.2]], groups=[[0], [0, 1]])
    test = fit_cross([[0.1], [0.2]])
    with pytest.raises(InputError, match=r"scores has shape \(3, 1\)"):
        test.pvalues([[0.1], [0.1], [0.1]])
    with pytest.raises(InputError, match="pass groups to fit_cross"):
        test.pvalues([[0.1], [0.1]], groups=[0])
    grouped = fit_cross([[0.1], [0.2]], groups=[[0], [1]])
    with pytest.raises(InputError, match="2 groups"):
        grouped.pvalues(np.zeros((2, 1, 3)))
    with pytest.raises(InputError, match=r"pass \(n_samples,\)"):
        grouped.pvalues([[0.1], [0.1]], groups=[0, 1])
