"""Vector scaling: a scale and a bias per class fitted on validation rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import Floats, entropy, softmax
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class VectorScaling(PostHoc):
    """p = softmax(a ⊙ l + b), a and b (K,) minimising the validation NLL + ridge · (|a − 1|² + |b|²); u = entropy.

    The ridge keeps the optimum finite on separable rows and is small against the mean loss of a row.
    Reference: Guo et al. (2017), On Calibration of Modern Neural Networks.
    """

    title = "Vector scaling"
    origin = "extra"

    ridge: float = 1e-3

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit scales and biases on the validation rows."""
        val = outputs.of("val")
        self.scale_, self.bias_ = fit_vector_scaling(val.outputs.logits, val.labels, self.ridge)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the scaled softmax and its entropy."""
        probs = softmax(outputs.logits * self.scale_ + self.bias_)
        return Prediction(probs, entropy(probs))


def fit_vector_scaling(logits: Floats, labels: NDArray[np.int64], ridge: float) -> tuple[Floats, Floats]:
    """Return (a, b) minimising the ridge-penalised NLL, a convex problem, by L-BFGS from a = 1, b = 0."""
    from scipy.optimize import minimize

    n_rows, n_classes = logits.shape
    rows = np.arange(n_rows)

    def loss(parameters: Floats) -> tuple[float, Floats]:
        scale, bias = parameters[:n_classes], parameters[n_classes:]
        scaled = logits * scale + bias
        scaled -= scaled.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(scaled).sum(axis=1))
        value = (log_sums - scaled[rows, labels]).mean() + ridge * (((scale - 1.0) ** 2).sum() + (bias**2).sum())
        residual = np.exp(scaled - log_sums[:, None])
        residual[rows, labels] -= 1.0
        gradient = np.concatenate([(residual * logits).mean(axis=0), residual.mean(axis=0)])
        gradient += 2.0 * ridge * np.concatenate([scale - 1.0, bias])
        return float(value), gradient

    start = np.concatenate([np.ones(n_classes), np.zeros(n_classes)])
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 1000, "ftol": 1e-14, "gtol": 1e-9})
    return found.x[:n_classes], found.x[n_classes:]
