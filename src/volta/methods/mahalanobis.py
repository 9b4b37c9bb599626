"""Mahalanobis: squared distance of the penultimate vector to the nearest class mean."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.gaussians import Gaussians, fit_gaussians
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Mahalanobis(PostHoc):
    """u = min_c (f − μ_c)ᵀ Λ (f − μ_c), Λ the pseudo-inverse of the pooled covariance + 1e-6·I; p = softmax(l).

    f is the penultimate vector, μ_c the class means of the training rows. No input perturbation, last layer only.
    Reference: Lee et al. (2018), A Simple Unified Framework for Detecting Out-of-Distribution Samples.
    """

    title = "Mahalanobis"
    origin = "paper"
    learned_types = (Gaussians,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit class means and the shared covariance on the training rows."""
        train = outputs.of("train")
        self.gaussians_ = fit_gaussians(train.outputs.need_features(), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the smallest squared distance."""
        uncertainty = self.gaussians_.squared_distances(outputs.need_features()).min(axis=1)
        return Prediction(softmax(outputs.logits), uncertainty)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        distances = self.gaussians_.squared_distances_of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), distances.amin(dim=1))
