"""Calibrators as methods: probabilities of a calibrator that is fitted on validation rows."""

from __future__ import annotations

from typing import ClassVar, final

from volta.core.types import Prediction
from volta.methods.calibrators import Calibrator, FittedCalibrator
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import entropy
from volta.networks.outputs import FitOutputs, Outputs


class Calibrated(PostHoc):
    """p by ``calibrator``, fitted on validation rows; u = entropy."""

    origin = "extra"
    standard = False
    calibrator: ClassVar[Calibrator]
    fitted_: FittedCalibrator

    @final
    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = self.calibrator.fit(val.outputs.logits, val.labels, val.weights)

    @final
    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))
