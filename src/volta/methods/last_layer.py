"""Scores of the last layer's geometry: fDBD, NCI, DICE, WeiPer; of class means in place of its rows: SHE, CTM."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.checks import check_count, check_number
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, at_least_0, checked, each
from volta.methods.scores import (
    Floats,
    at_labels,
    cached_slices,
    column_means,
    distances_from,
    energy,
    row_slices,
    row_sums,
    softmax,
)
from volta.networks.outputs import FitOutputs, LastLayer, Outputs

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


@dataclass
class Dice(PostHoc):
    """u = −logsumexp((W ∘ mask) f + b), the mask the largest contributions W_kj mean f_j; p = softmax(l).

    The mask keeps those above the ``percentile`` of all K·w contributions, with the mean over training vectors.
    Reference: Sun & Li (2022), DICE: Leveraging Sparsification for Out-of-Distribution Detection.
    """

    title = "DICE"
    origin = "extra"
    standard = False
    learned_types = (LastLayer,)

    percentile: float = 90.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if not 0.0 <= self.percentile < 100.0:
            raise InputError(f"percentile is {self.percentile}; pass a number from 0 to below 100, such as 90")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the weights that contribute most on the training rows."""
        train = outputs.of("train").outputs
        means, layer = column_means(train.need_features()), train.need_last_layer()
        contributions = layer.weight * means
        kept = contributions > np.percentile(contributions, self.percentile)
        self.layer_ = LastLayer(np.where(kept, layer.weight, 0.0).astype(np.float64), layer.bias.astype(np.float64))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy of the sparse last layer."""
        sparse = outputs.need_features().astype(np.float64) @ self.layer_.weight.T + self.layer_.bias
        return Prediction(softmax(outputs.logits), energy(sparse))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        sparse = outputs.features @ graphs.constant(self.layer_.weight.T) + graphs.constant(self.layer_.bias)
        return graphs.prediction(outputs.logits.softmax(dim=1), graphs.energy(sparse))


@dataclass
class She(PostHoc):
    """u = −f·m_ŷ, m_c the mean of class c's training vectors that the network got right; p = softmax(l).

    The simplified energy of a modern Hopfield network that stores one pattern per class; ŷ is the predicted class. A
    class without right rows has the mean of all its rows, one without any rows zeros.
    Reference: Zhang et al. (2023), Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization
    with Modern Hopfield Energy.
    """

    title = "SHE"
    origin = "extra"
    standard = False

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Store the patterns of the training rows."""
        train = outputs.of("train")
        features, top = train.outputs.need_features(), train.outputs.logits.argmax(axis=1)
        right = top == train.labels
        of_right = class_means(features[right], train.labels[right], train.outputs.n_classes)
        of_all = class_means(features, train.labels, train.outputs.n_classes)
        without = np.bincount(train.labels[right], minlength=train.outputs.n_classes) == 0
        self.patterns_ = np.where(without[:, None], of_all, of_right)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated product with the predicted class's pattern."""
        products = outputs.need_features().astype(np.float64) @ self.patterns_.T
        return Prediction(softmax(outputs.logits), -at_labels(products, outputs.logits.argmax(axis=1)))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        products = outputs.features @ graphs.constant(self.patterns_.T)
        top = outputs.logits.argmax(dim=1, keepdim=True)
        return graphs.prediction(outputs.logits.softmax(dim=1), -products.gather(1, top)[:, 0])


@dataclass
class Ctm(PostHoc):
    """u = −max_c cos(f, μ_c), μ_c the mean training vector of class c; p = softmax(l).

    Class typical matching.
    Reference: Ngoc-Hieu et al. (2023), A Cosine Similarity-based Method for Out-of-Distribution Detection.
    """

    title = "CTM"
    origin = "extra"
    standard = False

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Keep the directions of the class means."""
        train = outputs.of("train")
        means = class_means(train.outputs.need_features(), train.labels, train.outputs.n_classes)
        means = means[np.unique(train.labels)]
        self.directions_ = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), _TINY)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negated largest cosine."""
        features = outputs.need_features()
        lengths = np.maximum(np.linalg.norm(features, axis=1), _TINY)
        return Prediction(softmax(outputs.logits), -(features @ self.directions_.T).max(axis=1) / lengths)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        lengths = outputs.features.norm(dim=1).clamp(min=_TINY)
        nearest = (outputs.features @ graphs.constant(self.directions_.T)).amax(dim=1)
        return graphs.prediction(outputs.logits.softmax(dim=1), -nearest / lengths)


def class_means(features: Array, labels: NDArray[np.int64], n_classes: int) -> Floats:
    """Return the mean vector of each class, (K, w), in float64; zeros for a class without rows."""
    means = np.zeros((n_classes, features.shape[1]))
    for k in np.unique(labels):
        means[k] = column_means(features[labels == k])
    return means


_CHUNK_VALUES = 1 << 22


@dataclass(frozen=True, eq=False)
class Profile:
    """Bins over the range [``low``, ``high``] of training values, and ``mean`` (n_bins,), their mean shares."""

    low: float
    high: float
    mean: Floats


@dataclass
class Weiper(PostHoc):
    """u = D(q_f, q̄_f) + λ₁ D(q_g, q̄_g) − λ₂ mean_i max softmax(W_i f + b); p = softmax(l).

    W_i are ``repeats`` copies of the last layer's weight W, each row moved by ``distance`` times its own length in a
    random direction; g are the values of all W_i f + b. q are the shares of a row's values in ``n_bins`` bins over the
    range of training values, smoothed over ``smoothing`` bins; q̄ are their means over training rows, of which
    ``setup_rows`` are drawn at random where there are more, as the authors do on ImageNet; D(p, q) =
    Σ (p − q)(log p − log q), the symmetric Kullback-Leibler divergence, with ``floors`` (of f and of g) added to the
    shares first. The authors tune these settings per data set on OOD rows; here theirs for CIFAR-10's order of
    magnitude stand fixed, with 50 copies. Cost at test: ``repeats`` times that of the last layer.
    Reference: Granz et al. (2024), WeiPer: OOD Detection using Weight Perturbations of Class Projections.
    """

    title = "WeiPer + KLD"
    origin = "extra"
    single_precision = True
    standard = False
    learned_types = (Profile,)
    checks = checked(
        **dict.fromkeys(("repeats", "n_bins", "setup_rows"), check_count),
        **dict.fromkeys(("distance", "lambda_1", "lambda_2"), at_least_0),
        smoothing=each(check_count),
        floors=each(check_number),
    )

    repeats: int = 50
    distance: float = 2.1
    n_bins: int = 100
    smoothing: tuple[int, int] = (20, 20)
    floors: tuple[float, float] = (0.01, 0.025)
    lambda_1: float = 1.0
    lambda_2: float = 1.0
    setup_rows: int = 10_000

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Perturb the last layer and learn how training values are distributed."""
        train = outputs.of("train").outputs
        features, layer = train.need_features(), train.need_last_layer()
        random = rng(outputs.random_state, "weiper")
        weight = layer.weight.astype(np.float64)
        noise = random.normal(size=(self.repeats, *weight.shape))
        noise /= np.linalg.norm(noise, axis=2, keepdims=True)
        lengths = np.linalg.norm(weight, axis=1)[:, None]
        moved = weight + self.distance * lengths * noise
        self.weight_ = moved.reshape(-1, features.shape[1]).astype(np.float32)
        self.bias_ = np.tile(layer.bias, self.repeats).astype(np.float32)
        if len(features) > self.setup_rows:
            features = features[np.sort(random.choice(len(features), self.setup_rows, replace=False))]
        self.features_ = self._profile(features, perturbed=False)
        self.logits_ = self._profile(features, perturbed=True)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the divergence from training rows."""
        features = outputs.need_features()
        uncertainty: Floats = np.empty(len(features))
        for rows in self._pieces(features):
            own, moved = features[rows], self._moved(features[rows])
            confident = _max_softmax(moved.reshape(len(own), self.repeats, -1)).mean(axis=1)
            unusual = self._divergence(own, self.features_, 0)
            uncertainty[rows] = unusual + self.lambda_1 * self._divergence(moved, self.logits_, 1)
            uncertainty[rows] -= self.lambda_2 * confident
        return Prediction(softmax(outputs.logits), uncertainty)

    def _moved(self, features: Array) -> NDArray[np.float32]:
        return np.asarray(features @ self.weight_.T + self.bias_)

    def _pieces(self, features: Array) -> list[slice]:
        return list(row_slices(features, max(1, _CHUNK_VALUES // max(len(self.weight_), features.shape[1]))))

    def _profile(self, features: Array, *, perturbed: bool) -> Profile:
        def values(rows: slice) -> Array:
            return self._moved(features[rows]) if perturbed else features[rows]

        pieces = self._pieces(features)
        ends = [(float(part.min()), float(part.max())) for part in map(values, pieces)]
        low, high = min(end[0] for end in ends), max(end[1] for end in ends)
        total = sum(shares(values(rows), low, high, self.n_bins).sum(axis=0) for rows in pieces)
        return Profile(low, high, np.asarray(total / len(features)))

    def _divergence(self, values: Array, profile: Profile, index: int) -> Floats:
        found = smoothed(shares(values, profile.low, profile.high, self.n_bins), self.smoothing[index])
        p, q = (part + self.floors[index] for part in (profile.mean[None], found))
        p, q = p / p.sum(axis=1, keepdims=True), q / q.sum(axis=1, keepdims=True)
        return np.asarray(((p - q) * (np.log(p) - np.log(q))).sum(axis=1))


def shares(values: Array, low: float, high: float, n_bins: int) -> Floats:
    """Return for each row the share of its values in each of ``n_bins`` equal bins of [low, high]; others are lost."""
    width = (high - low) / n_bins or 1.0
    inside = (values >= low) & (values <= high)
    index = np.clip(((values - low) / width).astype(np.int64), 0, n_bins - 1)
    index += np.arange(len(values))[:, None] * n_bins
    counts = np.bincount(index[inside], minlength=len(values) * n_bins).reshape(len(values), n_bins)
    return np.asarray(counts / values.shape[1])


def smoothed(densities: Floats, size: int) -> Floats:
    """Return each row averaged over ``size`` neighbouring bins, the end bins repeated outwards."""
    before = (size - 1) // 2
    padded = np.pad(densities, ((0, 0), (before, size - 1 - before)), mode="edge")
    summed = np.cumsum(np.pad(padded, ((0, 0), (1, 0))), axis=1)
    return np.asarray((summed[:, size:] - summed[:, :-size]) / size)


def _max_softmax(logits: NDArray[np.float32]) -> Floats:
    largest = logits.max(axis=2, keepdims=True)
    return np.asarray(1.0 / np.exp((logits - largest).astype(np.float64)).sum(axis=2))
