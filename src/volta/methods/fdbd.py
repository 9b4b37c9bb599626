"""Scores of the last layer's geometry: fDBD and NCI."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods.base import PostHoc, at_least_0, checked
from volta.methods.scores import Floats, at_labels, cached_slices, column_means, distances_from, row_sums, softmax
from volta.networks.outputs import FitOutputs, Outputs

_TINY = 1e-12
_ROUNDING = 1e-7


@dataclass
class Fdbd(PostHoc):
    """u = −(1/(K − 1)) Σ_{c≠ŷ} (l_ŷ − l_c) / ‖w_ŷ − w_c‖ ÷ ‖f − μ‖; p = softmax(l).

    Each summand is the distance of f to the boundary between the predicted class ŷ and class c of the last layer with
    rows w_c; μ is the mean of the training vectors. Classes of equal w share no boundary and add 0.
    Reference: Liu & Qin (2024), Fast Decision Boundary based Out-of-Distribution Detector.
    """

    title = "fDBD"
    origin = "extra"
    standard = False

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the training mean and the distances between the last layer's rows."""
        train = outputs.of("train").outputs
        self.mean_ = column_means(train.need_features())
        weight = train.need_last_layer().weight.astype(np.float64)
        squares = (weight**2).sum(axis=1)
        between = np.sqrt(np.maximum(squares[:, None] + squares - 2.0 * weight @ weight.T, 0.0))
        # Between equal rows rounding of the products leaves the root of it, not 0.
        apart = between > _ROUNDING * np.sqrt(squares[:, None] + squares)
        self.inverse_ = np.where(apart, 1.0 / np.maximum(between, _TINY), 0.0)
        np.fill_diagonal(self.inverse_, 0.0)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated relative distance."""
        features, logits = outputs.need_features(), outputs.logits
        near: Floats = np.empty(len(logits))
        for rows in cached_slices(logits):
            top = logits[rows].argmax(axis=1)
            gaps = at_labels(logits[rows], top)[:, None] - logits[rows]
            near[rows] = np.einsum("ij,ij->i", gaps, self.inverse_[top]) / max(1, outputs.n_classes - 1)
        away = distances_from(features, self.mean_)
        return Prediction(softmax(logits), -near / np.maximum(away, _TINY))


@dataclass
class Nci(PostHoc):
    """u = −w_ŷ·(f − μ)/‖f − μ‖ − α ‖f‖₁; p = softmax(l).

    ŷ is the predicted class, w_ŷ its row of the last layer, μ the mean of the training vectors. The second term marks
    vectors near the origin. Departure: α is fixed; the authors tune it on OOD rows, which nothing here may see.
    Reference: Liu & Qin (2025), Detecting Out-of-Distribution Through the Lens of Neural Collapse.
    """

    title = "NCI"
    origin = "extra"
    standard = False
    checks = checked(alpha=at_least_0)

    alpha: float = 1e-3

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the training mean and the last layer's weight."""
        train = outputs.of("train").outputs
        self.mean_ = column_means(train.need_features())
        self.weight_ = train.need_last_layer().weight.astype(np.float64)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated agreement."""
        features, top = outputs.need_features(), outputs.logits.argmax(axis=1)
        uncertainty: Floats = np.empty(len(outputs))
        for rows in cached_slices(features):
            vectors = features[rows].astype(np.float64)
            centred = vectors - self.mean_
            along = np.einsum("ij,ij->i", centred, self.weight_[top[rows]])
            along /= np.maximum(np.sqrt(np.einsum("ij,ij->i", centred, centred)), _TINY)
            uncertainty[rows] = -along - self.alpha * row_sums(np.abs(vectors, out=vectors))
        return Prediction(softmax(outputs.logits), uncertainty)
