"""Structured matrix scaling: one temperature, then a penalised matrix and bias."""

from __future__ import annotations

from dataclasses import dataclass

from volta.methods.calibrated import Calibrated
from volta.methods.structured_scaling import FittedStructuredScaling, StructuredMatrixCalibrator


@dataclass
class StructuredMatrixScaling(Calibrated):
    """p = softmax(A z + b), z = log of tempered probabilities, A penalised most off its diagonal; u = entropy.

    A pass of the fit costs n · K² on n validation rows: meant for up to a few hundred classes.
    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured matrix scaling"
    learned_types = (FittedStructuredScaling,)
    calibrator = StructuredMatrixCalibrator()
