"""MaxLogit-pNorm: the maximum of centred logits over their p-norm, for selective prediction."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count
from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, one_minus_max_softmax, softmax
from volta.networks.outputs import FitOutputs, Outputs

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

    largest_p: int = 10

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_count(self.largest_p, "largest_p")

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
