"""Temperature scaling: one T fitted on validation rows."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scaling import fit_temperature
from volta.methods.scores import entropy, softmax
from volta.networks.outputs import FitOutputs, Outputs


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
        val = outputs.of("val")
        self.beta_ = fit_temperature(val.outputs.logits, val.labels, weights=val.weights).beta

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the scaled softmax and its entropy."""
        probs = softmax(outputs.logits, self.beta_)
        return Prediction(probs, entropy(probs))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        probs = (self.beta_ * outputs.logits).softmax(dim=1)
        return graphs.prediction(probs, graphs.entropy(probs))
