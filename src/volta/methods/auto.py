"""Methods that differ in kind, joined in log space by weights of held-out log loss."""

from __future__ import annotations

import copy
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_number
from volta.core.types import Array, FitData, Prediction, Split
from volta.methods import graphs
from volta.methods.base import Method, checked, optional
from volta.methods.linear import Linear
from volta.methods.scores import Floats, one_minus_max_softmax, softmax
from volta.methods.trees import BoostedTrees, RandomForest
from volta.methods.volta_plus import VoltaPlus
from volta.networks.trainer import Trainer, need_features

if TYPE_CHECKING:
    from torch import Tensor

CANDIDATES: tuple[type[Method], ...] = (Linear, RandomForest, BoostedTrees, VoltaPlus)
"""Cheapest first, which is the order that a limit of seconds takes them in."""

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


@dataclass
class Auto(Method):
    """p = softmax(Σ_m w_m log p_m) over methods that differ in kind; u = 1 − max p, and the OOD score is u.

    The candidates are a linear probe, a random forest, boosted trees and VOLTA+, each calibrated by itself. The weights
    w ≥ 0 minimise the log loss on validation samples, which no candidate trained on (`fit_weights`); candidates without
    weight are dropped. A cross-fitted classifier pools the validation samples of all its fits for this.
    Reference: Wolpert (1992), Stacked Generalization; Genest and Zidek (1986), Combining Probability Distributions, on
    pools in log space.

    Parameters
    ----------
    max_seconds
        Candidates are fitted cheapest first and none begins later than this; ``left_out_`` names those left out.
    """

    title = "Auto"
    origin = "extra"
    paper_inputs = "features"
    standard = False
    learned_types = (*CANDIDATES, *(kind for method in CANDIDATES for kind in method.learned_types))
    checks = checked(max_seconds=optional(check_number))

    max_seconds: float | None = None

    def _fit(self, data: FitData, trainer: Trainer) -> None:
        need_features(data)
        started = time.perf_counter()
        self.members_: list[Method] = []
        self.left_out_: list[str] = []
        for kind in CANDIDATES:
            if self.members_ and self.max_seconds is not None and time.perf_counter() - started > self.max_seconds:
                self.left_out_.append(kind.title)
            else:
                self.members_.append(kind().fit(data, trainer))
        self.weights_ = fit_weights(self.log_probs(data.val.inputs), data.val.labels, data.val.weights)

    def log_probs(self, inputs: Array) -> Floats:
        """Return (n, M, K) log-probabilities of the candidates."""
        probs = np.stack([member.predict(inputs).probs for member in self.members_], axis=1)
        return np.asarray(np.log(np.maximum(probs, SMALLEST_PROBABILITY)))

    def _predict(self, inputs: Array) -> Prediction:
        used = self.reweighed(self.weights_)
        logits = np.einsum("m,nmk->nk", used.weights_, used.log_probs(inputs))
        return Prediction(softmax(logits), one_minus_max_softmax(logits))

    def reweighed(self, weights: Floats) -> Auto:
        """Return the same fit with other weights; candidates without weight are dropped."""
        found = copy.copy(self)
        kept = np.flatnonzero(weights)
        found.members_, found.weights_ = [self.members_[place] for place in kept.tolist()], weights[kept]
        return found

    def graph(self) -> graphs.MethodGraph:
        """Return the candidates' networks and the formula on all their outputs, for ONNX graphs."""
        parts = [member.graph() for member in self.members_ if isinstance(member, graphs.HasGraph)]
        ends = np.cumsum([len(part.networks) for part in parts]).tolist()
        weights = self.weights_.tolist()

        def formula(inputs: Tensor, outputs: list[graphs.TensorOutputs]) -> graphs.TensorPrediction:
            import torch

            logs = []
            for part, end, weight in zip(parts, ends, weights, strict=True):
                probs = part.formula(inputs, outputs[end - len(part.networks) : end]).probs
                logs.append(weight * probs.clamp(min=SMALLEST_PROBABILITY).log())
            logits = torch.stack(logs).sum(dim=0)
            return graphs.prediction(logits.softmax(dim=1), graphs.one_minus_max_softmax(logits))

        return graphs.MethodGraph([network for part in parts for network in part.networks], formula)


def pool_weights(
    fits: Sequence[Auto],
    held_out: Sequence[Split],
    rows: Sequence[NDArray[np.int64]],
    unseen: Sequence[NDArray[np.int64]],
) -> list[Auto]:
    """Return the fits with weights from the validation samples of all of them, but those that calibrate the fit.

    ``held_out``: each fit's validation samples as it takes them, ``rows`` their numbers; ``unseen``: the numbers of the
    samples that calibrate each fit.
    """
    logs = np.concatenate([fit.log_probs(split.inputs) for fit, split in zip(fits, held_out, strict=True)])
    labels = np.concatenate([split.labels for split in held_out])
    counts = np.concatenate([np.ones(len(split)) if split.weights is None else split.weights for split in held_out])
    numbers = np.concatenate(rows)
    found = []
    for fit, own in zip(fits, unseen, strict=True):
        used = ~np.isin(numbers, own)
        found.append(fit.reweighed(fit_weights(logs[used], labels[used], counts[used])))
    return found
