import numpy as np
import pytest

from tests.decisions.exact import binomial_range
from volta.core.errors import InputError
from volta.decisions import ShiftWeights, conformal_pvalues, shift_weights


def test_weighted_pvalues_by_hand():
    weights = ShiftWeights(np.array([1.0, 2.0, 3.0]), np.array([4.0, 0.5]))
    found = weights.pvalues([0.2, 0.4, 0.6], [0.5, 0.4])
    assert found == pytest.approx([(3 + 4) / (6 + 4), (2 + 3 + 0.5) / (6 + 0.5)])
    both = weights.pvalues([0.2, 0.4, 0.6], [[0.5, 0.7], [0.4, 0.1]])
    assert both == pytest.approx(np.array([[7 / 10, 4 / 10], [5.5 / 6.5, 1.0]]))


def test_equal_weights_are_plain_pvalues():
    rng = np.random.default_rng(0)
    own, new = rng.integers(0, 9, 60).astype(float), rng.integers(0, 9, 20).astype(float)
    weights = ShiftWeights(np.full(60, 3.0), np.full(20, 3.0))
    assert weights.pvalues(own, new) == pytest.approx(conformal_pvalues(own, new))
    assert weights.effective_n == pytest.approx(60)
    assert np.array_equal(weights.flags(own, new, fpr=0.2), conformal_pvalues(own, new) <= 0.2)


def draw(rng, n, shift):
    """One feature that makes classes hard to tell where it is large: the error is its logistic function."""
    features = rng.normal(shift, 1.0, size=(n, 2))
    scores = features[:, 0] + rng.normal(size=n)
    return features, scores


def test_weighted_flags_under_a_shift():
    """Batch samples have a larger feature: unweighted flags are too many, weighted ones as many as asked for."""
    rng, fpr, flagged = np.random.default_rng(0), 0.1, np.zeros(3)
    n_draws = 100
    for _ in range(n_draws):
        own, scores = draw(rng, 300, 0.0)
        batch, new = draw(rng, 40, 0.8)
        exact = ShiftWeights(np.exp(0.8 * own.sum(axis=1)), np.exp(0.8 * batch.sum(axis=1)))
        fitted = shift_weights(own, batch, n_folds=2, rng=rng)
        one = rng.integers(40)
        flagged += [
            conformal_pvalues(scores, new)[one] <= fpr,
            exact.pvalues(scores, new)[one] <= fpr,
            fitted.pvalues(scores, new)[one] <= fpr,
        ]
    high = binomial_range(n_draws, fpr, tail=1e-4)[1]
    assert flagged[0] > high
    assert (flagged[1:] <= high).all()


def test_weighted_sets_cover_under_a_shift():
    """Sets of a model that is surer than it should be where the feature is large."""
    rng, alpha, n_draws = np.random.default_rng(1), 0.1, 100
    missed = np.zeros(2)
    for _ in range(n_draws):
        own, batch = rng.normal(size=(400, 1)), rng.normal(1.2, 1.0, size=(60, 1))
        wrong = [rng.random(len(rows)) < 0.5 / (1 + np.exp(-2 * rows[:, 0] + 2)) for rows in (own, batch)]
        labels = [is_wrong.astype(int) for is_wrong in wrong]
        probs = [np.tile([0.9, 0.1], (len(rows), 1)) + 1e-3 * rows * [1, -1] for rows in (own, batch)]
        true_scores = 1 - probs[0][np.arange(400), labels[0]]
        one = rng.integers(60)
        fitted = shift_weights(own, batch, n_folds=2, rng=rng).sets(true_scores, 1 - probs[1], alpha=alpha)
        plain = conformal_pvalues(true_scores, 1 - probs[1][:, labels[1][one]]) > alpha
        missed += [not plain[one], not fitted[one, labels[1][one]]]
    high = binomial_range(n_draws, alpha, tail=1e-4)[1]
    assert missed[1] <= high < missed[0]


def test_a_batch_that_is_too_unlike_is_refused():
    rng = np.random.default_rng(0)
    weights = shift_weights(rng.normal(size=(200, 1)), rng.normal(6.0, size=(200, 1)), rng=rng)
    assert weights.effective_n < 10
    assert ShiftWeights(np.full(60, 0.5), np.ones(1)).effective_n == 30
    with pytest.raises(InputError, match=r"alpha is 0\.1, which needs an effective sample size of 10; under the"):
        weights.sets(np.zeros(200), np.zeros((200, 2)), alpha=0.1)
    with pytest.raises(InputError, match=r"fpr is 0\.02, which needs an effective sample size of 50"):
        weights.flags(np.zeros(200), np.zeros(200), fpr=0.02)


def test_any_classifier_weighs():
    from sklearn.ensemble import RandomForestClassifier

    rng = np.random.default_rng(0)
    own, batch = rng.normal(size=(300, 2)), rng.normal(size=(100, 2)) * [1.0, 2.0]
    forest = RandomForestClassifier(30, min_samples_leaf=10, random_state=0)
    weights = shift_weights(own, batch, classifier=forest, n_folds=3, rng=rng)
    spread = np.abs(own[:, 1])
    assert weights.calibration[spread > 2].mean() > 2 * weights.calibration[spread < 0.5].mean()


def test_rejects_bad_arguments():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="batch has 2 columns but calibration 1"):
        shift_weights(np.zeros((5, 1)), np.zeros((5, 2)), rng=rng)
    weights = ShiftWeights(np.ones(30), np.ones(2))
    with pytest.raises(InputError, match=r"scores has shape \(3,\); pass \(2,\) or \(2, n_classes\)"):
        weights.pvalues(np.zeros(30), np.zeros(3))
    with pytest.raises(InputError, match="calibration has 29 rows but weights has 30"):
        weights.pvalues(np.zeros(29), np.zeros(2))


def test_one_row_is_refused():
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match="batch has 1 row; pass at least 2"):
        shift_weights(rng.normal(size=(50, 2)), rng.normal(size=(1, 2)), rng=rng)
