"""Ensemble temperature scaling: tempered, plain and uniform probabilities mixed."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.mixture_scaling import EnsembleTemperatureCalibrator, FittedMixture
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import entropy
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class EnsembleTemperature(PostHoc):
    """p = w₀ softmax(l/T) + w₁ softmax(l) + w₂/K, T and w on validation rows; u = entropy.

    Reference: Zhang et al. (2020), Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration.
    """

    title = "Ensemble temperature scaling"
    origin = "extra"
    standard = False
    learned_types = (FittedMixture,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = EnsembleTemperatureCalibrator().fit(val.outputs.logits, val.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))
