"""With few rows all but the calibration rows train."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from volta import VoltaClassifier

pytestmark = pytest.mark.filterwarnings("ignore::volta.methods.calibrators.CalibrationWarning")


def draw(n_rows, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(3, size=n_rows)
    return random.normal(size=(n_rows, 4)) + np.eye(4)[labels], labels


def test_all_rows_but_calibration_rows_train():
    rows, labels = draw(100)
    classifier = VoltaClassifier(max_epochs=5, keep_rows=True).fit(rows, labels)
    kept = classifier.reference_.kept
    assert len(set(kept.index)) == 90
    assert np.array_equal(kept.values, rows[kept.index])
    left = np.setdiff1d(np.arange(100), kept.index)
    assert sorted(labels[left]) == sorted(classifier.calibration_.labels)


def test_many_rows_are_held_out_plainly():
    rows, labels = draw(3000)
    classifier = VoltaClassifier("linear", keep_rows=True).fit(rows, labels)
    assert len(classifier.reference_.kept.index) == 2400
    assert len(classifier.calibration_.labels) == 300


def test_own_validation_rows_and_the_papers_protocol_hold_rows_out_plainly():
    rows, labels = draw(100)
    own = VoltaClassifier(max_epochs=5, keep_rows=True).fit(rows, labels, eval_set=draw(50, 1))
    assert len(own.reference_.kept.index) == 90
    assert len(own.history_) == 1
    with pytest.warns(ConvergenceWarning, match="still falling"):
        paper = VoltaClassifier(protocol="paper", max_epochs=2, keep_rows=True).fit(rows, labels)
    assert len(paper.reference_.kept.index) == 80


def test_few_rows_get_enough_steps():
    classifier = VoltaClassifier().fit(*draw(100))
    assert len(classifier.history_) == 6
    assert all(log.epochs >= 80 for log in classifier.history_)


def test_the_order_of_rows_does_not_matter():
    rows, labels = draw(120)
    order = np.random.default_rng(1).permutation(120)
    one = VoltaClassifier(max_epochs=3).fit(rows, labels)
    other = VoltaClassifier(max_epochs=3).fit(rows[order], labels[order])
    assert np.array_equal(one.predict_proba(rows), other.predict_proba(rows))
    assert np.array_equal(one.ood_pvalues(rows), other.ood_pvalues(rows))
