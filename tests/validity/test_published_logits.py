"""Calibrators on published logits (CIFAR-10, ResNet-110), read in place."""

from __future__ import annotations

import numpy as np
import pytest

from volta.methods.calibrators import CALIBRATORS
from volta.metrics import accuracy, brier, ece, ece_expected, nll

pytestmark = pytest.mark.validity

# NLL, ECE and Brier score. Temperature: as published with the logits. Vector scaling and what comes after isotonic
# regression: what ours give, whose ridges no other has. The rest: probmetrics 1.3, the authors' package, on the same
# rows; its optimiser stops early in float32, hence the tolerances.
PUBLISHED = {
    "temperature": (0.2093, 0.0113, 0.0979),
    "vector_scaling": (0.20604, 0.01138, 0.09786),
    "structured_vector_scaling": (0.20660, 0.01069, 0.09745),
    "structured_matrix_scaling": (0.20312, 0.01048, 0.09740),
    "ensemble_temperature": (0.20926, 0.01132, 0.09785),
    "isotonic": (1.75328, 0.01473, 0.09854),
    "beta": (0.20769, 0.01090, 0.09766),
    "quadratic": (0.20760, 0.01053, 0.09759),
    "spline": (0.20643, 0.00927, 0.09740),
    "dirichlet": (0.20566, 0.01236, 0.09884),
    "venn_abers": (0.21197, 0.01380, 0.09834),
}


@pytest.fixture(scope="module")
def rows(published_logits):
    with np.load(published_logits) as stored:
        return {name: stored[name] for name in stored.files}


def test_the_logits_are_the_published_ones(rows):
    logits = rows["test_logits"].astype(np.float64)
    probs = np.exp(logits - np.logaddexp.reduce(logits, axis=1, keepdims=True))
    assert 1 - accuracy(probs, rows["test_labels"]) == pytest.approx(0.0644, abs=5e-5)
    assert ece(probs, rows["test_labels"]) == pytest.approx(0.0475, abs=5e-5)
    assert nll(probs, rows["test_labels"]) == pytest.approx(0.3583, abs=5e-5)
    # Not looked up in print, unlike the others: what these logits give, so that a change of the metric is seen.
    assert brier(probs, rows["test_labels"]) == pytest.approx(0.1102, abs=5e-5)


@pytest.mark.parametrize("name", PUBLISHED)
@pytest.mark.filterwarnings("ignore::volta.metrics.FlooredProbabilityWarning")
def test_a_calibrator_gives_the_published_values(rows, name):
    val, test = (rows[f"{part}_logits"].astype(np.float64) for part in ("val", "test"))
    probs = CALIBRATORS[name].fit(val, rows["val_labels"]).probs(test)
    found = [metric(probs, rows["test_labels"]) for metric in (nll, ece, brier)]
    assert found == pytest.approx(PUBLISHED[name], abs=2e-4)


def test_after_calibration_ece_stands_at_its_floor(rows):
    val, test = (rows[f"{part}_logits"].astype(np.float64) for part in ("val", "test"))
    before = np.exp(test - np.logaddexp.reduce(test, axis=1, keepdims=True))
    after = CALIBRATORS["structured_matrix_scaling"].fit(val, rows["val_labels"]).probs(test)
    assert ece(before, rows["test_labels"]) > 4 * ece_expected(before).high
    assert ece(after, rows["test_labels"]) < 2 * ece_expected(after).high
