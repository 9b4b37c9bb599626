"""GMM density: how unlikely the penultimate vector is under a Gaussian mixture."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from volta.core.errors import InputError
from volta.core.types import Array, Prediction
from volta.methods.base import FitOutputs, PostHoc
from volta.methods.scores import Floats, softmax
from volta.networks.network import Outputs


@dataclass
class Gmm(PostHoc):
    """u = −log Σ_m π_m N(f; μ_m, Σ_m), a full-covariance mixture on penultimate training vectors; p = softmax(l).

    The paper's tables call this Posterior Networks, which it is not. 10 components for up to 10 classes, else 50, never
    more than a tenth of the training rows.

    Parameters
    ----------
    n_components
        Number of Gaussians; None chooses by the rule above.
    max_iter
        Steps of expectation-maximisation at most.
    ridge
        Added to the covariances' diagonals, times the features' mean variance; raised tenfold while they stay singular.
    """

    title = "GMM density"
    origin = "paper"

    n_components: int | None = None
    max_iter: int = 50
    ridge: float = 1e-6

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the mixture on the training rows."""
        features = outputs.of("train").penultimate
        wanted = self.n_components or (10 if outputs.data.n_classes <= 10 else 50)
        n_components = max(1, min(wanted, len(features) // 10))
        mixture = _fit_mixture(features, n_components, self.max_iter, self.ridge, outputs.trainer.seed)
        self.log_weights_ = np.log(mixture.weights_).astype(np.float64)
        self.means_ = mixture.means_.astype(np.float64)
        self.precision_factors_ = mixture.precisions_cholesky_.astype(np.float64)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negative log density."""
        uncertainty = -self._log_density(outputs.penultimate)
        return Prediction(softmax(outputs.logits), uncertainty, ood_score=uncertainty)

    def _log_density(self, features: Array) -> Floats:
        features = np.asarray(features, dtype=np.float64)
        logs = np.empty((len(features), len(self.means_)))
        constant = -0.5 * features.shape[1] * np.log(2.0 * np.pi)
        for index, (mean, factor) in enumerate(zip(self.means_, self.precision_factors_, strict=True)):
            whitened = features @ factor - mean @ factor
            half_log_determinant = np.log(np.diagonal(factor)).sum()
            logs[:, index] = constant + half_log_determinant - 0.5 * (whitened**2).sum(axis=1)
        density: Floats = logsumexp(logs + self.log_weights_, axis=1)
        return density


def _fit_mixture(features: Array, n_components: int, max_iter: int, ridge: float, seed: int) -> Any:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.mixture import GaussianMixture

    scale = float(features.var(axis=0).mean()) or 1.0
    for attempt in range(6):
        mixture = GaussianMixture(
            n_components,
            covariance_type="full",
            max_iter=max_iter,
            reg_covar=ridge * 10**attempt * scale,
            init_params="k-means++",
            random_state=seed % 2**32,
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                return mixture.fit(features.astype(np.float64))
        except ValueError as error:
            if "covariance" not in str(error):
                raise
    raise InputError(
        "the training features' covariances are singular even after regularisation; drop constant features"
    )
