"""Anchors on the embedded task: what any sane implementation of these methods reaches."""

from __future__ import annotations

import numpy as np
import pytest

from volta.methods import find_method
from volta.methods.knn import kth_distance
from volta.methods.mahalanobis import fit_gaussians
from volta.metrics import accuracy, auroc, ece
from volta.networks.trainer import Trainer

pytestmark = [
    pytest.mark.validity,
    pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning"),
]


@pytest.fixture(scope="module")
def trainer():
    return Trainer(seed=42)


@pytest.mark.parametrize(
    ("protocol", "name"), [("fair", "volta"), ("fair", "softmax"), ("paper", "softmax"), ("fair", "volta_plus")]
)
def test_classifiers_are_accurate_and_calibrated(digits, protocol, name):
    method = find_method(name).method.fit(digits.fit, Trainer(seed=42, protocol=protocol))
    prediction = method.predict(digits.test.inputs)
    assert accuracy(prediction.probs, digits.test.labels) > 0.95
    assert ece(prediction.probs, digits.test.labels) < 0.05


@pytest.mark.parametrize(("name", "least"), [("mahalanobis", 0.95), ("knn", 0.85)])
def test_distances_separate_uniform_noise(digits, trainer, name, least):
    """On the features themselves noise is far away; the trained encoder, with its LayerNorm, brings it nearer."""
    inputs, noise = digits.test.inputs, digits.ood["uniform_noise"].inputs
    if name == "mahalanobis":
        gaussians = fit_gaussians(digits.fit.train.inputs, digits.fit.train.labels)
        plain = [gaussians.squared_distances(rows).min(axis=1) for rows in (inputs, noise)]
    else:
        unit = [rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (inputs, noise, digits.fit.train.inputs)]
        plain = [kth_distance(rows, unit[2], 50) for rows in unit[:2]]
    assert auroc(*plain) > 0.99
    method = find_method(name).method.fit(digits.fit, trainer)
    assert auroc(method.predict(inputs).ood_score, method.predict(noise).ood_score) > least


def test_uncertainty_grows_with_severity(digits, trainer):
    method = find_method("volta").method.fit(digits.fit, trainer)
    for shift in ("noise", "contrast"):
        weak, strong = (
            method.predict(digits.shifts[f"{shift}-{severity}"].inputs).uncertainty.mean() for severity in (1, 5)
        )
        assert strong > weak


def test_conformal_sets_cover(digits, trainer):
    prediction = find_method("conformal").method.fit(digits.fit, trainer).predict(digits.test.inputs)
    covered = prediction.sets[np.arange(len(prediction)), digits.test.labels].mean()
    assert 0.8 < covered < 0.97
