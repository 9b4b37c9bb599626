"""Measure why two OOD scores fail on Tiny ImageNet's features: the figures that docs/results.md quotes.

Run with: VOLTA_DATA=DIR python docs/results/diagnose.py
Trains two networks (seed 42, a minute or two each) and prints what the scores are made of.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Task
from volta.data import find_task
from volta.methods import find_method
from volta.methods.scores import energy
from volta.metrics import auroc
from volta.networks.trainer import Trainer

SEED = 42
FOREIGN = "classes_100_199"


def vim(task: Task) -> None:
    """ViM under ``fair``: how long residuals are beside vectors, and what each half of the score tells alone."""
    trainer = Trainer(seed=SEED)
    method, network = find_method("vim").method.fit(task.fit, trainer), trainer.network(task.fit)
    outputs = [network.outputs(rows) for rows in (task.test.inputs, task.ood[FOREIGN].inputs)]
    free = [energy(part.logits) for part in outputs]
    residual = [method.predict_outputs(part).ood_score - own for part, own in zip(outputs, free, strict=True)]
    print("ViM, fair")
    print(f"  alpha {method.alpha_:.0f}, residual {residual[0].mean() / method.alpha_:.3f} long", end=", ")
    print(f"vectors {np.sqrt((outputs[0].penultimate ** 2).sum(axis=1).mean()):.1f} long")
    print(f"  AUROC of the residual {auroc(*residual):.3f}, of the energy {auroc(*free):.3f}")


def mahalanobis(task: Task) -> None:
    """Mahalanobis under ``paper``: whether length decides it, by this page's own formula, with and without length."""
    trainer = Trainer(seed=SEED, protocol="paper")
    method, network = find_method("mahalanobis").method.fit(task.fit, trainer), trainer.network(task.fit)
    sets = (task.test.inputs, task.ood[FOREIGN].inputs)
    known, foreign = (network.outputs(rows).penultimate.astype(np.float64) for rows in sets)
    train = network.outputs(task.fit.train.inputs).penultimate.astype(np.float64)
    lengths = [np.linalg.norm(part, axis=1) for part in (known, foreign)]
    scores = [method.predict(rows).ood_score for rows in sets]
    correlation = np.corrcoef(np.concatenate(lengths), np.concatenate(scores))[0, 1]
    print("Mahalanobis, paper")
    print(f"  vectors {lengths[0].mean():.1f} long, foreign ones {lengths[1].mean():.1f}", end=", ")
    print(f"correlation of length and score {correlation:.2f}")
    labels = task.fit.train.labels
    print(f"  AUROC {auroc(*scores):.3f}, by the formula here", end=" ")
    print(f"{auroc(*distances(train, labels, known, foreign)):.3f}", end=", ")
    print(f"of vectors scaled to length 1 {auroc(*distances(unit(train), labels, unit(known), unit(foreign))):.3f}")


def unit(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows scaled to length 1."""
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def distances(
    train: NDArray[np.float64], labels: NDArray[np.int64], *sets: NDArray[np.float64]
) -> list[NDArray[np.float64]]:
    """Return each row's squared distance to the nearest class mean, in units of the pooled covariance."""
    means = np.stack([train[labels == label].mean(axis=0) for label in range(labels.max() + 1)])
    centred = train - means[labels]
    whiten = np.linalg.cholesky(np.linalg.inv(centred.T @ centred / len(centred) + 1e-6 * np.eye(train.shape[1])))
    return [
        np.min([(((rows - mean) @ whiten) ** 2).sum(axis=1) for mean in means], axis=0)  # one class at a time
        for rows in sets
    ]


if __name__ == "__main__":
    tiny = find_task("tinyimagenet").load("features")
    vim(tiny)
    mahalanobis(tiny)
