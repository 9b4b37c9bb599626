"""Methods that differ in kind, joined in log space by weights of held-out log loss."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_number
from volta.core.seeding import rng
from volta.core.splits import all_of, duplicate_groups, first_of_each, stratified_folds
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods import graphs
from volta.methods.base import Method, checked, optional
from volta.methods.linear import Linear
from volta.methods.scores import Floats, one_minus_max_softmax, softmax
from volta.methods.trees import BoostedTrees, ExtraTrees
from volta.methods.volta_plus import VoltaPlus
from volta.networks.trainer import Trainer, need_features

if TYPE_CHECKING:
    from torch import Tensor

KINDS: tuple[type[Method], ...] = (Linear, ExtraTrees, BoostedTrees, VoltaPlus)
ENOUGH_TO_VALIDATE = 1000
"""With so many validation samples they weigh the candidates alone."""
MOST_WORK = 20_000_000
"""Trees are boosted where there are at most this many samples times columns times classes."""
MOST_BOOSTED = 500
"""So many trees are boosted of many classes."""

SMALLEST_PROBABILITY = 1e-12
NO_WEIGHT = 0.01
"""A candidate with less weight is left out."""

PRIOR_ROWS = 2.0
"""How many samples' worth of log loss weights are held to be equal with."""


def fit_weights(logs: Floats, labels: NDArray[np.int64], counts: Floats | None = None) -> Floats:
    """Return w ≥ 0 (M,) minimising Σ_i c_i [logsumexp_k(z_ik) − z_iy] + r M |w − 1/M|², z = Σ_m w_m log p_m.

    Convex in w; r are ``PRIOR_ROWS``. Weights below ``NO_WEIGHT`` become 0 and the others are fitted again.
    logs: (n, M, K) log-probabilities of M candidates for samples that none of them trained on; labels: (n,) class
    numbers; counts: (n,) how much a sample counts, 1 unless set.

    >>> right = np.log([[0.9, 0.1], [0.2, 0.8], [0.7, 0.3], [0.3, 0.7]])
    >>> logs = np.repeat(np.stack([right, right[::-1]], axis=1), 10, axis=0)
    >>> weights = fit_weights(logs, np.repeat([0, 1, 0, 1], 10))
    >>> bool(weights[0] > 1), float(weights[1])
    (True, 0.0)
    """
    from scipy.optimize import minimize

    n_candidates = logs.shape[1]
    counts = np.ones(len(labels)) if counts is None else counts
    index, equal = np.arange(len(labels)), 1.0 / n_candidates

    def loss(weights: Floats) -> tuple[float, Floats]:
        z = np.einsum("m,nmk->nk", weights, logs)
        shifted = z - z.max(axis=1, keepdims=True)
        probs = np.exp(shifted)
        total = probs.sum(axis=1)
        losses = np.log(total) - shifted[index, labels]
        expected = np.einsum("nk,nmk->nm", probs / total[:, None], logs)
        gap = weights - equal
        prior = PRIOR_ROWS * n_candidates
        gradient = counts @ (expected - logs[index, :, labels]) + 2 * prior * gap
        return float(counts @ losses + prior * gap @ gap), gradient

    used = np.ones(n_candidates, dtype=np.bool_)
    while True:
        bounds = [(0.0, None if each else 0.0) for each in used]
        found = minimize(loss, np.where(used, equal, 0.0), jac=True, method="L-BFGS-B", bounds=bounds)
        weights: Floats = np.asarray(found.x)
        little = used & (weights < NO_WEIGHT)
        if not little.any() or little.sum() == used.sum():
            return weights
        used &= ~little


def candidates(data: FitData) -> list[Method]:
    """Return methods that differ in kind, cheapest first: a limit of seconds takes them in this order."""
    n_stages = min(100, max(20, MOST_BOOSTED // data.n_classes))
    boosted = BoostedTrees(n_trees=n_stages, learning_rate=min(0.3, 10.0 / n_stages))
    cheap = len(data.train) * data.input_shape[0] * data.n_classes <= MOST_WORK
    network = VoltaPlus(partner=False, neighbours=False)
    return [Linear(), ExtraTrees(n_trees=50), *([boosted] if cheap else []), network]


@dataclass
class Auto(Method):
    """p = softmax(Σ_m w_m log p_m) over methods that differ in kind; u = 1 − max p, and the OOD score is u.

    The candidates are a linear probe, extra trees, boosted trees (not of very many samples times columns times classes)
    and the wide network of VOLTA+. Training and validation samples together are divided into folds, duplicates in one.
    Each candidate is fitted without each fold, which calibrates it, and p_m is the mean of these fits. The weights
    w ≥ 0 minimise the log loss of all samples, each as it is predicted without its fold (`fit_weights`); candidates
    without weight are dropped. With 1,000 validation samples or more there is one fit, and these alone give the
    weights.
    Reference: Wolpert (1992), Stacked Generalization; Genest and Zidek (1986), Combining Probability Distributions, on
    pools in log space; Breiman (1996), Bagging Predictors.

    Parameters
    ----------
    n_folds
        How many folds there are.
    max_seconds
        Candidates are fitted cheapest first and none begins later than this; ``left_out_`` names those left out.
    """

    title = "Auto"
    origin = "extra"
    paper_inputs = "features"
    standard = False
    learned_types = (*KINDS, *(kind for method in KINDS for kind in method.learned_types))
    checks = checked(n_folds=lambda value, name: check_count(value, name, least=2), max_seconds=optional(check_number))

    n_folds: int = 5
    max_seconds: float | None = None

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        started = time.perf_counter()
        folds = self._folds(data, trainer.seed)
        members: list[list[Method]] = []
        logs: list[Floats] = []
        self.left_out_: list[str] = []
        for candidate in candidates(data):
            if members and self.max_seconds is not None and time.perf_counter() - started > self.max_seconds:
                self.left_out_.append(candidate.title)
                continue
            members.append([copy.deepcopy(candidate).fit(fold, trainer) for fold in folds])
            pairs = zip(members[-1], folds, strict=True)
            logs.append(np.concatenate([log_probs([fit], fold.val.inputs) for fit, fold in pairs]))
        labels = np.concatenate([fold.val.labels for fold in folds])
        weighted = [np.ones(len(fold.val)) if fold.val.weights is None else fold.val.weights for fold in folds]
        weights = fit_weights(np.stack(logs, axis=1), labels, np.concatenate(weighted))
        kept = np.flatnonzero(weights)
        self.members_ = [members[place] for place in kept.tolist()]
        self.weights_ = weights[kept]

    def _folds(self, data: FitData, seed: int) -> list[FitData]:
        """Return the data as they are where validation samples are many, else without each fold, which validates."""
        if len(data.val) >= ENOUGH_TO_VALIDATE:
            return [data]
        whole = _joined(data.train, data.val)
        groups = duplicate_groups(whole.inputs, whole.labels)
        if groups is None:
            groups = np.arange(len(whole))
        labels = whole.labels[first_of_each(groups)]
        n_folds = min(self.n_folds, len(labels))
        found = []
        for drawn in stratified_folds(labels, n_folds, rng(seed, "auto", "folds")):
            held_out = all_of(groups, drawn)
            val = whole.take(held_out)
            found.append(
                replace(data, train=whole.take(np.setdiff1d(np.arange(len(whole)), held_out)), val=val, cal=val)
            )
        return found

    def _predict(self, inputs: Array) -> Prediction:
        logits = sum(
            weight * log_probs(fits, inputs) for fits, weight in zip(self.members_, self.weights_, strict=True)
        )
        return Prediction(softmax(np.asarray(logits)), one_minus_max_softmax(np.asarray(logits)))

    def graph(self) -> graphs.MethodGraph:
        """Return the candidates' networks and the formula on all their outputs, for ONNX graphs."""
        parts = [[fit.graph() for fit in fits if isinstance(fit, graphs.HasGraph)] for fits in self.members_]
        weights = self.weights_.tolist()

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            import torch

            logs, start = [], 0
            for fits, weight in zip(parts, weights, strict=True):
                probs = []
                for part in fits:
                    stop = start + len(part.networks)
                    probs.append(part.formula(inputs, outputs[start:stop]).probs)
                    start = stop
                mean = torch.stack(probs).mean(dim=0)
                logs.append(weight * mean.clamp(min=SMALLEST_PROBABILITY).log())
            logits = torch.stack(logs).sum(dim=0)
            return graphs.prediction(logits.softmax(dim=1), graphs.one_minus_max_softmax(logits))

        return graphs.MethodGraph([network for fits in parts for part in fits for network in part.networks], formula)


def log_probs(fits: Sequence[Method], inputs: Array) -> Floats:
    """Return (n, K), the logarithms of the mean probabilities of fits."""
    probs = np.mean([fit.predict(inputs).probs for fit in fits], axis=0)
    return np.asarray(np.log(np.maximum(probs, SMALLEST_PROBABILITY)))


def _joined(first: Split, second: Split) -> Split:
    """Return the samples of both; where only one part has weights, the other's are 1."""
    parts = (first, second)
    weights = None
    if any(part.weights is not None for part in parts):
        weights = np.concatenate([np.ones(len(part)) if part.weights is None else part.weights for part in parts])
    inputs = np.concatenate([np.asarray(part.inputs) for part in parts])
    return Split(inputs, np.concatenate([part.labels for part in parts]), weights)
