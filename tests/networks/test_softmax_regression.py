from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from volta.core.types import Split
from volta.methods.linear import SoftmaxRegression


def draw(n_rows=200, n_columns=6, n_classes=4, seed=0):
    random = np.random.default_rng(seed)
    labels = random.integers(n_classes, size=n_rows)
    centres = random.normal(0.0, 1.0, (n_classes, n_columns))
    rows = (centres[labels] + random.normal(size=(n_rows, n_columns))) * 10.0 ** np.linspace(-2, 2, n_columns) + 5.0
    return Split(rows.astype(np.float32), labels)


def softmax(logits):
    shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
    return shifted / shifted.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("ridge", [1e-1, 1e-3])
def test_the_optimum_is_scikit_learns(ridge):
    data = draw()
    rows = data.inputs.astype(np.float64)
    scaled = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    peer = LogisticRegression(C=1.0 / (ridge * len(rows)), tol=1e-10, max_iter=10_000).fit(scaled, data.labels)
    found = SoftmaxRegression(data, 4).solve(ridge)
    assert softmax(found.logits(data.inputs)) == pytest.approx(peer.predict_proba(scaled), abs=2e-4)


def test_a_warm_start_and_an_early_end_lead_to_the_same_place():
    data = draw()
    problem = SoftmaxRegression(data, 4)
    cold = problem.solve(1e-3)
    warm = problem.solve(1e-3, problem.solve(1e-1, exact=False))
    assert warm.logits(data.inputs) == pytest.approx(cold.logits(data.inputs), abs=2e-2)
    near = problem.solve(1e-3, exact=False)
    assert softmax(near.logits(data.inputs)) == pytest.approx(softmax(cold.logits(data.inputs)), abs=1e-2)


def test_weights_count_rows():
    data = draw(60)
    counts = np.arange(60) % 4
    repeated = Split(data.inputs.repeat(counts, axis=0), data.labels.repeat(counts))
    weighted = Split(data.inputs, data.labels, counts / counts.mean())
    probs = [softmax(SoftmaxRegression(rows, 4).solve(1e-2).logits(data.inputs)) for rows in (repeated, weighted)]
    assert probs[0] == pytest.approx(probs[1], abs=1e-4)


def test_rows_on_disk_and_constant_or_many_columns(tmp_path):
    data = draw()
    np.save(tmp_path / "rows.npy", data.inputs)
    mapped = Split(np.load(tmp_path / "rows.npy", mmap_mode="r"), data.labels)
    held, read = (SoftmaxRegression(rows, 4).solve(1e-2) for rows in (data, mapped))
    assert np.array_equal(held.weight, read.weight)
    constant = Split(np.column_stack([data.inputs, np.full(200, 7.0, dtype=np.float32)]), data.labels)
    assert np.abs(SoftmaxRegression(constant, 4).solve(1e-2).weight[-1]).max() < 1e-6
    wide = Split(np.repeat(data.inputs, 200, axis=1), data.labels)
    probs = softmax(SoftmaxRegression(wide, 4).solve(1e-1).logits(wide.inputs))
    few = softmax(SoftmaxRegression(data, 4).solve(1e-1 / 200).logits(data.inputs))
    assert probs == pytest.approx(few, abs=5e-3)
