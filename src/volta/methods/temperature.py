"""Temperature scaling: one T fitted on validation rows."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.scaling import fit_temperature
from volta.methods.scores import entropy, softmax
from volta.networks.network import Outputs


@dataclass
class Temperature(PostHoc):
    """p = softmax(l/T) with T > 0 minimising the validation NLL; u = entropy of p.

    Departure from the paper: T is found by a safeguarded Newton method in 1/T, which is convex, instead of L-BFGS in T.
    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title = "Temperature scaling"
    origin = "paper"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit 1/T on the validation rows."""
        self.beta_ = fit_temperature(outputs.of("val").logits, outputs.data.val.labels).beta

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the scaled softmax and its entropy."""
        probs = softmax(outputs.logits, self.beta_)
        uncertainty = entropy(probs)
        return Prediction(probs, uncertainty, ood_score=uncertainty)
