"""ReAct: the free energy after cutting off unusually large activations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from volta.core.errors import InputError
from volta.core.types import Prediction
from volta.methods.post_hoc import PostHoc
from volta.methods.scores import energy, softmax
from volta.networks.outputs import FitOutputs, LastLayer, Outputs

_MAX_VALUES = 1 << 25


@dataclass
class React(PostHoc):
    """u = −logsumexp(W min(f, c) + b), c the ``percentile`` of all activations of the training rows; p = softmax(l).

    Made for activations after a ReLU; on signed vectors, such as those of VOLTA's encoder, it is defined as well and
    cuts the upper tail alone. c is taken over at most 2²⁵ values: every m-th training row where there are more.
    Reference: Sun et al. (2021), ReAct: Out-of-distribution Detection With Rectified Activations.
    """

    title = "ReAct"
    origin = "extra"
    standard = False
    learned_types = (LastLayer,)

    percentile: float = 90.0

    def check_parameters(self) -> None:
        """Refuse numbers out of range."""
        if not 0.0 < self.percentile <= 100.0:
            raise InputError(f"percentile is {self.percentile}; pass a number above 0 and at most 100, such as 90")

    def fit_outputs(self, outputs: FitOutputs) -> None:
        """Find the cut and keep the last layer."""
        train = outputs.of("train").outputs
        features = train.need_features()
        step = max(1, -(-features.size // _MAX_VALUES))
        self.cut_ = float(np.percentile(features[::step], self.percentile))
        self.layer_ = train.need_last_layer()

    def predict_outputs(self, outputs: Outputs) -> Prediction:
        """Return the softmax and the free energy of the rectified vectors."""
        rectified = np.minimum(outputs.need_features(), np.float32(self.cut_)).astype(np.float64)
        return Prediction(softmax(outputs.logits), energy(rectified @ self.layer_.weight.T + self.layer_.bias))
