"""The sets and the martingale of crepes."""

from __future__ import annotations

import numpy as np


def calibrated(X, y, seed, model=None, **options):
    from crepes import WrapClassifier
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    wrapped = WrapClassifier(model or GaussianNB())
    wrapped.fit(X_fit, y_fit)
    wrapped.calibrate(X_cal, y_cal, seed=seed, **options)
    return wrapped


def as_rule(wrapped, y, seed, smoothing):
    def rule(X_new):
        members = wrapped.predict_set(X_new, labels=False, confidence=0.9, smoothing=smoothing, seed=seed)
        full = np.zeros((len(X_new), len(np.unique(y))), dtype=bool)
        full[:, np.searchsorted(np.unique(y), wrapped.learner.classes_)] = members
        return full

    return rule


def hinge_smoothed(X, y, seed):
    return as_rule(calibrated(X, y, seed), y, seed, smoothing=True)


def hinge(X, y, seed):
    return as_rule(calibrated(X, y, seed), y, seed, smoothing=False)


def hinge_of_neighbours(X, y, seed):
    from sklearn.neighbors import KNeighborsClassifier

    return as_rule(calibrated(X, y, seed, KNeighborsClassifier()), y, seed, smoothing=True)


def margin(X, y, seed):
    from crepes.extras import margin

    return as_rule(calibrated(X, y, seed, nc=margin), y, seed, smoothing=True)


def class_conditional(X, y, seed):
    return as_rule(calibrated(X, y, seed, class_cond=True), y, seed, smoothing=True)


def jumper(X, y, seed):
    from crepes.martingales import SimpleJumper
    from sklearn.naive_bayes import GaussianNB

    wrapped = calibrated(X, y, seed)
    # Labels that the model predicts are a function of the row, so that scores of new rows are exchangeable with ours.
    half = np.random.default_rng(seed).permutation(len(X))
    model = GaussianNB().fit(X[half[: len(X) // 2]], y[half[: len(X) // 2]])
    wrapped.learner = model
    rest = X[half[len(X) // 2 :]]
    wrapped.calibrate(rest, model.predict(rest), seed=seed)

    def rule(X_new):
        p_values = wrapped.predict_p(X_new, model.predict(X_new), all_classes=False, online=True, seed=seed)
        return SimpleJumper().apply(np.asarray(p_values).ravel()) >= 10

    return rule


DRAWS = {"class_coverage": 200}
"""Fewer of what takes longest."""

CASES = (
    ("WrapClassifier, hinge, smoothed", hinge_smoothed, "coverage", 0.9, None),
    ("WrapClassifier, hinge", hinge, "coverage", 0.9, None),
    ("WrapClassifier, hinge, smoothed, k-NN", hinge_of_neighbours, "coverage", 0.9, None),
    ("WrapClassifier, margin, smoothed", margin, "coverage", 0.9, None),
    ("WrapClassifier, class_cond", class_conditional, "class_coverage", 0.9, None),
    ("SimpleJumper ≥ 10 on online p-values", jumper, "ever_alarm", 0.1, None),
)
