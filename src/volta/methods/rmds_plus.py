"""Relative MDS++: relative Mahalanobis distance of vectors of unit length."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.gaussians import Distances, Gaussians, fit_distances
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.methods.vectors import unit_rows
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class RmdsPlus(PostHoc):
    """u = min_c M_c(g) − M_0(g), g = f/‖f‖: ``rmds`` on unit vectors; p = softmax(l).

    Reference: Müller & Hein (2025), Mahalanobis++: Improving OOD Detection via Feature Normalization.
    """

    title = "Relative Mahalanobis++"
    origin = "extra"
    standard = False
    learned_types = (Distances, Gaussians)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class Gaussians and the background one on the unit training vectors."""
        train = outputs.of("train")
        self.distances_ = fit_distances(unit_rows(train.outputs.need_features()), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the relative distance."""
        _, relative = self.distances_.of(unit_rows(outputs.need_features()))
        return Prediction(softmax(outputs.logits), relative)
