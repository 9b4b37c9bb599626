import numpy as np
import pytest
from hypothesis import given, settings

from volta import metrics

from . import reference
from .strategies import predictions
from .test_scoring import softmax_sample


def two_class(confidence, correct):
    return np.column_stack([confidence, 1 - confidence]), (~correct).astype(int)


def test_residuals_of_one_sign_smooth_to_their_mean():
    # Smoothing moves mass and loses none, so the integral is 0.2 for every σ, also for the σ of 0.2.
    assert metrics.smece([[0.8, 0.2]] * 5, [0] * 5) == pytest.approx(0.2, abs=1e-12)
    assert metrics.smece([[0.9, 0.1], [0.6, 0.4]], [0, 0]) == pytest.approx(0.25, abs=1e-12)


def test_residuals_that_cancel_at_one_confidence_are_no_error():
    assert metrics.smece([[0.75, 0.25]] * 4, [0, 0, 0, 1]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(("n", "gap"), [(20, 0.2), (60, 0.05), (100, 0.0)])
def test_agrees_with_the_definition(n, gap):
    rng = np.random.default_rng(n)
    confidence = rng.uniform(0.5, 1, n)
    correct = rng.random(n) < confidence - gap
    assert metrics.smece(*two_class(confidence, correct)) == pytest.approx(
        reference.smece(confidence, correct), abs=1e-6
    )


def test_agrees_with_the_definition_where_it_is_small():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.97, 1, 200)
    correct = rng.random(200) < confidence
    value = metrics.smece(*two_class(confidence, correct))
    assert value < 0.01
    assert value == pytest.approx(reference.smece(confidence, correct), abs=1e-6)


def test_agrees_with_the_package_of_its_authors():
    relplot = pytest.importorskip("relplot")
    for seed, gap in ((0, 0.1), (1, 0.0)):
        rng = np.random.default_rng(seed)
        confidence = rng.uniform(0.5, 1, 3000)
        correct = rng.random(3000) < confidence - gap
        # Its bandwidth is found to 1/1024.
        assert metrics.smece(*two_class(confidence, correct)) == pytest.approx(
            relplot.smECE(confidence, correct.astype(float)), abs=2e-3
        )


@settings(max_examples=60)
@given(predictions())
def test_lies_between_the_signed_and_the_absolute_mean_residual(case):
    probs, labels = case
    value = metrics.smece(probs, labels)
    residual = (probs.argmax(axis=1) == labels) - probs.max(axis=1)
    assert abs(residual.mean()) - 1e-9 <= value <= np.abs(residual).mean() + 1e-9


@settings(max_examples=30)
@given(predictions(max_rows=8))
def test_changes_little_when_confidences_do(case):
    probs, labels = case
    # Nearer to uniform by one thousandth: the order of classes stays, every residual moves by at most 1e-3.
    moved = 0.999 * probs + 0.001 / probs.shape[1]
    assert metrics.smece(moved, labels) == pytest.approx(metrics.smece(probs, labels), abs=3e-3)


def test_certain_rows():
    assert metrics.smece(np.eye(2)[[0, 1]], [0, 1]) == 0.0
    assert metrics.smece(np.eye(2)[[0, 1]], [1, 0]) == 1.0
    # Below the step of the grid nothing is lost either.
    assert metrics.smece([[1 - 1e-6, 1e-6]], [0]) == pytest.approx(1e-6, rel=1e-6)


def test_float32_and_many_rows():
    probs, labels = softmax_sample(200_000, 10, seed=1, dtype=np.float32)
    value = metrics.smece(probs, labels)
    assert value == pytest.approx(
        metrics.smece(probs.astype(np.float64) / probs.sum(1, keepdims=True), labels), abs=1e-6
    )
    assert value <= metrics.ece(probs, labels) + 0.01
