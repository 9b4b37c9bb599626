"""The newer calibrators against independent optimisers and scikit-learn, and what each promises."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.special import softmax as scipy_softmax
from sklearn.isotonic import IsotonicRegression

from volta.methods import METHODS
from volta.methods.calibrators import CALIBRATORS, CalibrationWarning, fit_temperature
from volta.networks.outputs import LabelledOutputs, Outputs

NEW = ("structured_vector_scaling", "structured_matrix_scaling", "ensemble_temperature", "isotonic")


def sample(n_rows, n_classes=4, sharpness=3.0, seed=0):
    """Overconfident logits with a bias towards the first class."""
    random = np.random.default_rng(seed)
    true = random.normal(size=(n_rows, n_classes)) * 2
    labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
    return sharpness * true + np.arange(n_classes)[::-1], labels


def nll(probs, labels):
    return -np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-300)).mean()


@pytest.mark.parametrize("matrix", [False, True])
def test_structured_scaling_is_the_optimum_that_autograd_finds(matrix):
    logits, labels = sample(150, 3)
    n_rows, n_classes = logits.shape
    beta = fit_temperature(logits, labels)
    mixed = (1 - 1 / (n_rows + 1)) * scipy_softmax(beta * logits, axis=1) + 1 / (n_rows + 1) / n_classes
    z, y = torch.from_numpy(np.log(mixed)), torch.from_numpy(labels)
    moved = torch.zeros((n_classes, n_classes), dtype=torch.float64, requires_grad=True)
    bias = torch.zeros(n_classes, dtype=torch.float64, requires_grad=True)
    diagonal = torch.eye(n_classes, dtype=torch.float64)
    optimiser = torch.optim.LBFGS(
        [moved, bias], max_iter=500, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def loss():
        kept = moved if matrix else moved * diagonal
        penalty = (kept * diagonal).pow(2).sum() + bias.pow(2).sum()
        off = (n_classes - 1) * (kept * (1 - diagonal)).pow(2).sum()
        return torch.nn.functional.cross_entropy(z + z @ kept.T + bias, y) + n_classes / n_rows * (penalty + off)

    def closure():
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
    name = "structured_matrix_scaling" if matrix else "structured_vector_scaling"
    fitted = CALIBRATORS[name].fit(logits, labels)
    found = fitted.matrix if matrix else np.diag(fitted.matrix)
    expected = (moved if matrix else moved * diagonal).detach().numpy() + np.eye(n_classes)
    assert np.allclose(found, expected, atol=1e-5)
    assert np.allclose(fitted.bias, bias.detach().numpy(), atol=1e-5)
    assert np.allclose(fitted.probs(logits), scipy_softmax(np.log(mixed) @ found.T + fitted.bias, axis=1))


def test_structure_gives_way_to_temperature_with_few_rows_and_to_more_freedom_with_many():
    few, many = (CALIBRATORS["structured_matrix_scaling"].fit(*sample(n, seed=1)) for n in (30, 5000))
    away = [np.abs(fit.matrix - np.eye(4)).max() + np.abs(fit.bias).max() for fit in (few, many)]
    assert away[0] < away[1]
    logits, labels = sample(5000, seed=2)
    of = {name: nll(CALIBRATORS[name].fit(*sample(5000, seed=1)).probs(logits), labels) for name in CALIBRATORS}
    assert of["structured_matrix_scaling"] < of["temperature"]
    assert of["structured_vector_scaling"] < of["temperature"]


def test_isotonic_maps_are_scikit_learns():
    logits, labels = sample(400)
    fitted = CALIBRATORS["isotonic"].fit(logits, labels)
    new, _ = sample(200, seed=5)
    plain, of_new = scipy_softmax(logits, axis=1), scipy_softmax(new, axis=1)
    columns = [
        IsotonicRegression(out_of_bounds="clip").fit(plain[:, k], labels == k).predict(of_new[:, k]) for k in range(4)
    ]
    mapped = np.stack(columns, axis=1)
    assert np.allclose(fitted.probs(new), mapped / mapped.sum(axis=1, keepdims=True), atol=1e-8)


def test_isotonic_warns_by_example():
    logits, labels = sample(60)
    new, truth = sample(2000, seed=5)
    probs = CALIBRATORS["isotonic"].fit(logits, labels).probs(new)
    assert (probs[np.arange(len(truth)), truth] == 0).any()
    assert nll(probs, truth) > nll(CALIBRATORS["temperature"].fit(logits, labels).probs(new), truth)


def test_isotonic_is_uniform_where_no_class_is_left():
    fitted = CALIBRATORS["isotonic"].fit(np.array([[5.0, 0.0, 0.0], [0.0, 5.0, 0.0]]), np.array([0, 1]))
    probs = fitted.probs(np.array([[0.0, 0.0, 50.0]]))
    assert np.isclose(probs.sum(), 1.0)
    assert np.allclose(probs, 1 / 3)


def test_ensemble_temperature_keeps_the_class_and_is_no_worse_than_temperature():
    logits, labels = sample(500, sharpness=2.0)
    random = np.random.default_rng(0)
    labels = np.where(random.random(500) < 0.1, random.integers(4, size=500), labels)
    fitted = CALIBRATORS["ensemble_temperature"].fit(logits, labels)
    assert np.array_equal(fitted.probs(logits).argmax(axis=1), logits.argmax(axis=1))
    assert nll(fitted.probs(logits), labels) <= nll(
        CALIBRATORS["temperature"].fit(logits, labels).probs(logits), labels
    )
    assert fitted.weights.sum() == pytest.approx(1.0)
    assert fitted.weights.min() >= 0.0


@pytest.mark.parametrize("name", NEW)
def test_alone_and_as_a_method_are_one(name):
    logits, labels = sample(200)
    new, _ = sample(50, seed=3)
    fitted = CALIBRATORS[name].fit(logits, labels)
    method = METHODS[name]().fit_from_outputs(val=LabelledOutputs(Outputs(logits), labels))
    probs = fitted.probs(new)
    assert np.array_equal(method.predict_outputs(Outputs(new)).probs, probs)
    assert np.allclose(np.exp(log_softmax(fitted.logits(new), axis=1)), probs)
    assert CALIBRATORS[name].title == METHODS[name].title
    assert fitted.parameters


@pytest.mark.parametrize("name", NEW)
def test_separable_rows_give_finite_probabilities(name):
    logits = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 4.0]])
    if name == "isotonic":
        probs = CALIBRATORS[name].fit(logits, np.arange(3)).probs(logits)
    else:
        with pytest.warns(CalibrationWarning):
            probs = CALIBRATORS[name].fit(logits, np.arange(3)).probs(logits)
    assert np.allclose(probs.sum(axis=1), 1.0)
    assert np.isfinite(probs).all()


@pytest.mark.parametrize("size", [0.03, 1.0, 30.0])
def test_vector_scaling_does_not_mind_the_size_of_the_logits(size):
    logits, labels = sample(600)
    held, truth = sample(600, seed=1)
    probs = CALIBRATORS["vector_scaling"].fit(size * logits, labels).probs(size * held)
    assert nll(probs, truth) < nll(CALIBRATORS["temperature"].fit(logits, labels).probs(held), truth)


@pytest.mark.parametrize("name", CALIBRATORS)
def test_rows_count_by_their_weights(name):
    logits, labels = sample(300)
    # As many rows in all, by which some set their penalties.
    counts = np.random.default_rng(2).multinomial(300, np.full(300, 1 / 300))
    weighted = CALIBRATORS[name].fit(logits, labels, counts.astype(float))
    repeated = CALIBRATORS[name].fit(logits.repeat(counts, axis=0), labels.repeat(counts))
    new = sample(50, seed=3)[0]
    np.testing.assert_allclose(weighted.probs(new), repeated.probs(new), atol=1e-4)
    assert np.abs(weighted.probs(new) - CALIBRATORS[name].fit(logits, labels).probs(new)).max() > 0.005
