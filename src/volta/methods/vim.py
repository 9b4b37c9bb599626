"""ViM: how far a vector lies outside the training data's main subspace, weighed against its energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Array, Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.gaussians import second_moment
from volta.methods.scores import Floats, energy, softmax
from volta.networks.network import Outputs


@dataclass
class Vim(PostHoc):
    """u = α |Rᵀ(f − o)| − log Σ_k exp(l_k).

    o = −W⁺ b is the origin for which the last layer (W, b) has no bias; R spans the minor half of the training
    vectors' principal directions around o; α makes the residual as large as the maximum logit on average over them.
    Reference: Wang et al. (2022), ViM: Out-Of-Distribution with Virtual-logit Matching.
    """

    title = "ViM"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the origin, the residual space and α on the training rows."""
        weights = self.network_.tensors()
        matrix, bias = (weights[f"head.linear.{name}"].astype(np.float64) for name in ("weight", "bias"))
        train = outputs.of("train")
        self.origin_ = -np.linalg.pinv(matrix) @ bias
        _, vectors = np.linalg.eigh(second_moment(train.penultimate, self.origin_))
        self.residual_space_ = np.ascontiguousarray(vectors[:, : max(1, vectors.shape[1] // 2)])
        residual = self._residual(train.penultimate).mean()
        self.alpha_ = float(train.logits.max(axis=1).mean() / residual) if residual > 0.0 else 0.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the virtual-logit score."""
        uncertainty = self.alpha_ * self._residual(outputs.penultimate) + energy(outputs.logits)
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)

    def _residual(self, features: Array) -> Floats:
        projected = (features.astype(np.float64) - self.origin_) @ self.residual_space_
        return np.asarray(np.sqrt((projected**2).sum(axis=1)))
