"""MDS++: Mahalanobis distance of vectors of unit length."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.gaussians import Gaussians, fit_gaussians
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.methods.vectors import unit_rows
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class MdsPlus(PostHoc):
    """u = min_c (g − μ_c)ᵀ Λ (g − μ_c), g = f/‖f‖; p = softmax(l).

    μ_c and Λ are as in ``mahalanobis``, of the unit training vectors: lengths, which differ between classes, would
    spoil the one covariance they share.
    Reference: Müller & Hein (2025), Mahalanobis++: Improving OOD Detection via Feature Normalization.
    """

    title = "Mahalanobis++"
    origin = "extra"
    standard = False
    learned_types = (Gaussians,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class means and the covariance of the unit training vectors."""
        train = outputs.of("train")
        self.gaussians_ = fit_gaussians(unit_rows(train.outputs.need_features()), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the distance to the nearest class mean."""
        squared = self.gaussians_.squared_distances(unit_rows(outputs.need_features()))
        return Prediction(softmax(outputs.logits), squared.min(axis=1))
