"""Scores of logits: MSP, maximum logit, MaxLogit-pNorm, GEN, KL matching."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_number
from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, checked
from volta.methods.scores import (
    Floats,
    cached_slices,
    one_minus_max_softmax,
    row_max,
    row_sums,
    softmax,
    softmax_and_doubt,
)
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Softmax(PostHoc):
    """Maximum softmax probability of the shared network: u = 1 − max_k softmax(l)_k.

    Reference: Hendrycks & Gimpel (2017), A Baseline for Detecting Misclassified and Out-of-Distribution Examples.
    """

    title = "Softmax (MSP)"
    origin = "extra"

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and its complement of the maximum."""
        return Prediction(*softmax_and_doubt(outputs.logits))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        return graphs.prediction(outputs.logits.softmax(dim=1), graphs.one_minus_max_softmax(outputs.logits))


@dataclass
class MaxLogit(PostHoc):
    """p = softmax(l); u = −max_k l_k.

    Reference: Hendrycks et al. (2022), Scaling Out-of-Distribution Detection for Real-World Settings.
    """

    title = "Max logit"
    origin = "extra"

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated largest logit."""
        return Prediction(softmax(outputs.logits), -row_max(outputs.logits))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        return graphs.prediction(outputs.logits.softmax(dim=1), -outputs.logits.amax(dim=1))


_TINY = 1e-300


@dataclass
class MaxlogitPnorm(PostHoc):
    """u = −max_k z_k / ‖z‖_p, z = l − mean_k l; p = softmax(l).

    The norm's p is the one of 1 … ``largest_p`` with the lowest risk, averaged over coverages (AURC), on validation
    rows. 1 − max p is used instead where no p is better, as the authors do: with two classes u is constant for every
    p, and without an error among the validation rows there is nothing to choose by.
    Reference: Cattelan & Silva (2024), How to Fix a Broken Confidence Estimator.
    """

    title = "MaxLogit-pNorm"
    origin = "extra"
    standard = False
    checks = checked(largest_p=check_count)

    largest_p: int = 10

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Choose p on the validation rows."""
        val = outputs.of("val")
        wrong = val.outputs.logits.argmax(axis=1) != val.labels
        choices: tuple[int | None, ...] = (None, *range(1, self.largest_p + 1))
        self.p_ = min(choices, key=lambda p: _mean_risk(pnorm_doubt(val.outputs.logits, p), wrong))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the normalised maximum logit, negated."""
        return Prediction(softmax(outputs.logits), pnorm_doubt(outputs.logits, self.p_))


def pnorm_doubt(logits: Floats, p: int | None) -> Floats:
    """Return −max z / ‖z‖_p of centred logits z; 1 − max softmax where p is None or there are two classes."""
    if p is None or logits.shape[1] < 3:
        return one_minus_max_softmax(logits)
    centred = logits - logits.mean(axis=1, keepdims=True)
    largest = np.maximum(np.abs(centred).max(axis=1, keepdims=True), _TINY)
    norms = ((np.abs(centred) / largest) ** p).sum(axis=1) ** (1.0 / p)
    return np.asarray(-(centred.max(axis=1) / largest[:, 0]) / np.maximum(norms, _TINY))


def _mean_risk(doubt: Floats, wrong: NDArray[np.bool_]) -> float:
    """Return the mean over i of the share of errors among the i most certain rows, equal rows sharing their errors."""
    _, ties, counts = np.unique(doubt, return_inverse=True, return_counts=True)
    shared = np.repeat(np.bincount(ties, weights=wrong) / counts, counts)
    return float((shared.cumsum() / np.arange(1, len(shared) + 1)).mean())


@dataclass
class Gen(PostHoc):
    """u = Σ_k [p_k (1 − p_k)]^γ over the ``top`` largest probabilities; p = softmax(l).

    ``top`` cuts off the long tail of improbable classes, which a small γ would make count as much as probable ones.
    1 − max p is summed from the other classes, so that it does not vanish where max p rounds to 1.
    Reference: Liu et al. (2023), GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection.
    """

    title = "GEN"
    origin = "extra"
    standard = False
    checks = checked(gamma=check_number, top=check_count)

    gamma: float = 0.1
    top: int = 100

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and its generalised entropy."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        return Prediction(probs, generalised_entropy(probs, doubt, self.gamma, self.top))


def generalised_entropy(probs: Floats, doubt: Floats, gamma: float, top: int) -> Floats:
    """Return Σ [p (1 − p)]^γ over each row's ``top`` largest p; ``doubt`` is 1 − max p without cancellation."""
    summed: Floats = np.empty(len(probs))
    n_tail = max(0, probs.shape[1] - top)
    for rows in cached_slices(probs):
        largest = np.partition(probs[rows], n_tail, axis=1)[:, n_tail:] if n_tail else probs[rows]
        rest = np.where(largest < row_max(largest)[:, None], 1.0 - largest, doubt[rows, None])
        rest *= largest
        summed[rows] = row_sums(rest**gamma)
    return summed


@dataclass
class KlMatching(PostHoc):
    """u = min_k KL(p ‖ d_k), d_k the mean softmax of validation rows that are predicted as class k; p = softmax(l).

    Classes that no validation row is predicted as have no d_k. Logarithms are of probabilities of at least 1e-37.
    Reference: Hendrycks et al. (2022), Scaling Out-of-Distribution Detection for Real-World Settings.
    """

    title = "KL matching"
    origin = "extra"
    standard = False

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the templates of the validation rows."""
        probs = softmax(outputs.of("val").outputs.logits)
        top = probs.argmax(axis=1)
        self.templates_ = np.stack([probs[top == k].mean(axis=0) for k in np.unique(top)])

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the divergence from the nearest template."""
        probs = softmax(outputs.logits)
        cross = probs @ np.log(np.maximum(self.templates_, graphs.SMALLEST)).T
        own = row_sums(probs * np.log(np.maximum(probs, graphs.SMALLEST)))
        return Prediction(probs, np.maximum(own - row_max(cross), 0.0))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = outputs.logits.softmax(dim=1)
        cross = probs @ graphs.constant(np.log(np.maximum(self.templates_, graphs.SMALLEST)).T)
        own = (probs * probs.clamp(min=graphs.SMALLEST).log()).sum(dim=1)
        return graphs.prediction(probs, (own - cross.amax(dim=1)).clamp(min=0.0))
