"""What a user may take for a guarantee in scikit-learn, which states none of them."""

from __future__ import annotations

import numpy as np


def likeliest_classes(X, y, seed):
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.naive_bayes import GaussianNB

    model = CalibratedClassifierCV(GaussianNB(), method="sigmoid", cv=5).fit(X, y)

    def rule(X_new):
        probs = model.predict_proba(X_new)
        order = np.argsort(-probs, axis=1)
        ordered = np.take_along_axis(probs, order, axis=1)
        members = np.empty(probs.shape, dtype=bool)
        np.put_along_axis(members, order, np.cumsum(ordered, axis=1) - ordered < 0.9, axis=1)
        return members

    return rule


def nu(X, y, seed):
    from sklearn.svm import OneClassSVM

    model = OneClassSVM(nu=0.1).fit(X)
    return lambda X_new: model.predict(X_new) == -1


def contamination(X, y, seed):
    from sklearn.neighbors import LocalOutlierFactor

    model = LocalOutlierFactor(novelty=True, contamination=0.1).fit(X)
    return lambda X_new: model.predict(X_new) == -1


CASES = (
    ("CalibratedClassifierCV, likeliest classes up to 0.9", likeliest_classes, "coverage", 0.9, None),
    ("OneClassSVM(nu=0.1)", nu, "false_alarms", 0.1, None),
    ("LocalOutlierFactor(contamination=0.1)", contamination, "false_alarms", 0.1, None),
)
