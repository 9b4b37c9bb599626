"""Structured vector scaling: one temperature, then a penalised scale and bias per class."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import entropy
from volta.methods.structured_scaling import FittedStructuredScaling, StructuredVectorCalibrator
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class StructuredVectorScaling(PostHoc):
    """p = softmax(a ⊙ z + b), z = log of tempered probabilities, penalised by K/n (n validation rows); u = entropy.

    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured vector scaling"
    origin = "extra"
    standard = False
    learned_types = (FittedStructuredScaling,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = StructuredVectorCalibrator().fit(val.outputs.logits, val.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))
