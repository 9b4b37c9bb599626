"""Maximum logit: the largest logit, negated, as uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.scores import softmax
from volta.networks.network import Outputs


@dataclass
class MaxLogit(PostHoc):
    """p = softmax(l); u = −max_k l_k.

    Reference: Hendrycks et al. (2022), Scaling Out-of-Distribution Detection for Real-World Settings.
    """

    title = "Max logit"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Learn nothing beyond the network."""

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated largest logit."""
        uncertainty = -outputs.logits.max(axis=1)
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)
