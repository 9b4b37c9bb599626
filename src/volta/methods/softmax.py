"""The plain network: softmax probabilities, uncertainty 1 − max p (MSP)."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax_and_doubt
from volta.networks.outputs import Outputs


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
