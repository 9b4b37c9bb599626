"""Maximum logit: the largest logit, negated, as uncertainty."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import row_max, softmax
from volta.networks.outputs import Outputs


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
