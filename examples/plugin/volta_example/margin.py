"""A post-hoc method: the margin between the two most probable classes as certainty."""

from __future__ import annotations

from dataclasses import dataclass

from volta.core.types import Prediction
from volta.methods.base import PostHoc
from volta.methods.scores import softmax
from volta.networks.outputs import Outputs
from volta_example.scores import top_two_gap


@dataclass
class Margin(PostHoc):
    """p = softmax(l / T), u = 1 − (p₁ − p₂); T is ``temperature``."""

    title = "Margin"

    temperature: float = 1.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and one minus the margin."""
        probs = softmax(outputs.logits / self.temperature)
        return Prediction(probs, 1.0 - top_two_gap(probs))
