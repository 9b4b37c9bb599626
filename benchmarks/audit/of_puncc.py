"""The sets and the anomaly detection of puncc."""

from __future__ import annotations

import numpy as np


def sets(X, y, seed, method="LAC", **options):
    import deel.puncc.classification
    from deel.puncc.api.prediction import BasePredictor
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    class Probabilities(BasePredictor):
        def predict(self, X, **kwargs):
            return self.model.predict_proba(X)

    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    if len(np.unique(y_fit)) < len(np.unique(y)):
        raise ValueError("a class was not trained")
    classes = np.unique(y)
    np.random.seed(seed)  # noqa: NPY002 - its randomised scores draw from the global generator
    fitted = getattr(deel.puncc.classification, method)(Probabilities(GaussianNB()), **options)
    fitted.fit(
        X_fit=X_fit, y_fit=np.searchsorted(classes, y_fit), X_calib=X_cal, y_calib=np.searchsorted(classes, y_cal)
    )

    def rule(X_new):
        members = fitted.predict(X_new, alpha=0.1)[1]
        return np.array([np.isin(np.arange(len(classes)), list(own)) for own in members])

    return rule


def lac(X, y, seed):
    return sets(X, y, seed)


def aps(X, y, seed):
    return sets(X, y, seed, "APS", rand=False)


def aps_randomised(X, y, seed):
    return sets(X, y, seed, "APS")


def raps(X, y, seed):
    return sets(X, y, seed, "RAPS", lambd=0.01, k_reg=1)


def class_conditional(X, y, seed):
    return sets(X, y, seed, "ClasswiseLAC")


def anomalies(X, y, seed):
    from deel.puncc.anomaly_detection import SplitCAD
    from deel.puncc.api.prediction import BasePredictor
    from sklearn.model_selection import train_test_split
    from sklearn.svm import OneClassSVM

    class Scores(BasePredictor):
        def predict(self, X):
            return -self.model.score_samples(X)

    X_fit, X_cal = train_test_split(X, test_size=0.5, random_state=seed)
    detector = SplitCAD(Scores(OneClassSVM()), train=True)
    detector.fit(z_fit=X_fit, z_calib=X_cal)
    return lambda X_new: detector.predict(X_new, alpha=0.1)


CASES = (
    ("LAC", lac, "coverage", 0.9, None),
    ("APS", aps, "coverage", 0.9, None),
    ("APS, randomised", aps_randomised, "coverage", 0.9, None),
    ("RAPS, randomised", raps, "coverage", 0.9, None),
    ("ClasswiseLAC", class_conditional, "class_coverage", 0.9, None),
    ("SplitCAD", anomalies, "false_alarms", 0.1, None),
)
