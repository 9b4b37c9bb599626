import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer

from volta import VoltaClassifier, load
from volta.core.types import FitData, Split
from volta.methods import Auto, auto
from volta.methods.auto import candidates, fit_weights
from volta.methods.saving import row_graph
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer


def data_of(rows, labels, n_classes=None):
    """Split rows at random into training, validation and test samples, standardised."""
    order = np.random.default_rng(0).permutation(len(rows))
    rows = ((rows - rows.mean(axis=0)) / rows.std(axis=0))[order]
    parts = [Split(*part) for part in zip(np.array_split(rows, 3), np.array_split(labels[order], 3), strict=True)]
    return FitData(*parts[:2], parts[1], n_classes=n_classes or int(labels.max()) + 1), parts[2]


def losses(weights, logs, labels):
    z = np.einsum("m,nmk->nk", weights, logs)
    return logsumexp(z, axis=1) - z[np.arange(len(labels)), labels]


def test_weights_are_the_minimum_of_the_penalised_log_loss():
    random = np.random.default_rng(0)
    labels = random.integers(3, size=300)
    logs = np.stack([np.log(random.dirichlet(1 + s * np.eye(3)[k])) for k in labels for s in (6, 3, 0)])
    logs = logs.reshape(300, 3, 3)
    counts = random.integers(1, 4, size=300).astype(float)
    found = fit_weights(logs, labels, counts)
    assert (found >= 0).all()
    assert found[0] > found[1] > found[2]

    def loss(free):
        weights = np.zeros(3)
        weights[found > 0] = free**2
        gap = weights - 1 / 3
        return counts @ losses(weights, logs, labels) + 2 * 3 * gap @ gap

    free = np.ones(int((found > 0).sum()))
    expected = minimize(loss, free, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-9, "maxiter": 4000}).x
    np.testing.assert_allclose(found[found > 0], expected**2, atol=1e-4)


def test_a_candidate_that_says_nothing_has_no_weight():
    random = np.random.default_rng(0)
    labels = random.integers(2, size=400)
    shown = np.where(random.random(400) < 0.8, labels, 1 - labels)
    right = np.log(np.where(np.eye(2)[shown] == 1, 0.8, 0.2))
    nothing = np.log(random.dirichlet([3, 3], size=400))
    weights = fit_weights(np.stack([right, nothing], axis=1), labels)
    assert weights[1] < 0.1
    assert weights[0] > 0.9


# Over two seconds: it fits four candidates five times for each of five folds, once for the test below.
@pytest.fixture(scope="module")
def cancer():
    rows, labels = load_breast_cancer(return_X_y=True)
    classifier = VoltaClassifier(Auto(n_folds=2), max_epochs=2).fit(rows[:200], labels[:200])
    return classifier, rows[200:], labels[200:]


def test_the_classifier_comes_back_from_its_file(cancer, tmp_path):
    classifier, rows, labels = cancer
    assert (classifier.predict(rows) == labels).mean() > 0.9
    for member in classifier.members_:
        assert len(member.method.members_) == len(member.method.weights_)
        assert (member.method.weights_ > 0).all()
    classifier.save(tmp_path / "auto")
    again = load(tmp_path / "auto")
    np.testing.assert_array_equal(again.predict_proba(rows), classifier.predict_proba(rows))
    assert str(again.decide(rows[:1])[0]) == str(classifier.decide(rows[:1])[0])


def test_every_sample_weighs_the_candidates_as_fits_without_it_say():
    rows, labels = load_breast_cancer(return_X_y=True)
    data, _ = data_of(rows[:300], labels[:300])
    twins = np.flatnonzero(data.train.labels == 0)[:2]
    data.train.inputs[twins[1]] = data.train.inputs[twins[0]]
    folds = Auto(n_folds=3)._folds(data, seed=0)
    whole = np.concatenate([data.train.inputs, data.val.inputs])
    held_out = np.concatenate([fold.val.inputs for fold in folds])
    np.testing.assert_array_equal(np.sort(held_out, axis=0), np.sort(whole, axis=0))
    for fold in folds:
        seen, unseen = ({row.tobytes() for row in part.inputs} for part in (fold.train, fold.val))
        assert not seen & unseen


def test_many_validation_samples_weigh_alone_and_boosting_is_left_out_where_it_costs_too_much(monkeypatch):
    rows, labels = load_breast_cancer(return_X_y=True)
    data, _ = data_of(rows, labels)
    assert [type(each).__name__ for each in candidates(data)] == ["Linear", "ExtraTrees", "BoostedTrees", "VoltaPlus"]
    monkeypatch.setattr(auto, "ENOUGH_TO_VALIDATE", len(data.val))
    monkeypatch.setattr(auto, "MOST_WORK", 1000)
    assert [type(each).__name__ for each in candidates(data)] == ["Linear", "ExtraTrees", "VoltaPlus"]
    assert Auto()._folds(data, seed=0) == [data]


def test_seconds_leave_candidates_out():
    rows, labels = load_breast_cancer(return_X_y=True)
    data, test = data_of(rows, labels)
    method = Auto(max_seconds=1e-9, n_folds=2).fit(data, Trainer(seed=0))
    assert [[type(fit).__name__ for fit in fits] for fits in method.members_] == [["Linear", "Linear"]]
    assert method.left_out_ == ["Extra trees", "Boosted trees", "VOLTA+"]
    assert method.predict(test.inputs).probs.shape == (len(test), 2)


def test_the_formula_on_tensors():
    rows, labels = load_breast_cancer(return_X_y=True)
    data, test = data_of(rows, labels)
    method = Auto(n_folds=2).fit(data, Trainer(seed=0, budget=Budget(max_epochs=3)))
    found = row_graph(method)(torch.tensor(test.inputs, dtype=torch.float32))
    np.testing.assert_allclose(found.probs.detach().numpy(), method.predict(test.inputs).probs, atol=1e-4)
