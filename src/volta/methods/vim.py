"""ViM: how far a vector lies outside the training data's main subspace, weighed against its energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import row_max, softmax_and_energy
from volta.methods.subspaces import MinorSpace, fit_minor_space
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Vim(PostHoc):
    """u = α |Rᵀ(f − o)| − log Σ_k exp(l_k).

    o = −W⁺ b is the origin for which the last layer (W, b) has no bias; R spans the minor half of the training
    vectors' principal directions around o; α makes the residual as large as the maximum logit on average over them.
    Reference: Wang et al. (2022), ViM: Out-Of-Distribution with Virtual-logit Matching.
    """

    title = "ViM"
    origin = "extra"
    learned_types = (MinorSpace,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the origin, the residual space and α on the training rows."""
        train = outputs.of("train").outputs
        features, layer = train.need_features(), train.need_last_layer()
        origin = -np.linalg.pinv(layer.weight.astype(np.float64)) @ layer.bias.astype(np.float64)
        self.minor_ = fit_minor_space(features, origin)
        residual = self.minor_.mean_length(features)
        self.alpha_ = float(row_max(train.logits).mean() / residual) if residual > 0.0 else 0.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the virtual-logit score."""
        probs, free_energy = softmax_and_energy(outputs.logits)
        return Prediction(probs, self.alpha_ * self.minor_.lengths(outputs.need_features()) + free_energy)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        residual = self.alpha_ * self.minor_.lengths_of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), residual + graphs.energy(outputs.logits))
