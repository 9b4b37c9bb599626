"""Relative Mahalanobis: distance to the nearest class minus distance to all of the training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods import graphs
from volta.methods.gaussians import Gaussians, fit_gaussians
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
    learned_types = (Gaussians,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class Gaussians and the background one on the training rows."""
        train = outputs.of("train")
        features = train.outputs.need_features()
        self.classes_ = fit_gaussians(features, train.labels)
        self.background_ = fit_gaussians(features, np.zeros_like(train.labels))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the relative distance."""
        nearest = self.classes_.squared_distances(outputs.need_features()).min(axis=1)
        uncertainty = nearest - self.background_.squared_distances(outputs.need_features())[:, 0]
        return Prediction(softmax(outputs.logits), uncertainty)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        nearest = self.classes_.squared_distances_of_tensors(outputs.features).amin(dim=1)
        background = self.background_.squared_distances_of_tensors(outputs.features)[:, 0]
        return graphs.prediction(outputs.logits.softmax(dim=1), nearest - background)
