"""Energy: the free energy of the logits as uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.scores import energy, softmax
from volta.networks.network import Outputs


@dataclass
class Energy(PostHoc):
    """p = softmax(l); u = −log Σ_k exp(l_k), higher where more OOD.

    Reference: Liu et al. (2020), Energy-based Out-of-distribution Detection.
    """

    title = "Energy"
    origin = "paper"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Learn nothing beyond the network."""

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy."""
        uncertainty = energy(outputs.logits)
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)
