"""MAPIE's sets and its risk control."""

from __future__ import annotations

import numpy as np


def sets(X, y, seed, model=None, score="lac", last="randomized"):
    from mapie.classification import SplitConformalClassifier
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    fitted = (model or GaussianNB()).fit(X_fit, y_fit)
    method = SplitConformalClassifier(fitted, confidence_level=0.9, conformity_score=score, random_state=seed)
    method.conformalize(X_cal, y_cal)
    options = {"include_last_label": last} if score in ("aps", "raps") else None

    def rule(X_new):
        members = method.predict_set(X_new, conformity_score_params=options)[1][:, :, 0]
        full = np.zeros((len(X_new), len(np.unique(y))), dtype=bool)
        full[:, np.searchsorted(np.unique(y), fitted.classes_)] = members
        return full

    return rule


def lac(X, y, seed):
    return sets(X, y, seed)


def lac_of_neighbours(X, y, seed):
    from sklearn.neighbors import KNeighborsClassifier

    return sets(X, y, seed, model=KNeighborsClassifier())


def aps(X, y, seed):
    return sets(X, y, seed, score="aps", last=True)


def aps_of_logistic_regression(X, y, seed):
    from sklearn.linear_model import LogisticRegression

    return sets(X, y, seed, model=LogisticRegression(), score="aps", last=True)


def aps_randomised(X, y, seed):
    return sets(X, y, seed, score="aps")


def raps(X, y, seed):
    return sets(X, y, seed, score="raps", last=True)


def top_k(X, y, seed):
    return sets(X, y, seed, score="top_k")


def cross(X, y, seed):
    from mapie.classification import CrossConformalClassifier
    from sklearn.naive_bayes import GaussianNB

    method = CrossConformalClassifier(GaussianNB(), confidence_level=0.9, cv=5, random_state=seed)
    method.fit_conformalize(X, y)
    return lambda X_new: method.predict_set(X_new)[1][:, :, 0]


def precision_of_answers(X, y, seed):
    from mapie.risk_control import BinaryRisk, MultiClassificationLTTController
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    model = GaussianNB().fit(X_fit, y_fit)
    right = BinaryRisk(
        risk_occurrence=lambda y_true, y_pred: np.ravel(y_pred) == np.ravel(y_true),
        risk_condition=lambda y_true, y_pred: ~np.isnan(np.ravel(y_pred)),
        higher_is_better=True,
    )
    controller = MultiClassificationLTTController(
        model.predict_proba, [right], target_level=[0.9], confidence_level=0.9, classes=model.classes_
    )
    controller.calibrate(X_cal, y_cal)

    def rule(X_new):
        if controller.best_predict_param is None:
            return np.full(len(X_new), -1)
        answers = np.asarray(controller.predict(X_new), dtype=float).ravel()
        return np.where(np.isnan(answers), -1, answers).astype(int)

    return rule


CASES = (
    ("SplitConformalClassifier, lac", lac, "coverage", 0.9, None),
    ("SplitConformalClassifier, lac, k-NN", lac_of_neighbours, "coverage", 0.9, None),
    ("SplitConformalClassifier, aps", aps, "coverage", 0.9, None),
    ("SplitConformalClassifier, aps, logistic regression", aps_of_logistic_regression, "coverage", 0.9, None),
    ("SplitConformalClassifier, aps, randomised", aps_randomised, "coverage", 0.9, None),
    ("SplitConformalClassifier, raps", raps, "coverage", 0.9, None),
    ("SplitConformalClassifier, top_k", top_k, "coverage", 0.9, None),
    ("CrossConformalClassifier, lac: 1 − 2α", cross, "coverage", 0.8, None),
    ("MultiClassificationLTTController, precision of answers", precision_of_answers, "selective_risk", 0.1, 0.9),
)
