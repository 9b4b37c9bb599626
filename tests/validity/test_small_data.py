"""The linear probe beside scikit-learn's logistic regression, where rows are few."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from volta import VoltaClassifier

pytestmark = [pytest.mark.validity, pytest.mark.slow]
N_SPLITS = 10


def synthetic(n_rows):
    return make_classification(n_rows + 4000, 20, n_informative=10, n_classes=4, random_state=0)


CASES = {
    "n = 100": (lambda: synthetic(100), 4000),
    "n = 500": (lambda: synthetic(500), 4000),
    "n = 2000": (lambda: synthetic(2000), 4000),
    "iris": (lambda: load_iris(return_X_y=True), 60),
}


@pytest.mark.parametrize("case", CASES)
def test_the_linear_probe_is_at_least_logistic_regression(case):
    load, n_test = CASES[case]
    rows, labels = load()
    found = []
    for split in range(N_SPLITS):
        train, test, y_train, y_test = train_test_split(
            rows, labels, test_size=n_test, random_state=split, stratify=labels
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ours = VoltaClassifier("linear").fit(train, y_train)
        peer = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(train, y_train)
        found.append(
            [
                ours.score(test, y_test) - peer.score(test, y_test),
                log_loss(y_test, peer.predict_proba(test)) - log_loss(y_test, ours.predict_proba(test)),
            ]
        )
    gains = np.array(found)
    # A tenth of our rows calibrates and does not train: what that costs is within the noise of ten splits.
    noise = 2.0 * gains.std(axis=0, ddof=1) / np.sqrt(N_SPLITS)
    assert (gains.mean(axis=0) >= -np.maximum(noise, [0.005, 0.01])).all(), gains.mean(axis=0)
