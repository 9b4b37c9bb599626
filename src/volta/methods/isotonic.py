"""Isotonic regression: a non-decreasing map of each class's probability, a warning example."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.isotonic_maps import FittedIsotonic, IsotonicCalibrator
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import entropy
from volta.networks.outputs import FitOutputs, Outputs


@dataclass
class Isotonic(PostHoc):
    """p ∝ m_k(softmax(l)_k), m_k isotonic on validation rows against the other classes; u = entropy.

    Probabilities of exactly 0 ruin its NLL where few rows or many classes are held out: here to be seen, not taken.
    Reference: Zadrozny & Elkan (2002), Transforming Classifier Scores into Accurate Multiclass Probability Estimates.
    """

    title = "Isotonic regression"
    origin = "extra"
    standard = False
    learned_types = (FittedIsotonic,)

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Fit on the validation rows."""
        val = outputs.of("val")
        self.fitted_ = IsotonicCalibrator().fit(val.outputs.logits, val.labels)

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the calibrated probabilities and their entropy."""
        probs = self.fitted_.probs(outputs.logits)
        return Prediction(probs, entropy(probs))
