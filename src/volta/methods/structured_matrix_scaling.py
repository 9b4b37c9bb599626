"""Structured matrix scaling: one temperature, then a penalised matrix and bias."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import entropy
from volta.methods.structured_scaling import FittedStructuredScaling, StructuredMatrixCalibrator
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class StructuredMatrixScaling(PostHoc):
    """p = softmax(A z + b), z = log of tempered probabilities, A penalised most off its diagonal; u = entropy.

    A pass of the fit costs n · K² on n validation rows: meant for up to a few hundred classes.
    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured matrix scaling"
    origin = "extra"
    standard = False
    learned_types = (FittedStructuredScaling,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = StructuredMatrixCalibrator().fit(val.outputs.logits, val.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))
