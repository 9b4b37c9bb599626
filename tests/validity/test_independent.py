"""Scores and metrics beside independent implementations, on the embedded task and, where it is there, on CIFAR-10.

scikit-learn's covariance, neighbours, PCA and metrics and SciPy's optimisers stand in for ours, on the outputs of one
network; scores must agree to 1e-4 of their spread and the metrics of every set to 1e-4.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, logsumexp, softmax
from sklearn.covariance import EmpiricalCovariance
from sklearn.decomposition import PCA
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.neighbors import NearestNeighbors

from volta.core.types import Task
from volta.data import LoadOptions, find_task
from volta.methods import find_method
from volta.metrics import report
from volta.networks.outputs import Outputs
from volta.networks.recipe import Budget
from volta.networks.trainer import Trainer

pytestmark = [
    pytest.mark.validity,
    pytest.mark.filterwarnings("ignore::volta.methods.temperature.CalibrationWarning"),
]
TOLERANCE = 1e-4
Scores = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Setting:
    """A task, the trainer that holds its network, and that network's outputs."""

    task: Task
    trainer: Trainer
    fit: dict[str, Outputs]


@pytest.fixture(scope="module", params=["digits", "cifar10"])
def setting(request) -> Setting:
    options = LoadOptions()
    if request.param == "cifar10":
        root = os.environ.get("VOLTA_DATA")
        if not root or not (Path(root) / "features" / "cifar10.npz").is_file():
            pytest.skip("VOLTA_DATA names no folder with features/cifar10.npz")
        options = LoadOptions(Path(root), shifts="none")
    task = find_task(request.param).load("features", options)
    trainer = Trainer(seed=42, budget=Budget(max_epochs=3 if request.param == "cifar10" else 30))
    network = trainer.network(task.fit)
    parts = {name: network.outputs(getattr(task.fit, name).inputs) for name in ("train", "val")}
    return Setting(task, trainer, parts)


def max_softmax(setting: Setting, outputs: Outputs) -> Scores:
    probs = softmax(outputs.logits, axis=1)
    return probs, 1.0 - probs.max(axis=1)


def temperature(setting: Setting, outputs: Outputs) -> Scores:
    val, labels = setting.fit["val"].logits, setting.task.fit.val.labels

    def loss(log_temperature: float) -> float:
        return float(-log_softmax(val / np.exp(log_temperature), axis=1)[np.arange(len(val)), labels].mean())

    found = minimize_scalar(loss, bounds=(-4.0, 4.0), method="bounded", options={"xatol": 1e-9})
    probs = softmax(outputs.logits / np.exp(found.x), axis=1)
    return probs, -(probs * np.log(np.maximum(probs, 1e-300))).sum(axis=1)


def energy(setting: Setting, outputs: Outputs) -> Scores:
    return softmax(outputs.logits, axis=1), -logsumexp(outputs.logits, axis=1)


def max_logit(setting: Setting, outputs: Outputs) -> Scores:
    return softmax(outputs.logits, axis=1), -outputs.logits.max(axis=1)


def mahalanobis(setting: Setting, outputs: Outputs) -> Scores:
    train, labels = setting.fit["train"].features.astype(np.float64), setting.task.fit.train.labels
    means = np.stack([train[labels == label].mean(axis=0) for label in np.unique(labels)])
    shared = EmpiricalCovariance(assume_centered=True).fit(train - means[labels])
    shared._set_covariance(shared.covariance_ + 1e-6 * np.eye(train.shape[1]))
    queries = outputs.features.astype(np.float64)
    return softmax(outputs.logits, axis=1), np.min([shared.mahalanobis(queries - mean) for mean in means], axis=0)


def knn(setting: Setting, outputs: Outputs) -> Scores:
    bank, queries = (
        rows.astype(np.float64) / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
        for rows in (setting.fit["train"].features, outputs.features)
    )
    distances, _ = NearestNeighbors(n_neighbors=50, algorithm="brute").fit(bank).kneighbors(queries)
    return softmax(outputs.logits, axis=1), distances[:, -1]


def vim(setting: Setting, outputs: Outputs) -> Scores:
    weights = setting.trainer.network(setting.task.fit).tensors()
    matrix, bias = weights["head.linear.weight"].astype(np.float64), weights["head.linear.bias"].astype(np.float64)
    origin = -np.linalg.lstsq(matrix, bias, rcond=None)[0]
    train = setting.fit["train"]
    around = train.features.astype(np.float64) - origin
    # PCA around the origin, not the mean: the rows and their mirror images have mean zero.
    axes = PCA(svd_solver="covariance_eigh").fit(np.concatenate([around, -around])).components_
    minor = axes[around.shape[1] - around.shape[1] // 2 :]
    alpha = train.logits.max(axis=1).mean() / np.linalg.norm(around @ minor.T, axis=1).mean()
    residual = np.linalg.norm((outputs.features - origin) @ minor.T, axis=1)
    return softmax(outputs.logits, axis=1), alpha * residual - logsumexp(outputs.logits, axis=1)


PEERS: dict[str, Callable[[Setting, Outputs], Scores]] = {
    "softmax": max_softmax,
    "temperature": temperature,
    "energy": energy,
    "max_logit": max_logit,
    "mahalanobis": mahalanobis,
    "knn": knn,
    "vim": vim,
}


@pytest.mark.parametrize("name", PEERS)
def test_scores_and_metrics_agree(setting: Setting, name: str) -> None:
    task = setting.task
    method = find_method(name).method.fit(task.fit, setting.trainer)
    network = setting.trainer.network(task.fit)
    inputs = {"test": task.test.inputs} | {key: part.inputs for key, part in task.ood.items()}
    ours = {key: method.predict(rows) for key, rows in inputs.items()}
    theirs = {key: PEERS[name](setting, network.outputs(rows)) for key, rows in inputs.items()}
    spread = float(np.std(theirs["test"][1]))
    for key, (probs, scores) in theirs.items():
        np.testing.assert_allclose(ours[key].probs, probs, atol=TOLERANCE)
        np.testing.assert_allclose(ours[key].ood_score, scores, rtol=TOLERANCE, atol=TOLERANCE * spread)
    ood_scores = {key: prediction.ood_score for key, prediction in ours.items() if key != "test"}
    printed = report(
        ours["test"].probs,
        task.test.labels,
        ours["test"].uncertainty,
        ood=ood_scores,
        id_ood_score=ours["test"].ood_score,
    )
    probs, known = theirs["test"]
    classes = np.arange(probs.shape[1])
    assert printed["test"]["nll"] == pytest.approx(log_loss(task.test.labels, probs, labels=classes), abs=TOLERANCE)
    for key in ood_scores:
        scores = np.concatenate([known, theirs[key][1]])
        is_ood = np.repeat([0, 1], [len(known), len(theirs[key][1])])
        assert printed[f"ood:{key}"]["auroc"] == pytest.approx(roc_auc_score(is_ood, scores), abs=TOLERANCE)
