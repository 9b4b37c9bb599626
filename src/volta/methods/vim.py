"""Scores of subspaces: ViM and its residual, kernel PCA, NECO, SIRC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import DTypeLike

from volta.core.checks import check_count, check_fraction
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.base import PostHoc, checked, optional
from volta.methods.graphs import constant
from volta.methods.scores import (
    Floats,
    column_means,
    row_max,
    row_slices,
    softmax,
    softmax_and_doubt,
    softmax_and_energy,
    unit_rows,
)
from volta.networks.outputs import FitOutputs, LastLayer, Outputs

if TYPE_CHECKING:
    from torch import Tensor


CHUNK_ROWS = 4096
COARSE_SHARE = 1e-4
"""Below this share of the rows' mean square in the minor directions, float32 would leave fewer than five digits."""
FINE = 1e-5


@dataclass(frozen=True, eq=False)
class MinorSpace:
    """The minor half of the principal directions R around a centre o.

    ``centre`` is (d,), ``directions`` (d, max(1, ⌊d/2⌋)) with orthonormal columns.
    """

    centre: Floats
    directions: Floats

    def lengths(self, rows: Array) -> Floats:
        """Return |Rᵀ(x − o)| for each row x."""
        return self._lengths(rows, np.float64)

    def mean_length(self, rows: Array) -> float:
        """Return the mean over rows, in float32 where the first of them tell that this costs no digit that matters.

        Where a later row is too large for float32, all are measured again in float64.
        """
        first = rows[:CHUNK_ROWS]
        with np.errstate(over="ignore"):
            if np.allclose(self._lengths(first, np.float32), self.lengths(first), rtol=FINE, atol=0.0):
                coarse = float(self._lengths(rows, np.float32).mean())
                if np.isfinite(coarse):
                    return coarse
        return float(self.lengths(rows).mean())

    def lengths_of_tensors(self, rows: Tensor) -> Tensor:
        """Return the same of a float64 tensor, for ONNX graphs."""
        lengths: Tensor = ((rows - constant(self.centre)) @ constant(self.directions)).norm(dim=1)
        return lengths

    def _lengths(self, rows: Array, working: DTypeLike) -> Floats:
        centre, directions = (part.astype(working, copy=False) for part in (self.centre, self.directions))
        lengths: Floats = np.empty(len(rows))
        for piece in row_slices(rows, CHUNK_ROWS):
            inside = (rows[piece] - centre) @ directions
            lengths[piece] = np.sqrt(np.einsum("ij,ij->i", inside, inside))
        return lengths


def fit_minor_space(rows: Array, centre: Floats) -> MinorSpace:
    """Return the minor half of the eigenvectors of (1/n) Σ_i (x_i − o)(x_i − o)ᵀ, gathered in pieces.

    Products of float32 rows are in float32 first, which halves the time and moves lengths by some 1e-6 of themselves;
    where the minor directions hold too little of the rows for that, all is done again in float64.
    """
    n_minor = max(1, rows.shape[1] // 2)
    vectors = None
    if rows.dtype.itemsize <= 4:
        with np.errstate(over="ignore", invalid="ignore"):
            moment = _second_moment(rows, centre, np.float32)
        if np.isfinite(moment).all():
            values, vectors = np.linalg.eigh(moment)
            if values[:n_minor].sum() < COARSE_SHARE * (values.sum() + centre @ centre):
                vectors = None
    if vectors is None:
        vectors = np.linalg.eigh(_second_moment(rows, centre, np.float64))[1]
    return MinorSpace(centre, np.ascontiguousarray(vectors[:, :n_minor]))


def _second_moment(rows: Array, centre: Floats, working: DTypeLike) -> Floats:
    """Return (1/n) Σ_i (x_i − o)(x_i − o)ᵀ from products in ``working`` precision that are summed in float64.

    Rows are taken around a point c among them, so that a distant centre o does not cost digits:
    Σ (x − o)(x − o)ᵀ = Σ (x − c)(x − c)ᵀ + s aᵀ + a sᵀ + n a aᵀ with s = Σ (x − c) and a = c − o.
    """
    n_rows, n_columns = rows.shape
    middle = rows[:CHUNK_ROWS].mean(axis=0, dtype=working)
    products, sums = np.zeros((n_columns, n_columns)), np.zeros(n_columns)
    for piece in row_slices(rows, CHUNK_ROWS):
        centred = rows[piece] - middle
        products += centred.T @ centred
        sums += centred.sum(axis=0)
    away = middle - centre
    crossed = np.outer(sums / n_rows, away)
    return np.asarray(products / n_rows + crossed + crossed.T + np.outer(away, away))


@dataclass
class Vim(PostHoc):
    """u = α |Rᵀ(f − o)| − log Σ_k exp(l_k).

    o = −W⁺ b is the origin for which the last layer (W, b) has no bias; R spans the minor half of the training
    vectors' principal directions around o; α makes the residual as large as the maximum logit on average over them.
    Reference: Wang et al. (2022), ViM: Out-Of-Distribution with Virtual-logit Matching.
    """

    title = "ViM"
    origin = "extra"
    learned_types = (MinorSpace,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the origin, the residual space and α on the training rows."""
        train = outputs.of("train").outputs
        features = train.need_features()
        self.minor_ = fit_minor_space(features, origin_without_bias(train.need_last_layer()))
        residual = self.minor_.mean_length(features)
        self.alpha_ = float(row_max(train.logits).mean() / residual) if residual > 0.0 else 0.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the virtual-logit score."""
        probs, free_energy = softmax_and_energy(outputs.logits)
        return Prediction(probs, self.alpha_ * self.minor_.lengths(outputs.need_features()) + free_energy)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        residual = self.alpha_ * self.minor_.lengths_of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), residual + graphs.energy(outputs.logits))


def origin_without_bias(layer: LastLayer) -> Floats:
    """Return o = −W⁺ b: from there the last layer (W, b) has no bias."""
    return np.asarray(-np.linalg.pinv(layer.weight.astype(np.float64)) @ layer.bias.astype(np.float64))


@dataclass
class Residual(PostHoc):
    """u = |Rᵀ(f − o)|, o and R as in ``vim``: the part of it that knows nothing of the classes; p = softmax(l).

    Reference: Wang et al. (2022), ViM: Out-Of-Distribution with Virtual-logit Matching.
    """

    title = "Residual"
    origin = "extra"
    standard = False
    learned_types = (MinorSpace,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the origin and the residual space on the training rows."""
        train = outputs.of("train").outputs
        self.minor_ = fit_minor_space(train.need_features(), origin_without_bias(train.need_last_layer()))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the residual's length."""
        return Prediction(softmax(outputs.logits), self.minor_.lengths(outputs.need_features()))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        return graphs.prediction(outputs.logits.softmax(dim=1), self.minor_.lengths_of_tensors(outputs.features))


@dataclass
class KernelPca(PostHoc):
    """u = |(I − U Uᵀ)(φ(g) − m)|, g = f/‖f‖, φ(g) = √(2/M) cos(Ω g + b); p = softmax(l).

    φ stands for the Gaussian kernel exp(−γ |g − g'|²): the M rows of Ω are N(0, 2γ I), b is uniform in [0, 2π). m and U
    are the mean and the first principal directions of φ over training rows, as many as hold the share ``explained`` of
    its variance. M is at most ``n_features`` and four times the width of f. Departure: γ is one over the training rows'
    mean |g − g'|²; theirs is tuned.
    Reference: Fang et al. (2024), Kernel PCA for Out-of-Distribution Detection (CoRP).
    """

    title = "Kernel PCA"
    origin = "extra"
    standard = False
    checks = checked(n_features=check_count, explained=check_fraction)

    n_features: int = 1024
    explained: float = 0.9

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Draw the features of the kernel and find their principal directions on training rows."""
        features = outputs.of("train").outputs.need_features()
        units = unit_rows(features)
        n_drawn = min(self.n_features, 4 * features.shape[1])
        # The mean of |g − g'|² over all pairs is twice the variance.
        apart = 2.0 * (
            float(np.square(units, dtype=np.float64).sum(axis=1).mean()) - float((column_means(units) ** 2).sum())
        )
        random = rng(outputs.random_state, "kernel_pca")
        self.weight_ = random.normal(size=(features.shape[1], n_drawn)) * np.sqrt(2.0 / max(apart, _TINY))
        self.shift_ = random.uniform(0.0, 2.0 * np.pi, size=n_drawn)
        pieces = list(row_slices(units, CHUNK_ROWS))
        self.mean_ = sum(self._mapped(units[rows]).sum(axis=0) for rows in pieces) / len(units)
        moment = np.zeros((n_drawn, n_drawn))
        for rows in pieces:
            centred = self._mapped(units[rows]) - self.mean_
            moment += centred.T @ centred
        values, vectors = np.linalg.eigh(moment)
        shares = values[::-1].clip(min=0.0).cumsum() / max(float(values.clip(min=0.0).sum()), _TINY)
        n_kept = min(int(np.searchsorted(shares, self.explained)) + 1, n_drawn)
        self.directions_ = np.ascontiguousarray(vectors[:, ::-1][:, :n_kept])

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the error of reconstruction."""
        units = unit_rows(outputs.need_features())
        uncertainty: Floats = np.empty(len(units))
        for rows in row_slices(units, CHUNK_ROWS):
            centred = self._mapped(units[rows]) - self.mean_
            uncertainty[rows] = np.linalg.norm(centred - (centred @ self.directions_) @ self.directions_.T, axis=1)
        return Prediction(softmax(outputs.logits), uncertainty)

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        units = outputs.features / outputs.features.norm(dim=1, keepdim=True).clamp(min=graphs.SMALLEST)
        mapped = (units @ constant(self.weight_) + constant(self.shift_)).cos() * np.sqrt(2.0 / len(self.shift_))
        centred = mapped - constant(self.mean_)
        inside = (centred @ constant(self.directions_)) @ constant(self.directions_.T)
        return graphs.prediction(outputs.logits.softmax(dim=1), (centred - inside).norm(dim=1))

    def _mapped(self, units: Array) -> Floats:
        return np.asarray(np.cos(units @ self.weight_ + self.shift_) * np.sqrt(2.0 / len(self.shift_)))


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
    checks = checked(dimension=optional(check_count))

    dimension: int | None = None
    times_max_logit: bool = True

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Standardise the training vectors and find their principal directions."""
        train = outputs.of("train").outputs
        features = train.need_features()
        self.mean_ = column_means(features)
        covariance = np.zeros((features.shape[1], features.shape[1]))
        for rows in row_slices(features, CHUNK_ROWS):
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


@dataclass
class Sirc(PostHoc):
    """u = log(1 − S₁) + log(1 + exp(−b (S₂ − a))), S₁ = max softmax(l); p = softmax(l).

    S₂ is a feature score, higher where ID: minus the length outside the main half of the training vectors' principal
    directions (``second="residual"``) or ‖f‖₁ (``second="norm"``). a = mean − 3σ and b = 1/σ of S₂ on validation rows,
    so that S₂ speaks only where it is unusual and errors among ID rows keep the softmax's order: one score for
    selective prediction when OOD rows come too.
    Reference: Xia & Bouganis (2022), Augmenting Softmax Information for Selective Classification with OOD Data.
    """

    title = "SIRC"
    origin = "extra"
    standard = False
    learned_types = (MinorSpace,)

    second: Literal["residual", "norm"] = "residual"

    def check_parameters(self) -> None:
        """Refuse a second score of another name."""
        if self.second not in ("residual", "norm"):
            raise InputError(f"second is {self.second!r}; pass 'residual' or 'norm'")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the residual space on training rows, a and b on validation rows."""
        features = outputs.of("train").outputs.need_features()
        self.minor_ = fit_minor_space(features, column_means(features))
        scores = self._second(outputs.of("val").outputs.need_features())
        spread = float(scores.std())
        self.low_ = float(scores.mean()) - 3.0 * spread
        self.slope_ = 1.0 / spread if spread > 0.0 else 0.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the combined score."""
        probs, doubt = softmax_and_doubt(outputs.logits)
        unusual = np.logaddexp(0.0, -self.slope_ * (self._second(outputs.need_features()) - self.low_))
        return Prediction(probs, np.log(np.maximum(doubt, np.finfo(np.float64).tiny)) + unusual)

    def _second(self, features: Array) -> Floats:
        if self.second == "norm":
            return np.asarray(np.abs(features).sum(axis=1, dtype=np.float64))
        return -self.minor_.lengths(features)
