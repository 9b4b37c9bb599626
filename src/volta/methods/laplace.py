"""Laplace: a Gaussian over the last layer's weights, its spread turned into softer probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc
from volta.methods.mahalanobis import CHUNK_ROWS
from volta.methods.scores import Floats, at_labels, entropy, row_slices, softmax
from volta.networks.outputs import FitOutputs, Outputs

PRIOR_PRECISIONS = tuple(float(value) for value in np.logspace(-4, 4, 33))


@dataclass
class Laplace(PostHoc):
    """p = softmax(l_k / √(1 + π v_k/8)), v_k the variance of logit k under a Gaussian over the last layer's weights.

    Precision of the weights = A ⊗ B + δ·I: A = Σ_i φ_i φ_iᵀ over training rows with φ = (f, 1), B = mean_i (diag p_i −
    p_i p_iᵀ), kept by eigenvectors, so memory and time are linear in rows and never (w·K)². δ minimises the validation
    NLL over 33 values from 1e-4 to 1e4. u = entropy of p.
    Reference: Daxberger et al. (2021), Laplace Redux; Ritter et al. (2018) for the Kronecker form.
    """

    title = "Laplace (last layer)"
    origin = "extra"

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Gather the two factors on training rows and choose the prior precision on validation rows."""
        train, val = outputs.of("train").outputs, outputs.of("val")
        features = train.need_features()
        width = features.shape[1] + 1
        moment = np.zeros((width, width))
        curvature = np.zeros((train.n_classes, train.n_classes))
        for rows in row_slices(train.logits, CHUNK_ROWS):
            extended = _with_one(features[rows])
            probs = softmax(train.logits[rows])
            moment += extended.T @ extended
            curvature += np.diag(probs.sum(axis=0)) - probs.T @ probs
        self.feature_values_, self.feature_vectors_ = np.linalg.eigh(moment)
        self.class_values_, self.class_vectors_ = np.linalg.eigh(curvature / len(train))
        losses = []
        squares = self._rotated_squares(val.outputs.need_features())
        for precision in PRIOR_PRECISIONS:
            self.precision_ = precision
            probs = softmax(_softened(val.outputs.logits, squares @ self._spread()))
            loss = -np.log(np.maximum(at_labels(probs, val.labels), 1e-300))
            losses.append(np.average(loss, weights=val.weights))
        self.precision_ = PRIOR_PRECISIONS[int(np.argmin(losses))]

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softened probabilities and their entropy."""
        probs = softmax(_softened(outputs.logits, self.logit_variance(outputs.need_features())))
        return Prediction(probs, entropy(probs))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        rotated = outputs.features @ graphs.constant(self.feature_vectors_[:-1])
        variance = (rotated + graphs.constant(self.feature_vectors_[-1])).square() @ graphs.constant(self._spread())
        probs = (outputs.logits / (1.0 + np.pi / 8.0 * variance).sqrt()).softmax(dim=1)
        return graphs.prediction(probs, graphs.entropy(probs))

    def logit_variance(self, features: Array) -> Floats:
        """Return v (n, K): the variance of each logit of each row."""
        variance: Floats = self._rotated_squares(features) @ self._spread()
        return variance

    def _rotated_squares(self, features: Array) -> Floats:
        """Return φ² along the eigenvectors of A, (n, w + 1): all of v that does not depend on δ."""
        return np.asarray((_with_one(features) @ self.feature_vectors_) ** 2)

    def _spread(self) -> Floats:
        eigenvalues = np.maximum(self.feature_values_, 0.0)[:, None] * np.maximum(self.class_values_, 0.0)
        spread: Floats = (1.0 / (eigenvalues + self.precision_)) @ (self.class_vectors_**2).T
        return spread


def _softened(logits: Floats, variance: Floats) -> Floats:
    return logits / np.sqrt(1.0 + np.pi / 8.0 * variance)


def _with_one(features: Array) -> Floats:
    return np.concatenate([features.astype(np.float64), np.ones((len(features), 1))], axis=1)
