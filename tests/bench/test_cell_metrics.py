"""Metrics from stored arrays: the test rows as they are, after one temperature, by 1 − max p, and OOD means."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from volta.bench.cell_metrics import (
    FAR,
    NEAR,
    TEST,
    TEST_AFTER_TEMPERATURE,
    TEST_BY_MSP,
    EvalSet,
    metrics_of,
    tempered_probs,
)
from volta.metrics import METRICS, aurc, ece, nll


def predictions(n_rows=400, n_classes=5, sharpness=3.0, seed=0):
    """Rows of a classifier that is too sure of itself: softmax of sharpened logits."""
    random = np.random.default_rng(seed)
    logits = random.normal(size=(n_rows, n_classes))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.array([random.choice(n_classes, p=row) for row in true])
    sharp = np.exp(sharpness * logits)
    return sharp / sharp.sum(axis=1, keepdims=True), labels


@pytest.fixture(scope="module")
def arrays():
    random = np.random.default_rng(3)
    probs, labels = predictions(seed=1)
    val_probs, val_labels = predictions(seed=2)
    return {
        "test/probs": probs,
        "test/labels": labels.astype(np.int32),
        "test/uncertainty": random.normal(size=len(labels)),
        "test/ood_score": random.normal(size=len(labels)),
        "val/probs": val_probs,
        "val/labels": val_labels.astype(np.int32),
        "ood:a/ood_score": random.normal(1.0, 1.0, 300),
        "ood:b/ood_score": random.normal(2.0, 1.0, 300),
        "ood:c/ood_score": random.normal(3.0, 1.0, 300),
    }


def test_the_temperature_is_the_best_one_on_validation_rows(arrays):
    def tempered(probs, temperature):
        powers = probs ** (1 / temperature)
        return powers / powers.sum(axis=1, keepdims=True)

    best = minimize_scalar(
        lambda temperature: nll(tempered(arrays["val/probs"], temperature), arrays["val/labels"]),
        bounds=(0.1, 20.0),
        method="bounded",
        options={"xatol": 1e-9},
    )
    assert best.x == pytest.approx(3.0, rel=0.15)
    assert tempered_probs(arrays) == pytest.approx(tempered(arrays["test/probs"], best.x), abs=1e-6)


def test_test_rows_after_temperature_have_probability_metrics_alone(arrays):
    metrics, _ = metrics_of(arrays, near=["a"])
    after = metrics[TEST_AFTER_TEMPERATURE]
    assert set(after) == {name for name, metric in METRICS.items() if "test+T" in metric.variants}
    assert after["ece"] == ece(tempered_probs(arrays), arrays["test/labels"])
    assert after["ece"] < 0.3 * metrics[TEST]["ece"]
    assert after["nll"] < metrics[TEST]["nll"]


def test_selective_metrics_are_also_given_by_confidence(arrays):
    metrics, _ = metrics_of(arrays, near=["a"])
    by_confidence = metrics[TEST_BY_MSP]
    assert set(by_confidence) == {name for name, metric in METRICS.items() if "test+msp" in metric.variants}
    correct = arrays["test/probs"].argmax(axis=1) == arrays["test/labels"]
    assert by_confidence["aurc"] == aurc(1 - arrays["test/probs"].max(axis=1), correct)
    assert by_confidence["aurc"] < metrics[TEST]["aurc"]


def test_ood_sets_are_far_unless_they_are_near(arrays):
    metrics, _ = metrics_of(arrays, near=["a"])
    each = {name: metrics[EvalSet(f"ood:{name}")]["auroc"] for name in "abc"}
    assert metrics[NEAR]["auroc"] == each["a"]
    assert metrics[FAR]["auroc"] == pytest.approx((each["b"] + each["c"]) / 2)
    undeclared, _ = metrics_of(arrays, near=[])
    assert NEAR not in undeclared
    assert undeclared[FAR]["auroc"] == pytest.approx(sum(each.values()) / 3)


def test_without_validation_predictions_there_is_no_temperature(arrays):
    old = {name: values for name, values in arrays.items() if not name.startswith("val/")}
    assert tempered_probs(old) is None
    metrics, _ = metrics_of(old, near=[])
    assert TEST_AFTER_TEMPERATURE not in metrics
    assert metrics[TEST] == metrics_of(arrays, near=[])[0][TEST]


def test_probabilities_of_zero_and_all_rows_right_leave_finite_values(arrays):
    certain = np.eye(5)[arrays["val/labels"]]
    same = tempered_probs(arrays | {"val/probs": certain})
    assert same == pytest.approx(arrays["test/probs"], abs=1e-12)
    zeros = tempered_probs(arrays | {"test/probs": np.eye(5)[arrays["test/labels"]]})
    assert np.isfinite(zeros).all()
    assert zeros.sum(axis=1) == pytest.approx(1)
