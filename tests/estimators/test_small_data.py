"""Up to some thousand rows are cross-fitted: every row calibrates the fit that did not see it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from volta import VoltaClassifier
from volta.core.errors import InputError
from volta.decisions.cross_conformal import cross_bound
from volta.estimators.card import policy_sentence
from volta.estimators.deciding import DecidingMixin
from volta.estimators.inputs import RepeatedRowsWarning

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")


def draw(n_rows, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    return random.normal(size=(n_rows, 4)) + np.eye(4)[labels], labels


def test_every_row_calibrates_the_fit_that_did_not_see_it():
    rows, labels = draw(100)
    classifier = VoltaClassifier("linear", keep_rows=True).fit(rows, labels)
    calibration = classifier.calibration_
    assert len(classifier.members_) == calibration.n_folds == 5
    assert np.bincount(calibration.fold).tolist() == [20] * 5
    assert sorted(calibration.labels) == sorted(labels)
    assert np.array_equal(np.sort(classifier.reference_.kept.index), np.arange(100))
    # A held-out score is the fit's that did not see the row.
    scored = classifier._scored(rows)
    held_out = [set(calibration.uncertainty[own]) for own in calibration.rows_of]
    alone = np.array([member.predict(rows).uncertainty for member in classifier.members_])
    folds = np.array([next(k for k in range(5) if scores[k] in held_out[k]) for scores in alone.T])
    assert np.bincount(folds).tolist() == [20] * 5
    for fold, member in enumerate(classifier.members_):
        # The evidence's range is that of rows of other folds.
        seen = rows[folds != fold]
        assert (member.evidence.high <= seen.max(axis=0)).all()
    assert scored.ood.shape == (5, 100)


def test_predictions_are_the_mean_of_the_fits():
    rows, labels = draw(100)
    classifier = VoltaClassifier("linear").fit(rows, labels)
    scored = classifier._scored(rows[:7])
    assert np.allclose(classifier.predict_proba(rows[:7]), scored.probs.mean(axis=0))
    assert scored.probs.shape == (5, 7, 3)
    pvalues = classifier.ood_pvalues(rows[:7])
    held_out = [classifier.calibration_.ood[own] for own in classifier.calibration_.rows_of]
    by_hand = [(1 + sum((own >= scored.ood[k, row]).sum() for k, own in enumerate(held_out))) / 101 for row in range(7)]
    assert np.allclose(pvalues, by_hand)
    true = [1.0 - scored.probs[k] for k in range(5)]
    kept = [classifier.calibration_.true_scores["lac"][own] for own in classifier.calibration_.rows_of]
    fit = np.array(
        [[(1 + sum((kept[k] >= true[k][row, c]).sum() for k in range(5))) / 101 for c in range(3)] for row in range(7)]
    )
    assert np.array_equal(classifier.predict_set(rows[:7], alpha=0.1), fit > 0.1)


def test_many_rows_are_held_out_plainly():
    rows, labels = draw(3001)
    classifier = VoltaClassifier("linear", keep_rows=True).fit(rows, labels)
    assert len(classifier.members_) == 1
    assert len(classifier.reference_.kept.index) == 2401
    assert len(classifier.calibration_.labels) == 300


def test_the_calibration_may_be_chosen():
    rows, labels = draw(100)
    split = VoltaClassifier("linear", calibration="split", keep_rows=True).fit(rows, labels)
    assert len(split.reference_.kept.index) == 80
    assert len(split.calibration_.labels) == 10
    own = VoltaClassifier("linear", keep_rows=True).fit(rows, labels, cal_set=draw(50, 1))
    assert (len(own.members_), len(own.calibration_.labels), len(own.reference_.kept.index)) == (1, 50, 90)
    with pytest.raises(InputError, match="calibration is 'cross', and cal_set is set too"):
        VoltaClassifier("linear", calibration="cross").fit(rows, labels, cal_set=draw(50, 1))
    with pytest.raises(InputError, match="calibration is 'folds'; pass one of auto, cross, split"):
        VoltaClassifier("linear", calibration="folds").fit(rows, labels)


def test_a_confidence_needs_one_fit():
    rows, labels = draw(100)
    cross = VoltaClassifier("linear").fit(rows, labels)
    for call in (cross.is_ood, cross.predict_set):
        with pytest.raises(InputError, match="fit with calibration='split' or with cal_set"):
            call(rows, confidence=0.95)
    split = VoltaClassifier("linear").fit(rows, labels, cal_set=draw(200, 1))
    assert split.is_ood(rows, confidence=0.95).mean() <= split.is_ood(rows).mean()
    wide, plain = split.predict_set(rows, confidence=0.95), split.predict_set(rows)
    assert (wide >= plain).all()
    assert wide.sum() > plain.sum()


def test_what_is_proven_is_stated():
    rows, labels = draw(100)
    calibration = VoltaClassifier("linear").fit(rows, labels).calibration_
    assert calibration.ood_test().bound(0.05)[0] == cross_bound(0.05, [20] * 5)
    assert 0.1 < cross_bound(0.05, [20] * 5) < 0.25


def test_own_validation_rows_leave_more_to_train_on():
    rows, labels = draw(100)
    own = VoltaClassifier(max_epochs=5).fit(rows, labels, eval_set=draw(50, 1))
    assert len(own.history_) == 5
    assert own.fit_record_.n_rows("val") == 50
    with pytest.warns(ConvergenceWarning, match="still falling"):
        paper = VoltaClassifier(protocol="paper", max_epochs=2).fit(rows, labels)
    assert len(paper.history_) == 5


def test_few_rows_get_enough_steps():
    classifier = VoltaClassifier().fit(*draw(100))
    assert len(classifier.history_) == 5
    assert all(log.epochs >= 80 for log in classifier.history_)


def test_fits_in_processes_are_the_same():
    rows, labels = draw(60)
    one, two = (VoltaClassifier(max_epochs=2, n_jobs=n_jobs).fit(rows, labels) for n_jobs in (None, 2))
    assert np.array_equal(one.predict_proba(rows), two.predict_proba(rows))
    assert np.array_equal(one.ood_pvalues(rows), two.ood_pvalues(rows))


def test_the_order_of_rows_does_not_matter():
    rows, labels = draw(120)
    order = np.random.default_rng(1).permutation(120)
    one = VoltaClassifier(max_epochs=3).fit(rows, labels)
    other = VoltaClassifier(max_epochs=3).fit(rows[order], labels[order])
    assert np.array_equal(one.predict_proba(rows), other.predict_proba(rows))
    assert np.array_equal(one.ood_pvalues(rows), other.ood_pvalues(rows))


@pytest.mark.parametrize("calibration", ["cross", "split"])
def test_a_few_rows_at_once_get_what_they_get_from_one_fit_after_another(calibration):
    rows, labels = draw(240)
    rows[:, 3] = rows[:, 3].round()
    rows[labels == 2] *= [1.0, 50.0, 1.0, 1.0]
    classifier = VoltaClassifier(max_epochs=3, calibration=calibration).fit(rows, labels)
    new = np.concatenate([draw(11, 1)[0], rows[:3], [[1e12, 0.0, -1e9, 3.5]]])
    assert classifier._stack is not None
    found, expected = classifier._score(new), DecidingMixin._score(classifier, new)
    assert np.array_equal(found.ood, expected.ood)
    np.testing.assert_allclose(found.probs, expected.probs, rtol=1e-9)
    np.testing.assert_allclose(found.prediction.uncertainty, expected.prediction.uncertainty, rtol=1e-9)
    again = pickle.loads(pickle.dumps(classifier))
    assert np.array_equal(again.decide(new).pvalue, classifier.decide(new).pvalue)
    refitted = classifier.fit(rows[:100], labels[:100])
    assert np.array_equal(refitted._score(new).ood, DecidingMixin._score(refitted, new).ood)


def test_methods_without_a_stacked_form_decide_one_fit_after_another():
    rows, labels = draw(100)
    classifier = VoltaClassifier("linear").fit(rows, labels)
    assert classifier._stack is None
    assert len(classifier.decide(rows[:3]).action) == 3


def test_few_distinct_rows_are_decided():
    """Sixty rows of four kinds: duplicates stay together, so that there are four folds."""
    rows = np.tile([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (15, 1))
    classifier = VoltaClassifier("linear", max_epochs=3).fit(rows, rows[:, 0] != rows[:, 1])
    assert classifier.calibration_.n_folds == len(classifier.members_) == 4
    assert len(classifier.decide(rows)) == 60


def test_validation_rows_that_calibrate_too_are_warned_of():
    rows, labels = draw(60)
    with pytest.warns(RepeatedRowsWarning, match="eval_set has 60 rows of 60 that are in X too"):
        VoltaClassifier("linear", max_epochs=2).fit(rows, labels, eval_set=(rows, labels))


def test_what_is_said_of_policies_tells_folds_from_a_split():
    rows, labels = draw(120)
    policies = [
        VoltaClassifier("linear", max_epochs=2, calibration=calibration).fit(rows, labels).fit_policy(coverage=0.8)
        for calibration in ("cross", "split")
    ]
    assert [policy.cross_fitted for policy in policies] == [True, False]
    assert ["measured, not proven" in policy_sentence(policy) for policy in policies] == [True, False]
