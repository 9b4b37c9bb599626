"""Vector scaling: a scale and a bias per class fitted on validation rows."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.checks import check_number
from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scaling import fit_tempered_vector_scaling
from volta.methods.scores import entropy, softmax
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class VectorScaling(PostHoc):
    """p = softmax(a ⊙ l + b), a and b (K,) minimising the validation NLL + λ (|a/β − 1|² + |b|²); u = entropy.

    β = 1/T is the one temperature of the n rows, fitted first; what differs from it between the K classes is penalised
    by λ = ridge · K/n, which keeps the optimum finite, and near temperature scaling where rows are few for the classes.
    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title = "Vector scaling"
    origin = "extra"

    ridge: float = 1.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_number(self.ridge, "ridge", zero=True)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit scales and biases on the validation rows."""
        val = outputs.of("val")
        self.scale_, self.bias_ = fit_tempered_vector_scaling(val.outputs.logits, val.labels, self.ridge, val.weights)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the scaled softmax and its entropy."""
        probs = softmax(outputs.logits * self.scale_ + self.bias_)
        return Prediction(probs, entropy(probs))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        logits = outputs.logits * graphs.constant(self.scale_) + graphs.constant(self.bias_)
        probs = logits.softmax(dim=1)
        return graphs.prediction(probs, graphs.entropy(probs))
