"""Scores of nearest neighbours: kNN and NNGuide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, checked
from volta.methods.graphs import constant
from volta.methods.scores import Floats, log_sum_exp, row_slices, softmax, softmax_and_energy, unit_rows
from volta.networks.outputs import FitOutputs, Outputs

if TYPE_CHECKING:
    from torch import Tensor


_CHUNK_VALUES = 1 << 23
_FEWEST_QUERIES = 64
_GROUP = 16


def largest_products(queries: Array, bank: Array, k: int) -> Iterator[tuple[slice, Array]]:
    """Walk the queries (n, d) in pieces: which they are, and each one's k largest products with rows of ``bank``.

    ``bank`` is (m, d) with m ≥ k; the products are (rows of the piece, k), in any order. A bank so long that few
    queries would fit beside it is walked in pieces too, since reading it would take longer than the products.
    """
    n_rows = max(1, min(len(queries), max(_CHUNK_VALUES // len(bank), _FEWEST_QUERIES)))
    n_columns = min(len(bank), max(1, _CHUNK_VALUES // n_rows))
    products = np.empty(n_rows * n_columns, dtype=np.result_type(queries, bank))
    for rows in row_slices(queries, n_rows):
        piece = queries[rows]
        found = []
        for part in (bank[columns] for columns in row_slices(bank, n_columns)):
            into = products[: len(piece) * len(part)].reshape(len(piece), len(part))
            found.append(k_largest(np.matmul(piece, part.T, out=into), min(k, len(part))))
        yield rows, found[0] if len(found) == 1 else k_largest(np.concatenate(found, axis=1), k)


def k_largest(values: Array, k: int) -> Array:
    """Return the k largest values of each row, in any order.

    Long rows are first thinned out: columns form groups of 16, and all k of the largest lie in the k groups with the
    largest maxima.
    """
    n_rows, n_columns = values.shape
    n_groups = n_columns // _GROUP
    if n_groups >= 4 * k:
        in_groups = values[:, : n_groups * _GROUP].reshape(n_rows, _GROUP, n_groups)
        groups = np.argpartition(in_groups.max(axis=1), n_groups - k, axis=1)[:, n_groups - k :]
        columns = groups[:, None, :] + n_groups * np.arange(_GROUP)[:, None]
        found = np.take_along_axis(values, columns.reshape(n_rows, -1), axis=1)
        values = np.concatenate([found, values[:, n_groups * _GROUP :]], axis=1)
    n_left = values.shape[1] - k
    return np.asarray(np.partition(values, n_left, axis=1)[:, n_left:])


N_NEIGHBOURS = 50
MOST_ROWS = 1024
"""So many training rows at most are kept as neighbours, at even steps."""


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Distances |f/|f| − b| to the k-th nearest of the unit rows b in ``bank`` (m, w), in float64."""

    bank: Floats
    k: int

    def distances(self, rows: Array) -> Floats:
        """Return the distance to the k-th neighbour of rows (n, w)."""
        return kth_distance(unit(rows), self.bank, self.k)

    def distances_of_tensors(self, rows: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        lengths = rows.norm(dim=1, keepdim=True)
        cosines = (rows / lengths.clamp(min=1e-30)) @ constant(self.bank).T
        nearest: Tensor = cosines.topk(self.k).values[:, -1]
        return (2.0 - 2.0 * nearest).clamp(min=0.0).sqrt()


def even_steps(n_rows: int, most: int) -> NDArray[np.int64]:
    """Return the places of all n rows, or of ``most`` of them at even steps.

    >>> even_steps(3, 5), even_steps(9, 3)
    (array([0, 1, 2]), array([0, 4, 8]))
    """
    return np.linspace(0, n_rows - 1, min(n_rows, most)).round().astype(np.int64)


def n_neighbours(n_kept: int, n_rows: int) -> int:
    """Return k for so many kept of n rows: the 50th neighbour of all rows, as far as the kept ones can tell."""
    return max(1, min(n_kept, round(N_NEIGHBOURS * n_kept / n_rows)))


def unit(rows: Array) -> Floats:
    """Return rows (n, w) of length 1, in float64; rows of zeros stay."""
    wide = np.asarray(rows, dtype=np.float64)
    return np.asarray(wide / np.maximum(np.linalg.norm(wide, axis=1, keepdims=True), 1e-30))


def kth_chord(cosines: Floats, k: int) -> Floats:
    """Return the distance between unit vectors to the k-th nearest, from cosines (n, m)."""
    return np.asarray(np.sqrt(np.maximum(2.0 - 2.0 * k_largest(cosines, k).min(axis=1), 0.0)))


@dataclass
class Knn(PostHoc):
    """u = distance of f/|f| to the k-th nearest of the L2-normalised penultimate training vectors; p = softmax(l).

    Cost at test: one matrix product with the bank of all training vectors. k is at most the number of training rows.
    Reference: Sun et al. (2022), Out-of-Distribution Detection with Deep Nearest Neighbors.
    """

    title = "kNN"
    origin = "extra"
    single_precision = True
    checks = checked(k=check_count)

    k: int = 50

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


@dataclass
class NnGuide(PostHoc):
    """u = −s(l) · mean of the k largest s(l_i) cos(f, f_i) over training rows i, s = logsumexp; p = softmax(l).

    Departure: the bank holds all training rows; the authors draw 1 % of ImageNet's.
    Cost at test: one matrix product with the bank. k is at most the number of training rows.
    Reference: Park et al. (2023), Nearest Neighbor Guidance for Out-of-Distribution Detection.
    """

    title = "NNGuide"
    origin = "extra"
    standard = False
    single_precision = True
    checks = checked(k=check_count)

    k: int = 10

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the unit training vectors, each times its s(l_i)."""
        train = outputs.of("train").outputs
        energies = log_sum_exp(train.logits).astype(np.float32)
        self.bank_ = unit_rows(train.need_features())
        self.bank_ *= energies[:, None]

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated guided energy."""
        guidance = mean_of_largest(unit_rows(outputs.need_features()), self.bank_, min(self.k, len(self.bank_)))
        probs, free_energy = softmax_and_energy(outputs.logits)
        return Prediction(probs, free_energy * guidance)


def mean_of_largest(queries: Array, bank: Array, k: int) -> Floats:
    """Return the mean of each query's k largest products with rows of ``bank``, in bounded memory."""
    means: Floats = np.empty(len(queries))
    for rows, products in largest_products(queries, bank, k):
        means[rows] = products.mean(axis=1, dtype=np.float64)
    return means
