"""The newer calibrators against independent optimisers and scikit-learn, and what each promises."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.special import softmax as scipy_softmax
from sklearn.isotonic import IsotonicRegression

from volta.core.errors import InputError
from volta.methods import METHODS
from volta.methods.calibrators import CALIBRATORS, beta, choose_calibrator, dirichlet, quadratic
from volta.methods.temperature import CalibrationWarning, fit_temperature
from volta.networks.outputs import LabelledOutputs, Outputs

NEW = tuple(name for name in CALIBRATORS if name not in ("temperature", "vector_scaling"))
AGAINST_REST = ("beta", "quadratic", "spline", "venn_abers")
PEERS = json.loads((Path(__file__).parent / "peer_calibrators.json").read_text("utf-8"))["probs"]
"""What betacal, probmetrics and venn-abers give: ``benchmarks/calibrators.py``."""


def sample(n_rows, n_classes=4, sharpness=3.0, seed=0):
    """Overconfident logits with a bias towards the first class."""
    random = np.random.default_rng(seed)
    true = random.normal(size=(n_rows, n_classes)) * 2
    labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
    return sharpness * true + np.arange(n_classes)[::-1], labels


def nll(probs, labels):
    return -np.log(np.maximum(probs[np.arange(len(labels)), labels], 1e-300)).mean()


@pytest.mark.parametrize("name", ["structured_vector_scaling", "structured_matrix_scaling", "dirichlet"])
def test_structured_scaling_is_the_optimum_that_autograd_finds(name):
    matrix = name != "structured_vector_scaling"
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
        off = (kept * (1 - diagonal)).pow(2).sum()
        if name == "dirichlet":
            penalty = (kept * diagonal).pow(2).sum() / n_classes + bias.pow(2).sum()
        else:
            off = (n_classes - 1) * off
        return torch.nn.functional.cross_entropy(z + z @ kept.T + bias, y) + n_classes / n_rows * (penalty + off)

    def closure():
        optimiser.zero_grad()
        value = loss()
        value.backward()
        return value

    optimiser.step(closure)
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
    if name in ("isotonic", "venn_abers"):
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


@pytest.fixture(scope="module")
def of_peers():
    """Return the script that froze what other packages give, for its arrays."""
    path = Path(__file__).parents[2] / "benchmarks/calibrators.py"
    spec = importlib.util.spec_from_file_location("benchmark_of_calibrators", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("name", "fit"),
    [
        ("beta", lambda *rows: beta(*rows, ridge=0.0)),
        ("quadratic", lambda *rows: quadratic(*rows, ridge=0.0)),
        ("venn_abers", CALIBRATORS["venn_abers"].fit),
    ],
)
def test_other_packages_give_the_same(of_peers, name, fit):
    probs = fit(*of_peers.sample(of_peers.N_FIT, 2, 0)).probs(of_peers.sample(of_peers.N_NEW, 2, 1)[0])
    # The solvers of the first two stop early.
    assert np.allclose(probs[:, 1], PEERS[name], atol=1e-6 if name == "venn_abers" else 1e-4)


def test_venn_abers_of_several_classes_is_the_packages_one_vs_all(of_peers):
    fitted = CALIBRATORS["venn_abers"].fit(*of_peers.sample(of_peers.N_FIT, 4, 2))
    assert np.allclose(fitted.probs(of_peers.sample(of_peers.N_NEW, 4, 3)[0]), PEERS["venn_abers_4"], atol=1e-6)


@pytest.mark.parametrize("name", AGAINST_REST)
def test_two_classes_are_one_problem(name):
    logits, labels = sample(300, 2)
    new, _ = sample(50, 2, seed=4)
    probs = CALIBRATORS[name].fit(logits, labels).probs(new)
    swapped = CALIBRATORS[name].fit(logits[:, ::-1], 1 - labels).probs(new[:, ::-1])
    assert np.allclose(probs, swapped[:, ::-1], atol=1e-6)


@pytest.mark.parametrize("name", ["beta", "quadratic", "venn_abers"])
def test_a_likelier_class_is_never_made_less_likely(name):
    random = np.random.default_rng(0)
    for n_rows in (20, 200):
        logits = random.normal(size=(n_rows, 2)) * 3
        fitted = CALIBRATORS[name].fit(logits, random.integers(2, size=n_rows))
        line = np.linspace(-30.0, 30.0, 301)
        of_second = fitted.probs(np.stack([np.zeros(301), line], axis=1))[:, 1]
        assert (np.diff(of_second) >= -1e-12).all()


@pytest.mark.parametrize("name", [*AGAINST_REST, "dirichlet"])
def test_few_rows_stay_near_the_temperature(name):
    logits, labels = sample(40, 3, sharpness=1.0)
    temperature = CALIBRATORS["temperature"].fit(logits, labels).probs(logits)
    near = np.abs(CALIBRATORS[name].fit(logits, labels).probs(logits) - temperature).mean()
    assert near < (0.2 if name == "venn_abers" else 0.15)


@pytest.mark.parametrize("name", [*AGAINST_REST, "dirichlet"])
@pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning")
def test_edges_give_probabilities(name):
    never_true = np.eye(3)[np.zeros(20, int)] * 2.0
    cases = [
        (never_true, np.zeros(20, int)),
        (np.zeros((20, 3)), np.arange(20) % 3),
        (1e4 * sample(50, 3)[0], sample(50, 3)[1]),
        (sample(2, 3)[0], np.array([0, 1])),
    ]
    for logits, labels in cases:
        fitted = CALIBRATORS[name].fit(logits, labels)
        probs = fitted.probs(np.concatenate([logits, [[1e5, 0.0, -1e5]], [[0.0, 0.0, 0.0]]]))
        assert np.isfinite(probs).all()
        assert (probs > 0.0).all() or name == "venn_abers"
        assert np.allclose(probs.sum(axis=1), 1.0)


def test_the_chooser_takes_what_the_rows_ask_for_and_stays_with_temperature_otherwise():
    def chosen(logits, labels, names=("vector_scaling", "beta")):
        return choose_calibrator(logits, labels, names, rng=np.random.default_rng(0))

    biased = sample(2000, 3)
    assert chosen(*biased) != "temperature"
    assert chosen(*(rows[:40] for rows in biased)) == "temperature"
    assert chosen(*biased, names=("temperature",)) == "temperature"
    random = np.random.default_rng(1)
    tempered = random.normal(size=(500, 3)) * 2
    labels = (tempered + random.gumbel(size=tempered.shape)).argmax(axis=1)
    assert chosen(3.0 * tempered, labels) == "temperature"
    with pytest.raises(InputError, match="there is no calibrator 'platt'"):
        chosen(*biased, names=("platt",))


def test_the_chooser_depends_on_its_generator_alone():
    rows = sample(300, 3, sharpness=1.0)
    names = ("beta", "quadratic")
    first, second = (choose_calibrator(*rows, names, rng=np.random.default_rng(7)) for _ in range(2))
    assert first == second


@pytest.mark.slow  # 16 draws, each with five folds of four calibrators
def test_the_chooser_is_no_worse_than_temperature_by_more_than_noise():
    gains = []
    for seed in range(16):
        n_rows, n_classes = (80, 200, 800)[seed % 3], (2, 4)[seed % 2]
        random = np.random.default_rng(seed)
        true = 2 * random.normal(size=(n_rows + 4000, n_classes))
        labels = (true + random.gumbel(size=true.shape)).argmax(axis=1)
        logits = 3.0 * true + (seed % 4 == 0) * 4.0 * np.arange(n_classes)
        names = ("beta", "quadratic", "structured_vector_scaling", "structured_matrix_scaling")
        name = choose_calibrator(logits[:n_rows], labels[:n_rows], names, rng=random)
        both = [CALIBRATORS[one].fit(logits[:n_rows], labels[:n_rows]) for one in ("temperature", name)]
        before, after = (nll(fitted.probs(logits[n_rows:]), labels[n_rows:]) for fitted in both)
        gains.append(before - after)
    assert np.mean(gains) > 0.0
    assert min(gains) > -0.02


def test_dirichlet_moves_more_than_structured_matrix_scaling_off_the_diagonal():
    logits, labels = sample(300)
    moved = [
        np.abs(fit.matrix - np.diag(np.diag(fit.matrix))).sum()
        for fit in (dirichlet(logits, labels), CALIBRATORS["structured_matrix_scaling"].fit(logits, labels))
    ]
    assert moved[0] > moved[1]
