"""kNN: distance to the k-th nearest training vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.neighbours import largest_products
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, softmax
from volta.methods.vectors import unit_rows
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Knn(PostHoc):
    """u = distance of f/|f| to the k-th nearest of the L2-normalised penultimate training vectors; p = softmax(l).

    Cost at test: one matrix product with the bank of all training vectors. k is at most the number of training rows.
    Reference: Sun et al. (2022), Out-of-Distribution Detection with Deep Nearest Neighbors.
    """

    title = "kNN"
    origin = "extra"
    single_precision = True

    k: int = 50

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        check_count(self.k, "k")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the normalised training vectors."""
        self.bank_ = unit_rows(outputs.of("train").outputs.need_features())

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the distance to the k-th neighbour."""
        uncertainty = kth_distance(unit_rows(outputs.need_features()), self.bank_, min(self.k, len(self.bank_)))
        return Prediction(softmax(outputs.logits), uncertainty)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        vectors = outputs.features.float()
        lengths = vectors.norm(dim=1, keepdim=True).clamp(min=float(np.finfo(np.float32).tiny))
        cosines = (vectors / lengths) @ graphs.constant(self.bank_).T
        nearest = cosines.topk(min(self.k, len(self.bank_))).values[:, -1].double()
        return graphs.prediction(outputs.logits.softmax(dim=1), (2.0 - 2.0 * nearest).clamp(min=0.0).sqrt())


def kth_distance(queries: Array, bank: Array, k: int) -> Floats:
    """Return each unit query's Euclidean distance to its k-th nearest unit row of ``bank``, in bounded memory."""
    distances = np.empty(len(queries))
    for rows, cosines in largest_products(queries, bank, k):
        distances[rows] = np.sqrt(np.maximum(2.0 - 2.0 * cosines.min(axis=1).astype(np.float64), 0.0))
    return distances
