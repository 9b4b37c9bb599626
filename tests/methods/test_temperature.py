from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from volta.methods.scores import entropy, one_minus_max_softmax, softmax
from volta.methods.temperature import CalibrationWarning, fit_share, fit_temperature, half_a_row


def nll(beta, scores, labels):
    return -log_softmax(beta * scores, axis=1)[np.arange(len(labels)), labels].mean()


def problem(seed, n_rows=200, n_classes=5, noise=1.0, scale=1.0):
    random = np.random.default_rng(seed)
    labels = np.arange(n_rows) % n_classes
    scores = scale * (np.eye(n_classes)[labels] + noise * random.normal(size=(n_rows, n_classes)))
    return scores, labels


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("seed", range(5))
def test_beta_agrees_with_scipy_and_lbfgs(seed, scale):
    scores, labels = problem(seed, scale=scale)
    fit = fit_temperature(scores, labels)
    reference = minimize_scalar(
        lambda log_beta: nll(np.exp(log_beta), scores, labels),
        bracket=(-np.log(scale) - 3, -np.log(scale) + 3),
        options={"xtol": 1e-14},
    )
    assert nll(fit, scores, labels) <= reference.fun + 1e-12
    assert fit == pytest.approx(np.exp(reference.x), rel=1e-5)
    beta = torch.tensor(1.0 / scale, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [beta], max_iter=500, tolerance_grad=1e-14, tolerance_change=1e-16, line_search_fn="strong_wolfe"
    )
    tensor, target = torch.from_numpy(scores), torch.from_numpy(labels)

    def closure():
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(beta * tensor, target)
        loss.backward()
        return loss

    optimiser.step(closure)
    assert fit == pytest.approx(beta.item(), rel=1e-6)


@pytest.mark.parametrize("start", [1e-8, 1.0, 1e8])
def test_the_start_does_not_matter(start):
    scores, labels = problem(0)
    assert fit_temperature(scores, labels, start) == pytest.approx(fit_temperature(scores, labels), rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.floats(0.05, 5.0), st.floats(0.01, 50.0), st.floats(0.01, 50.0))
def test_nll_is_strictly_convex_in_beta(seed, noise, low, high):
    scores, labels = problem(seed, n_rows=30, n_classes=3, noise=noise)
    if abs(low - high) < 1e-3:
        return
    middle = nll((low + high) / 2, scores, labels)
    chord = (nll(low, scores, labels) + nll(high, scores, labels)) / 2
    assert middle <= chord + 1e-12
    if max(low, high) * np.ptp(scores, axis=1).max() < 20:
        assert middle < chord


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.floats(0.01, 20.0), st.integers(1, 40), st.integers(2, 6))
def test_beta_is_positive_and_no_worse_than_the_start(seed, noise, n_rows, n_classes):
    scores, labels = problem(seed, n_rows, n_classes, noise)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CalibrationWarning)
        fit = fit_temperature(scores, labels)
    assert fit > 0
    assert np.isfinite(fit)
    assert nll(fit, scores, labels) <= nll(1.0, scores, labels) + 1e-12


@pytest.mark.parametrize(
    ("scores", "labels", "reason"),
    [
        ([[2.0, 1.0], [0.0, 3.0]], [0, 1], "every held-out row is classified correctly"),
        ([[1.0, 1.0], [0.0, 3.0]], [0, 1], "every held-out row is classified correctly"),
        ([[1.0, 1.0], [4.0, 4.0]], [0, 1], "all scores of every held-out row are equal"),
        ([[2.0, 1.0], [0.0, 3.0]], [1, 0], "the scores favour wrong classes"),
    ],
)
def test_no_finite_optimum_is_said_and_the_start_kept(scores, labels, reason):
    with pytest.warns(
        CalibrationWarning, match=f"no finite temperature fits best: {reason}.*stays as it was before, at 2.5"
    ):
        fit = fit_temperature(np.array(scores), np.array(labels), start=2.5)
    assert fit == 2.5


def test_doubt_in_labels_is_a_cross_entropy_with_softer_targets():
    (first, labels), (second, _) = problem(1, n_rows=30), problem(2, n_rows=30, noise=0.5)
    doubt = half_a_row(30)
    targets = np.full((30, 5), doubt / 4)
    targets[np.arange(30), labels] = 1 - doubt

    def loss(scores):
        return -(targets * log_softmax(scores, axis=1)).sum(axis=1).mean()

    beta = minimize_scalar(
        lambda one: loss(one * first), bounds=(1e-3, 50.0), method="bounded", options={"xatol": 1e-10}
    )
    assert fit_temperature(first, labels, doubt=doubt) == pytest.approx(beta.x, rel=1e-6)
    share = minimize_scalar(
        lambda one: loss((1 - one) * first + one * second), bounds=(0, 1), method="bounded", options={"xatol": 1e-10}
    )
    assert fit_share(first, second, labels, doubt=doubt) == pytest.approx(share.x, abs=1e-6)


def test_with_doubt_rows_that_are_all_right_have_an_optimum():
    scores = np.tile([[2.0, 0.0], [0.0, 2.0]], (10, 1))
    found = fit_temperature(scores, np.arange(20) % 2, doubt=half_a_row(20))
    # All rows are equally sure: the optimum says that (n + 1/2) / (n + 1) of them are right.
    assert softmax(found * scores).max(axis=1) == pytest.approx(20.5 / 21)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_the_share_agrees_with_scipy(seed, weighted):
    (first, labels), (second, _) = problem(seed), problem(seed + 10, noise=1.5)
    weights = np.random.default_rng(seed).uniform(0.0, 2.0, len(labels)) if weighted else None

    def loss(share):
        logs = log_softmax((1 - share) * first + share * second, axis=1)[np.arange(len(labels)), labels]
        return -np.average(logs, weights=weights)

    reference = minimize_scalar(loss, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-10})
    assert 0.05 < reference.x < 0.95
    assert fit_share(first, second, labels, weights) == pytest.approx(reference.x, abs=1e-6)


def test_logits_that_only_harm_get_no_share():
    scores, labels = problem(0, noise=0.3)
    assert fit_share(scores, -scores, labels) == 0.0
    assert fit_share(-scores, scores, labels) == 1.0
    assert fit_share(scores, scores, labels) == 0.0


@settings(deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=8), st.floats(0.02, 2.0), st.data())
def test_misclassified_rows_have_at_least_the_corrected_uncertainty(similarities, temperature, data):
    row = np.array(similarities)
    predicted = int(row.argmax())
    true = data.draw(st.sampled_from([k for k in range(len(row)) if k != predicted]))
    gap = row[predicted] - row[true]
    bound = 1.0 / (1.0 + np.exp(gap / temperature))
    uncertainty = one_minus_max_softmax(row[None] / temperature)[0]
    assert uncertainty >= bound * (1 - 1e-12)


def test_the_papers_printed_bound_is_wrong():
    row = np.array([[0.9, 0.0]])
    printed = 1.0 - 1.0 / (1.0 + np.exp(0.9 / 0.1))
    assert one_minus_max_softmax(row / 0.1)[0] < printed


def test_scores_by_hand():
    probs = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert entropy(probs).tolist() == [0.0, pytest.approx(np.log(2))]
    logits = np.array([[0.0, 1.0, 2.0], [1000.0, 0.0, -1000.0]])
    assert softmax(logits).sum(axis=1).tolist() == [pytest.approx(1), 1]
    assert one_minus_max_softmax(logits)[0] == pytest.approx(1 - softmax(logits)[0].max())
    tiny = one_minus_max_softmax(np.array([[60.0, 0.0]]))[0]
    assert tiny == pytest.approx(np.exp(-60.0), rel=1e-12)
