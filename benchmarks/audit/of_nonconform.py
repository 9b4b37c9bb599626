"""The flags, certificates and martingales of nonconform."""

from __future__ import annotations

import numpy as np


def detector(X, seed, strategy=None):
    import logging

    from nonconform import ConformalDetector, Split
    from sklearn.svm import OneClassSVM

    logging.getLogger("nonconform").setLevel(logging.ERROR)
    fitted = ConformalDetector(detector=OneClassSVM(), strategy=strategy or Split(n_calib=0.5), seed=seed)
    return fitted.fit(X)


def split_flags(X, y, seed):
    fitted = detector(X, seed)
    return lambda X_new: np.asarray(fitted.compute_p_values(X_new)) <= 0.1


def cross_flags(X, y, seed):
    from nonconform import CrossValidation

    fitted = detector(X, seed, CrossValidation(k=5))
    return lambda X_new: np.asarray(fitted.compute_p_values(X_new)) <= 0.1


def certificate(X, y, seed):
    fitted = detector(X, seed)
    threshold = fitted.fpr_bounds(confidence=0.9).threshold_for(0.1)
    return lambda X_new: np.asarray(fitted.score_samples(X_new)) >= threshold


def selection(X, y, seed):
    fitted = detector(X, seed)
    return lambda X_new: np.asarray(fitted.select(X_new, alpha=0.1))


def storey(X, y, seed):
    fitted = detector(X, seed)
    return lambda X_new: np.asarray(fitted.select(X_new, alpha=0.1, method="storey"))


def jumper(X, y, seed):
    from nonconform.martingales import AlarmConfig, SimpleJumperMartingale
    from nonconform.monitoring import ExchangeabilityMonitor

    fitted = detector(X, seed)

    def rule(X_new):
        martingale = SimpleJumperMartingale(alarm_config=AlarmConfig(ville_threshold=10.0))
        monitor = ExchangeabilityMonitor.from_split_detector(fitted, martingale=martingale, seed=seed)
        return np.array([bool(state.triggered_alarms) for state in monitor.update_many(X_new)])

    return rule


DRAWS = {"ever_alarm": 100}
"""Fewer of the monitor, whose steps are Python calls."""

CASES = (
    ("ConformalDetector, Split", split_flags, "false_alarms", 0.1, None),
    ("ConformalDetector, CrossValidation: 2α", cross_flags, "false_alarms", 0.2, None),
    ("fpr_bounds().threshold_for", certificate, "false_alarms", 0.1, 0.9),
    ("select, BH", selection, "fdr", 0.1, None),
    ("select, Storey", storey, "fdr", 0.1, None),
    ("ExchangeabilityMonitor, simple jumper ≥ 10", jumper, "ever_alarm", 0.1, None),
)
