"""Structured vector scaling: one temperature, then a penalised scale and bias per class."""

from __future__ import annotations

from dataclasses import dataclass

from volta.methods.calibrated import Calibrated
from volta.methods.structured_scaling import FittedStructuredScaling, StructuredVectorCalibrator


@dataclass
class StructuredVectorScaling(Calibrated):
    """p = softmax(a ⊙ z + b), z = log of tempered probabilities, penalised by K/n (n validation rows); u = entropy.

    Reference: Berta et al. (2026), Structured Matrix Scaling for Multi-Class Calibration.
    """

    title = "Structured vector scaling"
    learned_types = (FittedStructuredScaling,)
    calibrator = StructuredVectorCalibrator()
