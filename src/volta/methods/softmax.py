"""The plain network: softmax probabilities, uncertainty 1 − max p (MSP)."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.scores import one_minus_max_softmax, softmax
from volta.networks.network import Outputs


@dataclass
class Softmax(PostHoc):
    """Maximum softmax probability of the shared network: u = 1 − max_k softmax(l)_k.

    Reference: Hendrycks & Gimpel (2017), A Baseline for Detecting Misclassified and Out-of-Distribution Examples.
    """

    title = "Softmax (MSP)"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Learn nothing beyond the network."""

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and its complement of the maximum."""
        uncertainty = one_minus_max_softmax(outputs.logits)
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)
