"""GMM density: how unlikely the penultimate vector is under a Gaussian mixture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.checks import check_count, check_number
from volta.core.errors import InputError
from volta.core.seeding import rng
from volta.core.types import Array, Prediction
from volta.methods import graphs
from volta.methods.mixtures import Mixture, fit_mixture, spread_points
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.methods.vectors import mean_variance
from volta.networks.outputs import FitOutputs, Outputs

TOLERANCE = 1e-3


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
        Passes of expectation-maximisation at most; it ends when the mean log density changes by less than 1e-3.
    ridge
        Added to the covariances' diagonals, times the features' mean variance; raised tenfold while they stay singular.
    """

    title = "GMM density"
    origin = "paper"
    learned_types = (Mixture,)

    n_components: int | None = None
    max_iter: int = 50
    ridge: float = 1e-6

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if self.n_components is not None:
            check_count(self.n_components, "n_components")
        check_count(self.max_iter, "max_iter")
        check_number(self.ridge, "ridge", zero=True)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit the mixture on the training rows."""
        train = outputs.of("train").outputs
        features = train.need_features()
        wanted = self.n_components or (10 if train.n_classes <= 10 else 50)
        n_components = max(1, min(wanted, len(features) // 10))
        self.mixture_ = self._fit_mixture(features, n_components, rng(outputs.random_state, "gmm"))

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the negative log density."""
        return Prediction(softmax(outputs.logits), -self.mixture_.log_density(outputs.need_features()))

    def predict_tensors(self, outputs: graphs.TensorOutputs) -> graphs.TensorPrediction:
        """Return the same from tensors, for ONNX graphs."""
        density = self.mixture_.log_density_of_tensors(outputs.features)
        return graphs.prediction(outputs.logits.softmax(dim=1), -density)

    def _fit_mixture(self, features: Array, n_components: int, random: np.random.Generator) -> Mixture:
        start = spread_points(features, n_components, random)
        scale = mean_variance(features) or 1.0
        for attempt in range(6):
            ridge = self.ridge * 10**attempt * scale
            try:
                return fit_mixture(features, start, max_iter=self.max_iter, tol=TOLERANCE, ridge=ridge)[0]
            except np.linalg.LinAlgError:
                continue
        raise InputError(
            "the training features' covariances are singular even after regularisation; drop constant features"
        )
