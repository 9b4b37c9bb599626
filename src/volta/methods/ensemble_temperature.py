"""Ensemble temperature scaling: tempered, plain and uniform probabilities mixed."""

from __future__ import annotations

from dataclasses import dataclass

from volta.methods.calibrated import Calibrated
from volta.methods.mixture_scaling import EnsembleTemperatureCalibrator, FittedMixture


@dataclass
class EnsembleTemperature(Calibrated):
    """p = w₀ softmax(l/T) + w₁ softmax(l) + w₂/K, T and w on validation rows; u = entropy.

    Reference: Zhang et al. (2020), Mix-n-Match: Ensemble and Compositional Methods for Uncertainty Calibration.
    """

    title = "Ensemble temperature scaling"
    learned_types = (FittedMixture,)
    calibrator = EnsembleTemperatureCalibrator()
