"""Mahalanobis scores: plain, relative, global, of rescaled vectors, of right rows against wrong ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, at_least_0, checked, optional
from volta.methods.graphs import SMALLEST, constant
from volta.methods.scores import Floats, at_labels, row_slices, softmax, unit_rows
from volta.networks.outputs import FitOutputs, Outputs

if TYPE_CHECKING:
    from torch import Tensor


RIDGE = 1e-6
CHUNK_ROWS = 4096


@dataclass(frozen=True, eq=False)
class Gaussians:
    """Means in whitened space: squared Mahalanobis distances are squared Euclidean ones there.

    ``centre`` (w,) is subtracted first; ``whitening`` (w, r) has whitening · whiteningᵀ = the precision matrix;
    ``means`` (m, r) are the whitened means.
    """

    centre: Floats
    whitening: Floats
    means: Floats

    def squared_distances(self, features: Array) -> Floats:
        """Return (x − μ_c)ᵀ Λ (x − μ_c) for each row x and mean μ_c, shape (n, m)."""
        whitened = (np.asarray(features, dtype=np.float64) - self.centre) @ self.whitening
        cross = whitened @ self.means.T
        squared = (whitened**2).sum(axis=1)[:, None] - 2.0 * cross + (self.means**2).sum(axis=1)
        return np.asarray(np.maximum(squared, 0.0))

    def redundancy(self) -> float:
        """Return how far columns tell each other: the mean R² of a column's regression on all others, 0 to 1.

        R² = 1 − 1/(Σ_jj Λ_jj) with the covariance Σ and Λ its inverse.
        """
        precision = (self.whitening**2).sum(axis=1)
        covariance = (self.whitening**2 / (self.whitening**2).sum(axis=0) ** 2).sum(axis=1)
        return float(np.mean(1.0 - 1.0 / (precision * covariance)))

    def squared_distances_of_tensors(self, features: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        whitened = (features - constant(self.centre)) @ constant(self.whitening)
        cross = whitened @ constant(self.means.T)
        squared = whitened.square().sum(dim=1, keepdim=True) - 2.0 * cross + constant((self.means**2).sum(axis=1))
        return squared.clamp(min=0.0)


@dataclass(frozen=True, eq=False)
class Distances:
    """How far rows lie from the training rows: M = min_c M_c, and M − M_0, relative to all rows.

    M_c and M_0 are squared Mahalanobis distances to the classes' means and to the mean of all training rows.
    """

    classes: Gaussians
    background: Gaussians

    def of(self, rows: Array) -> tuple[Floats, Floats]:
        """Return M and M − M_0 of rows (n, d)."""
        nearest = self.classes.squared_distances(rows).min(axis=1)
        return nearest, nearest - self.background.squared_distances(rows)[:, 0]

    def of_tensors(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same of a float64 tensor, for ONNX graphs."""
        nearest = self.classes.squared_distances_of_tensors(rows).amin(dim=1)
        return nearest, nearest - self.background.squared_distances_of_tensors(rows)[:, 0]


def fit_distances(features: Array, groups: NDArray[np.int64]) -> Distances:
    """Fit the groups' Gaussians as :func:`fit_gaussians` does, and one over all rows with a covariance of its own."""
    found = _moments(features, groups)
    return Distances(
        _gaussians(found.centre, found.means, found.covariance),
        _gaussians(found.centre, np.zeros((1, features.shape[1])), found.covariance + found.between),
    )


def fit_gaussians(features: Array, groups: NDArray[np.int64]) -> Gaussians:
    """Fit one mean per group and one pooled covariance (1/n Σ over groups) + 1e-6·I, inverted by pseudo-inverse.

    ``groups`` (n,) is the group of each row (n, w); groups without rows get no mean.
    """
    found = _moments(features, groups)
    return _gaussians(found.centre, found.means, found.covariance)


def fit_shrunk_distances(features: Array, groups: NDArray[np.int64], least: float = 0.0) -> Distances:
    """Fit the groups' Gaussians and one Gaussian over all rows, both covariances shrunk alike.

    S becomes (1 − δ) S + δ (tr S / w) I with Ledoit and Wolf's δ for the groups' pooled covariance, but at least
    ``least``. One δ for both keeps the covariance over all rows the larger in every direction, so that no row is nearer
    to its group than to all rows merely for lying far out.
    Reference: Ledoit & Wolf (2004), A well-conditioned estimator for large-dimensional covariance matrices.
    """
    found = _moments(features, groups)
    delta = max(least, _ledoit_wolf(found.covariance, found.fourth, len(features)))
    nothing = np.zeros((1, features.shape[1]))
    return Distances(
        _gaussians(found.centre, found.means, _shrunk(found.covariance, delta)),
        _gaussians(found.centre, nothing, _shrunk(found.covariance + found.between, delta)),
    )


class _Moments(NamedTuple):
    """``means`` (m, w) from the ``centre`` (w,) of all rows, ``counts`` (m,), the pooled ``covariance`` (w, w) around
    the means, and ``fourth``, the mean fourth power of the rows' distances to their mean.
    """

    centre: Floats
    means: Floats
    counts: NDArray[np.int64]
    covariance: Floats
    fourth: float

    @property
    def between(self) -> Floats:
        """The covariance of the means: with the pooled one it makes that of all rows."""
        return np.asarray((self.means.T * (self.counts / self.counts.sum())) @ self.means)


def _moments(features: Array, groups: NDArray[np.int64]) -> _Moments:
    from scipy.sparse import csr_array

    centre = np.asarray(features.mean(axis=0, dtype=np.float64))
    present, index = np.unique(groups, return_inverse=True)
    counts = np.bincount(index)
    sums = np.zeros((len(present), features.shape[1]))
    for rows in row_slices(features, CHUNK_ROWS):
        shifted = features[rows].astype(np.float64)
        shifted -= centre
        # Sums of rows by group as a product with a sparse matrix: eight times faster than np.add.at.
        places = index[rows], np.arange(len(shifted))
        sums += np.asarray(csr_array((np.ones(len(shifted)), places), shape=(len(present), len(shifted))) @ shifted)
    means = sums / counts[:, None]
    covariance = np.zeros((features.shape[1], features.shape[1]))
    fourth = 0.0
    for rows in row_slices(features, CHUNK_ROWS):
        residuals = features[rows].astype(np.float64)
        residuals -= centre
        residuals -= means[index[rows]]
        covariance += residuals.T @ residuals
        fourth += float((np.einsum("ij,ij->i", residuals, residuals) ** 2).sum())
    return _Moments(centre, means, counts, covariance / len(features), fourth / len(features))


def _gaussians(centre: Floats, means: Floats, covariance: Floats) -> Gaussians:
    covariance = covariance.copy()
    covariance[np.diag_indices_from(covariance)] += RIDGE
    values, vectors = np.linalg.eigh(covariance)
    kept = values > values.max() * len(values) * np.finfo(np.float64).eps
    whitening = vectors[:, kept] / np.sqrt(values[kept])
    return Gaussians(centre, whitening, means @ whitening)


def _ledoit_wolf(covariance: Floats, fourth: float, n_rows: int) -> float:
    """Return δ = min(1, b²/d²): b² = (E|x|⁴ − |S|²)/n is the error of S, d² = |S − (tr S / w) I|² its distance."""
    squared = float((covariance**2).sum())
    distance = squared - float(np.trace(covariance)) ** 2 / len(covariance)
    error = (fourth - squared) / n_rows
    return 1.0 if error >= distance else max(0.0, error / distance)


def _shrunk(covariance: Floats, delta: float) -> Floats:
    target = np.trace(covariance) / len(covariance) * np.eye(len(covariance))
    return np.asarray((1.0 - delta) * covariance + delta * target)


class _OfVectors(PostHoc):
    """A distance of penultimate vectors, as they are or scaled."""

    def _scaled(self, features: Array) -> Array:
        return features

    def _scaled_tensors(self, features: Tensor) -> Tensor:
        return features


class _ToClasses(_OfVectors):
    """u = min_c M_c, squared Mahalanobis distances to the classes."""

    learned_types = (Gaussians,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit class means and the shared covariance on the training rows."""
        train = outputs.of("train")
        self.gaussians_ = fit_gaussians(self._scaled(train.outputs.need_features()), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the smallest squared distance."""
        squared = self.gaussians_.squared_distances(self._scaled(outputs.need_features()))
        return Prediction(softmax(outputs.logits), squared.min(axis=1))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        distances = self.gaussians_.squared_distances_of_tensors(self._scaled_tensors(outputs.features))
        return graphs.prediction(outputs.logits.softmax(dim=1), distances.amin(dim=1))


class _OfUnitVectors(_OfVectors):
    """A distance of g = f/‖f‖."""

    def _scaled(self, features: Array) -> Array:
        return unit_rows(features)

    def _scaled_tensors(self, features: Tensor) -> Tensor:
        return features.div(features.norm(dim=1, keepdim=True).clamp(min=SMALLEST))


@dataclass
class Mahalanobis(_ToClasses):
    """u = min_c (f − μ_c)ᵀ Λ (f − μ_c), Λ the pseudo-inverse of the pooled covariance + 1e-6·I; p = softmax(l).

    f is the penultimate vector, μ_c the class means of the training rows. No input perturbation, last layer only.
    Reference: Lee et al. (2018), A Simple Unified Framework for Detecting Out-of-Distribution Samples.
    """

    title = "Mahalanobis"
    origin = "paper"


@dataclass
class Rmds(_OfVectors):
    """u = min_c M_c(f) − M_0(f): squared Mahalanobis distances to the classes and to one Gaussian over all rows.

    Reference: Ren et al. (2021), A Simple Fix to Mahalanobis Distance for Improving Near-OOD Detection.
    """

    title = "Relative Mahalanobis"
    origin = "extra"
    learned_types = (Distances, Gaussians)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the class Gaussians and the background one on the training rows."""
        train = outputs.of("train")
        self.distances_ = fit_distances(self._scaled(train.outputs.need_features()), train.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the relative distance."""
        _, relative = self.distances_.of(self._scaled(outputs.need_features()))
        return Prediction(softmax(outputs.logits), relative)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        _, relative = self.distances_.of_tensors(self._scaled_tensors(outputs.features))
        return graphs.prediction(outputs.logits.softmax(dim=1), relative)


@dataclass
class MdsPlus(_OfUnitVectors, _ToClasses):
    """u = min_c (g − μ_c)ᵀ Λ (g − μ_c), g = f/‖f‖; p = softmax(l).

    μ_c and Λ are as in ``mahalanobis``, of the unit training vectors: lengths, which differ between classes, would
    spoil the one covariance they share.
    Reference: Müller & Hein (2025), Mahalanobis++: Improving OOD Detection via Feature Normalization.
    """

    title = "Mahalanobis++"
    origin = "extra"
    standard = False


@dataclass
class RmdsPlus(_OfUnitVectors, Rmds):
    """u = min_c M_c(g) − M_0(g), g = f/‖f‖: ``rmds`` on unit vectors; p = softmax(l).

    Reference: Müller & Hein (2025), Mahalanobis++: Improving OOD Detection via Feature Normalization.
    """

    title = "Relative Mahalanobis++"
    origin = "extra"
    standard = False


BETAS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0)


@dataclass
class RadialMahalanobis(_ToClasses):
    """u = min_c (g − μ_c)ᵀ Λ (g − μ_c), g = f/‖f‖^β; p = softmax(l).

    μ_c and Λ are as in ``mahalanobis``, of training vectors so scaled: β = 0 is ``mahalanobis``, β = 1 ``mds_plus``.
    Unless given, β is the one of 0, ¼, … 2 for which validation rows are most nearly one shell around the means of
    their own classes, as rows of one Gaussian are: the least coefficient of variation of their distances √M_y. No OOD
    row is seen. Departure: the authors choose β by the spectrum within classes and the local intrinsic dimension.
    Reference: Janiak, Binkowski & Kajdanowicz (2025), A Geometry-Based View of Mahalanobis OOD Detection.
    """

    title = "Radial Mahalanobis"
    origin = "extra"
    standard = False
    checks = checked(beta=optional(at_least_0))

    beta: float | None = None

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Choose β on validation rows; fit the class means and the covariance of the scaled training vectors."""
        train = outputs.of("train")
        features = train.outputs.need_features()
        self.beta_ = self._chosen(outputs, features, train.labels) if self.beta is None else self.beta
        super().fit_outputs(outputs)

    def _scaled(self, features: Array) -> Array:
        return radially_scaled(features, self.beta_)

    def _scaled_tensors(self, features: Tensor) -> Tensor:
        return features.div(features.norm(dim=1, keepdim=True).clamp(min=SMALLEST).pow(self.beta_))

    def _chosen(self, outputs: FitOutputs, features: Array, labels: NDArray[np.int64]) -> float:
        val = outputs.of("val")
        present, of_row = np.unique(labels), val.outputs.need_features()
        place = np.searchsorted(present, val.labels).clip(max=len(present) - 1)
        known = present[place] == val.labels

        def variation(beta: float) -> float:
            gaussians = fit_gaussians(radially_scaled(features, beta), labels)
            squared = gaussians.squared_distances(radially_scaled(of_row[known], beta))
            distances = np.sqrt(at_labels(squared, place[known]))
            return float(distances.std() / max(distances.mean(), 1e-300))

        return min(BETAS, key=variation) if known.any() else 1.0


def radially_scaled(features: Array, beta: float) -> Floats:
    """Return f/‖f‖^β of each row in float64; a row of zeros stays one.

    >>> radially_scaled(np.array([[3.0, 4.0], [0.0, 0.0]]), 1.0).tolist()
    [[0.6, 0.8], [0.0, 0.0]]
    """
    vectors = np.asarray(features, dtype=np.float64)
    lengths = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), SMALLEST)
    return np.asarray(vectors / lengths**beta)


@dataclass
class GlobalMahalanobis(_ToClasses):
    """u = (f − μ)ᵀ Λ (f − μ), μ and Λ of all training rows; p = softmax(l).

    One Gaussian without labels: what remains of ``mahalanobis`` where the features alone say what is usual.
    Reference: Barkley, Culbertson & Fridovich-Keil (2026), Scaling Pretrained Representations Enables Label-Free
    Out-of-Distribution Detection Without Fine-Tuning.
    """

    title = "Global Mahalanobis"
    origin = "extra"
    standard = False

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the mean and the covariance of the training rows."""
        features = outputs.of("train").outputs.need_features()
        self.gaussians_ = fit_gaussians(features, np.zeros(len(features), dtype=np.int64))


@dataclass
class DeltaMds(PostHoc):
    """u = min_c M_c⁺(f) − min_c M_c⁻(f), of rows the network got right (+) and wrong (−); p = softmax(l).

    M_c⁺ and M_c⁻ are squared Mahalanobis distances to the means of the right and of the wrong training rows of class c,
    each set with a covariance of its own: a likelihood ratio. For selective prediction: by Neyman and Pearson no score
    accepts more right rows at the same rate of wrong ones than the ratio of their true densities. Departures:
    covariances are shrunk by Ledoit and Wolf's share, since wrong rows are few; where fewer than two are wrong, u is
    the first part alone.
    Reference: Heng & Soh (2025), Know When to Abstain: Optimal Selective Classification with Likelihood Ratios.
    """

    title = "Δ-MDS"
    origin = "extra"
    standard = False
    learned_types = (Gaussians,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the Gaussians of right and of wrong training rows."""
        train = outputs.of("train")
        features, right = train.outputs.need_features(), train.outputs.logits.argmax(axis=1) == train.labels
        if right.sum() < 2:
            right = np.ones_like(right)
        self.right_ = _shrunk_gaussians(features[right], train.labels[right])
        self.wrong_ = None if (~right).sum() < 2 else _shrunk_gaussians(features[~right], train.labels[~right])

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the difference of the two distances."""
        features = outputs.need_features()
        uncertainty = self.right_.squared_distances(features).min(axis=1)
        if self.wrong_ is not None:
            uncertainty = uncertainty - self.wrong_.squared_distances(features).min(axis=1)
        return Prediction(softmax(outputs.logits), uncertainty)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        uncertainty = self.right_.squared_distances_of_tensors(outputs.features).amin(dim=1)
        if self.wrong_ is not None:
            uncertainty = uncertainty - self.wrong_.squared_distances_of_tensors(outputs.features).amin(dim=1)
        return graphs.prediction(outputs.logits.softmax(dim=1), uncertainty)


def _shrunk_gaussians(features: Array, groups: NDArray[np.int64]) -> Gaussians:
    found = _moments(features, groups)
    delta = _ledoit_wolf(found.covariance, found.fourth, len(features))
    return _gaussians(found.centre, found.means, _shrunk(found.covariance, delta))
