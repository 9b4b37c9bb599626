"""Relative Mahalanobis: distance to the nearest class minus distance to all of the training data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.gaussians import Gaussians, fit_gaussians
from volta.methods.scores import softmax
from volta.networks.network import Outputs


@dataclass
class Rmds(PostHoc):
    """u = min_c M_c(f) − M_0(f): squared Mahalanobis distances to the classes and to one Gaussian over all rows.

    Reference: Ren et al. (2021), A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection.
    """

    title = "Relative Mahalanobis"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class Gaussians and the background one on the training rows."""
        features, labels = outputs.of("train").penultimate, outputs.data.train.labels
        self.gaussians_ = [
            (fitted.centre, fitted.whitening, fitted.means)
            for fitted in (fit_gaussians(features, labels), fit_gaussians(features, np.zeros_like(labels)))
        ]

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the relative distance."""
        classes, background = (Gaussians(*parts).squared_distances(outputs.penultimate) for parts in self.gaussians_)
        uncertainty = classes.min(axis=1) - background[:, 0]
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)
