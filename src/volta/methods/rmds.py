"""Relative Mahalanobis: distance to the nearest class minus distance to all of the training data."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.gaussians import Distances, Gaussians, fit_distances
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Rmds(PostHoc):
    """u = min_c M_c(f) − M_0(f): squared Mahalanobis distances to the classes and to one Gaussian over all rows.

    Reference: Ren et al. (2021), A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection.
    """

    title = "Relative Mahalanobis"
    origin = "extra"
    learned_types = (Distances, Gaussians)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class Gaussians and the background one on the training rows."""
        train = outputs.of("train")
        self.distances_ = fit_distances(train.outputs.need_features(), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the relative distance."""
        _, relative = self.distances_.of(outputs.need_features())
        return Prediction(softmax(outputs.logits), relative)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        _, relative = self.distances_.of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), relative)
