"""Ensemble temperature scaling: tempered, plain and uniform probabilities mixed. Without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.methods.scaling import fit_temperature
from volta.methods.scores import Floats, at_labels, softmax

_TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class FittedMixture:
    """p = w₀ softmax(β l) + w₁ softmax(l) + w₂/K; ``weights`` (3,) are at least 0 and sum to 1."""

    beta: float
    weights: Floats

    def logits(self, logits: Floats) -> Floats:
        """Return log p, (n, K)."""
        return np.asarray(np.log(np.maximum(self.probs(logits), _TINY)))

    def probs(self, logits: Floats) -> Floats:
        """Return p, (n, K)."""
        tempered, plain, uniform = self.weights
        return np.asarray(tempered * softmax(logits, self.beta) + plain * softmax(logits) + uniform / logits.shape[1])

    @property
    def parameters(self) -> Mapping[str, object]:
        """Temperature and weights."""
        return {"temperature": 1.0 / self.beta, "weights": self.weights.tolist()}


@dataclass(frozen=True)
class EnsembleTemperatureCalibrator:
    """One temperature, then three weights, both minimising NLL; the most probable class never changes.

    Departure: the authors' code minimises squared error by default; NLL, its other choice, agrees with the other
    calibrators here.
    Reference: Zhang et al. (2020), Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration.
    """

    title: str = "Ensemble temperature scaling"

    def fit(self, logits: Floats, labels: NDArray[np.int64], weights: Floats | None = None) -> FittedMixture:
        """Fit 1/T, then the shares: two convex problems."""
        beta = fit_temperature(logits, labels, weights=weights).beta
        parts = [at_labels(softmax(logits, scale), labels) for scale in (beta, 1.0)]
        likelihoods = np.stack([*parts, np.full(len(labels), 1.0 / logits.shape[1])], axis=1)
        return FittedMixture(beta, _shares(likelihoods, np.ones(len(labels)) if weights is None else weights))


def _shares(likelihoods: Floats, counts: Floats) -> Floats:
    """Return w on the simplex maximising Σ_i c_i log Σ_j w_j L_ij, from all on the first."""
    from scipy.optimize import LinearConstraint, minimize

    def loss(weights: Floats) -> tuple[float, Floats]:
        mixed = np.maximum(likelihoods @ weights, _TINY)
        return -float((counts * np.log(mixed)).mean()), -(likelihoods * (counts / mixed)[:, None]).mean(axis=0)

    found = minimize(
        loss, np.array([0.98, 0.01, 0.01]), jac=True, method="SLSQP", bounds=[(0.0, 1.0)] * 3,
constraints=LinearConstraint(np.ones((1, 3)), 1.0, 1.0), options={"ftol": 1e-14},
    )  # fmt: skip
    weights = np.clip(found.x, 0.0, 1.0)
    return np.asarray(weights / weights.sum())
