"""Measure why OOD scores differ or fail on real features: the figures that docs/results.md quotes.

Run with: VOLTA_DATA=DIR python docs/results/diagnose.py
Trains three networks (seed 42, a minute or two each) and prints what the scores are made of.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Task
from volta.data import find_task
from volta.methods import find_method
from volta.methods.scores import energy, entropy, one_minus_max_softmax, softmax
from volta.metrics import auroc
from volta.networks.trainer import Trainer

SEED = 42
OOD_CLASSES = "classes_100_199"


def confidence(task: Task) -> None:
    """MSP on CIFAR-10 under ``fair``: what softening the softmax does, on all known rows and on those it gets right."""
    trainer = Trainer(seed=SEED)
    method, network = find_method("temperature").method.fit(task.fit, trainer), trainer.network(task.fit)
    known, ood = (network.outputs(rows).logits for rows in (task.test.inputs, task.ood["cifar100"].inputs))
    right = known.argmax(axis=1) == task.test.labels
    cool = method.beta_
    scores: dict[str, Callable[[NDArray[np.float64]], NDArray[np.float64]]] = {
        "1 - max softmax": one_minus_max_softmax,
        "1 - max softmax, tempered": lambda logits: one_minus_max_softmax(logits, cool),
        "entropy": lambda logits: entropy(softmax(logits)),
        "entropy, tempered": lambda logits: entropy(softmax(logits, cool)),
        "energy": energy,
    }
    print(f"CIFAR-10 against CIFAR-100, fair: T = {1 / cool:.2f}, {right.mean():.3f} of the known rows right")
    for name, score in scores.items():
        of_known, of_ood = score(known), score(ood)
        print(f"  {name}: AUROC {auroc(of_known, of_ood):.3f}, right rows {auroc(of_known[right], of_ood):.3f}")


def vim(task: Task) -> None:
    """ViM under ``fair``: how many directions the vectors fill, and what each half of the score tells alone."""
    trainer = Trainer(seed=SEED)
    method, network = find_method("vim").method.fit(task.fit, trainer), trainer.network(task.fit)
    outputs = [network.outputs(rows) for rows in (task.test.inputs, task.ood[OOD_CLASSES].inputs)]
    free = [energy(part.logits) for part in outputs]
    residual = [method.predict_outputs(part).ood_score - own for part, own in zip(outputs, free, strict=True)]
    vectors = outputs[0].need_features().astype(np.float64)
    spectrum = np.linalg.eigvalsh(np.cov(vectors.T))[::-1]
    print(f"ViM, fair: vectors of {vectors.shape[1]} values, {(spectrum > 1e-9 * spectrum[0]).sum()} directions filled")
    print(f"  alpha {method.alpha_:.0f}, residual {residual[0].mean() / method.alpha_:.3f} long", end=", ")
    print(f"vectors {np.sqrt((vectors**2).sum(axis=1).mean()):.1f} long")
    print(f"  AUROC of the residual {auroc(*residual):.3f}, of the energy {auroc(*free):.3f}")


def mahalanobis(task: Task) -> None:
    """Mahalanobis under ``paper``: whether length decides it, by this page's own formula, with and without length."""
    trainer = Trainer(seed=SEED, protocol="paper")
    method, network = find_method("mahalanobis").method.fit(task.fit, trainer), trainer.network(task.fit)
    sets = (task.test.inputs, task.ood[OOD_CLASSES].inputs)
    known, ood = (network.outputs(rows).need_features().astype(np.float64) for rows in sets)
    train = network.outputs(task.fit.train.inputs).need_features().astype(np.float64)
    lengths = [np.linalg.norm(part, axis=1) for part in (known, ood)]
    scores = [method.predict(rows).ood_score for rows in sets]
    correlation = np.corrcoef(np.concatenate(lengths), np.concatenate(scores))[0, 1]
    print("Mahalanobis, paper")
    print(f"  vectors {lengths[0].mean():.1f} long, OOD ones {lengths[1].mean():.1f}", end=", ")
    print(f"correlation of length and score {correlation:.2f}")
    labels = task.fit.train.labels
    print(f"  AUROC {auroc(*scores):.3f}, by the formula here", end=" ")
    print(f"{auroc(*distances(train, labels, known, ood)):.3f}", end=", ")
    print(f"of vectors scaled to length 1 {auroc(*distances(unit(train), labels, unit(known), unit(ood))):.3f}")


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
    confidence(find_task("cifar10").load("features"))
    tiny = find_task("tinyimagenet").load("features")
    vim(tiny)
    mahalanobis(tiny)
