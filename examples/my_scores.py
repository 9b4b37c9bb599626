from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods.base import PostHoc
from volta.methods.scores import softmax
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Margin(PostHoc):
    """u = 1 − (p₁ − p₂), the gap between the two most probable classes; p = softmax(l / T)."""

    title = "Margin"

    temperature: float = 1.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and one minus the margin."""
        probs = softmax(outputs.logits / self.temperature)
        top = np.sort(probs, axis=1)[:, -2:]
        return Prediction(probs, 1.0 - (top[:, 1] - top[:, 0]))


@dataclass
class Centroid(PostHoc):
    """u = distance of the penultimate vector to the nearest class mean of the training rows."""

    title = "Centroid"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the mean vector of each class."""
        train = outputs.of("train")  # also "val" and "cal": each has .outputs and .labels
        vectors = train.outputs.need_features()
        classes = range(train.outputs.n_classes)
        self.means_ = np.stack([vectors[train.labels == k].mean(axis=0) for k in classes])

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the smallest distance."""
        away = outputs.need_features()[:, None] - self.means_
        return Prediction(softmax(outputs.logits), np.linalg.norm(away, axis=2).min(axis=1))
