"""NECO: how much of a vector lies in the subspace that the classes span, times the maximum logit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count
from volta.core.types import Array, Prediction
from volta.methods.pieces import row_slices
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, softmax
from volta.methods.vectors import column_means
from volta.networks.outputs import FitOutputs, Outputs

_CHUNK_ROWS = 4096
_TINY = 1e-12


@dataclass
class Neco(PostHoc):
    """u = −‖P z‖/‖z‖ · max_k l_k, z = (f − μ)/σ; p = softmax(l).

    μ and σ standardise each column of the training vectors; P has their first ``dimension`` principal directions, as
    many as there are classes unless given: collapsed classes span K − 1. With ``times_max_logit`` off, the ratio alone.
    Reference: Ammar et al. (2024), NECO: NEural Collapse Based Out-of-distribution Detection.
    """

    title = "NECO"
    origin = "extra"
    standard = False

    dimension: int | None = None
    times_max_logit: bool = True

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if self.dimension is not None:
            check_count(self.dimension, "dimension")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Standardise the training vectors and find their principal directions."""
        train = outputs.of("train").outputs
        features = train.need_features()
        self.mean_ = column_means(features)
        covariance = np.zeros((features.shape[1], features.shape[1]))
        for rows in row_slices(features, _CHUNK_ROWS):
            centred = features[rows] - self.mean_
            covariance += centred.T @ centred
        covariance /= len(features)
        spread = np.sqrt(np.diag(covariance))
        self.std_ = np.where(spread > 0.0, spread, 1.0)
        _, vectors = np.linalg.eigh(covariance / self.std_ / self.std_[:, None])
        n_kept = min(self.dimension or train.n_classes, features.shape[1])
        self.directions_ = np.ascontiguousarray(vectors[:, -n_kept:])

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated share."""
        scaled = self._scaled(outputs.need_features())
        inside, whole = (np.linalg.norm(part, axis=1) for part in (scaled @ self.directions_, scaled))
        share = inside / np.maximum(whole, _TINY)
        weight = outputs.logits.max(axis=1) if self.times_max_logit else 1.0
        return Prediction(softmax(outputs.logits), -share * weight)

    def _scaled(self, features: Array) -> Floats:
        return np.asarray((features - self.mean_) / self.std_, dtype=np.float64)
