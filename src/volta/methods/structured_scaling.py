"""Structured vector and matrix scaling: as much freedom as the held-out rows can pay for. Without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.methods.scaling import fit_temperature, fit_vector_scaling
from volta.methods.scores import Floats, softmax

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class FittedStructuredScaling:
    """Calibrated logits z Aᵀ + b of z = log p', p' = (1 − u) softmax(β l) + u/K.

    ``matrix`` A is (K,), a diagonal, or (K, K); ``bias`` b is (K,); ``uniform`` is u.
    """

    beta: float
    uniform: float
    matrix: Floats
    bias: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return the calibrated logits, (n, K)."""
        scaled = _log_mixture(logits, self.beta, self.uniform)
        return (scaled * self.matrix if self.matrix.ndim == 1 else scaled @ self.matrix.T) + self.bias

    def probs(self, logits: Floats) -> Floats:
        """Return the softmax of the calibrated logits, (n, K)."""
        return softmax(self.logits(logits))

    @property
    def parameters(self) -> Mapping[str, object]:
        """Temperature, matrix and bias."""
        return {"temperature": 1.0 / self.beta, "matrix": self.matrix.tolist(), "bias": self.bias.tolist()}


@dataclass(frozen=True)
class StructuredVectorCalibrator:
    """softmax(a ⊙ z + b) of tempered log-probabilities z, minimising NLL + λ (|a − 1|² + |b|²) with λ = K/n.

    First one temperature without penalty, which any number of rows can pay for; then a scale and a bias per class,
    penalised the more the more classes K there are for n rows: with few rows it is temperature scaling, with many
    vector scaling. The tempered probabilities are mixed with 1/(n + 1) of the uniform ones first, so that their
    logarithms stay bounded.
    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration; the defaults of probmetrics.
    """

    title: str = "Structured vector scaling"

    def fit(self, logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedStructuredScaling:
        """Fit the temperature, then scales and biases: two convex problems."""
        beta, uniform, scaled = _tempered(logits, labels, weights)
        scale, bias = fit_vector_scaling(scaled, labels, logits.shape[1] / len(logits), weights)
        return FittedStructuredScaling(beta, uniform, scale, bias)


@dataclass(frozen=True)
class StructuredMatrixCalibrator:
    """softmax(A z + b) of tempered log-probabilities z, as :class:`StructuredVectorCalibrator` with a full matrix.

    Diagonal and bias are penalised by K/n, the K (K − 1) entries off the diagonal by K (K − 1)/n. A pass over the rows
    costs n · K²: meant for up to a few hundred classes.
    """

    title: str = "Structured matrix scaling"

    def fit(self, logits: Floats, labels: Labels, weights: Floats | None = None) -> FittedStructuredScaling:
        """Fit the temperature, then the matrix and biases: two convex problems."""
        beta, uniform, scaled = _tempered(logits, labels, weights)
        return FittedStructuredScaling(beta, uniform, *fit_matrix_scaling(scaled, labels, weights))


def fit_matrix_scaling(logits: Floats, labels: Labels, weights: Floats | None = None) -> tuple[Floats, Floats]:
    """Return (A, b) minimising mean NLL of A l + b + (K/n) (|diag A − 1|² + |b|²) + (K (K − 1)/n) |off-diag A|².

    ``weights`` (n,): how much each row counts, 1 on average; all alike without them.
    """
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    rows = np.arange(n_rows)
    counts = np.ones(n_rows) if weights is None else weights
    penalty = np.full((n_classes, n_classes), n_classes * (n_classes - 1) / n_rows)
    np.fill_diagonal(penalty, n_classes / n_rows)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        moved, bias = parameters[:-n_classes].reshape(n_classes, n_classes), parameters[-n_classes:]
        scaled = logits + logits @ moved.T + bias
        scaled -= scaled.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(scaled).sum(axis=1))
        value = (counts * (log_sums - scaled[rows, labels])).mean()
        value += (penalty * moved**2).sum() + n_classes / n_rows * (bias**2).sum()
        residual = np.exp(scaled - log_sums[:, None])
        residual[rows, labels] -= 1.0
        residual *= counts[:, None]
        slope = residual.T @ logits / n_rows + 2.0 * penalty * moved
        return float(value), np.append(slope, residual.mean(axis=0) + 2.0 * n_classes / n_rows * bias)

    start = np.zeros(n_classes * (n_classes + 1))
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9})
    matrix = np.eye(n_classes) + found.x[:-n_classes].reshape(n_classes, n_classes)
    return matrix, np.asarray(found.x[-n_classes:])


def _tempered(logits: Floats, labels: Labels, weights: Floats | None) -> tuple[float, float, Floats]:
    beta = fit_temperature(logits, labels, weights=weights).beta
    uniform = 1.0 / (len(logits) + 1)
    return beta, uniform, _log_mixture(logits, beta, uniform)


def _log_mixture(logits: Floats, beta: float, uniform: float) -> Floats:
    return np.asarray(np.log((1.0 - uniform) * softmax(logits, beta) + uniform / logits.shape[1]))
