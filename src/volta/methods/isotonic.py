"""Isotonic regression: a non-decreasing map of each class's probability, a warning example."""

from __future__ import annotations

from dataclasses import dataclass

from volta.methods.calibrated import Calibrated
from volta.methods.isotonic_maps import FittedIsotonic, IsotonicCalibrator


@dataclass
class Isotonic(Calibrated):
    """p ∝ m_k(softmax(l)_k), m_k isotonic on validation rows against the other classes; u = entropy.

    Probabilities of exactly 0 ruin its NLL where few rows or many classes are held out: here to be seen, not taken.
    Reference: Zadrozny & Elkan (2002), Transforming Classifier Scores into Accurate Multiclass Probability Estimates.
    """

    title = "Isotonic regression"
    learned_types = (FittedIsotonic,)
    calibrator = IsotonicCalibrator()
