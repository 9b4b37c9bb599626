"""What volta.decisions guarantees, on naive Bayes, k-NN and a one-class SVM."""

from __future__ import annotations

import numpy as np


def sets(X, y, seed, model=None, score="lac", conditional="none", confidence=None, randomised=False):
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    from volta.decisions import fit_sets

    classes = np.unique(y)
    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    model = (model or GaussianNB()).fit(X_fit, y_fit)
    columns = np.searchsorted(classes, model.classes_)
    rng = np.random.default_rng(seed) if randomised else None

    def probs(rows):
        full = np.zeros((len(rows), len(classes)))
        full[:, columns] = model.predict_proba(rows)
        return full

    labels = np.searchsorted(classes, y_cal)
    options = {"alpha": 0.1, "score": score, "conditional": conditional, "confidence": confidence}
    fitted = fit_sets(probs(X_cal), labels, rng=rng, **options)
    return lambda X_new: fitted.predict(probs(X_new), rng=rng)


def lac(X, y, seed):
    return sets(X, y, seed)


def lac_of_neighbours(X, y, seed):
    from sklearn.neighbors import KNeighborsClassifier

    return sets(X, y, seed, KNeighborsClassifier())


def aps(X, y, seed):
    return sets(X, y, seed, score="aps")


def aps_randomised(X, y, seed):
    return sets(X, y, seed, score="aps", randomised=True)


def raps(X, y, seed):
    return sets(X, y, seed, score="raps")


def class_conditional(X, y, seed):
    return sets(X, y, seed, conditional="class")


def lac_with_confidence(X, y, seed):
    return sets(X, y, seed, confidence=0.9)


def cross(X, y, seed):
    from sklearn.naive_bayes import GaussianNB

    from volta.decisions import fit_cross

    classes, fold = np.unique(y), np.random.default_rng(seed).permutation(len(y)) % 5
    models = [GaussianNB().fit(X[fold != k], y[fold != k]) for k in range(5)]

    def scores(model, rows):
        full = np.ones((len(rows), len(classes)))
        full[:, np.searchsorted(classes, model.classes_)] -= model.predict_proba(rows)
        return full

    def own(k):
        rows = np.flatnonzero(fold == k)
        return scores(models[k], X[rows])[np.arange(len(rows)), np.searchsorted(classes, y[rows])]

    test = fit_cross([own(k) for k in range(5)])
    return lambda X_new: test.sets(np.stack([scores(model, X_new) for model in models]), alpha=0.1)


def halves(X, seed):
    from sklearn.model_selection import train_test_split
    from sklearn.svm import OneClassSVM

    X_fit, X_cal = train_test_split(X, test_size=0.5, random_state=seed)
    model = OneClassSVM().fit(X_fit)
    return (lambda rows: -model.score_samples(rows)), X_cal


def flags(X, y, seed, confidence=None):
    from volta.decisions import fit_ood

    score, X_cal = halves(X, seed)
    test = fit_ood(score(X_cal))
    return lambda X_new: test.flags(score(X_new), fpr=0.1, confidence=confidence)


def flags_with_confidence(X, y, seed):
    return flags(X, y, seed, confidence=0.9)


def selection(X, y, seed):
    from volta.decisions import benjamini_hochberg, fit_ood

    score, X_cal = halves(X, seed)
    test = fit_ood(score(X_cal))
    return lambda X_new: benjamini_hochberg(test.pvalues(score(X_new)), fdr=0.1)


def policy(X, y, seed):
    from sklearn.model_selection import train_test_split
    from sklearn.naive_bayes import GaussianNB

    from volta.decisions import fit_policy

    X_fit, X_cal, y_fit, y_cal = train_test_split(X, y, test_size=0.5, random_state=seed)
    model = GaussianNB().fit(X_fit, y_fit)

    def uncertainty(rows):
        return 1 - model.predict_proba(rows).max(axis=1)

    correct, rng = model.predict(X_cal) == y_cal, np.random.default_rng(seed)
    found = fit_policy(uncertainty(X_cal), correct, max_error=0.1, confidence=0.9, rng=rng)
    return lambda X_new: np.where(found.answers(uncertainty(X_new)), model.predict(X_new), -1)


def monitor(X, y, seed):
    from volta.decisions import Monitor

    score, X_cal = halves(X, seed)

    def rule(X_new):
        stream = Monitor(score(X_cal), alpha=0.1, rng=np.random.default_rng(seed))
        return [stream.update(score(X_new)).alarm]

    return rule


CASES = (
    ("fit_sets, lac", lac, "coverage", 0.9, None),
    ("fit_sets, lac, k-NN", lac_of_neighbours, "coverage", 0.9, None),
    ("fit_sets, aps", aps, "coverage", 0.9, None),
    ("fit_sets, aps, randomised", aps_randomised, "coverage", 0.9, None),
    ("fit_sets, raps", raps, "coverage", 0.9, None),
    ("fit_sets, conditional", class_conditional, "class_coverage", 0.9, None),
    ("fit_sets, confidence", lac_with_confidence, "coverage", 0.9, 0.9),
    ("fit_cross: 1 − 2α", cross, "coverage", 0.8, None),
    ("fit_ood", flags, "false_alarms", 0.1, None),
    ("fit_ood, confidence", flags_with_confidence, "false_alarms", 0.1, 0.9),
    ("benjamini_hochberg", selection, "fdr", 0.1, None),
    ("fit_policy", policy, "selective_risk", 0.1, 0.9),
    ("Monitor", monitor, "ever_alarm", 0.1, None),
)
