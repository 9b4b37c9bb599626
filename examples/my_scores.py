from dataclasses import dataclass

import numpy as np

from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import softmax
from volta.networks.outputs import Outputs


@dataclass
class Margin(PostHoc):
    """u = 1 − (p₁ − p₂), the gap between the two most probable classes; p = softmax(l / T)."""

    title = "Margin"

    temperature: float = 1.0

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and one minus the margin."""
        probs = softmax(outputs.logits / self.temperature)
        top = np.sort(probs, axis=1)[:, -2:]
        return Prediction(probs, 1.0 - (top[:, 1] - top[:, 0]))
